//! Sees the death of processes of our own node at once, also those that MPI never reports.
//!
//! Open MPI hears of a death from its launcher, after up to 50 ms, and of one by `_exit(1)` never:
//! the launcher takes it for an end in order. A descriptor of each co-located process
//! ([`pidfd`](super::pidfd)) tells it within microseconds. The set of them is looked at in two
//! places only, neither of them on the way of a commit without faults: where the engine has waited
//! for long, and from within calls that make communicators and those of the program itself, by a
//! callback of MPI's progress. What
//! is seen is told to MPI ([`inject_failure`]) and comes back as MPI's own report. So there
//! is one list of the dead, MPI's, and no later call of MPI waits for a process that only we know
//! to be dead.
//!
//! ```text
//! universe made   each process: node, number, moment of start, MPI's name ─ allgather ─▶ all
//! waiting long    mark set,  or epoll readable ─ one look later ─▶ MPI marks it failed ─▶ Failure
//! ```
//!
//! A death is told one look after it was seen: what the dead process had sent is received first.
//!
//! **Guarantees.** No process is told dead that has not ended: a descriptor refers to one process
//! for ever, and it is kept only if the process that it refers to started when the one that we mean
//! did. A process that cannot be watched is not watched; MPI's own reports are as they were. While
//! this process ends its part, the end of others is no news. One that left in order while others go
//! on is reported to those who wait for long: it will take part in nothing. `MPI_Finalize` itself
//! waits for others, so it is told again, until the part of it that bears deaths is over.
//!
//! **Assumes** that processes with the same boot, name of the node and space of process numbers
//! can name each other by number. `FAMPI_NODE_WATCHER=off` switches all of it off, here.

use std::{
    cell::RefCell,
    ffi::c_int,
    iter, mem,
    os::fd::OwnedFd,
    process,
    time::{Duration, Instant},
};

use super::{death_mark::DeathMark, observer, pidfd::Ends, renice_dead};
use crate::{
    fault::Cause,
    mpi::{
        calls::{agreement, inside, library},
        node::{
            causes, environment,
            process::{Process, describe, node},
        },
        this_mpi::{
            self,
            inject_failure::{self, Name},
            launch_census::Launched,
        },
    },
    rank::Rank,
    seam::platform::UniverseId,
};

/// Between two looks.
const PERIOD: Duration = Duration::from_micros(100);
/// Callbacks of MPI between two readings of the clock, inside a call that may last.
const CALLBACKS: u32 = 32;
/// The processes of the launch, before they make a universe.
const LAUNCH: UniverseId = UniverseId(u32::MAX);

/// A process that has not ended, as far as we have seen. It is watched until this is dropped.
#[derive(Debug)]
struct Watched {
    process: Process,
    /// Tells earlier that it ends.
    mark: Option<DeathMark>,
    _descriptor: OwnedFd,
}

/// Processes that were started last, before they are in a universe.
const NEWCOMERS: UniverseId = UniverseId(u32::MAX - 1);

/// A process to be told dead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Death {
    name: Name,
    /// Other nodes have to hear of it from us.
    forward: bool,
}

/// Who is watched.
#[derive(Debug)]
struct Watcher {
    own: Process,
    ends: Option<Ends>,
    universes: Vec<(UniverseId, Vec<Process>)>,
    watched: Vec<Watched>,
    /// Whose death MPI was told of, and by whom.
    told: Vec<(Name, &'static str)>,
    /// How processes have died, as it was seen or told.
    causes: Vec<(Name, Cause)>,
    /// Numbers of processes that had ended at the last look.
    ended: Vec<u64>,
    /// Those that had ended before they could be watched, to be told with the next look.
    gone: Vec<Process>,
    last: Instant,
    callbacks: u32,
    /// This process leaves: it tells nothing.
    is_silent: bool,
}

impl Watched {
    fn is_ending(&self) -> bool {
        self.mark.as_ref().is_some_and(DeathMark::is_set) && self.process.is_ending()
    }
}

impl Watcher {
    fn new(own: Process, ends: Option<Ends>) -> Self {
        let (universes, watched, told, causes, ended, gone) = Default::default();
        let (last, callbacks, is_silent) = (Instant::now(), 0, false);
        Self {
            own,
            ends,
            universes,
            watched,
            told,
            causes,
            ended,
            gone,
            last,
            callbacks,
            is_silent,
        }
    }

    /// Watches the co-located processes of a universe.
    fn add(
        &mut self,
        universe: UniverseId,
        processes: Vec<Process>,
        marks: Vec<Option<DeathMark>>,
    ) {
        let marks = marks.into_iter().chain(iter::repeat_with(|| None));
        for (process, mark) in processes.iter().zip(marks) {
            let mut watched = self.watched.iter_mut();
            if let Some(known) = watched.find(|watched| watched.process == *process) {
                known.mark = mark.or(known.mark.take());
            } else if process.is_neighbour_of(&self.own) {
                self.watch(*process, mark);
            }
        }
        self.universes.push((universe, processes));
    }

    fn watch(&mut self, process: Process, mark: Option<DeathMark>) {
        let Some(ends) = &self.ends else { return };
        match ends.add(process.pid as libc::pid_t) {
            Ok(descriptor) if describe(process.pid) == Some(process.started) => {
                self.watched.push(Watched { process, mark, _descriptor: descriptor });
            }
            Ok(_) => tracing::debug!(process.pid, "another process has this number: not watched"),
            Err(_) if describe(process.pid).is_none() => self.gone.push(process),
            Err(error) => tracing::debug!(process.pid, %error, "not watched"),
        }
    }

    /// Watches no longer for this universe.
    fn forget(&mut self, universe: UniverseId) {
        self.universes.retain(|(id, _)| *id != universe);
        let universes = &self.universes;
        self.watched.retain(|watched| {
            universes.iter().any(|(_, processes)| processes.contains(&watched.process))
        });
    }

    /// True when it is time for a look. Reads the clock.
    fn is_due(&self) -> bool {
        !self.is_silent
            && (!self.watched.is_empty() || !self.gone.is_empty())
            && (!self.ended.is_empty() || self.last.elapsed() >= PERIOD)
    }

    /// Those who had ended at the last look, and are to be told dead now.
    fn look(&mut self) -> Vec<Death> {
        self.last = Instant::now();
        let numbers = mem::take(&mut self.ended);
        let is_over = |watched: &mut Watched| numbers.contains(&watched.process.pid);
        let over = self.watched.extract_if(.., is_over);
        let over = over.map(|watched| watched.process);
        let dead: Vec<Process> = mem::take(&mut self.gone).into_iter().chain(over).collect();
        if let Some(ends) = self.ends.as_ref().filter(|_| !self.watched.is_empty()) {
            ends.look(|pid| self.ended.push(pid as u64));
            for ending in self.watched.iter().filter(|watched| watched.is_ending()) {
                self.ended.push(ending.process.pid);
                if renice_dead::is_crowded(self.watched.len() + 1) {
                    renice_dead::put_behind(ending.process.pid);
                }
            }
        }
        self.note_causes();
        dead.into_iter().map(|dead| self.death(dead)).collect()
    }

    /// Looks how those have ended of whose end this look has heard, before their parent is told.
    fn note_causes(&mut self) {
        let over = self.watched.iter().filter(|it| self.ended.contains(&it.process.pid));
        let causes = over.filter_map(|it| Some((Name(it.process.name), it.process.cause()?)));
        self.causes.extend(causes.filter(|(_, cause)| *cause != Cause::Unknown));
    }

    /// How a dead process of a universe has died; `None` while that may still be heard of.
    fn cause(&self, universe: UniverseId, dead: Rank) -> Option<Cause> {
        let known = self.universes.iter().find(|(id, _)| *id == universe);
        let process = known.and_then(|(_, all)| all.get(dead.index()));
        let Some(process) = process else { return Some(Cause::Unknown) };
        let told = self.causes.iter().filter(|(name, _)| name.0 == process.name);
        if let Some(cause) = told.map(|(_, cause)| *cause).max() {
            return Some(cause);
        }
        if let Some(cause) = causes::of_launcher(process.name) {
            return Some(cause);
        }
        let is_here = process.is_neighbour_of(&self.own);
        let seen = if is_here { process.cause() } else { Some(Cause::Unknown) };
        match seen {
            // Whoever is sure to tell has not done so yet.
            Some(Cause::Unknown) if causes::are_told() || observer::is_on() => None,
            seen => seen,
        }
    }

    /// Other nodes hear of a death from the first process of this node that lives.
    fn death(&self, dead: Process) -> Death {
        let ours = self.universes.iter().rev().find(|(_, all)| all.contains(&dead));
        let forward = ours.is_some_and(|(_, all)| {
            let lives = |process: &&Process| {
                **process == self.own || self.watched.iter().any(|w| w.process == **process)
            };
            let first = all.iter().filter(|process| process.node == self.own.node).find(lives);
            first == Some(&self.own) && all.iter().any(|process| process.node != self.own.node)
        });
        Death { name: Name(dead.name), forward }
    }

    fn names(&self, universe: UniverseId, dead: impl Iterator<Item = Rank>) -> Vec<Name> {
        let known = self.universes.iter().find(|(id, _)| *id == universe);
        let name = |rank: Rank| known?.1.get(rank.index()).map(|process| Name(process.name));
        dead.filter_map(name).filter(|name| name.0 != 0).collect()
    }
}

thread_local! {
    /// The watcher belongs to the thread that calls MPI, which alone may tell it anything.
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

/// Why this process watches no other, in a few words; `None` when it does, or when MPI is not
/// initialised yet and the rest would do.
pub(in crate::mpi) fn why_off(initialized: bool) -> Option<&'static str> {
    if !environment::has_watcher() {
        return Some("switched off by FAMPI_NODE_WATCHER");
    }
    if describe(process::id().into()).and(node()).is_none() {
        return Some("no information about processes in /proc");
    }
    let own = Ends::new().and_then(|ends| ends.add(process::id().cast_signed()).map(drop));
    if own.is_err() {
        return Some("this system does not give descriptors of processes (pidfd_open)");
    }
    (initialized && inject_failure::find().is_none())
        .then_some("this MPI cannot be told of a death")
}

/// Watches the processes of a new universe that are on our node.
pub(in crate::mpi) fn add(
    universe: UniverseId,
    processes: Vec<Process>,
    marks: Vec<Option<DeathMark>>,
) {
    WATCHER.with_borrow_mut(|watcher| {
        watcher.get_or_insert_with(start).add(universe, processes, marks);
    });
}

/// Watches the launch of a program that owns its MPI, of which no process has said anything yet,
/// and tells MPI who has ended already. Without it an `_exit` before the program's first call of
/// ours would keep that call waiting.
pub(in crate::mpi) fn add_launch() {
    let (Some(notice), Some(node)) = (inject_failure::find(), node()) else { return };
    if why_off(true).is_some() {
        return;
    }
    let Some(Launched { me, processes }) = Launched::find() else { return };
    let Some(names) = notice.me().of_ranks(me, processes.len()) else { return };
    let (mut known, mut ended) = (Vec::new(), Vec::new());
    for (process, Name(name)) in processes.into_iter().zip(names) {
        match process.and_then(|pid| Some((pid, describe(pid)?))) {
            Some((pid, started)) => known.push(Process { node, pid, started, name }),
            None => ended.push(Death { name: Name(name), forward: false }),
        }
    }
    add(LAUNCH, known, Vec::new());
    report(Some(ended));
}

/// Watches processes that were started, and no longer those of the time before that.
pub(in crate::mpi) fn add_newcomers(processes: Vec<Process>) {
    forget(NEWCOMERS);
    add(NEWCOMERS, processes, Vec::new());
}

fn start() -> Watcher {
    let why_off = why_off(true);
    if let Some(why) = why_off {
        tracing::debug!(why, "no node watcher: deaths are seen when MPI reports them");
    }
    let ends = if why_off.is_none() { Ends::new().ok() } else { None };
    if let (Some(_), Some(notice)) = (&ends, inject_failure::find()) {
        notice.call_back(on_progress);
    }
    Watcher::new(Process::own(inject_failure::own_name()), ends)
}

/// A universe was dropped.
pub(in crate::mpi) fn forget(universe: UniverseId) {
    with(|watcher| watcher.forget(universe));
}

/// From now on the end of other processes is no news, until [`reopen`].
pub(in crate::mpi) fn close() {
    with(|watcher| watcher.is_silent = true);
    observer::close();
}

/// All of ours is done, and MPI waits for the others in its own end: it is told who has ended.
pub(in crate::mpi) fn reopen() {
    with(|watcher| watcher.is_silent = false);
}

/// To be called where this process has waited for long. True when MPI was told of a death.
pub(in crate::mpi) fn look() -> bool {
    let saw = report(with(|watcher| if watcher.is_due() { watcher.look() } else { Vec::new() }));
    observer::look(note) || saw
}

/// To be called before something that a death must not meet with, after some progress was made.
/// True when MPI was told of a death.
pub(in crate::mpi) fn look_closely() -> bool {
    let now = with(|watcher| {
        if watcher.is_silent {
            return Vec::new();
        }
        let mut deaths = watcher.look();
        if !watcher.ended.is_empty() {
            deaths.extend(watcher.look());
        }
        deaths
    });
    let saw = report(now);
    observer::look(note) || saw
}

fn report(deaths: Option<Vec<Death>>) -> bool {
    let deaths = deaths.unwrap_or_default();
    let Some(notice) = inject_failure::find().filter(|_| !deaths.is_empty()) else { return false };
    for death in deaths {
        tracing::debug!(name = death.name.0, death.forward, "the watcher saw a death");
        note(death.name, "watcher", Cause::Unknown);
        super::note();
        notice.tell(death.name, death.forward);
    }
    true
}

/// MPI is about to be told of this death; the first one who does so is remembered, and how the
/// process has died, if that one knows.
fn note(name: Name, by: &'static str, cause: Cause) {
    with(|watcher| {
        watcher.told.push((name, by));
        if cause != Cause::Unknown {
            watcher.causes.push((name, cause));
        }
    });
}

/// How a process of a universe has died that is known to be dead; `None` while that may still be
/// heard of.
pub(in crate::mpi) fn cause(universe: UniverseId, dead: Rank) -> Option<Cause> {
    with(|watcher| watcher.cause(universe, dead)).unwrap_or(Some(Cause::Unknown))
}

/// Who told MPI of the death of a process, if one of us did.
pub(in crate::mpi) fn who_told(universe: UniverseId, process: Rank) -> Option<&'static str> {
    with(|watcher| {
        let name = watcher.names(universe, std::iter::once(process)).pop()?;
        watcher.told.iter().find(|(told, _)| *told == name).map(|(_, by)| *by)
    })?
}

/// These processes have been agreed dead: MPI knows it, too, before it is to go on without them.
pub(in crate::mpi) fn tell(universe: UniverseId, dead: impl Iterator<Item = Rank>) {
    let Some(notice) = inject_failure::find() else { return };
    let names = with(|watcher| watcher.names(universe, dead)).unwrap_or_default();
    for name in names {
        notice.tell(name, false);
    }
}

fn with<T>(action: impl FnOnce(&mut Watcher) -> T) -> Option<T> {
    WATCHER.with(|watcher| watcher.try_borrow_mut().ok()?.as_mut().map(action))
}

/// MPI makes progress inside one of our calls; in those that may last, a look is due now and then.
extern "C" fn on_progress() -> c_int {
    if !inside::in_a_lasting_call() {
        return 0;
    }
    let due = with(|watcher| {
        watcher.callbacks = watcher.callbacks.wrapping_add(1);
        watcher.callbacks.is_multiple_of(CALLBACKS)
    });
    // MPI gives up what a death is told with in the middle of its end.
    if due != Some(true) || library::finalized() != Ok(false) {
        return 0;
    }
    agreement::in_doubt().inspect(this_mpi::ask_again);
    c_int::from(look())
}

#[cfg(test)]
mod tests;
