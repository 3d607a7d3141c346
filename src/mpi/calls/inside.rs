//! The call of MPI that is under way, as the watchdog and the watcher see it.
//!
//! Each call that progresses or blocks says so in one atomic word, by a guard that ends with its
//! scope; any thread may read the word. What follows from it, when the call does not return, is
//! decided by the watchdog.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{mpi::node::pulse, seam::pulse::Rest};

/// What kind of call is under way, in the lowest four bits of [`CALL`].
pub(in crate::mpi) const OUTSIDE: u64 = 0;
pub(in crate::mpi) const ORDINARY: u64 = 1;
pub(in crate::mpi) const CREATION: u64 = 2;
pub(in crate::mpi) const MEETING: u64 = 3;
pub(in crate::mpi) const JOINING: u64 = 4;
pub(in crate::mpi) const STARTING: u64 = 5;
pub(in crate::mpi) const FINALIZE: u64 = 6;
/// A program that owns its MPI has not initialised it yet.
pub(in crate::mpi) const BEFORE: u64 = 7;
/// Such a program is in its `MPI_Finalize`.
pub(in crate::mpi) const ENDING: u64 = 8;
pub(in crate::mpi) const KINDS: u64 = 15;

/// Number of the call (all bits but four) and its kind. Written by the thread that calls MPI.
static CALL: AtomicU64 = AtomicU64::new(0);
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
    Lasting { _rest: pulse::rest(), _inside: enter(kind) }
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

/// Entry of a call that all ranks have agreed to make and that takes milliseconds, or for ever when
/// a process dies in it: shrink, agree, the link of old and new processes. One more death, that of
/// a replacement if there is one, frees the others.
pub(in crate::mpi) fn meeting(is_replacement: bool) -> Lasting {
    last(if is_replacement { JOINING } else { MEETING })
}

/// Entry of `MPI_Init`. In a replacement its launch is given up before its root is. The launch of
/// a job may take its time, but when a process dies in it the others would wait for ever.
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

/// Calls MPI from within the call that is under way, which stays so.
#[cfg_attr(mpich, allow(dead_code, reason = "for what Open MPI's room mends"))]
pub(in crate::mpi) fn nested<T>(call: impl FnOnce() -> T) -> T {
    let outer = CALL.load(Relaxed);
    let made = call();
    CALL.store(outer, Relaxed);
    made
}

/// True inside a call that waits for other processes, which may be dead, and in what the program
/// calls itself.
pub(in crate::mpi) fn in_a_lasting_call() -> bool {
    CALL.load(Relaxed) & KINDS != ORDINARY
}

/// A program that owns its MPI has been loaded, and has not initialised it yet.
pub(in crate::mpi) fn before() {
    CALL.store(BEFORE, Relaxed);
}

/// That program's start of MPI is over, unless a call of ours has begun since `call` was read.
pub(in crate::mpi) fn end_before(call: u64) {
    let _ = CALL.compare_exchange(call, call & !KINDS, Relaxed, Relaxed);
}

/// The call that is under way, or the last one: its number and its kind.
pub(in crate::mpi) fn current() -> u64 {
    CALL.load(Relaxed)
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
        let outer = CALL.load(Relaxed);
        nested(|| drop(ordinary()));
        assert_eq!(CALL.load(Relaxed), outer);
    }
}
