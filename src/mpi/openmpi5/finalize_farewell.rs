//! `MPI_Finalize` waits for the dead, or crashes, where processes of several launches met.
//!
//! **Symptom** A process that knows two or more communicators with processes of several launches
//! (links, and what was merged from them) says good-bye to the peers of all in `MPI_Finalize`
//! (`ompi_dpm_dyn_finalize`). Some are dead, or have left without a word, and are waited for.
//! Communicators that were freed while a request was pending are not counted, but found, and
//! written behind the list that was made for the counted ones, which ends the process in `free` or
//! later. With a count of none nothing of this happens.
//!
//! **Versions** seen in Open MPI 5.0.9; the mend is for each 5, if the count is a small number.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `MPI_Finalize` returns after a death among processes of several launches.
//!
//! **Test** `algorithm_2_gets_the_same_digits_whoever_dies` and
//! `protected_states_come_back_with_the_same_digits` (`ffi/tests/c`).

use std::{
    ffi::{CStr, c_int, c_void},
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

use super::is_loaded;
use crate::mpi::calls::ulfm;

/// How many communicators have processes of several launches.
const ACROSS_LAUNCHES: &CStr = c"ompi_comm_num_dyncomm";
/// A count that is greater is none.
const FEW: c_int = 1 << 10;

/// Has `MPI_Finalize`, the next call of MPI, say good-bye to no process.
pub(super) fn skip() {
    if !is_loaded() {
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
