//! From and to communicators of rsmpi, for programs and libraries that use it.

use mpi::{
    ffi,
    raw::{AsRaw, FromRaw as _},
    topology::{Communicator, SimpleCommunicator},
};

use super::{spawn, watchdog};
use crate::{
    error::Error,
    mpi::{
        calls::{comm::Comm, library::Refusal},
        deaths::observer,
        node::environment,
        operations::{contexts::lane_of, platform::MpiPlatform},
    },
    seam::platform::{DataId, Lane},
};

impl MpiPlatform {
    /// Universe 0 becomes a duplicate of this communicator; MPI stays the caller's to finalise.
    ///
    /// # MPI
    ///
    /// Collective over `comm`, whose errors return from now on; it is revoked when a process dies
    /// in here. Processes can only be spawned for programs that use [`MpiPlatform::new`].
    pub fn adopt<C>(comm: &C) -> Result<Self, Error>
    where
        C: Communicator + AsRaw<Raw = ffi::MPI_Comm>,
    {
        environment::check()?;
        observer::check_environment()?;
        watchdog::start();
        // SAFETY: rsmpi's communicators are live as long as they are borrowed; we keep duplicates.
        let borrowed = unsafe { Comm::from_raw(comm.as_raw()) }?;
        Self::over(borrowed, spawn::launched(&borrowed, false)?)
    }

    /// A duplicate of a context's communicator, which is the caller's.
    pub(crate) fn duplicate_for_others(
        &self,
        data: DataId,
        context: u32,
    ) -> Result<SimpleCommunicator, Error> {
        let comm = lane_of(&self.data, Lane { data, context }).ok_or(Error::CreationFailed)?;
        let made = comm.duplicate().map_err(|refusal: Refusal| {
            comm.revoke(self.ulfm);
            if refusal.is_failure() { Error::CreationFailed } else { refusal.into() }
        })?;
        // SAFETY: live, of one group, not predefined; the new owner frees it.
        Ok(unsafe { SimpleCommunicator::from_raw(made.given_away().raw()) })
    }
}
