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
//! A rank that hangs outside of MPI, or is stopped, is seen by its observer ([`observer`]), to
//! which one that is inside a call that may last is at rest.
//!
//! `FAMPI_STUCK_SECONDS` sets the limit of an ordinary call, 0 switches the watchdog off.

use std::{
    sync::{
        Once, PoisonError, RwLock,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{environment, exit, observer, siblings::Siblings};
use crate::engine::pulse::Rest;

/// What kind of call is under way, in the lowest three bits of [`CALL`].
const OUTSIDE: u64 = 0;
const ORDINARY: u64 = 1;
const CREATION: u64 = 2;
const MEETING: u64 = 3;
const JOINING: u64 = 4;
const STARTING: u64 = 5;
const FINALIZE: u64 = 6;
const LAUNCHING: u64 = 7;
const KINDS: u64 = 7;

const TICK: Duration = Duration::from_millis(250);
/// After this time in `MPI_Finalize` the process leaves without it.
const FINALIZE_LIMIT: Duration = Duration::from_secs(3);
const STAGGER: Duration = Duration::from_secs(2);

/// Number of the call (all bits but three) and its kind. Written by the thread that calls MPI.
static CALL: AtomicU64 = AtomicU64::new(0);
/// Decides how long we wait beyond the limit.
static RANK: AtomicU32 = AtomicU32::new(0);
/// The process that spawned us, while we cannot do without it.
static PARENT: RwLock<Option<Parent>> = RwLock::new(None);

/// A process on our own node.
#[derive(Clone, Copy, Debug)]
struct Parent(libc::pid_t);

/// A call under way; ends with the scope.
#[derive(Debug)]
pub(super) struct Inside(());

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        CALL.store(CALL.load(Relaxed) & !KINDS, Relaxed);
    }
}

/// A call under way that may last: the observer expects no progress until it ends.
#[derive(Debug)]
pub(super) struct Lasting {
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
pub(super) fn ordinary() -> Inside {
    enter(ORDINARY)
}

/// Entry of `MPI_Comm_spawn`, which has the limit of an ordinary call.
pub(super) fn spawning() -> Lasting {
    last(ORDINARY)
}

/// Entry of a call that makes a communicator together with others.
pub(super) fn creation() -> Lasting {
    last(CREATION)
}

/// Entry of a call that everybody has agreed to make and that takes milliseconds, or for ever when
/// somebody dies in it: shrink, agree, the link of old and new processes. One more death, that of
/// a replacement if there is one, frees the others.
pub(super) fn meeting(is_replacement: bool) -> Lasting {
    last(if is_replacement { JOINING } else { MEETING })
}

/// Entry of `MPI_Init`. In a replacement its launch is given up before its root is. The launch of
/// a job may take its time, but when somebody dies in it the others would wait for ever.
pub(super) fn starting(is_replacement: bool) -> Lasting {
    last(if is_replacement { STARTING } else { LAUNCHING })
}

/// Entry of `MPI_Finalize`, after which nothing of the application is lost any more.
pub(super) fn finalize() -> Lasting {
    last(FINALIZE)
}

/// True inside a call that waits for other processes, which may be dead.
pub(super) fn in_a_lasting_call() -> bool {
    matches!(CALL.load(Relaxed) & KINDS, CREATION | MEETING | JOINING)
}

/// Tells the watchdog which rank we are.
pub(super) fn set_rank(rank: u32) {
    RANK.store(rank, Relaxed);
}

/// From now on, or no longer, the death of this process of our node is ours too.
pub(super) fn set_parent(parent: Option<libc::pid_t>) {
    *PARENT.write().unwrap_or_else(PoisonError::into_inner) = parent.map(Parent);
}

/// Starts the thread, once per process.
pub(super) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let limit = environment::stuck_limit();
        let thread = thread::Builder::new().name("fampi-watchdog".into()).stack_size(128 << 10);
        // Here, as MPI changes the environment while it starts, which C allows no other thread to
        // read meanwhile.
        let siblings = Siblings::new();
        if let Err(error) = thread.spawn(move || watch(limit, siblings)) {
            tracing::warn!(%error, "no watchdog: a call that MPI never ends will hang this rank");
        }
    });
}

fn watch(limit: Duration, mut siblings: Siblings) {
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
        stuck = if current == call { stuck + awake } else { Duration::ZERO };
        call = current;
        let limit = match call & KINDS {
            FINALIZE if stuck > FINALIZE_LIMIT => exit::leave_unfinished_finalize(),
            OUTSIDE | FINALIZE => continue,
            ORDINARY => limit,
            MEETING => limit * 2 / 5,
            JOINING => limit / 5,
            STARTING => limit * 3 / 5,
            LAUNCHING => {
                if let Some((dead, of)) = siblings.dead(awake) {
                    let here = "processes of this node died while MPI started: start the job again";
                    exit::give_up(&format!("{dead} of {of} {here}"));
                }
                limit * 60
            }
            _ => 2 * limit,
        };
        if !limit.is_zero() && stuck > limit + STAGGER * (RANK.load(Relaxed) % 8) {
            exit::die_by_signal("a call of MPI did not return; this rank counts as failed");
        }
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
