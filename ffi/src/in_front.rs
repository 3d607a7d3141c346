//! MPI's calls that end, free or start requests, in front of MPICH's: a request that we keep has a
//! number that means nothing to MPI.
//!
//! Requests that we do not know are MPI's affair, and whatever this library itself asks of MPI
//! passes through.
//!
//! Reference: MPI 4.1 §15.2, the profiling interface.

use std::{ffi::c_int, slice};

use fampi_core::mpi::note_started;
use mpi::ffi::{self, MPI_Request, MPI_Status};

use crate::{
    beneath,
    codes::{FAMPI_ERR_INTERRUPTED, FAMPI_TIMEOUT_NEVER},
    request::{empty_status, null},
    standard::{
        FAMPI_Request_free, FAMPI_Request_get_status, FAMPI_Test, FAMPI_Wait, FAMPI_Waitall,
        is_ours,
    },
    state::can_enter,
    wait::{FAMPI_Waitany_local, FAMPI_Waitsome_local},
};

/// The requests of a list of the program.
///
/// # Safety
///
/// The pointer is to so many requests, or there are none.
unsafe fn requests<'a>(count: c_int, list: *mut MPI_Request) -> &'a mut [MPI_Request] {
    if count <= 0 || list.is_null() {
        return &mut [];
    }
    // SAFETY: our caller's promise.
    unsafe { slice::from_raw_parts_mut(list, count as usize) }
}

/// Writes a status of a list, unless the program ignores it.
///
/// # Safety
///
/// The pointer is to more statuses than `at`, or says that they are ignored.
unsafe fn put(statuses: *mut MPI_Status, at: usize, status: MPI_Status) {
    // SAFETY: reading a constant that MPI's library defines.
    let ignored = unsafe { ffi::RSMPI_STATUSES_IGNORE };
    if !statuses.is_null() && statuses != ignored {
        // SAFETY: our caller's promise.
        unsafe { statuses.add(at).write(status) };
    }
}

/// True for a list that MPI alone can see to.
fn is_foreign(list: &mut [MPI_Request]) -> bool {
    !can_enter() || !list.iter_mut().any(|slot| is_ours(slot))
}

/// Ends a request if it is over: its status and its code.
fn end(slot: &mut MPI_Request) -> Option<(MPI_Status, c_int)> {
    let (mut flag, mut status) = (0, empty_status());
    let code = if is_ours(slot) {
        // SAFETY: a live request of the program; the results are ours.
        unsafe { FAMPI_Test(slot, &raw mut flag, &raw mut status) }
    } else {
        // SAFETY: as above.
        unsafe { beneath::test(slot, &raw mut flag, &raw mut status) }
    };
    let is_over = flag != 0 || code != 0;
    is_over.then_some((MPI_Status { MPI_ERROR: code, ..status }, code))
}

/// True for a request that is over; it stays.
fn is_over(slot: &mut MPI_Request) -> bool {
    let (mut flag, mut status) = (0, empty_status());
    let code = if is_ours(slot) {
        // SAFETY: a live request of the program; the results are ours.
        unsafe { FAMPI_Request_get_status(*slot, &raw mut flag, &raw mut status) }
    } else {
        // SAFETY: as above.
        unsafe { beneath::get_status(*slot, &raw mut flag, &raw mut status) }
    };
    flag != 0 || code != 0
}

/// `MPI_Wait`.
///
/// # Safety
///
/// As MPI's own, as for all below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    if !can_enter() || !is_ours(request) {
        // SAFETY: our caller's promise.
        return unsafe { ffi::PMPI_Wait(request, status) };
    }
    // SAFETY: our caller's promise.
    unsafe { FAMPI_Wait(request, status) }
}

/// `MPI_Test`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Test(
    request: *mut MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    if !can_enter() || !is_ours(request) {
        // SAFETY: our caller's promise.
        return unsafe { ffi::PMPI_Test(request, flag, status) };
    }
    // SAFETY: our caller's promise.
    unsafe { FAMPI_Test(request, flag, status) }
}

/// Ends all requests of a list, which are over; what it comes to, with a status for each.
///
/// # Safety
///
/// The pointer is to as many statuses, or says that they are ignored.
unsafe fn end_all(list: &mut [MPI_Request], statuses: *mut MPI_Status) -> c_int {
    let mut has_failed = false;
    for (at, slot) in list.iter_mut().enumerate() {
        let (told, code) = end(slot).unwrap_or((empty_status(), 0));
        has_failed |= code != 0;
        // SAFETY: our caller's promise.
        unsafe { put(statuses, at, told) };
    }
    if has_failed { ffi::MPI_ERR_IN_STATUS as c_int } else { 0 }
}

/// `MPI_Waitall`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Waitall(
    count: c_int,
    array: *mut MPI_Request,
    statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: our caller's promise.
    if is_foreign(unsafe { requests(count, array) }) {
        // SAFETY: our caller's promise.
        return unsafe { ffi::PMPI_Waitall(count, array, statuses) };
    }
    // SAFETY: our caller's promise.
    unsafe { FAMPI_Waitall(count, array, statuses) }
}

/// `MPI_Testall`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Testall(
    count: c_int,
    array: *mut MPI_Request,
    flag: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: our caller's promise.
    let list = unsafe { requests(count, array) };
    if is_foreign(list) || flag.is_null() {
        // SAFETY: our caller's promise.
        return unsafe { ffi::PMPI_Testall(count, array, flag, statuses) };
    }
    let are_over = list.iter_mut().all(is_over);
    // SAFETY: not null; our caller's promise.
    unsafe { flag.write(c_int::from(are_over)) };
    // SAFETY: our caller's promise.
    if are_over { unsafe { end_all(list, statuses) } } else { 0 }
}

/// Ends the first request of a list that is over: its place, its status and its code. Nothing while
/// none is; no place when there is none.
fn end_any(list: &mut [MPI_Request]) -> Option<(Option<usize>, MPI_Status, c_int)> {
    if list.iter().all(|raw| *raw == null()) {
        return Some((None, empty_status(), 0));
    }
    let mut live = list.iter_mut().enumerate().filter(|(_, slot)| **slot != null());
    live.find_map(|(at, slot)| end(slot).map(|(told, code)| (Some(at), told, code)))
}

fn undefined() -> c_int {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_UNDEFINED }
}

/// `MPI_Testany`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Testany(
    count: c_int,
    array: *mut MPI_Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: our caller's promise.
    let list = unsafe { requests(count, array) };
    if is_foreign(list) || flag.is_null() || index.is_null() {
        // SAFETY: our caller's promise.
        return unsafe { ffi::PMPI_Testany(count, array, index, flag, status) };
    }
    let ended = end_any(list);
    // SAFETY: not null; our caller's promise.
    unsafe { flag.write(c_int::from(ended.is_some())) };
    let Some((at, told, code)) = ended else {
        // SAFETY: as above.
        unsafe { index.write(undefined()) };
        return 0;
    };
    // SAFETY: as above.
    unsafe { index.write(at.map_or_else(undefined, |at| at as c_int)) };
    // SAFETY: our caller's promise.
    unsafe { put(status, 0, told) };
    code
}

/// `MPI_Waitany`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Waitany(
    count: c_int,
    array: *mut MPI_Request,
    index: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: our caller's promise.
    let list = unsafe { requests(count, array) };
    if is_foreign(list) || index.is_null() {
        // SAFETY: our caller's promise.
        return unsafe { ffi::PMPI_Waitany(count, array, index, status) };
    }
    // SAFETY: our caller's promise.
    let code = unsafe { FAMPI_Waitany_local(count, array, index, status, FAMPI_TIMEOUT_NEVER) };
    // SAFETY: not null; our caller's promise. What is over stays in the list until here.
    let found = usize::try_from(unsafe { index.read() }).ok();
    found.and_then(|at| end(list.get_mut(at)?)).map_or(code, |(_, code)| code)
}

/// `MPI_Testsome`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Testsome(
    count: c_int,
    array: *mut MPI_Request,
    number: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: our caller's promise.
    let list = unsafe { requests(count, array) };
    if is_foreign(list) || number.is_null() || indices.is_null() {
        // SAFETY: our caller's promise.
        return unsafe { ffi::PMPI_Testsome(count, array, number, indices, statuses) };
    }
    let (mut found, mut has_failed) = (0, false);
    for (at, slot) in list.iter_mut().enumerate().filter(|(_, slot)| **slot != null()) {
        let Some((told, code)) = end(slot) else { continue };
        has_failed |= code != 0;
        // SAFETY: room for as many as there are requests, says our caller.
        unsafe { indices.add(found).write(at as c_int) };
        // SAFETY: as above.
        unsafe { put(statuses, found, told) };
        found += 1;
    }
    // SAFETY: not null; our caller's promise.
    unsafe { number.write(found as c_int) };
    if has_failed { ffi::MPI_ERR_IN_STATUS as c_int } else { 0 }
}

/// `MPI_Waitsome`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Waitsome(
    count: c_int,
    array: *mut MPI_Request,
    number: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: our caller's promise.
    if is_foreign(unsafe { requests(count, array) }) || number.is_null() {
        // SAFETY: our caller's promise.
        return unsafe { ffi::PMPI_Waitsome(count, array, number, indices, statuses) };
    }
    let never = FAMPI_TIMEOUT_NEVER;
    // SAFETY: our caller's promise. They stay in the list, and are looked for again below.
    let code = unsafe { FAMPI_Waitsome_local(count, array, number, indices, statuses, never) };
    if code == FAMPI_ERR_INTERRUPTED {
        return code;
    }
    // SAFETY: our caller's promise.
    unsafe { MPI_Testsome(count, array, number, indices, statuses) }
}

/// `MPI_Request_get_status`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_get_status(
    request: MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    let mut copy = request;
    if !can_enter() || !is_ours(&raw mut copy) {
        // SAFETY: our caller's promise.
        return unsafe { ffi::PMPI_Request_get_status(request, flag, status) };
    }
    // SAFETY: our caller's promise.
    unsafe { FAMPI_Request_get_status(request, flag, status) }
}

/// `MPI_Request_free`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_free(request: *mut MPI_Request) -> c_int {
    if !can_enter() || !is_ours(request) {
        // SAFETY: our caller's promise.
        return unsafe { beneath::free(request) };
    }
    // SAFETY: our caller's promise.
    unsafe { FAMPI_Request_free(request) }
}

/// `MPI_Start`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Start(request: *mut MPI_Request) -> c_int {
    // SAFETY: our caller's promise.
    unsafe { MPI_Startall(1, request) }
}

/// `MPI_Startall`.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Startall(count: c_int, array: *mut MPI_Request) -> c_int {
    // SAFETY: our caller's promise.
    let code = unsafe { ffi::PMPI_Startall(count, array) };
    if code == 0 {
        // SAFETY: our caller's promise.
        unsafe { requests(count, array) }.iter().for_each(|raw| note_started(*raw));
    }
    code
}

/// `MPI_Finalize`.
#[unsafe(no_mangle)]
pub extern "C" fn MPI_Finalize() -> c_int {
    beneath::end_calls();
    // SAFETY: the program has called it.
    unsafe { ffi::PMPI_Finalize() }
}
