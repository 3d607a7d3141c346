//! Messages: a checked call to start each of them, and to fetch one of unknown length.

use std::{
    ffi::{c_int, c_void},
    mem::MaybeUninit,
    ptr,
};

use mpi::ffi;

use super::{
    comm::Comm,
    inside::{self, Inside},
    library::{Checked, check},
    request::{Done, Types, any_source, any_tag, empty_status},
};
use crate::{
    native::{Exposure, Request},
    rank::Rank,
};

impl Request {
    /// What MPI gives for an operation that was over before its start returned, most small sends
    /// among them: nothing is left to tell them apart, so all share one request. Null if they do
    /// not. Found by messages to nobody, of which two could not share what is under way.
    pub(in crate::mpi) fn finished() -> Checked<ffi::MPI_Request> {
        let alone = Comm::alone()?;
        // SAFETY: reading a constant that MPI's library defines.
        let nobody = unsafe { ffi::RSMPI_PROC_NULL };
        let mut sends = [Self::null(), Self::null()];
        for send in &mut sends {
            let (nothing, slot) = (ptr::null_mut(), send.slot());
            check("MPI_Isend", {
                // SAFETY: no bytes are read; the result is a variable of ours.
                unsafe { ffi::MPI_Isend(nothing, 0, Types::bytes(), nobody, 0, alone.raw(), slot) }
            })?;
        }
        let [one, other] = [sends[0].raw(), sends[1].raw()];
        for send in &mut sends {
            while send.test()?.is_none() {}
        }
        Ok(if one == other { one } else { Self::null().raw() })
    }

    /// `MPI_Isend` or `MPI_Issend`, of which the watchdog knows.
    ///
    /// # Safety
    ///
    /// The buffer stays as it is until the request is over.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(in crate::mpi) unsafe fn send(
        comm: &Comm,
        buffer: &Exposure,
        to: Rank,
        tag: u32,
        synchronous: bool,
        _: &Inside,
    ) -> Checked<Self> {
        let start = if synchronous { ffi::MPI_Issend } else { ffi::MPI_Isend };
        let Exposure { address, count, datatype, .. } = *buffer;
        let (to, tag) = (to.number().cast_signed(), tag.cast_signed());
        let mut request = MaybeUninit::uninit();
        check("MPI_Isend", {
            // SAFETY: the buffer is described by its exposure and kept by our caller.
            unsafe { start(address, count, datatype, to, tag, comm.raw(), request.as_mut_ptr()) }
        })?;
        // SAFETY: MPI has started it, and written its handle.
        Ok(Self(unsafe { request.assume_init() }))
    }

    /// `MPI_Irecv`, of which the watchdog knows.
    ///
    /// # Safety
    ///
    /// The buffer belongs to MPI until the request is over.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(in crate::mpi) unsafe fn receive(
        comm: &Comm,
        buffer: &Exposure,
        from: Option<Rank>,
        tag: Option<u32>,
        _: &Inside,
    ) -> Checked<Self> {
        let from = from.map_or_else(any_source, |rank| rank.number().cast_signed());
        let tag = tag.map_or_else(any_tag, u32::cast_signed);
        let Exposure { address, count, datatype, .. } = *buffer;
        let mut request = MaybeUninit::uninit();
        let slot = request.as_mut_ptr();
        check("MPI_Irecv", {
            // SAFETY: the buffer is described by its exposure and left alone by our caller.
            unsafe { ffi::MPI_Irecv(address, count, datatype, from, tag, comm.raw(), slot) }
        })?;
        // SAFETY: MPI has started it, and written its handle.
        Ok(Self(unsafe { request.assume_init() }))
    }

    /// `MPI_Recv_init`: a receive to be started again and again.
    ///
    /// # Safety
    ///
    /// The buffer belongs to MPI from each start until the test that completes it.
    pub(in crate::mpi) unsafe fn standing_receive(
        comm: &Comm,
        buffer: Exposure,
        from: Rank,
        tag: u32,
    ) -> Checked<Self> {
        let (from, tag) = (from.number().cast_signed(), tag.cast_signed());
        let Exposure { address, count, datatype, .. } = buffer;
        let mut request = Self::null();
        check("MPI_Recv_init", {
            // SAFETY: the buffer is described by its exposure and left alone by our caller.
            unsafe {
                ffi::MPI_Recv_init(address, count, datatype, from, tag, comm.raw(), request.slot())
            }
        })?;
        Ok(request)
    }
}

/// `MPI_Improbe` for any source, then `MPI_Mrecv`: the next message with this tag.
pub(in crate::mpi) fn next_message(comm: &Comm, tag: u32) -> Checked<Option<(Rank, Vec<u8>)>> {
    let _inside = inside::ordinary();
    let (mut flag, mut status) = (0, empty_status());
    // SAFETY: reading a constant that MPI's library defines.
    let mut message = unsafe { ffi::RSMPI_MESSAGE_NULL };
    let (source, raw, found) = (any_source(), comm.raw(), &raw mut message);
    // SAFETY: the communicator is live; all results are variables of ours.
    check("MPI_Improbe", unsafe {
        ffi::MPI_Improbe(source, tag.cast_signed(), raw, &raw mut flag, found, &raw mut status)
    })?;
    if flag == 0 {
        return Ok(None);
    }
    let done = Done::new(status);
    let mut bytes = vec![0_u8; done.count(Types::bytes())?];
    let (address, count) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.len() as c_int);
    // SAFETY: the bytes are as many as the probe said; the message is the one it found.
    check("MPI_Mrecv", unsafe {
        ffi::MPI_Mrecv(address, count, Types::bytes(), found, &raw mut status)
    })?;
    Ok(done.source().map(|from| (from, bytes)))
}
