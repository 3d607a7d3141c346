//! What was freed since the last call: by MPI, or by the program, of which MPI tells us.

use std::{
    cell::{Cell, RefCell},
    ffi::{c_int, c_void},
};

use mpi::ffi;

use crate::{
    codes::{Result, done},
    owned::Owned,
};

/// What was freed since the last call of fampi, to be taken off its tables before the next one.
pub(crate) struct Freed {
    /// True when something was freed, or all is over: to be seen to before a call.
    pub(crate) news: Cell<bool>,
    /// Places of requests of ours that MPI has freed.
    pub(crate) requests: RefCell<Vec<u32>>,
    /// Requests of the program's own.
    pub(crate) by_program: RefCell<Vec<ffi::MPI_Request>>,
    /// Communicators.
    pub(crate) comms: RefCell<Vec<ffi::MPI_Comm>>,
}

/// Not dropped at the end: that would be late for MPI.
pub(crate) static FREED: Owned<Freed> = Owned::new(Freed {
    news: Cell::new(false),
    requests: RefCell::new(Vec::new()),
    by_program: RefCell::new(Vec::new()),
    comms: RefCell::new(Vec::new()),
});

/// MPI has freed the request at this place of our table.
pub(crate) fn note_freed(place: u32) {
    if let Some(freed) = FREED.get() {
        freed.news.set(true);
        freed.requests.borrow_mut().push(place);
    }
}

/// The program has freed a request of its own that we keep.
pub(crate) fn note_freed_by_program(raw: ffi::MPI_Request) {
    if let Some(freed) = FREED.get() {
        freed.news.set(true);
        freed.by_program.borrow_mut().push(raw);
    }
}

/// MPI deletes an attribute of a communicator that the program frees.
pub(crate) unsafe extern "C" fn comm_is_freed(
    comm: ffi::MPI_Comm,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    if let Some(freed) = FREED.get() {
        freed.news.set(true);
        freed.comms.borrow_mut().push(comm);
    }
    0
}

pub(crate) type Delete =
    unsafe extern "C" fn(ffi::MPI_Comm, c_int, *mut c_void, *mut c_void) -> c_int;

unsafe extern "C" fn not_copied(
    _: ffi::MPI_Comm,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI gives a flag to be filled.
    unsafe { *flag = 0 };
    0
}

/// A new kind of attribute, which is not copied by duplicates.
pub(crate) fn attribute(delete: Delete) -> Result<c_int> {
    let (copy, mut made) = (Some(not_copied as _), 0);
    // SAFETY: both functions have the right types and live for ever.
    let code = unsafe {
        ffi::MPI_Comm_create_keyval(copy, Some(delete), &raw mut made, std::ptr::null_mut())
    };
    if code == 0 { Ok(made) } else { Err(code) }
}

pub(crate) fn mark(comm: ffi::MPI_Comm, attribute: c_int) -> Result<()> {
    // SAFETY: the communicator is live, the attribute ours; no value is needed.
    let code = unsafe { ffi::MPI_Comm_set_attr(comm, attribute, std::ptr::null_mut()) };
    done(code)
}
