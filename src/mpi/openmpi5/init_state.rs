//! No call of the interface tells that a process is inside of `MPI_Init`.
//!
//! **Symptom** `MPI_Initialized` says *no* before `MPI_Init` and in it, so that a watchdog of a
//! program that owns its MPI cannot tell an `MPI_Init` that hangs from a program that has not come
//! to it. Open MPI has a variable for it (`ompi_mpi_state`), which is no part of the interface.
//!
//! **Versions** each Open MPI 5.
//!
//! **Upstream** not reported: no defect of Open MPI, but a gap of the standard.
//!
//! **Delete when** the interface tells it, or a program that owns its MPI starts it by a call of
//! this library.
//!
//! **Test** `a_death_while_a_replacement_starts_leaves_no_orphan_and_the_next_attempt_works`
//! (`ffi/tests/c`).

use std::{
    ffi::{CStr, c_int, c_void},
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

use super::is_loaded;
use crate::mpi::calls::{library, ulfm};

/// How far MPI is between its start and its end.
const STATE: &CStr = c"ompi_mpi_state";
/// What the state is before `MPI_Init`, and inside of it.
const NOT_INITIALIZED: c_int = 0;
const INITIALIZING: c_int = 1;

/// How far `MPI_Init` is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) enum Start {
    /// It was not called, or this MPI does not tell.
    NotYet,
    /// It was called, and has not returned.
    UnderWay,
    /// It has returned.
    Over,
}

/// How far `MPI_Init` is, where it can be known. Any thread may ask.
pub(in crate::mpi) fn init_state() -> Start {
    if library::initialized() == Ok(true) {
        return Start::Over;
    }
    let state = if is_loaded() { ulfm::symbol(STATE) } else { None };
    let state = state.map(<*mut c_void>::cast::<AtomicI32>).filter(|state| state.is_aligned());
    // SAFETY: in this major version the symbol is a variable of this type, which lives for ever.
    match state.map(|state| unsafe { &*state }.load(Relaxed)) {
        Some(INITIALIZING) => Start::UnderWay,
        Some(NOT_INITIALIZED) | None => Start::NotYet,
        Some(_) => Start::Over,
    }
}
