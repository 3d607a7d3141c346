//! The processes of one session, as the kernel lists them (`/proc`).

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

/// Where Open MPI puts shared memory, and how it begins the names.
const SEGMENTS: &str = "/dev/shm/sm_segment.";

/// One process of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    session: i32,
    /// In ticks since the machine started: tells apart two processes that had one number.
    pub(crate) started: u64,
    /// It has ended, and its parent has not looked yet.
    pub(crate) gone: bool,
}

impl Process {
    /// The process that has this number now.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&stat))
    }

    /// Reads `/proc/PID/stat`: `PID (name) state parent group session …`, where the name may hold
    /// anything. The start is the sixteenth number after the session.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(" (")?;
        let mut fields = rest[rest.rfind(')')? + 1..].split_whitespace();
        let state = fields.next()?;
        let session = fields.nth(2)?.parse().ok()?;
        let started = fields.nth(15)?.parse().ok()?;
        Some(Self { pid: pid.parse().ok()?, session, started, gone: matches!(state, "Z" | "X") })
    }

    /// The value of a variable in the environment that the process was started with.
    fn variable(self, name: &str) -> Option<String> {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        environment.split(|byte| *byte == 0).find_map(|entry| {
            let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            String::from_utf8(value.to_vec()).ok()
        })
    }

    /// The rank that the launcher gave to this process, if it is one of the first launch: processes
    /// that these spawn later count from rank 0 again, in a name space of their own.
    pub(crate) fn launched_rank(self) -> Option<u32> {
        // Our launcher names processes for MPIs that do not.
        if let Some(place) = self.variable("FAMPI_NODE_PROCESS") {
            return place.strip_prefix("1:")?.parse().ok();
        }
        let first = self.variable("PMIX_NAMESPACE").is_none_or(|space| space.ends_with("@1"));
        first.then(|| self.variable("PMIX_RANK")?.parse().ok()).flatten()
    }
}

/// True if this process was started with a signal ignored, as `nohup` does.
pub(crate) fn ignores(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The living processes of a session, its leader included.
pub(crate) fn of_session(session: i32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            Process::find(name.to_str()?.parse().ok()?)
        })
        .filter(|process| process.session == session && !process.gone)
        .collect()
}

/// Kills the processes of `rank` in a session; false when there is none.
pub(crate) fn kill_rank(session: i32, rank: u32) -> bool {
    let members = of_session(session);
    let of_rank = members.iter().filter(|process| process.launched_rank() == Some(rank));
    // All are sent the signal, also the second one under a wrapper script.
    of_rank.filter(|process| kill(process.pid)).count() > 0
}

/// The shared memory through which the ranks of a session exchange messages: files that Open MPI
/// makes in memory, and that a rank leaves there when it is killed after its launcher.
pub(crate) fn segments_of_session(session: i32) -> BTreeSet<PathBuf> {
    let maps = of_session(session).into_iter().filter_map(|process| {
        let maps = fs::read(format!("/proc/{}/maps", process.pid)).ok()?;
        Some(String::from_utf8_lossy(&maps).into_owned())
    });
    let path = |line: &str| Some(PathBuf::from(&line[line.find(SEGMENTS)?..]));
    maps.flat_map(|maps| maps.lines().filter_map(path).collect::<Vec<_>>()).collect()
}

/// Ends every process of a session; returns how many there were.
pub(crate) fn kill_session(session: i32) -> usize {
    of_session(session).iter().filter(|process| kill(process.pid)).count()
}

fn kill(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// True when the end of a process can be seen by those who did not start it.
pub(crate) fn can_be_watched() -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{PidfdFlags, getpid, pidfd_open};
        pidfd_open(getpid(), PidfdFlags::empty()).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_hold_spaces_and_parentheses() {
        let rest = "1 410 400 0 -1 4194560 5 6 7 8 9 10 11 12 20 0 1 0 98765 13 14";
        let stat = format!("417 (a) b (c) S {rest}");
        let expected = Process { pid: 417, session: 400, started: 98765, gone: false };
        assert_eq!(Process::parse(&stat), Some(expected));
        let zombie = Process::parse(&format!("417 (x) Z {rest}")).expect("a process");
        assert!(zombie.gone);
        assert_eq!(Process::parse("417 (x"), None);
    }

    #[test]
    fn this_process_is_found_in_its_own_session() {
        let own = std::process::id() as i32;
        let session = Process::find(own).expect("Linux").session;
        assert!(of_session(session).iter().any(|process| process.pid == own));
    }
}
