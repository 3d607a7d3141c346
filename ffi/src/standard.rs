//! Calls of MPI in a form that makes fampi's blocks go on, and passes on what is not fampi's.
//!
//! MPI's own work on all requests, too: MPI then calls us back while it waits.

use std::ffi::c_int;

use mpi::ffi::{MPI_Request, MPI_Status};

use crate::{
    beneath,
    codes::{FAMPI_ERR_ARG, FAMPI_TIMEOUT_NEVER, FAMPI_TIMEOUT_POLL},
    request::null,
    state::enter,
    wait::wait_all,
};

/// True for a request that fampi made, or that MPI keeps for it.
pub(crate) fn is_ours(request: *mut MPI_Request) -> bool {
    // SAFETY: null is asked for first; the rest is the promise of the calling function's caller.
    let raw = if request.is_null() { null() } else { unsafe { *request } };
    let mut ours = false;
    enter(|state| {
        ours = state.as_mut().is_some_and(|state| state.knows(raw));
        Ok(())
    });
    ours
}

/// True while a request that we know is not over.
fn is_pending(raw: MPI_Request) -> bool {
    let mut pending = false;
    enter(|state| {
        let Some(state) = state.as_mut() else { return Ok(()) };
        pending = raw != null() && state.knows(raw) && state.outcome(raw).is_none();
        Ok(())
    });
    pending
}

/// `MPI_Wait` that makes blocks go on meanwhile. The request is freed.
///
/// # Safety
///
/// As `MPI_Wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    if !is_ours(request) {
        // SAFETY: our caller's promise.
        return unsafe { beneath::wait(request, status) };
    }
    // SAFETY: our caller's promise.
    unsafe { wait_all(1, request, status, FAMPI_TIMEOUT_NEVER, true) }
}

/// `MPI_Test` that makes blocks go on. A request that is over is freed.
///
/// # Safety
///
/// As `MPI_Test`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Test(
    request: *mut MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    if !is_ours(request) {
        // SAFETY: our caller's promise.
        return unsafe { beneath::test(request, flag, status) };
    }
    if flag.is_null() {
        return FAMPI_ERR_ARG;
    }
    // SAFETY: our caller's promise.
    let before = unsafe { *request };
    // SAFETY: our caller's promise.
    let code = unsafe { wait_all(1, request, status, FAMPI_TIMEOUT_POLL, true) };
    // SAFETY: our caller's promise. What is over is freed, unless it can be started again.
    let pending = unsafe { *request } == before && is_pending(before);
    // SAFETY: our caller's promise.
    unsafe { flag.write(c_int::from(!pending)) };
    if pending { 0 } else { code }
}

/// `MPI_Waitall` that makes blocks go on meanwhile. The requests are freed.
///
/// # Safety
///
/// As `MPI_Waitall`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Waitall(
    count: c_int,
    requests: *mut MPI_Request,
    statuses: *mut MPI_Status,
) -> c_int {
    let at = |k: c_int| requests.wrapping_add(k as usize);
    if requests.is_null() || !(0..count).any(|k| is_ours(at(k))) {
        // SAFETY: our caller's promise.
        return unsafe { beneath::wait_all(count, requests, statuses) };
    }
    // SAFETY: our caller's promise.
    unsafe { wait_all(count, requests, statuses, FAMPI_TIMEOUT_NEVER, true) }
}

/// `MPI_Request_get_status` that makes blocks go on. The request stays.
///
/// # Safety
///
/// As `MPI_Request_get_status`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Request_get_status(
    request: MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    let mut copy = request;
    if !is_ours(&raw mut copy) {
        // SAFETY: our caller's promise.
        return unsafe { beneath::get_status(request, flag, status) };
    }
    if flag.is_null() {
        return FAMPI_ERR_ARG;
    }
    // SAFETY: our caller's promise.
    unsafe { wait_all(1, &raw mut copy, status, FAMPI_TIMEOUT_POLL, false) };
    // SAFETY: our caller's promise.
    unsafe { flag.write(c_int::from(!is_pending(copy))) };
    0
}

/// `MPI_Request_free`, for any request; nothing happens to `MPI_REQUEST_NULL`. A block that was
/// not finished is left: it is faulty.
///
/// Returns `FAMPI_ERR_PENDING` for a communicator in the making, which others wait for: wait for
/// it, too.
///
/// # Safety
///
/// The pointer is null or to a live request, or `MPI_REQUEST_NULL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Request_free(request: *mut MPI_Request) -> c_int {
    if request.is_null() {
        return FAMPI_ERR_ARG;
    }
    let mut is_free = false;
    let code = enter(|state| {
        let Some(state) = state.as_mut() else { return Ok(()) };
        // SAFETY: not null; our caller's promise.
        let slot = unsafe { &mut *request };
        is_free = state.free(slot)?;
        if !is_free {
            state.leave(*slot);
        }
        Ok(())
    });
    if is_free {
        return 0;
    }
    // SAFETY: as above.
    if unsafe { *request } == null() {
        return 0;
    }
    if code != 0 {
        return code;
    }
    // SAFETY: our caller's promise.
    unsafe { beneath::free(request) }
}
