//! Requests that fampi makes: real ones of MPI, made by `MPI_Grequest_start`.
//!
//! A block, and a communicator in the making, is a generalized request, which stays until the
//! program frees it. `MPI_Wait`, `MPI_Test` and `MPI_Request_free` work on it like on any other.
//!
//! MPI hears that it is complete when MPI itself waits, or when the next block starts. One that the
//! program has given back to us until then (`FAMPI_Request_free`) becomes the program's next
//! request, and MPI has nothing to do.

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    rc::Rc,
};

use fampi_core::mpi::{InNumbers as _, MpiPlatform};
use mpi::ffi;

use crate::{beneath, freed::note_freed};

/// What MPI is told about a request of ours when it asks. MPI knows its address from the start of
/// the request until it frees it; for the next request it is used again.
struct Ticket {
    /// The place in our table.
    place: u32,
    /// Without the error.
    status: Cell<ffi::MPI_Status>,
    error: Cell<c_int>,
    freed: Cell<bool>,
}

impl Ticket {
    fn status(&self) -> ffi::MPI_Status {
        let mut status = self.status.get();
        status.MPI_ERROR = self.error.get();
        status
    }
}

/// A request of ours.
pub(crate) struct Handle {
    pub(crate) raw: ffi::MPI_Request,
    ticket: Rc<Ticket>,
    complete: bool,
    /// MPI has it, and does not know that it is complete.
    armed: bool,
}

/// A status that says nothing.
pub(crate) fn empty_status() -> ffi::MPI_Status {
    // SAFETY: a status is a plain structure of integers, for which zero is a value.
    let mut status: ffi::MPI_Status = unsafe { std::mem::zeroed() };
    // SAFETY: reading constants that MPI's library defines.
    (status.MPI_SOURCE, status.MPI_TAG) = unsafe { (ffi::RSMPI_ANY_SOURCE, ffi::RSMPI_ANY_TAG) };
    status
}

/// `MPI_REQUEST_NULL`.
pub(crate) fn null() -> ffi::MPI_Request {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}

/// What identifies a request in our table.
pub(crate) fn key(raw: ffi::MPI_Request) -> usize {
    raw.0.number()
}

/// True when a request is in a list twice. What was over when it started may be one request of
/// MPI's, `finished`, any number of times. `keys` is a list to work with.
pub(crate) fn repeats(
    requests: &[ffi::MPI_Request],
    finished: ffi::MPI_Request,
    keys: &mut Vec<usize>,
) -> bool {
    let may_repeat = |raw| raw == null() || MpiPlatform::is_shared(raw, finished);
    keys.clear();
    keys.extend(requests.iter().filter(|raw| !may_repeat(**raw)).map(|raw| key(*raw)));
    keys.sort_unstable();
    keys.windows(2).any(|two| two[0] == two[1])
}

/// The ticket that MPI gives back to us.
///
/// # Safety
///
/// The pointer is the one that `Handle::start` gave to MPI.
unsafe fn ticket<'a>(extra: *mut c_void) -> &'a Ticket {
    // SAFETY: our table keeps the ticket for ever.
    unsafe { &*extra.cast::<Ticket>() }
}

unsafe extern "C" fn query(extra: *mut c_void, status: *mut ffi::MPI_Status) -> c_int {
    // SAFETY: MPI passes what it was given.
    let ticket = unsafe { ticket(extra) };
    // SAFETY: MPI gives a status to be filled.
    unsafe { *status = ticket.status() };
    ticket.error.get()
}

unsafe extern "C" fn free(extra: *mut c_void) -> c_int {
    // SAFETY: MPI passes what it was given.
    let ticket = unsafe { ticket(extra) };
    ticket.freed.set(true);
    note_freed(ticket.place);
    ffi::MPI_SUCCESS.cast_signed()
}

unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    ffi::MPI_SUCCESS.cast_signed()
}

impl Handle {
    /// A handle that stands for nothing yet.
    pub(crate) fn new(place: u32) -> Self {
        let (status, error, freed) = (Cell::new(empty_status()), Cell::new(0), Cell::new(true));
        let ticket = Rc::new(Ticket { place, status, error, freed });
        Self { raw: null(), ticket, complete: true, armed: false }
    }

    /// Makes the request that was freed a new one, which is not complete. True if MPI never heard
    /// that the one before was; else it has to be asked for another.
    #[inline]
    pub(crate) fn start_again(&mut self) -> bool {
        if self.armed {
            self.complete = false;
        }
        self.armed
    }

    /// Makes a request that is not complete. The one before was freed.
    #[cold]
    pub(crate) fn start(&mut self) -> Result<(), c_int> {
        if self.start_again() {
            return Ok(());
        }
        debug_assert!(self.ticket.freed.get(), "MPI has the ticket of a request that lives");
        let extra = Rc::as_ptr(&self.ticket).cast_mut().cast::<c_void>();
        let (query, free, cancel) = (Some(query as _), Some(free as _), Some(cancel as _));
        let mut raw = null();
        // SAFETY: the functions have the types that MPI wants; the ticket lives for ever.
        let code = unsafe { ffi::MPI_Grequest_start(query, free, cancel, extra, &raw mut raw) };
        if code != 0 {
            return Err(code);
        }
        (self.raw, self.complete, self.armed) = (raw, false, true);
        self.ticket.freed.set(false);
        Ok(())
    }

    /// It is over, with this error. Its status is the one it had, which for a block says nothing.
    #[inline]
    pub(crate) fn complete(&mut self, error: c_int) {
        if !self.complete {
            self.complete = true;
            self.ticket.error.set(error);
        }
    }

    /// What is complete has failed with this error, unless it has one.
    pub(crate) fn fail(&mut self, error: c_int) {
        if self.complete && self.ticket.error.get() == 0 {
            self.ticket.error.set(error);
        }
    }

    /// What MPI says about the operation that it stands for, before it is complete.
    pub(crate) fn tell(&mut self, status: ffi::MPI_Status) {
        if !self.complete {
            self.ticket.status.set(status);
        }
    }

    /// It is complete, and MPI does not know.
    #[inline]
    pub(crate) fn is_to_be_announced(&self) -> bool {
        self.complete && self.armed
    }

    /// MPI hears of the end, too, if it has come. It may free the request in here.
    pub(crate) fn announce(&mut self) -> bool {
        let is_over = self.is_to_be_announced();
        if is_over {
            self.armed = false;
            // SAFETY: made by `start`, not complete until now.
            unsafe { ffi::MPI_Grequest_complete(self.raw) };
        }
        is_over
    }

    /// Frees what was kept for the next request.
    pub(crate) fn discard(&mut self) {
        if self.announce() {
            // SAFETY: complete, and no program has it.
            unsafe { beneath::free(&raw mut self.raw) };
        }
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The place in our table.
    #[inline]
    pub(crate) fn place(&self) -> u32 {
        self.ticket.place
    }

    /// The error of what is complete.
    #[inline]
    pub(crate) fn code(&self) -> Option<c_int> {
        self.complete.then(|| self.ticket.error.get())
    }

    /// Status and error of what is complete.
    pub(crate) fn outcome(&self) -> Option<(ffi::MPI_Status, c_int)> {
        self.complete.then(|| (self.ticket.status(), self.ticket.error.get()))
    }
}
