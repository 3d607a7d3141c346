//! Turns a rank that MPI holds for ever into a dead rank, which the others survive.
//!
//! Open MPI's shared-memory transport spins without end when a peer was killed between two
//! stores to a queue, and communicator creation can wait for a message that nobody sends. None
//! of our calls may last: each call that progresses or blocks says so in one atomic word, and a
//! small thread, which calls no MPI, looks at the word four times a second. When it finds one
//! and the same call under way for longer than the limit it ends the process by SIGKILL.
//!
//! **Guarantees.** Time in which the whole process was stopped (SIGSTOP, a debugger) or the
//! machine did not run us does not count. Limits are staggered by rank, since one death is
//! often enough to free the others.
//!
//! A program that owns its MPI starts and ends it outside of our calls. Its start is watched from
//! the moment at which the library is loaded ([`before_mpi`]), its end when MPI says that it begins
//! ([`ending`]): MPI itself tells when they are over, by calls that any thread may make.
//!
//! A rank that hangs outside of MPI, or is stopped, is seen by its observer ([`observer`]), to
//! which one that is inside a call that may last is at rest.
//!
//! `FAMPI_STUCK_SECONDS` sets the limit of an ordinary call, 0 switches the watchdog off.

use std::{
    sync::{
        Once, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{exit, spawn};
use crate::{
    engine::pulse::Rest,
    mpi::{
        calls::library,
        deaths::observer,
        node::environment,
        openmpi5::{
            launch_census::{self, Siblings},
            mend::{self, Start},
        },
    },
};

/// What kind of call is under way, in the lowest four bits of [`CALL`].
const OUTSIDE: u64 = 0;
const ORDINARY: u64 = 1;
const CREATION: u64 = 2;
const MEETING: u64 = 3;
const JOINING: u64 = 4;
const STARTING: u64 = 5;
const FINALIZE: u64 = 6;
/// A program that owns its MPI has not initialised it yet.
const BEFORE: u64 = 7;
/// Such a program is in its `MPI_Finalize`.
const ENDING: u64 = 8;
const KINDS: u64 = 15;

const TICK: Duration = Duration::from_millis(250);
/// After this time in `MPI_Finalize` the process leaves without it.
const FINALIZE_LIMIT: Duration = Duration::from_secs(3);
const STAGGER: Duration = Duration::from_secs(2);

/// Number of the call (all bits but four) and its kind. Written by the thread that calls MPI.
static CALL: AtomicU64 = AtomicU64::new(0);
/// Decides how long we wait beyond the limit.
static RANK: AtomicU32 = AtomicU32::new(0);
/// Some process of the job is known to have died.
static DEATHS: AtomicBool = AtomicBool::new(false);
/// The process that spawned us, while we cannot do without it.
static PARENT: RwLock<Option<Parent>> = RwLock::new(None);

/// A process on our own node.
#[derive(Clone, Copy, Debug)]
struct Parent(libc::pid_t);

/// A call under way; ends with the scope.
#[derive(Debug)]
pub(in crate::mpi) struct Inside(());

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        CALL.store(CALL.load(Relaxed) & !KINDS, Relaxed);
    }
}

/// A call under way that may last: the observer expects no progress until it ends.
#[derive(Debug)]
pub(in crate::mpi) struct Lasting {
    _rest: Rest,
    _inside: Inside,
}

fn last(kind: u64) -> Lasting {
    Lasting { _rest: observer::rest(), _inside: enter(kind) }
}

#[inline]
fn enter(kind: u64) -> Inside {
    CALL.store(((CALL.load(Relaxed) | KINDS) + 1) | kind, Relaxed);
    Inside(())
}

/// Entry of a call that progresses.
#[inline]
pub(in crate::mpi) fn ordinary() -> Inside {
    enter(ORDINARY)
}

/// Entry of `MPI_Comm_spawn`, which has the limit of an ordinary call.
pub(in crate::mpi) fn spawning() -> Lasting {
    last(ORDINARY)
}

/// Entry of a call that makes a communicator together with others.
pub(in crate::mpi) fn creation() -> Lasting {
    last(CREATION)
}

/// Entry of a call that everybody has agreed to make and that takes milliseconds, or for ever when
/// somebody dies in it: shrink, agree, the link of old and new processes. One more death, that of
/// a replacement if there is one, frees the others.
pub(in crate::mpi) fn meeting(is_replacement: bool) -> Lasting {
    last(if is_replacement { JOINING } else { MEETING })
}

/// Entry of `MPI_Init`. In a replacement its launch is given up before its root is. The launch of
/// a job may take its time, but when somebody dies in it the others would wait for ever.
pub(in crate::mpi) fn starting() -> Inside {
    enter(STARTING)
}

/// Entry of `MPI_Finalize`, after which nothing of the application is lost any more.
pub(in crate::mpi) fn finalize() -> Lasting {
    last(FINALIZE)
}

/// The rest of this process is the `MPI_Finalize` of a program that owns its MPI.
pub(in crate::mpi) fn ending() {
    std::mem::forget(enter(ENDING));
}

/// True inside a call that waits for other processes, which may be dead, and in what the program
/// calls itself.
pub(in crate::mpi) fn in_a_lasting_call() -> bool {
    CALL.load(Relaxed) & KINDS != ORDINARY
}

/// A process of the job has died.
pub(in crate::mpi) fn note_death() {
    DEATHS.store(true, Relaxed);
}

/// Watches the start of MPI by a program that owns it; to be called when the program is loaded. A
/// process that no launcher of Open MPI has started is left alone.
pub fn before_mpi() {
    if launch_census::expected().is_some() {
        CALL.store(BEFORE, Relaxed);
        set_parent(exit::parent_on_this_node());
        start();
    }
}

/// Tells the watchdog which rank we are.
pub(in crate::mpi) fn set_rank(rank: u32) {
    RANK.store(rank, Relaxed);
}

/// From now on, or no longer, the death of this process of our node is ours too.
pub(in crate::mpi) fn set_parent(parent: Option<libc::pid_t>) {
    *PARENT.write().unwrap_or_else(PoisonError::into_inner) = parent.map(Parent);
}

/// Starts the thread, once per process.
pub(in crate::mpi) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let limit = environment::stuck_limit();
        let thread = thread::Builder::new().name("fampi-watchdog".into()).stack_size(128 << 10);
        // Here, as MPI changes the environment while it starts, which C allows no other thread to
        // read meanwhile.
        let launch = Launch { siblings: Siblings::new(), by: spawn::starter() };
        if let Err(error) = thread.spawn(move || watch(limit, launch)) {
            tracing::warn!(%error, "no watchdog: a call that MPI never ends will hang this rank");
        }
    });
}

/// Who started this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) enum Starter {
    /// The launcher, with the job.
    Launcher,
    /// A rank, by [`spawn`].
    Fampi,
    /// A rank, by `MPI_Comm_spawn` of its own.
    Program,
}

/// How this process was started, and with whom.
#[derive(Debug)]
struct Launch {
    siblings: Siblings,
    by: Starter,
}

impl Launch {
    /// How long `MPI_Init` may last. Ends the process when it will never be over.
    fn limit(&mut self, limit: Duration, awake: Duration) -> Duration {
        match self.by {
            Starter::Fampi => limit * 3 / 5,
            Starter::Program => limit * 2,
            Starter::Launcher => {
                if let Some((dead, of)) = self.siblings.dead(awake) {
                    let here = "processes of this node died while MPI started: start the job again";
                    exit::give_up(&format!("{dead} of {of} {here}"));
                }
                limit * 60
            }
        }
    }
}

fn watch(limit: Duration, mut launch: Launch) {
    exit::block_signals_of_this_thread();
    let (mut call, mut stuck, mut last) = (0, Duration::ZERO, Instant::now());
    loop {
        thread::sleep(TICK);
        let now = Instant::now();
        let awake = now.duration_since(last).min(2 * TICK);
        last = now;
        if parent_died() {
            exit::die_by_signal("the process that spawned this one died before it joined");
        }
        let current = CALL.load(Relaxed);
        let counts = current == call && !is_at_leisure(current);
        stuck = if counts { stuck + awake } else { Duration::ZERO };
        call = current;
        let limit = match call & KINDS {
            FINALIZE if stuck > FINALIZE_LIMIT => exit::leave_unfinished_finalize(),
            ENDING if !limit.is_zero() && stuck > 2 * limit => {
                exit::say("MPI_Finalize does not return after a death; this process leaves");
                exit::leave_unfinished_finalize()
            }
            OUTSIDE | FINALIZE | ENDING => continue,
            ORDINARY => limit,
            MEETING => limit * 2 / 5,
            JOINING => limit / 5,
            STARTING | BEFORE => launch.limit(limit, awake),
            _ => 2 * limit,
        };
        if !limit.is_zero() && stuck > limit + STAGGER * (RANK.load(Relaxed) % 8) {
            exit::die_by_signal("a call of MPI did not return; this rank counts as failed");
        }
    }
}

/// True while nothing that this process waits for is late: a program that owns its MPI has not
/// begun to start it, or has started it, or waits in its end for ranks that all live.
fn is_at_leisure(call: u64) -> bool {
    match call & KINDS {
        BEFORE => match mend::start() {
            Start::UnderWay => false,
            Start::NotYet => true,
            Start::Over => {
                // Unless a call of ours has begun since.
                let _ = CALL.compare_exchange(call, call & !KINDS, Relaxed, Relaxed);
                true
            }
        },
        ENDING => !DEATHS.load(Relaxed) || library::finalized() == Ok(true),
        _ => false,
    }
}

fn parent_died() -> bool {
    let parent = *PARENT.read().unwrap_or_else(PoisonError::into_inner);
    parent.is_some_and(|Parent(pid)| !exit::process_exists(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successive_calls_are_told_apart_and_the_end_of_one_is_seen() {
        let first = {
            let _inside = ordinary();
            CALL.load(Relaxed)
        };
        assert_eq!(CALL.load(Relaxed) & KINDS, OUTSIDE);
        let _inside = creation();
        assert_eq!(CALL.load(Relaxed) & KINDS, CREATION);
        assert_ne!(CALL.load(Relaxed) & !KINDS, first & !KINDS);
    }
}
