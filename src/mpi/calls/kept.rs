//! Requests that stay when they are complete, and a request to try that with.

use std::ffi::c_int;

use mpi::ffi;

use super::{
    comm::Comm,
    inside,
    library::{Checked, check},
    request::{Done, Request, Types, empty_status},
};

/// Gives a request back; the caller's handle becomes null.
pub(in crate::mpi) type Free = unsafe extern "C" fn(*mut ffi::MPI_Request) -> c_int;

impl Request {
    /// `MPI_Request_get_status`: without the error.
    #[inline]
    pub(in crate::mpi) fn status(&self) -> Checked<Option<Done>> {
        let _inside = inside::ordinary();
        let (mut flag, mut status) = (0, empty_status());
        check("MPI_Request_get_status", {
            // SAFETY: a live request, as our callers know; the results are ours.
            unsafe { ffi::MPI_Request_get_status(self.raw(), &raw mut flag, &raw mut status) }
        })?;
        Ok((flag != 0).then_some(Done::new(status)))
    }

    /// Frees a request that is not kept any more, as `MPI_Request_free` would: by the function that
    /// is in it. What is active goes on.
    ///
    /// # Safety
    ///
    /// The request is live, this is its function, and no copy of the handle is used afterwards.
    #[inline]
    pub(in crate::mpi) unsafe fn free_by(&self, free: Free) {
        if !self.is_over() {
            let mut raw = self.raw();
            // SAFETY: live, and used no more.
            let _ = unsafe { free(&raw mut raw) };
        }
    }
}

/// Where a request of the program came from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin {
    /// A message on a communicator, with the peer's rank there; a negative one for any.
    Message(ffi::MPI_Comm, c_int),
    /// A collective on a communicator.
    Collective(ffi::MPI_Comm),
    /// Anything else, or not known.
    Other,
}

/// A persistent receive of this process from itself, to which nothing is sent, or a persistent send
/// that is never started.
#[cfg_attr(mpich, allow(dead_code, reason = "for what Open MPI's room mends"))]
pub(in crate::mpi) struct Probe {
    request: Request,
    number: Box<u8>,
}

/// The tag of a message that no program sends to itself while this library starts.
#[cfg_attr(mpich, allow(dead_code, reason = "for what Open MPI's room mends"))]
pub(in crate::mpi) const TAG: c_int = 23_130;

#[cfg_attr(mpich, allow(dead_code, reason = "for what Open MPI's room mends"))]
impl Probe {
    /// A receive that was not started.
    pub(in crate::mpi) fn new() -> Checked<Self> {
        let comm = Comm::alone()?;
        let (mut number, mut request) = (Box::new(0_u8), Request::null());
        let (place, slot) = ((&raw mut *number).cast(), request.slot());
        check("MPI_Recv_init", {
            // SAFETY: room for one byte, which lives as long as the request.
            unsafe { ffi::MPI_Recv_init(place, 1, Types::bytes(), 0, TAG, comm.raw(), slot) }
        })?;
        Ok(Self { request, number })
    }

    /// A send that was not started.
    pub(in crate::mpi) fn new_send() -> Checked<Self> {
        let comm = Comm::alone()?;
        let (mut number, mut request) = (Box::new(0_u8), Request::null());
        let (place, slot) = ((&raw mut *number).cast(), request.slot());
        check("MPI_Send_init", {
            // SAFETY: one byte, which lives as long as the request.
            unsafe { ffi::MPI_Send_init(place, 1, Types::bytes(), 0, TAG, comm.raw(), slot) }
        })?;
        Ok(Self { request, number })
    }

    /// Ends what was not started.
    pub(in crate::mpi) fn drop_inactive(self) {
        self.request.release();
    }

    pub(in crate::mpi) fn raw(&self) -> ffi::MPI_Request {
        self.request.raw()
    }

    pub(in crate::mpi) fn start(&mut self) -> Checked<()> {
        self.request.restart()
    }

    /// Cancels the receive; its status, as it is complete then.
    pub(in crate::mpi) fn complete(&mut self) -> Checked<ffi::MPI_Status> {
        self.request.cancel();
        loop {
            if let Some(done) = self.request.status()? {
                return Ok(done.into_raw());
            }
        }
    }

    /// `MPI_Request_free` of a copy of the handle; true when MPI has made it null.
    ///
    /// # Safety
    ///
    /// The request is kept.
    pub(in crate::mpi) unsafe fn free_copy(&self) -> bool {
        let mut copy = self.request.raw();
        // SAFETY: live, and it stays so.
        let code = unsafe { ffi::MPI_Request_free(&raw mut copy) };
        code == 0 && copy == Request::null().raw()
    }

    /// Ends it.
    pub(in crate::mpi) fn end(self) -> Checked<()> {
        let Self { mut request, number } = self;
        while !request.test_with(None)? {}
        request.release();
        drop(number);
        Ok(())
    }
}
