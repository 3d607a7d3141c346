//! From and to communicators of rsmpi, for programs and libraries that use it.

use mpi::{
    ffi,
    raw::{AsRaw, FromRaw as _},
    topology::{Communicator, SimpleCommunicator},
};

use super::{MpiPlatform, calls::Refusal, comm::Comm, watchdog};
use crate::{api, error::Error};

impl MpiPlatform {
    /// Universe 0 becomes a duplicate of this communicator; MPI stays the caller's to finalise.
    ///
    /// # MPI
    ///
    /// Collective over `comm`, whose errors return from now on. Replacements can only be spawned
    /// for programs that use [`MpiPlatform::new`].
    pub fn adopt<C>(comm: &C) -> Result<Self, Error>
    where
        C: Communicator + AsRaw<Raw = ffi::MPI_Comm>,
    {
        watchdog::start();
        // SAFETY: rsmpi's communicators are live as long as they are borrowed; we keep duplicates.
        let borrowed = unsafe { Comm::from_raw(comm.as_raw()) }?;
        let mut platform = Self::over(borrowed, 0, false)?;
        platform.owns_mpi = false;
        Ok(platform)
    }
}

impl api::Comm {
    /// A communicator of rsmpi with the same ranks, for calls into other libraries. It is the
    /// caller's, who drops it before the world is finalized.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a rank died, or the communicator was replaced by a rebuild;
    /// [`Error::Unsupported`] in a simulated world.
    ///
    /// # MPI
    ///
    /// `MPI_Comm_dup`, which blocks: all ranks call it, in the same order among their creations.
    /// A death shows on the duplicate as errors that rsmpi does not report; use it where no
    /// failure is expected, or check with a block afterwards.
    pub fn to_rsmpi(&self) -> Result<SimpleCommunicator, Error> {
        let mut engine = self.engine().borrow_mut();
        let comm = engine.comm(self.key());
        let (data, context) = (comm.data.ok_or(Error::CreationFailed)?, comm.context);
        let platform = engine.platform.as_any().downcast_mut::<MpiPlatform>().ok_or_else(|| {
            Error::Unsupported("a simulated world has no communicators of MPI".into())
        })?;
        let comm = platform.context(data, context).ok_or(Error::CreationFailed)?;
        let made = comm.duplicate().map_err(|refusal: Refusal| {
            comm.revoke(platform.ulfm);
            if refusal.is_failure() { Error::CreationFailed } else { refusal.into() }
        })?;
        // SAFETY: live, of one group, not predefined; the new owner frees it.
        Ok(unsafe { SimpleCommunicator::from_raw(made.given_away().raw()) })
    }
}
