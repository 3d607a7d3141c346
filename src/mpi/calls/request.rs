//! Requests: a checked call for each message that we start, and for each operation that we test
//! or end, with what it has moved.

use std::{
    ffi::{c_int, c_void},
    mem::MaybeUninit,
    ptr,
};

use mpi::ffi;

use super::{
    comm::Comm,
    inside::{self, Inside},
    layout,
    library::{COUNT, Checked, Refusal, check},
};
pub(in crate::mpi) use crate::native::Request;
use crate::{
    fault::FaultCode,
    native::{Exposure, Kind},
    rank::Rank,
    seam::platform::{Progress, Status},
};

/// What a completed request tells.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(in crate::mpi) struct Done(ffi::MPI_Status);

impl Done {
    pub(in crate::mpi) fn new(status: ffi::MPI_Status) -> Self {
        Self(status)
    }

    /// As MPI has it.
    pub(in crate::mpi) fn into_raw(self) -> ffi::MPI_Status {
        self.0
    }

    /// Nothing is known yet of the request that this will tell of.
    #[inline]
    pub(in crate::mpi) fn clear(&mut self) {
        self.0.MPI_ERROR = ffi::MPI_ERR_PENDING as c_int;
    }

    /// How one of many ended; nothing if that was not told.
    pub(in crate::mpi) fn result(&self) -> Option<Checked<()>> {
        let is_told = self.0.MPI_ERROR != ffi::MPI_ERR_PENDING as c_int;
        is_told.then(|| check("MPI_Testall", self.0.MPI_ERROR))
    }

    /// `MPI_Test_cancelled`.
    pub(in crate::mpi) fn is_cancelled(&self) -> bool {
        let mut flag = 0;
        // SAFETY: the status was filled by a completed call; the result is ours.
        let code = unsafe { ffi::MPI_Test_cancelled(&raw const self.0, &raw mut flag) };
        code == 0 && flag != 0
    }

    pub(super) fn source(&self) -> Option<Rank> {
        u32::try_from(self.0.MPI_SOURCE).ok().map(Rank::new)
    }

    fn tag(&self) -> u32 {
        self.0.MPI_TAG.cast_unsigned()
    }

    /// What a receive of so many elements has come to.
    #[inline]
    pub(in crate::mpi) fn told(&self, elements: usize) -> Status {
        Status { source: self.source(), tag: self.tag(), elements, cancelled: false }
    }

    /// True when this many bytes were received.
    #[inline]
    pub(in crate::mpi) fn is_of(&self, bytes: usize) -> bool {
        layout::bytes_of(&self.0) == bytes
    }

    /// Number of elements of this type that were received.
    #[inline]
    pub(in crate::mpi) fn count(&self, datatype: ffi::MPI_Datatype) -> Checked<usize> {
        let mut count = 0;
        check("MPI_Get_count", {
            // SAFETY: the status was filled by a completed call; the result is ours.
            unsafe { ffi::MPI_Get_count(&raw const self.0, datatype, &raw mut count) }
        })?;
        usize::try_from(count).map_err(|_| Refusal { call: "MPI_Get_count", class: COUNT })
    }
}

impl Kind {
    /// True when its status says how much has come.
    #[inline]
    pub(in crate::mpi) fn is_counted(self) -> bool {
        matches!(self, Self::File | Self::Receive | Self::Cancelled)
    }

    /// Asks MPI to end a receive.
    pub(in crate::mpi) fn cancel(&mut self, request: &mut Request) {
        if *self == Self::Receive && !request.is_over() {
            *self = Self::Cancelled;
            request.cancel();
        }
    }

    /// What an operation that is over has moved, of so many elements of this datatype.
    pub(in crate::mpi) fn moved(
        self,
        done: &Done,
        elements: usize,
        element: Result<ffi::MPI_Datatype, FaultCode>,
    ) -> Progress {
        if self == Self::Cancelled && done.is_cancelled() {
            return Progress::Complete(Status { cancelled: true, ..Status::default() });
        }
        if !self.is_counted() {
            return Progress::Complete(Status { elements, ..Status::default() });
        }
        match element.and_then(|element| done.count(element).map_err(Refusal::fault)) {
            Ok(elements) if self == Self::File => {
                Progress::Complete(Status { elements, ..Status::default() })
            }
            counted => {
                counted.map_or_else(Progress::Failed, |it| Progress::Complete(done.told(it)))
            }
        }
    }
}

/// Datatypes of the control channel.
#[derive(Debug)]
pub(in crate::mpi) struct Types;

impl Types {
    #[inline]
    pub(in crate::mpi) fn bytes() -> ffi::MPI_Datatype {
        // SAFETY: reading a constant that MPI's library defines.
        unsafe { ffi::RSMPI_UINT8_T }
    }

    pub(in crate::mpi) fn u64() -> ffi::MPI_Datatype {
        // SAFETY: reading a constant that MPI's library defines.
        unsafe { ffi::RSMPI_UINT64_T }
    }
}

/// `MPI_ANY_SOURCE`.
pub(in crate::mpi) fn any_source() -> c_int {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_ANY_SOURCE }
}

/// `MPI_ANY_TAG`.
pub(in crate::mpi) fn any_tag() -> c_int {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_ANY_TAG }
}

pub(in crate::mpi) fn empty_status() -> ffi::MPI_Status {
    // SAFETY: a status is a plain structure of integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

impl Default for Request {
    fn default() -> Self {
        Self::null()
    }
}

impl Request {
    pub(in crate::mpi) fn null() -> Self {
        // SAFETY: reading a constant that MPI's library defines.
        Self(unsafe { ffi::RSMPI_REQUEST_NULL })
    }

    /// Takes a request that the application has started.
    ///
    /// # Safety
    ///
    /// It is live, and no other part tests or frees it any more.
    pub(in crate::mpi) unsafe fn from_raw(raw: ffi::MPI_Request) -> Self {
        Self(raw)
    }

    /// The handle.
    pub(in crate::mpi) fn raw(&self) -> ffi::MPI_Request {
        self.0
    }

    /// Where a starting call writes the request.
    pub(in crate::mpi) fn slot(&mut self) -> *mut ffi::MPI_Request {
        &raw mut self.0
    }

    /// The handle, for the part that ends the operation.
    pub(in crate::mpi) fn into_raw(self) -> ffi::MPI_Request {
        self.0
    }

    /// `MPI_Test`. An error ends the request too, except a pending wildcard receive (class 76).
    #[inline]
    pub(in crate::mpi) fn test(&mut self) -> Checked<Option<Done>> {
        let mut done = Done(empty_status());
        Ok(self.test_with(Some(&mut done))?.then_some(done))
    }

    /// Tests a request with a status that stays where it is, or without one.
    #[inline]
    pub(in crate::mpi) fn test_with(&mut self, done: Option<&mut Done>) -> Checked<bool> {
        let _inside = inside::ordinary();
        let mut flag = 0;
        // SAFETY: reading a constant that MPI's library defines.
        let ignored = unsafe { ffi::RSMPI_STATUS_IGNORE };
        let status = done.map_or(ignored, |done| &raw mut done.0);
        // SAFETY: ours or null; its buffer is kept by the part that started it until it is over.
        check("MPI_Test", unsafe { ffi::MPI_Test(&raw mut self.0, &raw mut flag, status) })?;
        Ok(flag != 0)
    }

    /// `MPI_Testall`: true when all are over, with the status of each; else nothing has changed.
    /// After an error those that are null now are over, with the class of each in its status.
    ///
    /// # Safety
    ///
    /// All are live requests of ours, and no longer used when they are null.
    #[inline]
    pub(in crate::mpi) unsafe fn test_all(
        requests: &mut [ffi::MPI_Request],
        done: &mut [Done],
    ) -> Checked<bool> {
        let _inside = inside::ordinary();
        let (mut flag, count) = (0, requests.len().min(done.len()) as c_int);
        let (first, statuses) = (requests.as_mut_ptr(), done.as_mut_ptr().cast());
        // SAFETY: both lists are that long; a `Done` is a status; the requests are live, says our
        // caller, and their buffers are kept by what started them until they are over.
        let code = unsafe { ffi::MPI_Testall(count, first, &raw mut flag, statuses) };
        check("MPI_Testall", code)?;
        Ok(flag != 0)
    }

    /// `MPI_Cancel`; test it to its end afterwards.
    pub(in crate::mpi) fn cancel(&mut self) {
        if self.is_over() {
            return;
        }
        let _inside = inside::ordinary();
        // SAFETY: an active request of ours.
        let _ = unsafe { ffi::MPI_Cancel(&raw mut self.0) };
    }

    /// `MPI_Start` of a persistent request that is not active.
    #[inline]
    pub(in crate::mpi) fn restart(&mut self) -> Checked<()> {
        let _inside = inside::ordinary();
        // SAFETY: persistent and inactive, as our only callers in `control` know.
        check("MPI_Start", unsafe { ffi::MPI_Start(&raw mut self.0) })
    }

    /// Gives a persistent request back that is not active.
    pub(in crate::mpi) fn release(mut self) {
        // SAFETY: inactive or complete, as our callers know.
        let _ = unsafe { ffi::MPI_Request_free(&raw mut self.0) };
    }

    /// True when MPI has taken the request back.
    #[inline]
    pub(in crate::mpi) fn is_over(&self) -> bool {
        // SAFETY: reading a constant that MPI's library defines.
        self.0 == unsafe { ffi::RSMPI_REQUEST_NULL }
    }
}

impl Request {
    /// What MPI gives for an operation that was over before its start returned, most small sends
    /// among them: nothing is left to tell them apart, so all share one request. Null if they do
    /// not. Found by messages to `MPI_PROC_NULL`, of which two could not share what is under way.
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
