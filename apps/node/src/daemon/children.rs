//! The processes of a node: started, watched, and heard.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fampi_detector::protocol::exits;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::shares::Shares;
use crate::poll::Poll;
use crate::protocol::orders::{Printed, Stream};
use crate::protocol::{Process, space::Exit};

/// Between asking a process to end and ending it.
const GRACE: Duration = Duration::from_millis(500);
/// Bytes that are read at once.
const CHUNK: usize = 32 << 10;

/// What a number of ours stands for.
#[derive(Clone, Copy, Debug)]
enum What {
    Process,
    Output { is_error: bool },
}

/// A process of this node.
#[derive(Debug)]
struct Started {
    process: Process,
    child: Child,
    /// Readable when it has ended.
    descriptor: OwnedFd,
    outputs: [Option<Pipe>; 2],
    /// It was asked to end, and is ended then.
    ends: Option<Instant>,
}

/// What a process prints to.
#[derive(Debug)]
struct Pipe {
    file: File,
    number: u64,
}

/// All processes of this node that have not ended.
#[derive(Debug, Default)]
pub(super) struct Children {
    /// By the number of the process's descriptor; those of its outputs follow.
    started: BTreeMap<u64, Started>,
    last: u64,
    is_paused: bool,
    /// The cores that each process is bound to, if this daemon binds processes.
    shares: Option<Shares>,
}

/// The status with which a process says to exit, in its name: a rank that exits before its end ends
/// itself by a signal, since not every launcher would tell of an exit.
fn exits(process: u32) -> Option<u8> {
    let name = std::fs::read(format!("/proc/{process}/comm")).ok()?;
    exits::status_in(name.trim_ascii_end())
}

/// Numbers of one process.
const NUMBERS: u64 = 4;
/// The first of all.
const FIRST: u64 = 1 << 40;

impl Children {
    /// True for the number of a process, or of something that it prints to.
    pub(super) const fn owns(number: u64) -> bool {
        number >= FIRST
    }

    /// No process yet. If `binds` is true the daemon binds each process of the launch to cores.
    pub(super) fn new(binds: bool) -> Self {
        Self { shares: binds.then(Shares::default), ..Self::default() }
    }

    /// So many processes of the launch are about to be started.
    pub(super) fn share(&mut self, processes: usize) {
        if let Some(shares) = &mut self.shares {
            *shares = Shares::among(processes);
        }
    }

    /// Starts a process, which is waited for from now on; its input, if this command pipes it.
    pub(super) fn start(
        &mut self,
        poll: &Poll,
        process: Process,
        mut command: Command,
    ) -> Result<Option<OwnedFd>> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        fampi_pmix::die_with_parent(&mut command);
        let name = command.get_program().to_owned();
        let bound = self.shares.as_mut().and_then(|shares| shares.bind(&process));
        let spawned = command.spawn();
        drop(bound);
        if spawned.is_err() {
            self.unshare(&process);
        }
        let mut child =
            spawned.with_context(|| format!("cannot start {}", name.to_string_lossy()))?;
        let pid = Pid::from_child(&child);
        let descriptor = rustix::process::pidfd_open(pid, PidfdFlags::empty());
        let descriptor = descriptor.context("processes cannot be watched: Linux 5.3 is needed")?;
        let number = FIRST + NUMBERS * self.last;
        self.last += 1;
        let outputs =
            [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        let mut pipes = [None, None];
        for ((pipe, output), at) in pipes.iter_mut().zip(outputs).zip(1..) {
            let Some(output) = output else { continue };
            let flags = rustix::fs::fcntl_getfl(&output)?;
            rustix::fs::fcntl_setfl(&output, flags | rustix::fs::OFlags::NONBLOCK)?;
            if !self.is_paused {
                poll.add(&output, number + at)?;
            }
            *pipe = Some(Pipe { file: File::from(output), number: number + at });
        }
        poll.add(&descriptor, number)?;
        let input = child.stdin.take().map(OwnedFd::from);
        let started = Started { process, child, descriptor, outputs: pipes, ends: None };
        self.started.insert(number, started);
        Ok(input)
    }

    fn what(number: u64) -> (u64, What) {
        let at = (number - FIRST) % NUMBERS;
        let what = if at == 0 { What::Process } else { What::Output { is_error: at == 2 } };
        (number - at, what)
    }

    /// Something has happened to this number: what was printed, and the end of the process.
    pub(super) fn look(
        &mut self,
        poll: &Poll,
        number: u64,
    ) -> (Vec<Printed>, Option<(Process, Exit)>) {
        let (first, what) = Self::what(number);
        let Some(started) = self.started.get_mut(&first) else { return (Vec::new(), None) };
        match what {
            What::Output { is_error } => (started.read(poll, is_error).into_iter().collect(), None),
            What::Process => match started.ended() {
                None => (Vec::new(), None),
                Some(exit) => {
                    let mut printed = Vec::new();
                    for is_error in [false, true] {
                        while let Some(more) = started.read(poll, is_error) {
                            printed.push(more);
                        }
                    }
                    let started = self.started.remove(&first);
                    let process = started.map(|it| it.forget(poll));
                    if let Some(process) = &process {
                        self.unshare(process);
                    }
                    (printed, process.map(|it| (it, exit)))
                }
            },
        }
    }

    /// Its processors are free for another one.
    fn unshare(&mut self, process: &Process) {
        if let Some(shares) = &mut self.shares {
            shares.note_end(process);
        }
    }

    /// Asks processes to end, and ends them a little later.
    pub(super) fn end(&mut self, processes: &[Process]) {
        let wanted = |it: &&mut Started| processes.contains(&it.process) && it.ends.is_none();
        for started in self.started.values_mut().filter(wanted) {
            started.signal(Signal::TERM);
            // One that is stopped is to hear of it.
            started.signal(Signal::CONT);
            started.ends = Some(Instant::now() + GRACE);
        }
    }

    /// Ends all at once.
    pub(super) fn kill(&mut self) {
        for started in self.started.values_mut() {
            started.signal(Signal::KILL);
        }
    }

    /// Time has passed: those that were asked to end, and did not, are ended.
    pub(super) fn handle_time(&mut self, now: Instant) {
        for started in self.started.values_mut() {
            if started.ends.is_some_and(|ends| ends <= now) {
                started.signal(Signal::KILL);
                started.ends = Some(now + GRACE);
            }
        }
    }

    /// When [`handle_time`](Self::handle_time) has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.started.values().filter_map(|started| started.ends).min()
    }

    /// Stops or resumes reading what processes print. While it is not read, they wait when they
    /// have printed too much.
    pub(super) fn pause(&mut self, poll: &Poll, paused: bool) -> Result<()> {
        if paused == self.is_paused {
            return Ok(());
        }
        self.is_paused = paused;
        for pipe in self.started.values().flat_map(|it| it.outputs.iter().flatten()) {
            if paused {
                poll.remove(&pipe.file);
            } else {
                poll.add(&pipe.file, pipe.number)?;
            }
        }
        Ok(())
    }
}

impl Started {
    /// How it has ended, if it has. The system forgets it with that.
    fn ended(&mut self) -> Option<Exit> {
        let exits = exits(self.child.id());
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status,
            Err(_) => return Some(Exit::Signal(9)),
        };
        Some(match (status.signal(), exits) {
            (Some(9), Some(status)) => Exit::Status(status),
            (Some(signal), _) => Exit::Signal(signal as u8),
            (None, _) => Exit::Status(status.code().unwrap_or(1) as u8),
        })
    }

    fn signal(&self, signal: Signal) {
        let group = Pid::from_child(&self.child);
        // It is not reaped yet, so the number is still its own.
        let _ = rustix::process::kill_process_group(group, signal);
    }

    /// What it has printed, if anything.
    fn read(&mut self, poll: &Poll, is_error: bool) -> Option<Printed> {
        let output = &mut self.outputs[usize::from(is_error)];
        let pipe = output.as_mut()?;
        let mut bytes = vec![0; CHUNK];
        match pipe.file.read(&mut bytes) {
            Ok(0) => {
                poll.remove(pipe.file.as_fd());
                *output = None;
                None
            }
            Ok(read) => {
                bytes.truncate(read);
                let Process { space, rank } = self.process.clone();
                Some(Printed { stream: Stream { space, rank, is_error }, bytes })
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(_) => {
                poll.remove(pipe.file.as_fd());
                *output = None;
                None
            }
        }
    }

    /// It has ended.
    fn forget(self, poll: &Poll) -> Process {
        let outputs = self.outputs.iter().flatten().map(|pipe| pipe.file.as_fd());
        let all: Vec<BorrowedFd<'_>> = outputs.chain([self.descriptor.as_fd()]).collect();
        for descriptor in all {
            poll.remove(descriptor);
        }
        self.process
    }
}
