//! Processes that are watched, how they ended, and who is hung.
//!
//! A descriptor of a process (`pidfd`, Linux 5.3) refers to one process for ever, and becomes
//! readable when it has ended. Only its parent is told its status; for others the kernel shows it
//! as long as the parent has not asked, so we look at once, and are sometimes too late.
//!
//! A process has ended when its last thread has given back the memory of all, which takes a
//! millisecond or more for one that uses MPI. Its other threads have ended before that, and each of
//! them can be watched, too (Linux 6.9): where one of them has ended and the kernel says by which
//! signal or status all of it does, the process will run no more of its program, and is told dead.
//! A thread that ended for itself is replaced by another one to watch.
//!
//! Of those that are hung one is told at a time, and then the others have the whole limit again:
//! they may have waited for that one, inside a call of MPI.

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use rustix::{
    fs::OFlags,
    process::{Pid, PidfdFlags, Resource, Rlimit, Signal},
};

use crate::{
    daemon::pulse::Page,
    protocol::{
        Cause, Process, exits,
        pulse::{Stillness, Thread},
        registration::LEAVE,
    },
};

/// The most processes that are watched.
const MOST_WARDS: u64 = 4096;
/// Descriptors that are none of a ward's.
const OTHER_DESCRIPTORS: u64 = 300;
/// The most descriptors for one ward: of itself, its connections, its progress, and threads.
const MOST_DESCRIPTORS: u64 = 4 + MOST_THREADS as u64;
/// Threads of a process that are watched, beside the first, which is not told to have ended before
/// the others have.
const MOST_THREADS: usize = 2;
/// `PIDFD_THREAD`.
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());
/// Signals that stop a process: it does not end.
const STOPS: [Signal; 4] = [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// A process that may become a ward: it is at the other end of a connection.
#[derive(Debug)]
pub struct Candidate {
    pid: Pid,
    started: Option<u64>,
    /// Readable when it has ended.
    pub descriptor: OwnedFd,
}

impl Candidate {
    /// The process that has this number now. It is the one meant if that one is heard of later.
    pub fn new(pid: Pid) -> Option<Self> {
        let descriptor = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let started = Status::of_process(pid).map(|status| status.started);
        Some(Self { pid, started, descriptor })
    }

    /// The number of the process.
    pub fn number(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// What the system says of it, as long as it does.
    fn status(&self) -> Option<Status> {
        Status::of_process(self.pid).filter(|it| Some(it.started) == self.started)
    }

    /// One of its threads.
    fn thread(&self, number: u64) -> Option<Thread> {
        let status = Status::of(&format!("/proc/{}/task/{number}/stat", self.pid.as_raw_nonzero()));
        status.map(|Status { state, ran, .. }| Thread { state, ran })
    }

    /// Descriptors of some of its threads; none where the system has no such thing.
    fn threads(&self) -> Vec<OwnedFd> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid.as_raw_nonzero()));
        let tasks = tasks.into_iter().flatten().flatten();
        let number = |task: fs::DirEntry| task.file_name().to_str()?.parse().ok();
        let threads = tasks.filter_map(number).filter_map(Pid::from_raw);
        let others = threads.filter(|thread| *thread != self.pid);
        let open = |thread| rustix::process::pidfd_open(thread, THREAD).ok();
        others.filter_map(open).take(MOST_THREADS).collect()
    }

    /// How it ended, as far as the system says so.
    fn cause(&self) -> Cause {
        let status = self.status().filter(|it| it.is_over() || it.is_ending());
        let exits = status.as_ref().and_then(|it| it.exits);
        match (status.map(|status| status.code), exits) {
            (Some(9), Some(status)) => Cause::Exit(status),
            // Who leaves in order says so: this status alone says nothing.
            (None | Some(0), _) => Cause::Ended,
            (Some(code), _) if code & 0x7f != 0 => Cause::Signal((code & 0x7f) as u8),
            (Some(code), _) => Cause::Exit((code >> 8) as u8),
        }
    }
}

/// A process that is watched.
#[derive(Debug)]
struct Ward {
    process: Process,
    candidate: Candidate,
    threads: Vec<OwnedFd>,
    /// It sees by this that we are gone, and says so before it leaves in order.
    connection: UnixStream,
    /// Of one that shows its progress.
    page: Option<Page>,
    stillness: Stillness,
}

impl Ward {
    fn has_left(&self) -> bool {
        let mut word = [0];
        matches!((&self.connection).read(&mut word), Ok(1)) && word == [LEAVE]
    }

    /// True when it is hung.
    fn look(&mut self) -> bool {
        let Self { candidate, page, stillness, .. } = self;
        let pulse = page.as_ref().and_then(Page::read);
        pulse.is_some_and(|pulse| stillness.handle_look(pulse, |number| candidate.thread(number)))
    }
}

/// All that are watched, by a number of ours.
#[derive(Debug, Default)]
pub struct Wards(BTreeMap<u64, Ward>);

impl Wards {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// True when this process is watched.
    pub fn holds(&self, process: Process) -> bool {
        self.0.values().any(|ward| ward.process == process)
    }

    /// Watches a process from now on.
    pub fn add(
        &mut self,
        number: u64,
        process: Process,
        candidate: Candidate,
        connection: UnixStream,
        page: Option<Page>,
    ) {
        let (threads, stillness) = (Vec::new(), Stillness::default());
        let ward = Ward { process, candidate, threads, connection, page, stillness };
        self.0.insert(number, ward);
    }

    /// Looks whether all of these make progress; of those that are hung, one.
    pub fn look(&mut self, mut of: impl FnMut(Process) -> bool) -> Option<Process> {
        let mut hung = None;
        for ward in self.0.values_mut().filter(|ward| of(ward.process)) {
            if ward.look() {
                hung = hung.or(Some(ward.process));
            }
        }
        if hung.is_some() {
            self.0.values_mut().for_each(|ward| ward.stillness.forgive());
        }
        hung
    }

    /// For how many looks each has made no progress.
    pub fn stillness(&self) -> impl Iterator<Item = (Process, u32)> + '_ {
        self.0.values().map(|ward| (ward.process, ward.stillness.looks()))
    }

    /// Watches some threads of the process with this number, and no longer those of before.
    pub fn watch_threads(&mut self, number: u64) -> &[OwnedFd] {
        let Some(ward) = self.0.get_mut(&number) else { return &[] };
        ward.threads = ward.candidate.threads();
        &ward.threads
    }

    /// True when all threads of the process with this number end, or have ended.
    pub fn is_ending(&self, number: u64) -> bool {
        let status = self.0.get(&number).and_then(|ward| ward.candidate.status());
        status.is_some_and(|status| status.is_ending())
    }

    /// The process with this number has ended.
    pub fn take_ended(&mut self, number: u64) -> Option<(Process, Cause)> {
        let ward = self.0.remove(&number)?;
        let cause = if ward.has_left() { Cause::Exit(0) } else { ward.candidate.cause() };
        Some((ward.process, cause))
    }

    /// Kills a process.
    pub fn kill(&self, process: Process) {
        for ward in self.0.values().filter(|ward| ward.process == process) {
            let _ = rustix::process::pidfd_send_signal(&ward.candidate.descriptor, Signal::KILL);
        }
    }
}

/// How many processes can be watched.
pub fn most() -> usize {
    let own = descriptors().saturating_sub(OTHER_DESCRIPTORS) / MOST_DESCRIPTORS;
    own.min(MOST_WARDS) as usize
}

/// How many descriptors this process may have; as many as the system allows.
fn descriptors() -> u64 {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    let wanted = MOST_DESCRIPTORS * MOST_WARDS + OTHER_DESCRIPTORS;
    let most = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = Rlimit { current: Some(most), maximum };
    if current.is_some_and(|current| current < most)
        && rustix::process::setrlimit(Resource::Nofile, raised).is_ok()
    {
        return most;
    }
    current.unwrap_or(most)
}

/// What the kernel shows of a process, or of one of its threads.
struct Status {
    /// `Z` when it has ended, and its parent has not asked how.
    state: u8,
    /// For how long it has run, in ticks.
    ran: u64,
    /// When it started, in ticks.
    started: u64,
    /// How it ends or has ended, as its parent is told; or which signal stops it; else 0.
    code: u64,
    /// The status with which it says to exit, in its name.
    exits: Option<u8>,
}

impl Status {
    fn of_process(pid: Pid) -> Option<Self> {
        Self::of(&format!("/proc/{}/stat", pid.as_raw_nonzero()))
    }

    fn of(path: &str) -> Option<Self> {
        let text = fs::read(path).ok()?;
        // The name of the program, in parentheses, can hold anything.
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let name = text.iter().position(|byte| *byte == b'(').map(|begin| &text[begin + 1..end]);
        let exits = name.and_then(exits::status_in);
        let words = std::str::from_utf8(&text[end + 1..]).ok()?;
        let words: Vec<&str> = words.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        Some(Self {
            state: *words.first()?.as_bytes().first()?,
            ran: number(11)? + number(12)?,
            started: number(19)?,
            code: number(49)?,
            exits,
        })
    }

    /// It has ended, and its parent has not asked how.
    fn is_over(&self) -> bool {
        self.state == b'Z'
    }

    /// All its threads were told to end: there is a status, and it is not that of a stop.
    fn is_ending(&self) -> bool {
        let stops = STOPS.iter().any(|stop| self.code == stop.as_raw() as u64);
        self.code != 0 && !stops
    }
}
