//! A launcher in a session of its own: signals are passed on, a time limit holds, deaths happen on
//! time, and nothing is left behind.
//!
//! ```text
//!  fampi ── starts itself ──▶ guard (ends the session should the tool be killed)
//!    │                              (is told of the session before that launches anything)
//!    ├───── starts itself ──▶ new session ── becomes ──▶ mpirun ──▶ ranks (groups of their own,
//!    │                                                              same session)
//!    └─ at the end: whatever still runs in that session is ended, by its number
//! ```
//!
//! A launcher whose ranks outlive it is killed with the tool, and its ranks go on; all else holds.
//!
//! **Guarantees.** The launcher is reaped only after its session has been cleaned, so its number,
//! which is the session's, cannot belong to another one while we look for members. There is no
//! moment at which the end of the tool, however it comes, leaves a session without an end.

use std::collections::BTreeSet;
use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, stdin};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::guard::{self, GRACE_PERIOD, Guard};
use crate::plan::{Kill, When};
use crate::processes::{self, Process};
use crate::signals;
use crate::stderr_filter;

/// How the tool starts itself to become the leader of a session.
const LEADER: &str = "__session";
/// How a launcher is marked whose ranks outlive it, and how one whose ranks do not.
const OUTLIVES: &str = "outlives";
const ENDS_ALL: &str = "ends-all";
const LOOK_PERIOD: Duration = Duration::from_millis(10);
/// How long a launcher may go on alone.
const ALONE: Duration = Duration::from_secs(10);
/// How long one may be alone whose ranks were not all seen: it has yet to start them, or they were
/// gone at once.
const ALONE_AT_FIRST: Duration = Duration::from_secs(20);
/// Where the launcher of Open MPI 5 keeps its sockets and files: in a folder that has the number of
/// its process for a name. It cannot start when a crashed one of that number has left its own.
const LAUNCHERS_FOLDER: &str = "PRTE_MCA_prte_local_tmpdir_base";

/// What is to happen while a program runs.
#[derive(Default)]
pub(crate) struct Script<'a> {
    /// How many are launched. Once all of them have been seen in the session, a launcher that has
    /// been alone there for a while is ended: that of Open MPI 5 locks itself up at its end, now
    /// and then, when ranks have left with another status than 0.
    pub(crate) ranks: Option<u32>,
    /// Ranks may be where they cannot be seen: on another machine, or in another session.
    pub(crate) elsewhere: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) kills: &'a [Kill],
    /// True from the moment on from which the times of the deaths count: the launch without it.
    pub(crate) has_begun: Option<&'a dyn Fn() -> bool>,
    /// Standard output is collected instead of passed on.
    pub(crate) collect: bool,
    /// All of standard error goes here; otherwise it is passed on without the noise.
    pub(crate) errors: Option<File>,
    /// Folders of the tool, to be removed should it be killed.
    pub(crate) leftovers: &'a [&'a Path],
    /// Name spaces of the tool, to be removed should it be killed.
    pub(crate) spaces: &'a [String],
    /// A launcher without which goes on what it has launched, also when the tool is killed: then
    /// nothing of it is ended, and what the tool has made for it is removed after its end. The
    /// launcher is called once more after that, to remove what killed processes have left.
    pub(crate) outlived: Option<&'a Path>,
}

impl<'a> Script<'a> {
    /// A program that is measured for so long at most: what it prints is collected, and what it
    /// says on standard error is not shown.
    pub(crate) fn of_measurement(limit: Duration, leftovers: &'a [&'a Path]) -> Result<Self> {
        let errors = tempfile::tempfile().context("cannot make a temporary file")?;
        let (timeout, errors) = (Some(limit), Some(errors));
        Ok(Self { timeout, collect: true, errors, leftovers, ..Self::default() })
    }
}

/// How a launcher ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this status.
    Exited(u8),
    /// By this signal, which did not come from us.
    Crashed(i32),
    /// By us, at the time limit.
    TimedOut,
    /// By us, since it went on although no rank was left.
    Deserted,
    /// By us, as this signal had come.
    Interrupted(i32),
}

impl End {
    /// The exit status that says the same in a shell.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::TimedOut => 124,
            // What the ranks exited with is unknown.
            Self::Deserted => 1,
            Self::Crashed(signal) | Self::Interrupted(signal) => 128 + signal as u8,
        }
    }
}

/// A finished run: how it ended and the standard output that was collected.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) lines: Vec<String>,
    /// The launcher was killed, and what it has started goes on: all that it uses is in the care of
    /// the guard.
    pub(crate) goes_on: bool,
    /// The numbers of the processes that were still there when their launcher had ended.
    pub(crate) outlived: Vec<i32>,
    /// How many ranks were killed by us, as the script says.
    pub(crate) killed: usize,
    /// How long it took from the moment on from which the times of the deaths count.
    pub(crate) took: Duration,
}

/// In a process that [`run`] started to lead a session: makes the session and becomes the program.
/// Returns only when that fails, or at once in every other process.
pub(crate) fn become_leader_if_asked() -> Option<anyhow::Error> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != LEADER {
        return None;
    }
    let tool = arguments.next()?;
    let outlives = arguments.next()? == OUTLIVES;
    let program = arguments.next()?;
    if let Err(error) = rustix::process::setsid() {
        return Some(anyhow::Error::new(error).context("cannot make a session"));
    }
    // Until the guard knows of this session the end of the tool is its end, too; afterwards it is
    // the launcher's turn to end its ranks, which the guard watches. One whose ranks outlive it
    // must not hear of the end of the tool first: it would end them.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // Killed already: this session would never be looked after.
    let parent = rustix::process::getppid().map_or(0, Pid::as_raw_pid);
    if tool.to_str() != Some(&parent.to_string()) {
        return Some(anyhow::anyhow!("the tool that started this session is gone"));
    }
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    #[cfg(target_os = "linux")]
    if !outlives {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    }
    let failure = Command::new(&program).args(arguments).exec();
    Some(anyhow::Error::new(failure).context(format!("cannot start {}", program.display())))
}

/// Runs a launcher to its end, which is also the end of everything it started.
pub(crate) fn run(command: &Command, mut script: Script<'_>) -> Result<Finished> {
    let (mut signals, _busy) = signals::watch()?;
    let folder = tempfile::Builder::new().prefix("fampi-launch-").tempdir();
    let folder = folder.context("cannot make a temporary folder")?;
    let mut leader = leader_of(command, script.outlived.is_some());
    leader.env(LAUNCHERS_FOLDER, folder.path());
    if script.collect {
        leader.stdout(Stdio::piped());
    }
    leader.stderr(script.errors.take().map_or_else(Stdio::piped, Stdio::from));
    let leftovers: Vec<_> = script.leftovers.iter().copied().chain([folder.path()]).collect();
    let mut guard = Guard::start(&leftovers, script.spaces, script.outlived)?;
    let mut child = leader.spawn().context("cannot start this tool a second time")?;
    let begun = Instant::now();
    let reader = child.stdout.take().map(|output| collect_lines(BufReader::new(output)));
    let errors = child.stderr.take();
    let errors = errors.map(|errors| thread::spawn(|| stderr_filter::copy(errors, io::stderr())));
    let session = child.id() as i32;
    release(session, &mut guard)?;
    let Supervised { ended, killed, took } = supervise(session, begun, &script, &mut signals);
    let outlived: Vec<i32> =
        processes::of_session(session).iter().map(|process| process.pid).collect();
    let was_killed = ended.is_none() && is_killed(session);
    if script.outlived.is_some() && was_killed && !outlived.is_empty() {
        guard.leave();
        let _ = folder.keep();
        let end = conclude(&mut child, ended)?;
        return Ok(Finished { end, lines: Vec::new(), goes_on: true, outlived, killed, took });
    }
    guard::end_what_is_left(session);
    guard.dismiss();
    let end = conclude(&mut child, ended)?;
    errors.and_then(result_of);
    let lines = reader.and_then(result_of).unwrap_or_default();
    Ok(Finished { end, lines, goes_on: false, outlived, killed, took })
}

/// True for a child of ours that has ended by SIGKILL.
fn is_killed(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return false };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = rustix::process::waitid(WaitId::Pid(pid), look).ok().flatten();
    status.and_then(|status| status.terminating_signal()) == Some(Signal::KILL.as_raw())
}

/// Waits until the leader has made its session, tells the guard, and lets the leader go on.
fn release(session: i32, guard: &mut Guard) -> Result<()> {
    let Some(pid) = Pid::from_raw(session) else { return Ok(()) };
    let look = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), look) {}
    // One that could not make its session has said so, and ended.
    if let Some(leader) = Process::find(session).filter(|leader| !leader.gone) {
        guard.watch(leader)?;
        let _ = rustix::process::kill_process(pid, Signal::CONT);
    }
    Ok(())
}

/// What a reader has read to the end; nothing when a process outside the session, which is not ours
/// to end, still holds the other end.
fn result_of<T>(reader: JoinHandle<T>) -> Option<T> {
    let begun = Instant::now();
    while !reader.is_finished() && begun.elapsed() < GRACE_PERIOD {
        thread::sleep(Duration::from_millis(1));
    }
    reader.is_finished().then(|| reader.join().ok()).flatten()
}

/// The tool itself, told to become what `command` says in a session of its own.
fn leader_of(command: &Command, outlives: bool) -> Command {
    let mut leader = Command::new(guard::tool());
    leader.arg(LEADER).arg(std::process::id().to_string());
    leader.arg(if outlives { OUTLIVES } else { ENDS_ALL });
    leader.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => leader.env(name, value),
            None => leader.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        leader.current_dir(folder);
    }
    // A terminal cannot be read from another session.
    if stdin().is_terminal() {
        leader.stdin(Stdio::null());
    }
    leader
}

/// What became of a launcher.
struct Supervised {
    /// Why it was ended by us, if so.
    ended: Option<End>,
    /// How many ranks we have killed.
    killed: usize,
    took: Duration,
}

/// Waits until the launcher has ended, without reaping it.
fn supervise(
    session: i32,
    begun: Instant,
    script: &Script<'_>,
    signals: &mut Signals,
) -> Supervised {
    let mut deaths = Deaths::planned(script.kills);
    let mut ending: Option<(End, Instant)> = None;
    let is_outlived = script.outlived.is_some();
    let mut company = script.ranks.map(|ranks| Company::of(ranks, script.elsewhere, is_outlived));
    let mut counting_since = script.has_begun.is_none().then_some(begun);
    while !has_ended(session) {
        let elapsed = begun.elapsed();
        if ending.is_none() && company.as_mut().is_some_and(|ranks| ranks.has_left(session)) {
            forward(session, SIGTERM);
            ending = Some((End::Deserted, Instant::now()));
        }
        if counting_since.is_none() && script.has_begun.is_some_and(|has_begun| has_begun()) {
            counting_since = Some(Instant::now());
        }
        if let Some(since) = counting_since {
            deaths.carry_out(session, since.elapsed(), company.as_mut());
        }
        for signal in signals.pending() {
            if ending.is_some() {
                // Asked a second time: now.
                processes::kill_session(session);
            } else {
                forward(session, signal);
                ending = Some((End::Interrupted(signal), Instant::now()));
            }
        }
        match ending {
            None if script.timeout.is_some_and(|timeout| elapsed >= timeout) => {
                forward(session, SIGTERM);
                ending = Some((End::TimedOut, Instant::now()));
            }
            Some((_, since)) if since.elapsed() >= GRACE_PERIOD => {
                processes::kill_session(session);
            }
            _ => {}
        }
        thread::sleep(LOOK_PERIOD);
    }
    let took = counting_since.map_or(Duration::ZERO, |since| since.elapsed());
    deaths.tell_what_was_not_done(took);
    Supervised { ended: ending.map(|(end, _)| end), killed: deaths.done, took }
}

/// The ranks that are to be killed by the clock.
struct Deaths {
    /// When, and which rank.
    planned: Vec<(Duration, u32)>,
    /// Before this moment nothing is done.
    next: Duration,
    /// How many were killed.
    done: usize,
}

impl Deaths {
    fn planned(kills: &[Kill]) -> Self {
        let by_clock = |kill: &Kill| match kill.when {
            When::After(delay) => Some((delay, kill.rank)),
            When::Iteration(_) => None,
        };
        let planned = kills.iter().filter_map(by_clock).collect();
        Self { planned, next: Duration::ZERO, done: 0 }
    }

    /// Kills the ranks whose time has come. One that the launcher has not started yet is killed as
    /// soon as it is there, and looked for less often the longer it does not come.
    fn carry_out(&mut self, session: i32, elapsed: Duration, company: Option<&mut Company>) {
        if elapsed < self.next {
            return;
        }
        let (done, mut next) = (&mut self.done, Duration::MAX);
        let mut nobody = BTreeSet::new();
        let to_come = company.map_or(&mut nobody, |company| &mut company.missing);
        self.planned.retain(|(delay, rank)| {
            let Some(late) = elapsed.checked_sub(*delay) else {
                next = next.min(*delay);
                return true;
            };
            if processes::kill_rank(session, *rank) {
                *done += 1;
                to_come.remove(rank);
                return false;
            }
            if to_come.contains(rank) {
                next = next.min(elapsed + (late / 10).min(ALONE / 10));
                return true;
            }
            say!("fampi: rank {rank} is not there any more: not killed");
            false
        });
        self.next = next;
    }

    fn tell_what_was_not_done(&self, took: Duration) {
        for (delay, rank) in &self.planned {
            let why = if took < *delay {
                format!("the run was over before {delay:?}")
            } else {
                "no process of that rank was seen on this machine".to_owned()
            };
            say!("fampi: rank {rank} was not killed: {why}");
        }
    }
}

/// The processes of a launcher.
struct Company {
    /// The launched that have never been seen.
    missing: BTreeSet<u32>,
    /// Some may be where they cannot be seen.
    elsewhere: bool,
    /// Its ranks outlive it, and may belong to another session: that of a command that added a
    /// host.
    is_outlived: bool,
    looked: Instant,
    /// Since when the launcher is alone.
    alone: Option<Instant>,
}

impl Company {
    fn of(ranks: u32, elsewhere: bool, is_outlived: bool) -> Self {
        let missing = (0..ranks).collect();
        Self { missing, elsewhere, is_outlived, looked: Instant::now(), alone: None }
    }

    /// True when none has been here for a while. A launcher whose ranks are on other machines may
    /// seem to be alone, too: that one is never said to be before all were seen here.
    fn has_left(&mut self, session: i32) -> bool {
        let period = if self.missing.is_empty() { ALONE / 10 } else { LOOK_PERIOD * 5 };
        if self.looked.elapsed() < period {
            return false;
        }
        self.looked = Instant::now();
        let members = processes::of_session(session);
        if !self.missing.is_empty() {
            let ranks = members.iter().filter_map(|process| process.launched_rank());
            ranks.for_each(|rank| {
                self.missing.remove(&rank);
            });
        }
        let all_seen = self.missing.is_empty();
        let may_be = all_seen || !self.elsewhere;
        let is_alone = may_be && members.iter().all(|it| it.pid == session);
        self.alone = self.alone.filter(|_| is_alone).or(is_alone.then(Instant::now));
        let limit = if all_seen { ALONE } else { ALONE_AT_FIRST };
        !self.is_outlived && self.alone.is_some_and(|since| since.elapsed() >= limit)
    }
}

fn has_ended(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return true };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::Pid(pid), look), Ok(None))
}

fn forward(pid: i32, signal: i32) {
    let signal = match signal {
        SIGINT => Signal::INT,
        SIGHUP => Signal::HUP,
        _ => Signal::TERM,
    };
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Reaps the launcher.
fn conclude(child: &mut Child, ended: Option<End>) -> Result<End> {
    let status = child.wait().context("cannot wait for the launcher")?;
    Ok(ended.unwrap_or_else(|| {
        let exited = || End::Exited(status.code().unwrap_or(1) as u8);
        status.signal().map_or_else(exited, End::Crashed)
    }))
}

/// Reads to the end, whatever bytes come: a reader that gave up would stop the ranks.
fn collect_lines(output: impl BufRead + Send + 'static) -> JoinHandle<Vec<String>> {
    let lines = output.split(b'\n').map_while(Result::ok);
    thread::spawn(move || lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_run_have_the_statuses_of_a_shell() {
        assert_eq!(End::Exited(7).status(), 7);
        assert_eq!(End::TimedOut.status(), 124);
        assert_eq!(End::Interrupted(SIGINT).status(), 130);
        assert_eq!(End::Crashed(11).status(), 139);
    }

    #[test]
    fn a_launcher_that_is_alone_for_long_is_deserted_unless_its_ranks_outlive_it() {
        let mut alone = Command::new("setsid").args(["sleep", "30"]).spawn().expect("setsid");
        let session = alone.id() as i32;
        let begun = Instant::now();
        while !processes::of_session(session).iter().any(|it| it.pid == session) {
            assert!(begun.elapsed() < Duration::from_secs(10), "no session");
        }
        let since = Instant::now().checked_sub(2 * ALONE).expect("the machine runs for longer");
        for is_outlived in [false, true] {
            let mut company = Company::of(0, false, is_outlived);
            (company.looked, company.alone) = (since, Some(since));
            assert_eq!(company.has_left(session), !is_outlived);
        }
        alone.kill().and_then(|()| alone.wait()).expect("ended");
    }
}
