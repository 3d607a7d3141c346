//! What a decided block says: the three queries of the papers, and the report as a whole.

use std::ffi::c_int;

use fampi_core::{
    Codes, Fault, FaultCode, FaultReport, Rank, RankSet,
    guest::{Guest, GuestBlock, GuestComm, Part},
};
use mpi::ffi::{self, MPI_Comm, MPI_Group, MPI_Request};

use crate::{
    arguments::{list, put},
    codes::{
        FAMPI_ERR_ARG, FAMPI_ERR_COMM, FAMPI_ERR_REQUEST, FAMPI_ERR_STATE, Result, asked, number,
    },
    handles::Kind,
    origin::{comm_of, is_part, places},
    state::{State, enter, enter_started},
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
        let codes = asked(unsafe { list(error_codes_count, array_of_error_codes) }?);
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
            .filter(|(_, code)| Codes::Numbers(&codes).matches(*code))
            .map(|(part, _)| places.get(part).copied().unwrap_or(part) as c_int)
            .collect();
        for (slot, place) in room.iter_mut().zip(&found) {
            *slot = *place;
        }
        // SAFETY: our caller's promise.
        unsafe { put(count, found.len() as c_int) }
    })
}

/// The communicators with a new fault of these codes: the block's own, and those of blocks and of
/// requests in its list, which are in use in it. A death counts for each of them that has the
/// process. At most `max_communicators_count` are written; `count` says how many there are. Local;
/// for a global block the block's own is the same on all living ranks, each other one on all its
/// members that have it in their lists. The handles stay the program's own.
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
        let codes = asked(unsafe { list(error_codes_count, array_of_error_codes) }?);
        // SAFETY: our caller's promise.
        let room = unsafe { list(max_communicators_count, array_of_communicators) }?;
        if count.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let report = report(state, tb_request)?;
        let block = state.block(tb_request)?.name;
        let guest = &state.guest;
        let matching = report.faults().iter().filter(|it| Codes::Numbers(&codes).matches(it.code));
        let failed = |id| matching.clone().any(|it| it.comm == id);
        let comms = state.comms.iter().filter(|known| failed(guest.id(known.comm)));
        let mut found: Vec<MPI_Comm> = comms.map(|known| known.raw).collect();
        let own = guest.id(guest.comm_of(block));
        let died = |it: &&Fault| it.comm == own && it.code.is_process_failure();
        let dead: Vec<c_int> =
            matching.clone().filter(died).map(|it| it.rank.number() as c_int).collect();
        if let Some(own) = raw_of(state, block).filter(|_| !dead.is_empty()) {
            for comm in used(state, tb_request)? {
                let lost = places(own, &dead, comm).unwrap_or_default();
                if lost.iter().any(Option::is_some) && !found.contains(&comm) {
                    found.push(comm);
                }
            }
        }
        for (slot, comm) in room.iter_mut().zip(&found) {
            *slot = *comm;
        }
        // SAFETY: our caller's promise.
        unsafe { put(count, found.len() as c_int) }
    })
}

/// The ranks of `comm` with a fault of these codes, as a group that the program frees: the dead
/// for process failures, the rank whose state is gone for `FAMPI_ERR_STATE_LOST`, the ranks that
/// raised or met it for every other code. The dead are all that the block's own communicator has
/// lost, whichever report named them first: so many does a recovery spawn; and of any other
/// communicator those of them that it has. The rank that handed on the fault of an inner block is
/// in the group of either communicator. Local, the same on all living ranks for a global block.
///
/// Returns `FAMPI_ERR_COMM` for a communicator that is not in use, unless all its processes are in
/// the block's own; else as `FAMPI_Get_failed_requests`.
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
        let codes = asked(unsafe { list(error_codes_count, array_of_error_codes) }?);
        if fgroup.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let report = report(state, tb_request)?;
        let block = state.block(tb_request)?.name;
        let id = state.known(comm).map(|known| state.guest.id(known));
        let own = raw_of(state, block);
        let is_own = own.is_none_or(|own| own == comm);
        let is_part = || own.is_some_and(|own| is_part(comm, own) == Ok(true));
        if id.is_none() && !is_part() {
            return Err(FAMPI_ERR_COMM);
        }
        let mut ranks = Vec::new();
        for fault in report.faults().iter().filter(|it| Codes::Numbers(&codes).matches(it.code)) {
            let rank = fault.rank.number() as c_int;
            match (fault.code, own) {
                // It names the inner communicator, and a rank of the block's own.
                (FaultCode::InnerBlock, Some(own)) if !is_own && Some(fault.comm) == id => {
                    ranks.extend(places(own, &[rank], comm)?.into_iter().flatten());
                }
                (FaultCode::InnerBlock, _) if is_own => ranks.push(rank),
                _ if Some(fault.comm) == id => ranks.push(rank),
                _ => {}
            }
        }
        let dead = report.known_failed_with(Codes::Numbers(&codes));
        let dead: Vec<c_int> = dead.iter().map(|rank| rank.number() as c_int).collect();
        if !dead.is_empty() {
            ranks.extend(places(own.unwrap_or(comm), &dead, comm)?.into_iter().flatten());
        }
        ranks.sort_unstable();
        ranks.dedup();
        let group = part_of_group(comm, &ranks)?;
        // SAFETY: our caller's promise.
        unsafe { put(fgroup, group) }
    })
}

/// How a dead rank of the block's own communicator died: `cause` is `FAMPI_CAUSE_KILLED` or another
/// of these constants, `value` its exit status or signal, 0 for others. Local, the same on all
/// living ranks for a global block. `FAMPI_CAUSE_UNKNOWN` where none of them had heard it when the
/// block was agreed on; a later report that names the death may know more.
///
/// Returns `FAMPI_ERR_ARG` also for a rank that no report has named dead; else as
/// `FAMPI_Get_failed_requests`.
///
/// # Safety
///
/// `cause` and `value` are null or to variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Get_failure_cause(
    tb_request: MPI_Request,
    rank: c_int,
    cause: *mut c_int,
    value: *mut c_int,
) -> c_int {
    enter_started(|state| {
        if cause.is_null() || value.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let report = report(state, tb_request)?;
        let dead = u32::try_from(rank).map(Rank::new).ok();
        let dead = dead.filter(|rank| report.known_failed().contains(*rank));
        let (kind, with) = report.cause(dead.ok_or(FAMPI_ERR_ARG)?).to_numbers();
        // SAFETY: our caller's promise.
        unsafe { put(cause, c_int::from(kind)) }?;
        // SAFETY: our caller's promise.
        unsafe { put(value, c_int::from(with)) }
    })
}

/// The program's handle of the communicator of a block.
fn raw_of(state: &mut State, block: GuestBlock) -> Option<MPI_Comm> {
    let data = state.guest.data_of(block)?;
    state.guest.with_mpi(|mpi| mpi.users_comm(data))
}

/// The communicators of the blocks and of the requests in the list of a block, each once.
fn used(state: &mut State, tb_request: MPI_Request) -> Result<Vec<MPI_Comm>> {
    let State { guest, handles, comms, users, .. } = state;
    let Some(Kind::Block(block)) = handles.entry(tb_request).map(|it| &it.kind) else {
        return Err(FAMPI_ERR_REQUEST);
    };
    let inner = guest.used(block.name);
    let raw = |comm: GuestComm| comms.iter().find(|it| it.comm == comm).map(|it| it.raw);
    let mut used: Vec<MPI_Comm> = inner.into_iter().filter_map(raw).collect();
    let posts = block.parts.iter().filter_map(Part::post);
    guest.with_mpi(|mpi| {
        for post in posts {
            let comm = match users.message(mpi, post) {
                Some(message) => raw(message.comm),
                None => mpi.request_of(post).and_then(|raw| comm_of(mpi, raw)),
            };
            if let Some(comm) = comm.filter(|comm| !used.contains(comm)) {
                used.push(comm);
            }
        }
    });
    Ok(used)
}

pub(crate) fn part_of_group(comm: MPI_Comm, ranks: &[c_int]) -> Result<MPI_Group> {
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
        let line = |fault: &Fault| (fault.rank.number() as c_int, number(fault.code));
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

/// The ranks that reports on this communicator, or on one with all its processes, have named dead
/// so far, as a group that the program frees. Local, the same on all living ranks that have seen
/// the same blocks.
///
/// Returns `FAMPI_ERR_COMM` when neither this communicator is in use nor one with all its
/// processes, `FAMPI_ERR_ARG`.
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
        let ranks = known_failed(state, comm)?.ok_or(FAMPI_ERR_COMM)?;
        // SAFETY: our caller's promise.
        unsafe { put(fgroup, part_of_group(comm, &ranks)?) }
    })
}

/// The ranks of a communicator that reports have named dead: nothing when neither it is in use nor
/// one with all its processes.
pub(crate) fn known_failed(state: &State, comm: MPI_Comm) -> Result<Option<Vec<c_int>>> {
    dead_ranks(state, comm, Guest::known_failed)
}

/// The ranks of a communicator that reports have named dead, and those that a recovery found dead.
pub(crate) fn left_out(state: &State, comm: MPI_Comm) -> Result<Option<Vec<c_int>>> {
    dead_ranks(state, comm, Guest::left_out)
}

/// The ranks of a communicator that are dead, by what is known of those that have all its ranks.
fn dead_ranks(
    state: &State,
    comm: MPI_Comm,
    dead_of: impl Fn(&Guest, GuestComm) -> RankSet,
) -> Result<Option<Vec<c_int>>> {
    let mut told: Option<Vec<c_int>> = None;
    for known in &state.comms {
        if known.raw != comm && is_part(comm, known.raw) != Ok(true) {
            continue;
        }
        let dead = dead_of(&state.guest, known.comm);
        let dead: Vec<c_int> = dead.iter().map(|rank| rank.number() as c_int).collect();
        let here = places(known.raw, &dead, comm)?.into_iter().flatten();
        told.get_or_insert_default().extend(here);
    }
    if let Some(ranks) = &mut told {
        ranks.sort_unstable();
        ranks.dedup();
    }
    Ok(told)
}
