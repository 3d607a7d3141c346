//! Who else the launcher has started on this node, while MPI starts.
//!
//! A process that dies before it has told the others of itself leaves them in `MPI_Init` for ever:
//! they ask its launcher for what it never said. Nobody knows yet who there should be, but the
//! launcher says how many, and all of them are its children.
//!
//! **Assumes** that a launcher is asked by its name; what was started in another way is not judged.

use std::{ffi::OsStr, fs, time::Duration};

use super::process::words_of_stat;

/// How many of a job are on this node, as the launcher of Open MPI 5 says it.
const LOCAL_SIZE: &str = "OMPI_COMM_WORLD_LOCAL_SIZE";
const LAUNCHERS: [&str; 3] = ["prterun", "prted", "mpirun"];
/// How long there must have been no more, and fewer than there should be.
const CERTAIN: Duration = Duration::from_secs(10);
/// Between two counts.
const PERIOD: Duration = Duration::from_secs(1);

/// How many processes of the job live on this node, over time.
#[derive(Debug)]
pub(super) struct Siblings {
    launcher: Option<u32>,
    expected: usize,
    living: usize,
    /// For how long there have not been more.
    steady: Duration,
    since_count: Duration,
}

impl Siblings {
    /// Of this process.
    pub(super) fn new() -> Self {
        let launcher = std::os::unix::process::parent_id();
        let name = fs::read_to_string(format!("/proc/{launcher}/comm")).unwrap_or_default();
        let expected = std::env::var(LOCAL_SIZE).ok().and_then(|text| text.parse().ok());
        let launcher = LAUNCHERS.contains(&name.trim()).then_some(launcher);
        let (steady, since_count) = (Duration::ZERO, Duration::ZERO);
        Self { launcher, expected: expected.unwrap_or(0), living: 0, steady, since_count }
    }

    /// How many have died, and of how many, once that is certain. To be asked again and again, with
    /// the time in between.
    pub(super) fn dead(&mut self, passed: Duration) -> Option<(usize, usize)> {
        let launcher = self.launcher?;
        self.since_count += passed;
        if self.since_count < PERIOD {
            return None;
        }
        self.note(children(launcher));
        self.missing()
    }

    fn missing(&self) -> Option<(usize, usize)> {
        let missing = self.expected.checked_sub(self.living).filter(|missing| *missing > 0)?;
        (self.steady >= CERTAIN).then_some((missing, self.expected))
    }

    fn note(&mut self, living: usize) {
        // Those who have seen enough leave, which is no news for the others.
        let begins = living > self.living || self.living >= self.expected;
        self.steady = if begins { Duration::ZERO } else { self.steady + self.since_count };
        self.living = living;
        self.since_count = Duration::ZERO;
    }
}

/// How many living children a process has.
fn children(parent: u32) -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_number = |name: &OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let processes = processes.filter(|process| is_number(&process.file_name()));
    let stats = processes.filter_map(|process| fs::read(process.path().join("stat")).ok());
    stats.filter(|stat| is_living_child(stat, parent)).count()
}

fn is_living_child(stat: &[u8], parent: u32) -> bool {
    let Some(mut words) = words_of_stat(stat) else { return false };
    let is_living = words.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    is_living && words.next() == Some(&*parent.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(expected: usize) -> Siblings {
        let (steady, since_count) = (Duration::ZERO, Duration::ZERO);
        Siblings { launcher: Some(1), expected, living: 0, steady, since_count }
    }

    /// How many are missing after these counts, two seconds apart.
    fn after(siblings: &mut Siblings, counts: &[usize]) -> usize {
        for living in counts {
            siblings.since_count = 2 * PERIOD;
            siblings.note(*living);
        }
        siblings.missing().map_or(0, |(missing, _)| missing)
    }

    #[test]
    fn a_launch_that_is_slow_is_not_one_that_has_lost_somebody() {
        let mut siblings = of(4);
        let slow = [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4];
        assert_eq!(after(&mut siblings, &slow), 0);
        assert_eq!(after(&mut siblings, &[3, 3, 3, 3, 3]), 0);
        assert_eq!(after(&mut siblings, &[3]), 1);
        assert_eq!(after(&mut siblings, &[1]), 3, "the others have left because of that");
        assert_eq!(after(&mut siblings, &[5]), 0, "another job of the launcher");
    }

    #[test]
    fn children_are_told_by_their_parent_and_state() {
        assert!(is_living_child(b"12 (a) b (c) S 7 1 2", 7));
        assert!(!is_living_child(b"12 (S 7) S 8 1 2", 7));
        assert!(!is_living_child(b"12 (a) Z 7 1 2", 7));
        assert!(!is_living_child(b"12 (a", 7));
    }

    #[test]
    fn this_process_is_a_child_and_what_starts_tests_is_no_launcher() {
        assert!(children(std::os::unix::process::parent_id()) >= 1);
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("`sleep`");
        let stat = format!("/proc/{}/stat", child.id());
        // Other tests of this process have children, too.
        assert!(children(own) >= 1 && is_living_child(&fs::read(&stat).expect("a process"), own));
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert!(!fs::read(&stat).is_ok_and(|stat| is_living_child(&stat, own)));
        let mut own = Siblings::new();
        assert!(own.launcher.is_none() && own.dead(CERTAIN).is_none());
    }
}
