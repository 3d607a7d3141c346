//! What MPI itself says, and is told, of a program's communicators in the interface of ULFM.

use mpi::ffi;

use super::platform::MpiPlatform;
use crate::{fault::FaultCode, mpi::calls::comm::Borrowed, rank::Rank};

impl MpiPlatform {
    /// Revokes a communicator of the program: what is pending on it ends, everywhere.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator.
    pub unsafe fn revoke_users(&self, raw: ffi::MPI_Comm) {
        // SAFETY: live, says our caller.
        if let Ok(comm) = unsafe { Borrowed::of(raw) } {
            comm.revoke(self.ulfm);
        }
    }

    /// True when MPI has heard that a communicator of the program is revoked.
    ///
    /// # Safety
    ///
    /// As [`Self::revoke_users`].
    pub unsafe fn has_revoked(&self, raw: ffi::MPI_Comm) -> bool {
        // SAFETY: live, says our caller.
        let comm = unsafe { Borrowed::of(raw) };
        comm.is_ok_and(|comm| comm.disturbance(self.ulfm) == Some(FaultCode::Interrupted))
    }

    /// The dead of whom MPI has heard.
    ///
    /// # Safety
    ///
    /// As [`Self::revoke_users`].
    pub unsafe fn failed_by_mpi(&self, raw: ffi::MPI_Comm) -> Vec<Rank> {
        let mut dead = Vec::new();
        // SAFETY: live, says our caller.
        if let Ok(comm) = unsafe { Borrowed::of(raw) }
            && let Err(refusal) = comm.failed(self.ulfm, 0, |rank| dead.push(rank))
        {
            tracing::debug!(?refusal, "MPI does not say who is dead");
        }
        dead
    }

    /// Receives from any source work again on a communicator of the program.
    ///
    /// # Safety
    ///
    /// As [`Self::revoke_users`].
    pub unsafe fn acknowledge_users(&self, raw: ffi::MPI_Comm) {
        // SAFETY: live, says our caller.
        if let Ok(comm) = unsafe { Borrowed::of(raw) } {
            comm.acknowledge_failures(self.ulfm);
        }
    }
}
