//! Requests that fampi returns: real ones of MPI, made by `MPI_Grequest_start`.
//!
//! A handle that the program gives us is tested by us from then on, after which MPI forgets it.
//! The program gets a generalized request in its place, which stays until the program frees it.
//! `MPI_Wait`, `MPI_Test` and `MPI_Request_free` work on it like on any other.

use std::{
    cell::{Cell, RefCell},
    ffi::{c_int, c_void},
    rc::Rc,
};

use mpi::ffi;

/// What MPI is told about a request of ours when it asks.
pub(crate) struct Ticket {
    status: Cell<ffi::MPI_Status>,
    error: Cell<c_int>,
    freed: Cell<bool>,
}

/// A request of ours.
pub(crate) struct Handle {
    pub(crate) raw: ffi::MPI_Request,
    ticket: Rc<Ticket>,
    complete: bool,
}

thread_local! {
    /// Requests that MPI has freed since somebody looked.
    static FREED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The key of a request that the program has freed; each is told once.
pub(crate) fn take_freed() -> Option<usize> {
    FREED.with_borrow_mut(Vec::pop)
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
    raw.0.addr()
}

struct Extra {
    ticket: Rc<Ticket>,
    key: Cell<usize>,
}

unsafe extern "C" fn query(extra: *mut c_void, status: *mut ffi::MPI_Status) -> c_int {
    // SAFETY: the box that `Handle::new` leaked, alive until `free`.
    let extra = unsafe { &*extra.cast::<Extra>() };
    // SAFETY: MPI gives a status to be filled.
    unsafe { *status = extra.ticket.status.get() };
    extra.ticket.error.get()
}

unsafe extern "C" fn free(extra: *mut c_void) -> c_int {
    // SAFETY: the box that `Handle::new` leaked; MPI calls this once.
    let extra = unsafe { Box::from_raw(extra.cast::<Extra>()) };
    extra.ticket.freed.set(true);
    let _ = FREED.try_with(|freed| freed.borrow_mut().push(extra.key.get()));
    ffi::MPI_SUCCESS.cast_signed()
}

unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    ffi::MPI_SUCCESS.cast_signed()
}

impl Handle {
    /// A request that is not complete.
    pub(crate) fn new() -> Result<Self, c_int> {
        let (status, error, freed) = (Cell::new(empty_status()), Cell::new(0), Cell::new(false));
        let ticket = Rc::new(Ticket { status, error, freed });
        let extra = Box::into_raw(Box::new(Extra { ticket: ticket.clone(), key: Cell::new(0) }));
        let mut raw = null();
        let (query, free, cancel) = (Some(query as _), Some(free as _), Some(cancel as _));
        // SAFETY: the functions have the types that MPI wants; the state lives until `free`.
        let code = unsafe {
            ffi::MPI_Grequest_start(query, free, cancel, extra.cast::<c_void>(), &raw mut raw)
        };
        if code != 0 {
            // SAFETY: MPI did not take it.
            drop(unsafe { Box::from_raw(extra) });
            return Err(code);
        }
        // SAFETY: alive, as the request is not complete.
        unsafe { (*extra).key.set(key(raw)) };
        Ok(Self { raw, ticket, complete: false })
    }

    /// It is over, with this status and this error.
    pub(crate) fn complete(&mut self, mut status: ffi::MPI_Status, error: c_int) {
        if self.complete {
            return;
        }
        status.MPI_ERROR = error;
        self.complete = true;
        self.ticket.status.set(status);
        self.ticket.error.set(error);
        // SAFETY: made by `new`, not complete until now.
        unsafe { ffi::MPI_Grequest_complete(self.raw) };
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(crate) fn is_freed(&self) -> bool {
        self.ticket.freed.get()
    }

    /// Status and error of what is complete.
    pub(crate) fn outcome(&self) -> Option<(ffi::MPI_Status, c_int)> {
        self.complete.then(|| (self.ticket.status.get(), self.ticket.error.get()))
    }
}
