//! What a decided block says: the three queries of the papers, and the report as a whole.

use std::ffi::c_int;

use fampi_core::{Codes, Fault, FaultCode, FaultReport};
use mpi::ffi::{self, MPI_Comm, MPI_Group, MPI_Request};

use crate::{
    block::{list, put},
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_COMM, FAMPI_ERR_STATE},
    state::{Result, State, enter, enter_started},
};

/// The report of a block, which is the program's until `FAMPI_Report_free`.
#[allow(non_camel_case_types)]
pub struct FAMPI_Report {
    faults: Vec<(c_int, c_int)>,
}

fn report(state: &mut State, tb_request: MPI_Request) -> Result<FaultReport> {
    let block = state.block(tb_request)?.name;
    state.guest.report(block).map(|(_, report)| report).ok_or(FAMPI_ERR_STATE)
}

/// The requests of this rank that did not complete, with one of these codes, as places in the
/// list that was given to finish. fampi does not know whom a request needed: if the report names a
/// new death, those that it has cut short have `FAMPI_ERR_PROC_FAILED`. At most
/// `max_requests_count` are written; `count` says how many there are. Local.
///
/// Returns `FAMPI_ERR_REQUEST` for anything but a block, `FAMPI_ERR_STATE` for one that is not
/// decided, `FAMPI_ERR_COUNT`, `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The arrays are null or as long as their numbers say, `count` is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Get_failed_requests(
    tb_request: MPI_Request,
    error_codes_count: c_int,
    array_of_error_codes: *mut c_int,
    max_requests_count: c_int,
    array_of_indices: *mut c_int,
    count: *mut c_int,
) -> c_int {
    enter_started(|state| {
        // SAFETY: our caller's promise.
        let codes = unsafe { list(error_codes_count, array_of_error_codes) }?;
        // SAFETY: our caller's promise.
        let room = unsafe { list(max_requests_count, array_of_indices) }?;
        if count.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        report(state, tb_request)?;
        let block = state.block(tb_request)?;
        let (places, block) = (block.places.clone(), block.name);
        let failed = state.guest.failed_requests(block);
        let found: Vec<c_int> = failed
            .into_iter()
            .filter(|(_, code)| Codes::Numbers(codes).matches(*code))
            .map(|(part, _)| places.get(part).copied().unwrap_or(part) as c_int)
            .collect();
        for (slot, place) in room.iter_mut().zip(&found) {
            *slot = *place;
        }
        // SAFETY: our caller's promise.
        unsafe { put(count, found.len() as c_int) }
    })
}

/// The communicators with a new fault of these codes: the block's own, and those of blocks in its
/// list that this rank is a member of. At most `max_communicators_count` are written; `count` says
/// how many there are. Local, the same on all living ranks for a global block. The handles stay the
/// program's own.
///
/// Returns as `FAMPI_Get_failed_requests`.
///
/// # Safety
///
/// As `FAMPI_Get_failed_requests`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Get_failed_communicators(
    tb_request: MPI_Request,
    error_codes_count: c_int,
    array_of_error_codes: *mut c_int,
    max_communicators_count: c_int,
    array_of_communicators: *mut MPI_Comm,
    count: *mut c_int,
) -> c_int {
    enter_started(|state| {
        // SAFETY: our caller's promise.
        let codes = unsafe { list(error_codes_count, array_of_error_codes) }?;
        // SAFETY: our caller's promise.
        let room = unsafe { list(max_communicators_count, array_of_communicators) }?;
        if count.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let report = report(state, tb_request)?;
        let guest = &state.guest;
        let failed = |id| {
            report.faults().iter().any(|it| it.comm == id && Codes::Numbers(codes).matches(it.code))
        };
        let comms = state.comms.iter().filter(|known| failed(guest.id(known.comm)));
        let found: Vec<MPI_Comm> = comms.map(|known| known.raw).collect();
        for (slot, comm) in room.iter_mut().zip(&found) {
            *slot = *comm;
        }
        // SAFETY: our caller's promise.
        unsafe { put(count, found.len() as c_int) }
    })
}

/// The ranks of `comm` with a fault of these codes, as a group that the program frees: the dead
/// for process failures, the rank whose state is gone for `FAMPI_ERR_STATE_LOST`, the ranks that
/// raised or met it for every other code. The dead of the block's own communicator are all that it
/// has lost, whichever report named them first: so many does a recovery spawn. The rank that handed
/// on the fault of an inner block is in the group of either communicator. Local, the same on all
/// living ranks for a global block.
///
/// Returns `FAMPI_ERR_COMM` for a communicator that is not in use; else as
/// `FAMPI_Get_failed_requests`.
///
/// # Safety
///
/// The array is null or has as many codes as told, `fgroup` is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Get_failed_group(
    tb_request: MPI_Request,
    error_codes_count: c_int,
    array_of_error_codes: *mut c_int,
    comm: MPI_Comm,
    fgroup: *mut MPI_Group,
) -> c_int {
    enter_started(|state| {
        // SAFETY: our caller's promise.
        let codes = unsafe { list(error_codes_count, array_of_error_codes) }?;
        if fgroup.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let report = report(state, tb_request)?;
        let block = state.block(tb_request)?.name;
        let known = state.comms.iter().find(|known| known.raw == comm).ok_or(FAMPI_ERR_COMM)?;
        let id = state.guest.id(known.comm);
        let data = state.guest.data_of(block);
        let own = data.and_then(|data| state.guest.with_mpi(|mpi| mpi.users_comm(data)));
        let is_own = own.is_none_or(|own| own == comm);
        let mut ranks = Vec::new();
        for fault in report.faults().iter().filter(|it| Codes::Numbers(codes).matches(it.code)) {
            let rank = fault.rank.number() as c_int;
            match (fault.code, own) {
                // It names the inner communicator, and a rank of the block's own.
                (FaultCode::InnerBlock, Some(own)) if !is_own && fault.comm == id => {
                    ranks.extend(rank_elsewhere(rank, own, comm)?);
                }
                (FaultCode::InnerBlock, _) if is_own => ranks.push(rank),
                _ if fault.comm == id => ranks.push(rank),
                _ => {}
            }
        }
        if is_own && Codes::Numbers(codes).matches(FaultCode::ProcessFailed) {
            ranks.extend(report.known_failed().iter().map(|rank| rank.number() as c_int));
        }
        ranks.sort_unstable();
        ranks.dedup();
        let group = part_of_group(comm, &ranks)?;
        // SAFETY: our caller's promise.
        unsafe { put(fgroup, group) }
    })
}

/// The rank that a process of a communicator has in another one, if it is in that, too.
fn rank_elsewhere(rank: c_int, of: MPI_Comm, elsewhere: MPI_Comm) -> Result<Option<c_int>> {
    // SAFETY: reading a constant that MPI's library defines.
    let mut groups = unsafe { [ffi::RSMPI_GROUP_NULL; 2] };
    for (group, comm) in groups.iter_mut().zip([of, elsewhere]) {
        // SAFETY: the communicator is in use; the result is ours.
        let code = unsafe { ffi::MPI_Comm_group(comm, group) };
        if code != 0 {
            return Err(code);
        }
    }
    // SAFETY: reading a constant that MPI's library defines.
    let nowhere = unsafe { ffi::RSMPI_UNDEFINED };
    let [from, to] = groups;
    let mut there = nowhere;
    // SAFETY: the groups are live, the rank is one of the first.
    let code =
        unsafe { ffi::MPI_Group_translate_ranks(from, 1, &raw const rank, to, &raw mut there) };
    for group in &mut groups {
        // SAFETY: ours, and used no more.
        unsafe { ffi::MPI_Group_free(group) };
    }
    if code == 0 { Ok((there != nowhere).then_some(there)) } else { Err(code) }
}

fn part_of_group(comm: MPI_Comm, ranks: &[c_int]) -> Result<MPI_Group> {
    // SAFETY: reading a constant that MPI's library defines.
    let (mut all, mut part) = unsafe { (ffi::RSMPI_GROUP_NULL, ffi::RSMPI_GROUP_NULL) };
    // SAFETY: the communicator is in use; the result is ours.
    let code = unsafe { ffi::MPI_Comm_group(comm, &raw mut all) };
    if code != 0 {
        return Err(code);
    }
    let count = ranks.len() as c_int;
    // SAFETY: the group is live, the ranks are ranks of it.
    let code = unsafe { ffi::MPI_Group_incl(all, count, ranks.as_ptr(), &raw mut part) };
    // SAFETY: ours, and used no more.
    unsafe { ffi::MPI_Group_free(&raw mut all) };
    if code == 0 { Ok(part) } else { Err(code) }
}

/// The report of a decided block, as an object of its own that outlives the block. Local.
///
/// Returns `FAMPI_ERR_REQUEST`, `FAMPI_ERR_STATE`, `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Report_get(
    tb_request: MPI_Request,
    report: *mut *mut FAMPI_Report,
) -> c_int {
    enter_started(|state| {
        if report.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let found = self::report(state, tb_request)?;
        let line = |fault: &Fault| (fault.rank.number() as c_int, fault.code.number());
        let made = FAMPI_Report { faults: found.faults().iter().map(line).collect() };
        // SAFETY: our caller's promise.
        unsafe { put(report, Box::into_raw(Box::new(made))) }
    })
}

/// Number of faults in a report; 0 for null.
///
/// # Safety
///
/// The pointer is null or a report that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Report_count(report: *const FAMPI_Report) -> c_int {
    // SAFETY: our caller's promise.
    unsafe { report.as_ref() }.map_or(0, |report| report.faults.len() as c_int)
}

/// A fault of a report: the rank that it concerns, in the block's communicator, and its code.
///
/// Returns `FAMPI_ERR_ARG` for null pointers and places outside of the report.
///
/// # Safety
///
/// The pointers are null, or a report that was not freed, and variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Report_fault(
    report: *const FAMPI_Report,
    index: c_int,
    rank: *mut c_int,
    code: *mut c_int,
) -> c_int {
    // SAFETY: our caller's promise.
    let report = unsafe { report.as_ref() };
    let fault = report
        .and_then(|report| report.faults.get(usize::try_from(index).ok()?))
        .filter(|_| !rank.is_null() && !code.is_null());
    let Some(fault) = fault else { return FAMPI_ERR_ARG };
    // SAFETY: not null; our caller's promise.
    unsafe { rank.write(fault.0) };
    // SAFETY: as above.
    unsafe { code.write(fault.1) };
    0
}

/// Frees a report; nothing happens to null.
///
/// # Safety
///
/// The pointer is null or a report that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Report_free(report: *mut FAMPI_Report) {
    if !report.is_null() {
        // SAFETY: made by `FAMPI_Report_get`, and not freed.
        drop(unsafe { Box::from_raw(report) });
    }
}

/// The ranks that reports on this communicator have named dead so far, as a group that the
/// program frees. Local, the same on all living ranks that have seen the same blocks.
///
/// Returns `FAMPI_ERR_COMM` for a communicator that is not in use, `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_known_failed(comm: MPI_Comm, fgroup: *mut MPI_Group) -> c_int {
    enter(|state| {
        if fgroup.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let state = state.as_mut().ok_or(FAMPI_ERR_COMM)?;
        let known = state.comms.iter().find(|known| known.raw == comm).ok_or(FAMPI_ERR_COMM)?;
        let dead = state.guest.known_failed(known.comm);
        let ranks: Vec<c_int> = dead.iter().map(|rank| rank.number() as c_int).collect();
        // SAFETY: our caller's promise.
        unsafe { put(fgroup, part_of_group(comm, &ranks)?) }
    })
}
