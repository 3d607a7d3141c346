//! Processes of this node, as `/proc` and the kernel tell of them, and the name of the node.

use std::{fs, io, process};

use crate::fault::Cause;

/// `PF_EXITING` of Linux.
const EXITING: u64 = 4;

/// A process, told so that others of its node can find it there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) struct Process {
    /// Digest of all that makes process numbers comparable; 0 for a process that cannot be found.
    pub(in crate::mpi) node: u64,
    pub(in crate::mpi) pid: u64,
    /// When it started, in the kernel's ticks: a number is used again, at another time.
    pub(in crate::mpi) started: u64,
    /// How MPI names it; 0 when that is not known.
    pub(in crate::mpi) name: u64,
}

impl Process {
    /// This process, which MPI calls by this name.
    pub(in crate::mpi) fn own(name: u64) -> Self {
        let described = describe(process::id().into());
        let node = described.and(node()).unwrap_or(0);
        Self { node, pid: process::id().into(), started: described.unwrap_or(0), name }
    }

    /// True when this process ends or has ended: it does nothing any more.
    pub(in crate::mpi) fn is_ending(&self) -> bool {
        stat(self.pid)
            .is_none_or(|(flags, started)| started != self.started || flags & EXITING != 0)
    }

    /// How this process of our node has died; `None` if it has not begun to end. Unknown when its
    /// parent has been told already, or the kernel does not say it to us.
    pub(in crate::mpi) fn cause(&self) -> Option<Cause> {
        let text = fs::read(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        ended(&text, self.started)
    }

    /// True for another process that this one can find by its number.
    pub(in crate::mpi) fn is_neighbour_of(&self, own: &Self) -> bool {
        own.node != 0 && self.node == own.node && self.pid != own.pid
    }
}

/// The name that a process takes which ends itself by a signal because it exits, up to the status:
/// others read there how it ended.
const EXITS: &str = "fampi-exit-";

/// This process is about to end itself by a signal, as one that exits with this status.
pub(in crate::mpi) fn mark_exit(status: i32) {
    // Without it the others are told of the signal.
    let _ = fs::write("/proc/self/comm", format!("{EXITS}{}", status & 0xff));
}

/// What `/proc/PID/stat` says of the end of a process that started at this moment; `None` if it
/// lives. Of one that is gone nothing is known.
fn ended(text: &[u8], began: u64) -> Option<Cause> {
    let words: Vec<&str> = words_of_stat(text).into_iter().flatten().collect();
    let number = |at: usize| words.get(at).and_then(|it| it.parse::<u64>().ok());
    if number(19) != Some(began) {
        return Some(Cause::Unknown);
    }
    let ends = number(6).is_some_and(|flags| flags & EXITING != 0);
    if !ends && words.first().is_some_and(|state| !matches!(*state, "Z" | "X")) {
        return None;
    }
    let exits = format!("({EXITS}");
    let at = text.windows(exits.len()).position(|it| it == exits.as_bytes());
    let status = at.and_then(|at| text[at + exits.len()..].split(|byte| *byte == b')').next());
    let status = status.and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
    Some(match (number(49), status) {
        (Some(9), Some(status)) => Cause::Exited(status),
        // A status of 0 is also what the kernel shows to those who may not know.
        (None | Some(0), _) => Cause::Unknown,
        (Some(code), _) if code & 0x7f != 0 => Cause::Killed((code & 0x7f) as u8),
        (Some(code), _) => Cause::Exited((code >> 8) as u8),
    })
}

/// True while a process of our node has this number.
pub(in crate::mpi) fn exists(pid: libc::pid_t) -> bool {
    // SAFETY: signal 0 is never delivered, it only asks.
    let refused = unsafe { libc::kill(pid, 0) } != 0;
    !(refused && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH))
}

/// The children of a process, those that have ended and were not looked at yet included; `None`
/// where the kernel does not list them.
pub(in crate::mpi) fn children(parent: u32) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    for thread in fs::read_dir(format!("/proc/{parent}/task")).ok()? {
        let list = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        all.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u64>().ok()));
    }
    Some(all)
}

/// True for a process that has this parent and has not ended.
pub(in crate::mpi) fn is_living_child(pid: u64, parent: u32) -> bool {
    fs::read(format!("/proc/{pid}/stat")).is_ok_and(|stat| shows_living_child(&stat, parent))
}

/// True when this is what the kernel says of such a process.
pub(in crate::mpi) fn shows_living_child(stat: &[u8], parent: u32) -> bool {
    let Some(mut words) = words_of_stat(stat) else { return false };
    let is_living = words.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    is_living && words.next() == Some(&*parent.to_string())
}

/// The numbers of the living children of a process.
pub(in crate::mpi) fn living_children(parent: u32) -> impl Iterator<Item = u64> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    numbers.filter(move |pid| is_living_child(*pid, parent))
}

/// The value of a variable in the environment of a process, as `/proc` shows it.
pub(in crate::mpi) fn value_in<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut entries = environment.split(|byte| *byte == 0);
    entries.find_map(|it| it.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// How many processors this node has.
pub(in crate::mpi) fn processors() -> usize {
    // SAFETY: the call takes a number.
    let number = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(number).unwrap_or(1)
}

/// When a process of this node started, in ticks of the kernel.
pub(in crate::mpi) fn describe(pid: u64) -> Option<u64> {
    stat(pid).map(|(_, started)| started)
}

/// The kernel's flags of a process, and when it started.
fn stat(pid: u64) -> Option<(u64, u64)> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let mut words = words_of_stat(&text)?;
    let flags = words.nth(6)?.parse().ok()?;
    Some((flags, words.nth(12)?.parse().ok()?))
}

/// What `/proc/PID/stat` says of a process from its state on: `PID (name) state parent …`. The
/// name of the program can hold anything.
pub(in crate::mpi) fn words_of_stat(text: &[u8]) -> Option<impl Iterator<Item = &str>> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    Some(rest.split_whitespace())
}

/// A digest of the boot, the name of the node and the space of process numbers; never 0.
pub(in crate::mpi) fn node() -> Option<u64> {
    let boot = fs::read(BOOT).ok()?;
    let space = fs::read_link("/proc/self/ns/pid").ok()?;
    let space = space.to_string_lossy().into_owned();
    Some(digest([&boot, space.as_bytes(), node_name().as_bytes()]))
}

/// A digest of the boot, which nodes that are parts of one machine have in common; 0 when it is not
/// known.
pub(in crate::mpi) fn machine() -> u64 {
    fs::read(BOOT).map_or(0, |boot| digest([&boot, &[], &[]]))
}

const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// FNV-1a: the same in every program; never 0.
fn digest(words: [&[u8]; 3]) -> u64 {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for byte in words.into_iter().flatten() {
        digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    digest.max(1)
}

/// The name of this node.
pub(in crate::mpi) fn node_name() -> String {
    let mut name = [0_u8; 256];
    let (address, length) = (name.as_mut_ptr().cast(), name.len() - 1);
    // SAFETY: the array has room for the length told, and keeps a zero at its end.
    unsafe { libc::gethostname(address, length) };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: &str, flags: u64, code: u64) -> Vec<u8> {
        let zeros = |count: usize| vec!["0"; count].join(" ");
        format!("7 ({name}) {state} {} {flags} {} 55 {} {code}", zeros(5), zeros(12), zeros(29))
            .into_bytes()
    }

    #[test]
    fn the_end_of_a_process_is_read_from_what_the_kernel_shows_of_it() {
        let of = |name, state, flags, code| ended(&stat(name, state, flags, code), 55);
        assert_eq!(of("a", "R", 0, 0), None);
        assert_eq!(of("a", "Z", EXITING, 9), Some(Cause::Killed(9)));
        assert_eq!(of("a", "R", EXITING, 0x8b), Some(Cause::Killed(11)));
        assert_eq!(of("a", "Z", EXITING, 3 << 8), Some(Cause::Exited(3)));
        assert_eq!(of("a", "Z", EXITING, 0), Some(Cause::Unknown));
        assert_eq!(of("fampi-exit-101", "Z", EXITING, 9), Some(Cause::Exited(101)));
        assert_eq!(of("fampi-exit-101", "Z", EXITING, 11), Some(Cause::Killed(11)));
        assert_eq!(ended(&stat("a", "Z", EXITING, 9), 56), Some(Cause::Unknown));
        assert_eq!(ended(b"", 55), Some(Cause::Unknown));
    }
}
