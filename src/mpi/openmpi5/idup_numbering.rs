//! After an `MPI_Comm_idup` that failed no communicator can be made any more.
//!
//! **Symptom** A duplicate that fails keeps the numbering of communicators locked for all
//! communicators with a higher number than its own, for ever, and does so some time after its
//! request is over: each later creation waits. The next number that is given to a communicator with
//! a low number, such as `MPI_COMM_SELF`, unlocks it. So that is done before each creation, and
//! `operations/contexts.rs` starts no duplicate while a member is dead.
//!
//! **Versions** seen in Open MPI 5.0.9; done with every MPI, where it costs two duplicates of a
//! communicator of one process.
//!
//! **Upstream** not reported.
//!
//! **Delete when** a failed `MPI_Comm_idup` gives the numbering free.
//!
//! **Test** none that fails each time: tests of deaths at random moments go through it, such as
//! `fifty_deaths_at_random_moments_are_replaced_by_new_processes`.

use crate::mpi::calls::comm::Comm;

/// Unlocks the numbering of communicators.
pub(in crate::mpi) fn unlock() {
    for _ in 0..2 {
        match Comm::alone().and_then(|alone| alone.duplicate()) {
            // SAFETY: made here, and not used.
            Ok(made) => unsafe { made.free() },
            Err(refusal) => tracing::debug!(?refusal, "numbering not unlocked"),
        }
    }
}
