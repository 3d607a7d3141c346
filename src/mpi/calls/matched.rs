//! Messages that a probe has matched (`MPI_Improbe`), until they are received or dropped.

use std::ffi::c_void;

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
