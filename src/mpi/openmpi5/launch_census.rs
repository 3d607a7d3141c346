//! A process that dies before MPI has started leaves the others in `MPI_Init` for ever.
//!
//! **Symptom** The others ask the launcher of the dead process for what it never said. No process
//! knows yet who there should be, but the launcher says how many, and all of them are its children:
//! so the children are counted. A program that owns its MPI comes to this library later: a process
//! that has ended by then, without a word, is one that is missing among those children
//! ([`Launched`]).
//!
//! **Versions** each Open MPI 5, of which the names of the launchers and of their variables are.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `MPI_Init` returns an error when a process of the launch dies in it.
//!
//! **Test** `a_death_before_mpi_has_started_ends_the_others_with_a_sentence`.
//!
//! **Assumes** that a launcher is asked by its name; what was started in another way is not judged.

use std::{env, fs, str, time::Duration};

use crate::mpi::node::process::{living_children, value_in};

/// What the launcher tells each process: the name of the job, and its rank there.
pub(in crate::mpi) const JOB: &str = "PMIX_NAMESPACE";
pub(in crate::mpi) const RANK: &str = "PMIX_RANK";
/// How many ranks the job has.
const SIZE: &str = "OMPI_COMM_WORLD_SIZE";

/// How many of a job are on this node, as the launcher of Open MPI 5 says it.
const LOCAL_SIZE: &str = "OMPI_COMM_WORLD_LOCAL_SIZE";
const LAUNCHERS: [&str; 4] = ["prterun", "prted", "mpirun", "fampi-node"];
/// How long there must have been no more, and fewer than there should be.
const CERTAIN: Duration = Duration::from_secs(10);
/// Between two counts.
const PERIOD: Duration = Duration::from_secs(1);

/// How many processes of the job live on this node, over time.
#[derive(Debug)]
pub(in crate::mpi) struct Siblings {
    launcher: Option<u32>,
    expected: usize,
    living: usize,
    /// For how long there have not been more.
    steady: Duration,
    since_count: Duration,
}

impl Siblings {
    /// Of this process.
    pub(in crate::mpi) fn new() -> Self {
        let launcher = launcher();
        let (steady, since_count) = (Duration::ZERO, Duration::ZERO);
        Self { launcher, expected: expected().unwrap_or(0), living: 0, steady, since_count }
    }

    /// How many have died, and of how many, once that is certain. To be asked again and again, with
    /// the time in between.
    pub(in crate::mpi) fn dead(&mut self, passed: Duration) -> Option<(usize, usize)> {
        let launcher = self.launcher?;
        self.since_count += passed;
        if self.since_count < PERIOD {
            return None;
        }
        self.note(living_children(launcher).count());
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

/// How many of the job the launcher has started on this node, if it was one of Open MPI.
pub(in crate::mpi) fn expected() -> Option<usize> {
    number(LOCAL_SIZE)
}

fn number(name: &str) -> Option<usize> {
    env::var(name).ok()?.parse().ok()
}

/// The launcher whose child this process is.
pub(in crate::mpi) fn launcher() -> Option<u32> {
    let parent = std::os::unix::process::parent_id();
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    LAUNCHERS.contains(&name.trim()).then_some(parent)
}

/// The processes of a job that is on one node, as its launcher has started them.
#[derive(Debug, Eq, PartialEq)]
pub(in crate::mpi) struct Launched {
    /// The rank of this process.
    pub(in crate::mpi) me: u32,
    /// The number of the process of each rank; `None` for one that has ended.
    pub(in crate::mpi) processes: Vec<Option<u64>>,
}

impl Launched {
    /// `None` when it cannot be known for all of them.
    pub(in crate::mpi) fn find() -> Option<Self> {
        let (size, me) = (number(SIZE)?, number(RANK)?);
        let (launcher, job) = (launcher()?, env::var(JOB).ok()?);
        if expected() != Some(size) {
            return None;
        }
        let mut processes = vec![None; size];
        for pid in living_children(launcher) {
            // One that cannot be read may be any of them.
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            if environment.is_empty() {
                return None;
            }
            if let Some(rank) = rank_in(&environment, &job) {
                *processes.get_mut(rank)? = Some(pid);
            }
        }
        // This process lives.
        let own = processes.get(me).copied().flatten();
        (own == Some(std::process::id().into())).then_some(Self { me: me as u32, processes })
    }
}

/// The rank that a process with this environment has in a job, if it is of that job.
fn rank_in(environment: &[u8], job: &str) -> Option<usize> {
    let is_of_job = value_in(environment, JOB) == Some(job.as_bytes());
    number_in(environment, RANK).filter(|_| is_of_job)
}

/// [`expected`] for the process that has this environment.
pub(in crate::mpi) fn expected_in(environment: &[u8]) -> Option<usize> {
    number_in(environment, LOCAL_SIZE)
}

fn number_in(environment: &[u8], name: &str) -> Option<usize> {
    str::from_utf8(value_in(environment, name)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::node::process::shows_living_child;

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
        assert!(shows_living_child(b"12 (a) b (c) S 7 1 2", 7));
        assert!(!shows_living_child(b"12 (S 7) S 8 1 2", 7));
        assert!(!shows_living_child(b"12 (a) Z 7 1 2", 7));
        assert!(!shows_living_child(b"12 (a", 7));
    }

    #[test]
    fn a_rank_is_known_by_its_environment() {
        let environment = b"A=1\0PMIX_NAMESPACE=job@1\0PMIX_RANK=3\0";
        assert_eq!(rank_in(environment, "job@1"), Some(3));
        assert_eq!(rank_in(environment, "job@2"), None, "another job of the launcher");
        assert_eq!(rank_in(b"PMIX_NAMESPACE=job@1\0PMIX_RANKS=3\0", "job@1"), None);
    }

    #[test]
    fn this_process_is_a_child_and_what_starts_tests_is_no_launcher() {
        assert!(living_children(std::os::unix::process::parent_id()).count() >= 1);
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("`sleep`");
        let stat = format!("/proc/{}/stat", child.id());
        // Other tests of this process have children, too.
        assert!(living_children(own).count() >= 1);
        assert!(shows_living_child(&fs::read(&stat).expect("a process"), own));
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert!(!fs::read(&stat).is_ok_and(|stat| shows_living_child(&stat, own)));
        let mut own = Siblings::new();
        assert!(own.launcher.is_none() && own.dead(CERTAIN).is_none());
    }
}
