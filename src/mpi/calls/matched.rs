//! Messages that a probe has matched (`MPI_Improbe`), until they are received or dropped.

use std::{ffi::c_void, ptr};

use mpi::ffi;

use super::{
    comm::Comm,
    inside,
    library::{Checked, check},
    request::{Done, any_source, any_tag, empty_status},
};
use crate::{
    native::{Exposure, Request},
    rank::Rank,
    seam::operation::Status,
};

/// A matched message of so many elements.
#[derive(Debug)]
pub(in crate::mpi) struct Matched {
    raw: ffi::MPI_Message,
    datatype: ffi::MPI_Datatype,
    elements: usize,
    /// Bytes from one element to the next.
    stride: usize,
}

impl Matched {
    /// `MPI_Improbe`. Elements are counted as those of the buffer that `like` describes.
    pub(in crate::mpi) fn probe(
        comm: &Comm,
        (from, tag): (Option<Rank>, Option<u32>),
        like: Exposure,
    ) -> Checked<Option<(Self, Done)>> {
        let _inside = inside::ordinary();
        let from = from.map_or_else(any_source, |rank| rank.number().cast_signed());
        let tag = tag.map_or_else(any_tag, u32::cast_signed);
        let (mut flag, mut status) = (0, empty_status());
        // SAFETY: reading a constant that MPI's library defines.
        let mut raw = unsafe { ffi::RSMPI_MESSAGE_NULL };
        let (results, found) = ((&raw mut flag, &raw mut status), &raw mut raw);
        check("MPI_Improbe", {
            // SAFETY: the communicator is live; all results are variables of ours.
            unsafe { ffi::MPI_Improbe(from, tag, comm.raw(), results.0, found, results.1) }
        })?;
        if flag == 0 {
            return Ok(None);
        }
        let done = Done::new(status);
        let elements = done.count(like.datatype)?;
        let matched = Self { raw, datatype: like.datatype, elements, stride: like.stride };
        Ok(Some((matched, done)))
    }

    /// `MPI_Iprobe`: the sender and the tag of a message that has come and has no receive.
    pub(in crate::mpi) fn next_envelope(
        comm: &Comm,
        (from, tag): (Option<Rank>, Option<u32>),
    ) -> Checked<Option<Status>> {
        let _inside = inside::ordinary();
        let from = from.map_or_else(any_source, |rank| rank.number().cast_signed());
        let tag = tag.map_or_else(any_tag, u32::cast_signed);
        let (mut flag, mut status) = (0, empty_status());
        check("MPI_Iprobe", {
            // SAFETY: the communicator is live; the results are variables of ours.
            unsafe { ffi::MPI_Iprobe(from, tag, comm.raw(), &raw mut flag, &raw mut status) }
        })?;
        Ok((flag != 0).then(|| Done::new(status).told(0)))
    }

    /// Number of elements.
    pub(in crate::mpi) fn elements(&self) -> usize {
        self.elements
    }

    /// `MPI_Imrecv`.
    ///
    /// # Safety
    ///
    /// The buffer belongs to MPI until the request is over.
    pub(in crate::mpi) unsafe fn receive(mut self, buffer: Exposure) -> Checked<Request> {
        let _inside = inside::ordinary();
        let Exposure { address, count, datatype, .. } = buffer;
        let mut request = Request::null();
        let (message, slot) = (&raw mut self.raw, request.slot());
        check("MPI_Imrecv", {
            // SAFETY: the message was matched and not received, as receiving takes it; the buffer
            // is described by its exposure and left alone by our caller.
            unsafe { ffi::MPI_Imrecv(address, count, datatype, message, slot) }
        })?;
        Ok(request)
    }

    /// Receives it into memory that is not read, to be kept until the request is over.
    pub(in crate::mpi) fn into_nowhere(self) -> Checked<(Request, Vec<u64>)> {
        let bytes = self.elements * self.stride;
        let mut nowhere = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
        let address = nowhere.as_mut_ptr().cast::<c_void>();
        // MPI has counted them with an `int` itself.
        let (count, datatype, stride) = (self.elements as i32, self.datatype, self.stride);
        let buffer = Exposure::adjacent(address, count, datatype, stride);
        // SAFETY: the memory is kept by our caller.
        let request = unsafe { self.receive(buffer) }?;
        Ok((request, nowhere))
    }
}

/// Starts a message without contents, which needs no memory, and does not wait for it.
pub(in crate::mpi) fn send_word(comm: &Comm, to: u32, tag: u32) -> Checked<()> {
    let _inside = inside::ordinary();
    // SAFETY: reading a constant that MPI's library defines.
    let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
    let (to, tag) = (to.cast_signed(), tag.cast_signed());
    check("MPI_Isend", {
        // SAFETY: reading a constant that MPI's library defines.
        let byte = unsafe { ffi::RSMPI_UINT8_T };
        // SAFETY: the communicator is live, nothing is read, and the result is a variable of ours.
        unsafe { ffi::MPI_Isend(ptr::null(), 0, byte, to, tag, comm.raw(), &raw mut request) }
    })?;
    // SAFETY: MPI has just made the request, and keeps it until the message is gone.
    check("MPI_Request_free", unsafe { ffi::MPI_Request_free(&raw mut request) })
}

/// Takes a message without contents, if it has come.
pub(in crate::mpi) fn take_word(comm: &Comm, from: u32, tag: u32) -> Checked<bool> {
    if Matched::next_envelope(comm, (Some(Rank::new(from)), Some(tag)))?.is_none() {
        return Ok(false);
    }
    let _inside = inside::ordinary();
    let (from, tag, mut status) = (from.cast_signed(), tag.cast_signed(), empty_status());
    check("MPI_Recv", {
        // SAFETY: reading a constant that MPI's library defines.
        let byte = unsafe { ffi::RSMPI_UINT8_T };
        let (buffer, status) = (ptr::null_mut(), &raw mut status);
        // SAFETY: it has come, and has no contents; the status is a variable of ours.
        unsafe { ffi::MPI_Recv(buffer, 0, byte, from, tag, comm.raw(), status) }
    })?;
    Ok(true)
}

/// Waits for a message without contents.
pub(in crate::mpi) fn await_word(comm: &Comm, from: u32, tag: u32) -> Checked<()> {
    while !take_word(comm, from, tag)? {}
    Ok(())
}
