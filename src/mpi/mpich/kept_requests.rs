//! MPICH keeps no request that is over for the copies of its handle.
//!
//! **Symptom** A program gives a request of its own to a block and keeps copies of the handle. Its
//! end would make the handle that of another operation, and here no function in the request could
//! be replaced, as Open MPI's room does. So programs that own their MPI are told that they cannot.
//!
//! **Versions** each MPICH: a handle is a number there.
//!
//! **Upstream** not reported: no defect of MPICH, but a gap of the standard.
//!
//! **Delete when** MPI has a call that completes a request without freeing it, error included.
//!
//! **Test** none: nothing is done.

use std::ffi::c_int;

use mpi::ffi::{MPI_Request, MPI_Status};

pub(in crate::mpi) use crate::mpi::calls::kept::Free;
use crate::{
    error::Error,
    mpi::calls::{
        library::Checked,
        request::{Done, Request},
    },
};

/// How far a kept request is.
#[allow(dead_code, reason = "none is kept")]
pub(in crate::mpi) enum Seen {
    Pending,
    /// A receive from any source, of which one has died.
    Wildcard,
    /// It is over, with this status and error class.
    Over(Done, i32),
}

/// How requests are kept: there is no way.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) enum Keeping {}

/// # Safety
///
/// Of all: a way to keep requests, which there is not.
impl Keeping {
    /// Frees nothing.
    pub(in crate::mpi) const NO_FREE: Free = nothing;

    /// # Errors
    ///
    /// [`Error::Unsupported`], always.
    pub(in crate::mpi) fn find() -> Result<&'static Self, Error> {
        let why = "on MPICH, programs that own their MPI and its requests cannot use blocks yet: \
                   start with `fampi::init`, or use Open MPI";
        Err(Error::Unsupported(why.to_owned()))
    }

    pub(in crate::mpi) fn frees_messages(self, _: Free) -> bool {
        match self {}
    }

    pub(in crate::mpi) unsafe fn free_of(self, _: MPI_Request) -> Free {
        match self {}
    }

    pub(in crate::mpi) unsafe fn keep_shared(self, _: MPI_Request) -> Free {
        match self {}
    }

    pub(in crate::mpi) unsafe fn was_freed(self, _: MPI_Request) -> bool {
        match self {}
    }

    pub(in crate::mpi) fn is_of_kept(self, _: Free, _: Free) -> bool {
        match self {}
    }

    pub(in crate::mpi) unsafe fn keep(self, _: MPI_Request, _: Free) -> Free {
        match self {}
    }

    pub(in crate::mpi) unsafe fn give_back(self, _: MPI_Request, _: Free) {
        match self {}
    }

    pub(in crate::mpi) unsafe fn is_whole(self, _: MPI_Request, _: Free) -> bool {
        match self {}
    }

    pub(in crate::mpi) unsafe fn status(self, _: MPI_Request) -> MPI_Status {
        match self {}
    }

    pub(in crate::mpi) unsafe fn look(self, _: &Request) -> Checked<Seen> {
        match self {}
    }

    pub(in crate::mpi) unsafe fn set_tag(self, _: MPI_Request, _: c_int) {
        match self {}
    }

    pub(in crate::mpi) unsafe fn is_persistent(self, _: MPI_Request) -> bool {
        match self {}
    }

    pub(in crate::mpi) unsafe fn is_active(self, _: MPI_Request) -> bool {
        match self {}
    }
}

unsafe extern "C" fn nothing(_: *mut MPI_Request) -> c_int {
    0
}
