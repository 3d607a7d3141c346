//! An agreement on `MPI_COMM_SELF` waits for all processes of the world.
//!
//! **Symptom** `MPIX_Comm_agree` on `MPI_COMM_SELF` is taken for one on `MPI_COMM_WORLD`, and
//! hangs. A communicator of one process needs no agreement.
//!
//! **Versions** seen in Open MPI 5.0.9.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `MPIX_Comm_agree` on `MPI_COMM_SELF` returns.
//!
//! **Test** `misuse_returns_the_code_of_the_table` (`ffi/tests/c`).

use crate::mpi::calls::comm::Comm;

/// True for a communicator on which ranks can agree, and have to.
pub(in crate::mpi) fn can_agree(comm: &Comm) -> bool {
    comm.size() != 1
}
