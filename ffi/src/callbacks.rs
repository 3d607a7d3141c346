//! What MPI calls us for: what the program has freed, waits in MPI's own calls, the end of MPI.

use std::{
    ffi::{c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
};

use fampi_core::mpi::MpiPlatform;
use mpi::ffi;

use crate::{
    codes::FAMPI_ERR_UNSUPPORTED,
    state::{HERE, Result},
};

/// MPI has freed the request at this place of our table.
pub(crate) fn note_freed(place: u32) {
    if let Some(here) = HERE.get() {
        here.news.set(true);
        here.freed.borrow_mut().push(place);
    }
}

/// The program has freed a request of its own that we keep.
pub(crate) fn note_freed_by_program(raw: ffi::MPI_Request) {
    if let Some(here) = HERE.get() {
        here.news.set(true);
        here.freed_by_program.borrow_mut().push(raw);
    }
}

pub(crate) unsafe extern "C" fn comm_is_freed(
    comm: ffi::MPI_Comm,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    if let Some(here) = HERE.get() {
        here.news.set(true);
        here.freed_comms.borrow_mut().push(comm);
    }
    0
}

/// `MPI_Finalize` deletes the attributes of `MPI_COMM_SELF` first: the moment to leave.
pub(crate) unsafe extern "C" fn mpi_ends(
    _: ffi::MPI_Comm,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    let Some(here) = HERE.get() else { return 0 };
    let left = catch_unwind(AssertUnwindSafe(|| {
        if let Ok(mut state) = here.state.try_borrow_mut()
            && let Some(mut state) = state.take()
        {
            state.clear(here);
            state.handles.close();
            state.guest.with_mpi(MpiPlatform::close_requests);
            state.guest.leave();
            std::mem::forget(state); // It may not touch MPI any more.
        }
    }));
    here.close(FAMPI_ERR_UNSUPPORTED);
    c_int::from(left.is_err())
}

/// MPI waits inside a call of its own: our blocks go on meanwhile.
pub(crate) extern "C" fn mpi_is_waiting() -> c_int {
    let Some(here) = HERE.get() else { return 0 };
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Ok(mut state) = here.state.try_borrow_mut()
            && let Some(state) = state.as_mut()
            && state.handles.unheard() > 0
        {
            state.guest.progress_in_mpi();
            state.settle();
            state.handles.announce();
        }
    }));
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
    if code == 0 { Ok(()) } else { Err(code) }
}
