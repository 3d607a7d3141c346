//! Calls of MPI that wait for other processes, which may die meanwhile.
//!
//! One MPI ends such a call with an error, another one never: then its room says how the call is
//! made ([`provide`]), which is nothing that the calls themselves know.

use std::{cell::Cell, rc::Rc, sync::OnceLock};

use mpi::ffi;

/// Whose death ends a call.
#[derive(Clone, Debug)]
#[cfg_attr(not(mpich), allow(dead_code, reason = "MPI itself ends such a call there"))]
pub(in crate::mpi) enum Partners {
    /// That of a process of this communicator.
    Of(ffi::MPI_Comm),
    /// The death of a process in this list, which has the names of MPI's list of the dead. An empty
    /// list stands for all processes: then each death counts that is heard of during the call.
    Named(Vec<u64>),
    /// That of a process which this call starts.
    New,
}

/// Makes a call; false when it was left in the middle, for ever.
type Run = fn(Partners, Box<dyn FnOnce()>) -> bool;

static RUN: OnceLock<Run> = OnceLock::new();

/// Calls are made by this, before the first one.
#[cfg(mpich)]
pub(in crate::mpi) fn provide(run: Run) {
    RUN.get_or_init(|| run);
}

/// Makes a call of MPI; `None` when one of those who take part has died and MPI would wait for it.
pub(in crate::mpi) fn unless_dead<T: 'static>(
    partners: Partners,
    call: impl FnOnce() -> T + 'static,
) -> Option<T> {
    let Some(run) = RUN.get() else { return Some(call()) };
    result_of(call, |call| run(partners, call))
}

/// What a call gives, if it is not left in the middle by what makes it.
pub(in crate::mpi) fn result_of<T: 'static>(
    call: impl FnOnce() -> T + 'static,
    run: impl FnOnce(Box<dyn FnOnce()>) -> bool,
) -> Option<T> {
    let result = Rc::new(Cell::new(None));
    let there = Rc::clone(&result);
    let is_over = run(Box::new(move || there.set(Some(call()))));
    result.take().filter(|_| is_over)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_left_gives_nothing() {
        let made = |does: bool, is_over: bool| {
            result_of(
                || 7,
                |call| {
                    if does {
                        call();
                    }
                    is_over
                },
            )
        };
        assert_eq!(made(true, true), Some(7));
        assert_eq!(made(false, false), None);
        assert_eq!(unless_dead(Partners::New, || 7), Some(7), "nothing was provided");
    }
}
