//! A call over a list of requests frees those that MPI still works for, after a death.
//!
//! **Symptom** When a call over a list returns an error, Open MPI frees *all* requests of the list
//! that are marked as failed. `MPI_Testsome` and `MPI_Testany` return one for some while others are
//! marked, say by a revocation, and MPI still fetches into their buffers. A receive from any source
//! makes every call over its list return class 76 without being over. Collectives consist of
//! requests of their own, and those of files are generalized ones. So `MPI_Testall` alone is used,
//! over messages with one named peer.
//!
//! **Versions** seen in Open MPI 5.0.9.
//!
//! **Upstream** not reported.
//!
//! **Delete when** calls over a list leave requests alone that are not over.
//!
//! **Test** `of_hundreds_of_messages_none_is_lost_or_blamed_but_those_of_the_dead`.

/// True for a message that may be in a list with others.
#[inline]
pub(in crate::mpi) fn may_be_listed(has_named_peer: bool, is_cancelled: bool) -> bool {
    has_named_peer && !is_cancelled
}
