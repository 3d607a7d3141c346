//! Keeps Open MPI 5 from ending this process, or from holding it up, after a failure.
//!
//! *A duplicate that fails.* When a process dies while an `MPI_Comm_idup` is under way, Open MPI
//! 5.0.9 can come to its last step without a number for the new communicator. That step puts
//! `MPI_COMM_NULL` in its place, then gives back its own reference to it. The null communicator, a
//! variable of the library, has one reference; without it, it is handed to `free`, which aborts the
//! process, and all survivors with it (`ompi_comm_idup_with_info_activate` after
//! `ompi_comm_activate_nb`). With enough references nothing happens but what should: the duplicate
//! has failed.
//!
//! *The end.* A process that knows two or more communicators with processes of several launches,
//! links and what was merged from them, says good-bye to the peers of all in `MPI_Finalize`
//! (`ompi_dpm_dyn_finalize`): some are dead, or have left without a word, and are waited for. Those
//! that were freed while a request was pending are not counted, but found, and written behind the
//! list that was made for the counted ones, which ends the process in `free` or later. With a count
//! of none nothing of this happens.
//!
//! *The start.* Nothing of the interface tells a process that is inside `MPI_Init` from one that
//! has not called it yet; Open MPI has a variable for it.
//!
//! **Assumes** what is looked at first: that the null communicator begins as an object of Open MPI
//! without debugging does, with a class, whose first word is the text of its name, and a count; and
//! that the count of communicators is a small number.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
    sync::{
        Once,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
};

use crate::mpi::{
    calls::{library, ulfm},
    facts,
};

/// The major version of Open MPI whose source was read.
const MAJOR: u32 = 5;
const CLASS: &CStr = c"ompi_communicator_t";
/// How many communicators have processes of several launches.
const ACROSS_LAUNCHES: &CStr = c"ompi_comm_num_dyncomm";
/// More failed duplicates than a job has.
const REFERENCES: c_int = 1 << 24;
/// How far MPI is between its start and its end.
const STATE: &CStr = c"ompi_mpi_state";
/// What the state is before `MPI_Init`, and inside of it.
const NOT_INITIALIZED: c_int = 0;
const INITIALIZING: c_int = 1;
/// A count that is greater is none.
const FEW: c_int = 1 << 10;

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

/// How each object of Open MPI begins.
#[repr(C)]
struct Object {
    class: *const *const c_char,
    references: AtomicI32,
}

/// Makes failed duplicates harmless. Works when MPI is initialised.
pub(in crate::mpi) fn keep_null_communicator() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if is_known() {
            let kept = ulfm::symbol(c"ompi_mpi_comm_null").is_some_and(keep);
            tracing::debug!(kept, "references to the null communicator");
        }
    });
}

/// Has `MPI_Finalize`, the next call of MPI, say good-bye to nobody.
pub(in crate::mpi) fn leave_without_farewell() {
    if !is_known() {
        return;
    }
    let count = ulfm::symbol(ACROSS_LAUNCHES).map(<*mut c_void>::cast::<AtomicI32>);
    let Some(count) = count.filter(|count| count.is_aligned()) else { return };
    // SAFETY: in this major version the symbol is a variable of this type, which lives for ever.
    let count = unsafe { &*count };
    let known = count.load(Relaxed);
    if (0..FEW).contains(&known) {
        count.store(0, Relaxed);
    }
    tracing::debug!(known, "communicators across launches are left as they are");
}

/// How far `MPI_Init` is, where it can be known. Any thread may ask.
pub(in crate::mpi) fn start() -> Start {
    if library::initialized() == Ok(true) {
        return Start::Over;
    }
    let state = if is_known() { ulfm::symbol(STATE) } else { None };
    let state = state.map(<*mut c_void>::cast::<AtomicI32>).filter(|state| state.is_aligned());
    // SAFETY: in this major version the symbol is a variable of this type, which lives for ever.
    match state.map(|state| unsafe { &*state }.load(Relaxed)) {
        Some(INITIALIZING) => Start::UnderWay,
        Some(NOT_INITIALIZED) | None => Start::NotYet,
        Some(_) => Start::Over,
    }
}

/// True for the Open MPI whose source was read.
fn is_known() -> bool {
    let version = library::library_version().ok().and_then(|it| facts::open_mpi_version(&it));
    version.is_some_and(|(major, ..)| major == MAJOR)
}

fn keep(null: *mut c_void) -> bool {
    if !null.cast::<Object>().is_aligned() {
        return false;
    }
    // SAFETY: in this major version the symbol is a variable, much longer than these two words.
    let object = unsafe { &*null.cast::<Object>() };
    if !object.class.is_aligned() || object.class.is_null() {
        return false;
    }
    // SAFETY: the first word of every object is its class, or a mark that is no address of a text.
    let name = unsafe { ptr::read(object.class) };
    if name.is_null() {
        return false;
    }
    // SAFETY: the first word of a class is the text of its name.
    let named = unsafe { CStr::from_ptr(name) } == CLASS;
    let plausible = named && (1..FEW).contains(&object.references.load(Relaxed));
    if plausible {
        object.references.fetch_add(REFERENCES, Relaxed);
    }
    plausible
}
