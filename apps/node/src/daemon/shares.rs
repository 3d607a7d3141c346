//! The processors of this node, shared out among the processes of the launch that are here.
//!
//! Each gets as many whole cores, side by side, so that none is moved by the system and threads of
//! one stay together. If there are more processes than cores, the daemon binds none of them.
//! A process that is started later gets the share of one that has ended.

use std::collections::BTreeMap;
use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::protocol::Process;

/// Where Linux tells which processors are of one core.
const TOPOLOGY: &str = "/sys/devices/system/cpu";

/// Who has which processors.
#[derive(Debug, Default)]
pub(super) struct Shares {
    shares: Vec<(CpuSet, Option<Process>)>,
    /// What this daemon may use.
    all: Option<CpuSet>,
}

/// Keeps the daemon where its next process is to be, which inherits that.
#[derive(Debug)]
pub(super) struct Bound(CpuSet);

impl Drop for Bound {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = sched_setaffinity(None, &self.0);
    }
}

impl Shares {
    /// Shares the processors that this daemon may use out among so many processes. If the machine
    /// has more processors than a [`CpuSet`] holds, the daemon binds no process.
    pub(super) fn among(processes: usize) -> Self {
        let Ok(all) = sched_getaffinity(None) else { return Self::default() };
        let processors = (0..CpuSet::MAX_CPU).filter(|at| all.is_set(*at));
        let cores = cores(processors, number_in_topology);
        let shares = divided(&cores, processes).into_iter().map(|set| (set, None)).collect();
        Self { shares, all: Some(all) }
    }

    /// Takes the first free share for a process, and keeps the daemon on it until the returned
    /// value is dropped: a process that the daemon starts meanwhile is bound to it.
    pub(super) fn bind(&mut self, process: &Process) -> Option<Bound> {
        let all = self.all?;
        let (set, user) = self.shares.iter_mut().find(|(_, user)| user.is_none())?;
        sched_setaffinity(None, set).ok()?;
        *user = Some(process.clone());
        Some(Bound(all))
    }

    /// A process has ended.
    pub(super) fn note_end(&mut self, process: &Process) {
        for (_, user) in self.shares.iter_mut().filter(|(_, user)| user.as_ref() == Some(process)) {
            *user = None;
        }
    }
}

/// A number that Linux tells of a processor.
fn number_in_topology(processor: usize, name: &str) -> Option<u32> {
    let text = fs::read_to_string(format!("{TOPOLOGY}/cpu{processor}/topology/{name}")).ok()?;
    text.trim().parse().ok()
}

/// The cores that these processors are of, neighbours side by side. Of what is not told, each
/// processor is a core.
fn cores(
    processors: impl Iterator<Item = usize>,
    told: impl Fn(usize, &str) -> Option<u32>,
) -> Vec<Vec<usize>> {
    let mut cores: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for at in processors {
        let [package, core] = ["physical_package_id", "core_id"].map(|name| told(at, name));
        let known = package.zip(core);
        cores.entry((known, known.is_none().then_some(at))).or_default().push(at);
    }
    cores.into_values().collect()
}

/// As many cores for each of so many processes; none if there are too few.
fn divided(cores: &[Vec<usize>], processes: usize) -> Vec<CpuSet> {
    if processes > cores.len() {
        return Vec::new();
    }
    let from = |process: usize| process * cores.len() / processes;
    let share = |process: usize| {
        let mut set = CpuSet::new();
        for processor in cores[from(process)..from(process + 1)].iter().flatten() {
            set.set(*processor);
        }
        set
    };
    (0..processes).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(sets: &[CpuSet]) -> Vec<Vec<usize>> {
        let all = |set: &CpuSet| (0..CpuSet::MAX_CPU).filter(|at| set.is_set(*at)).collect();
        sets.iter().map(all).collect()
    }

    /// Two packages of two cores of two threads, numbered as Linux mostly does: the second thread
    /// of each core comes after all first ones.
    fn told(processor: usize, name: &str) -> Option<u32> {
        let number = match name {
            "physical_package_id" => Some(processor % 4 / 2),
            "core_id" => Some(processor % 2),
            _ => None,
        };
        number.map(|number| number as u32)
    }

    #[test]
    fn each_process_gets_as_many_whole_cores_side_by_side() {
        let cores = cores(0..8, told);
        assert_eq!(cores, [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(listed(&divided(&cores, 4)), cores);
        assert_eq!(listed(&divided(&cores, 2)), [[0, 1, 4, 5], [2, 3, 6, 7]]);
        assert_eq!(listed(&divided(&cores, 3)), [vec![0, 4], vec![1, 5], vec![2, 3, 6, 7]]);
        assert_eq!(divided(&cores, 5).len(), 0, "more than cores");
        assert_eq!(divided(&[], 0).len(), 0);
    }

    #[test]
    fn processors_of_which_nothing_is_told_are_cores_of_their_own() {
        assert_eq!(cores([1, 3].into_iter(), |_, _| None), [[1], [3]]);
    }

    #[test]
    fn a_share_is_free_again_when_its_process_has_ended_and_the_daemon_is_bound_no_longer() {
        let process = |rank| Process { space: "job@1".into(), rank };
        let mine = || sched_getaffinity(None).expect("told");
        let all = mine();
        let mut shares = Shares::among(1);
        let bound = shares.bind(&process(0)).expect("at least one core");
        drop(bound);
        assert!(mine() == all);
        assert!(shares.bind(&process(1)).is_none());
        shares.note_end(&process(1));
        assert!(shares.bind(&process(1)).is_none());
        shares.note_end(&process(0));
        assert!(shares.bind(&process(1)).is_some());
    }
}
