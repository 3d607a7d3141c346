//! An agreement never ends at a process whose parent decided before it knew of a death.
//!
//! **Symptom** `MPIX_Comm_agree`, `_iagree` or `_shrink` does not return at one process, and the
//! others wait for it in their next one. Contributions go up a tree of processes, and the answer
//! comes down again. When a process dies after it has passed on what its children contributed, they
//! contribute once more, to its parent. A parent that has not begun the agreement yet notes that,
//! and later sends the answer to the children that it knows of: to the dead process, if it has not
//! heard of the death. It would answer its grandchildren, too, but they do not ask a second time.
//! Here a process that still waits some time after a death asks its parent again. It does so by
//! telling the code of the agreements, and nothing else in MPI, that each peer has failed: that
//! code then sends the contribution of this process again, to its parent, which lives.
//!
//! **Versions** each Open MPI 5: the code of 5.0.9 was read (`msg_up` and `era_decide` in
//! `coll_ftagree_earlyreturning.c`), and the states of three jobs that hung.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `era_decide` answers all who have sent their part, children or not.
//!
//! **Test** `an_agreement_ends_where_the_answer_went_to_a_dead_process` (`ffi/tests/c`).
//!
//! **Guarantees.** An agreement in which this process waits for its children ends with the error
//! that a member has failed, as it would by the death that the doubt comes from.

use std::ffi::c_int;

use mpi::ffi;

use super::is_loaded;
use crate::mpi::calls::{comm::Comm, ulfm};

type OnFailure = unsafe extern "C" fn(ffi::MPI_Comm, c_int, bool);

/// Sends this process's part in agreements over `comm` again, where the answer is still to come.
pub(in crate::mpi) fn ask_again(comm: &Comm) {
    let on_failure = is_loaded().then(|| ulfm::symbol(c"ompi_rank_failure_cbfunc"));
    let Some(on_failure) = on_failure.flatten() else { return };
    // SAFETY: the variable of this name is a pointer to a function, or null.
    let on_failure = unsafe { on_failure.cast::<Option<OnFailure>>().read() };
    let Some(on_failure) = on_failure else { return };
    tracing::debug!(comm = ?comm.raw(), "asks again what was agreed");
    for rank in (0..comm.size()).filter(|rank| *rank != comm.rank().number()) {
        // SAFETY: its type in this major version; the communicator is live and has this rank.
        unsafe { on_failure(comm.raw(), rank.cast_signed(), false) };
    }
}
