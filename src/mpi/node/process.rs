//! What a process says about itself when a universe is made.

use std::{fs, process};

use crate::mpi::{
    calls::{comm::Comm, library::Checked},
    deaths::{death_mark::Will, observer},
    lifecycle::exit,
    openmpi5::inject_failure,
    transport::mailbox::{Address, Inbox, Mailbox},
};

/// `PF_EXITING` of Linux.
const EXITING: u64 = 4;

/// A process, told so that others of its node can find it there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) struct Process {
    /// Digest of all that makes process numbers comparable; 0 for a process nobody can find.
    pub(in crate::mpi) node: u64,
    pub(in crate::mpi) pid: u64,
    /// When it started, in the kernel's ticks: a number is used again, at another time.
    pub(in crate::mpi) started: u64,
    /// How MPI names it; 0 when that is not known.
    pub(in crate::mpi) name: u64,
}

/// Everybody in a universe, by rank.
#[derive(Debug)]
pub(in crate::mpi) struct Acquaintance {
    pub(in crate::mpi) processes: Vec<Process>,
    pub(in crate::mpi) mailbox: Option<Mailbox>,
    /// Of those who are on our node, by rank.
    pub(in crate::mpi) wills: Vec<Option<Will>>,
    /// What each is to the observers ([`observer::standing`]).
    pub(in crate::mpi) standings: Vec<u64>,
}

/// Every process of a communicator tells the others who it is. Collective.
pub(in crate::mpi) fn meet(comm: &Comm) -> Checked<Acquaintance> {
    let Process { node, pid, started, name } = Process::own();
    let inbox = Inbox::new(comm.size() as usize);
    let Address { descriptor, token } = inbox.as_ref().map(Inbox::address).unwrap_or_default();
    let standing = observer::standing();
    let rows = comm.gather_numbers([node, pid, started, name, descriptor, token, standing])?;
    let standings = rows.iter().map(|[.., standing]| *standing).collect();
    let told = |[node, pid, started, name, descriptor, token, _]: [u64; 7]| {
        (Process { node, pid, started, name }, Address { descriptor, token })
    };
    let told: Vec<(Process, Address)> = rows.into_iter().map(told).collect();
    let mut mailbox = inbox.map(|inbox| Mailbox::new(inbox, &told, comm.rank()));
    // A descriptor for each universe would run out one day.
    comm.least(0)?;
    mailbox.iter_mut().for_each(Mailbox::close_door);
    let wills = mailbox.as_ref().map(Mailbox::wills).unwrap_or_default();
    let processes = told.into_iter().map(|(process, _)| process).collect();
    Ok(Acquaintance { processes, mailbox, wills, standings })
}

impl Process {
    pub(in crate::mpi) fn own() -> Self {
        let described = describe(process::id().into());
        let node = described.and(node()).unwrap_or(0);
        let name = inject_failure::find().map_or(0, |notice| notice.me().0);
        Self { node, pid: process::id().into(), started: described.unwrap_or(0), name }
    }

    /// True when this process ends or has ended: it does nothing any more.
    pub(in crate::mpi) fn is_ending(&self) -> bool {
        stat(self.pid)
            .is_none_or(|(flags, started)| started != self.started || flags & EXITING != 0)
    }

    /// True for another process that this one can find by its number.
    pub(in crate::mpi) fn is_neighbour_of(&self, own: &Self) -> bool {
        own.node != 0 && self.node == own.node && self.pid != own.pid
    }
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
    let boot = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let space = fs::read_link("/proc/self/ns/pid").ok()?;
    let space = space.to_string_lossy().into_owned();
    let name = exit::node_name();
    // FNV-1a: the same in every program.
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for byte in boot.iter().chain(space.as_bytes()).chain(name.as_bytes()) {
        digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    Some(digest.max(1))
}
