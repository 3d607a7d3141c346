//! A death during `MPI_Comm_idup` ends the survivors, as the null communicator is freed.
//!
//! **Symptom** A process dies while an `MPI_Comm_idup` is under way, and all survivors end by
//! SIGABRT in `free`. The last step of the duplicate then has no number for the new communicator:
//! it puts `MPI_COMM_NULL` in its place and gives back its own reference to it, the only one that
//! this variable of the library has (`ompi_comm_idup_with_info_activate` after
//! `ompi_comm_activate_nb`). With enough references the duplicate just fails, as it should.
//!
//! **Versions** seen in Open MPI 5.0.9; the mend is for each 5, and looks first whether the null
//! communicator begins as an object of a library without debugging does: with a class, whose first
//! word is the text of its name, and a small count.
//!
//! **Upstream** not reported.
//!
//! **Delete when** a failed duplicate leaves the references of `MPI_COMM_NULL` as they were.
//!
//! **Test** `deaths_that_mpi_never_reports_are_survived_at_random_moments`, now and then, under
//! load.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
    sync::{
        Once,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
};

use super::is_loaded;
use crate::mpi::calls::ulfm;

const CLASS: &CStr = c"ompi_communicator_t";
/// More failed duplicates than a job has.
const REFERENCES: c_int = 1 << 24;
/// A count that is greater is none.
const FEW: c_int = 1 << 10;

/// How each object of Open MPI begins.
#[repr(C)]
struct Object {
    class: *const *const c_char,
    references: AtomicI32,
}

/// Makes failed duplicates harmless. Works when MPI is initialised.
pub(super) fn protect() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if is_loaded() {
            let kept = ulfm::symbol(c"ompi_mpi_comm_null").is_some_and(keep);
            tracing::debug!(kept, "references to the null communicator");
        }
    });
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
