//! Waits: with a timeout, and ended when the block that this rank is in is doomed.

use std::{ffi::c_int, time::Duration};

use fampi_core::{
    Timeout,
    engine::platform::Platform as _,
    guest::{Guest, Wait, Waiting},
};
use mpi::ffi::{self, MPI_Request, MPI_Status};

use crate::{
    arguments::{list, put, timeout},
    codes::{
        FAMPI_ERR_ARG, FAMPI_ERR_INTERRUPTED, FAMPI_ERR_STATE, FAMPI_ERR_TIMEOUT, FAMPI_Timeout,
        Result, done,
    },
    handles::{Awaited, Entry, Kind},
    outcome::code_of,
    recover,
    request::{empty_status, null},
    state::{State, enter},
    users,
};

/// How much of a list has to be over.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Much {
    All,
    One,
}

/// Says what to look at for the requests of a list; MPI keeps the program's own from now on.
fn awaited(state: &mut State, requests: &[MPI_Request], found: &mut Vec<Awaited>) -> Result<()> {
    state.check_once(requests)?;
    for request in requests {
        if let Some(Kind::Block(block)) = state.entry(*request).map(|entry| &entry.kind)
            && !block.finished
        {
            return Err(FAMPI_ERR_STATE);
        }
    }
    for raw in requests.iter().filter(|raw| **raw != null()) {
        if let Some(entry) = state.entry(*raw) {
            match &entry.kind {
                _ if entry.handle.is_complete() => {}
                Kind::Block(block) => found.push(Awaited::Block(block.name)),
                Kind::Making(_) => found.push(Awaited::Making),
                Kind::Collective(running) => {
                    found.push(Awaited::Collective(running.block, running.number));
                }
                Kind::Nothing => {}
            }
        } else if let Some(post) = state.operation(*raw)?
            && users::outcome(&mut state.guest, post).is_none()
        {
            found.push(Awaited::Operation(post));
        }
    }
    Ok(())
}

/// Waits for a single block, and gives its code; nothing for anything but a finished block.
// As `enter`.
#[allow(clippy::inline_always)]
#[inline(always)]
fn wait_block(state: &mut State, raw: MPI_Request, limit: Timeout) -> Option<Result<c_int>> {
    let State { guest, handles, .. } = state;
    let Entry { kind: Kind::Block(block), handle, held } = handles.entry(raw)? else { return None };
    if !block.finished || !block.makings.is_empty() {
        return None;
    }
    if let Some(code) = handle.code() {
        return Some(Ok(code));
    }
    let waited = guest.wait_block(block.name, limit);
    let ended = code_of(guest, block, *held);
    if let Some(code) = ended {
        handle.complete(code);
    }
    state.settle_others();
    Some(ended.ok_or_else(|| code_of_unfinished(waited)))
}

/// Waits for requests; those that are over are complete afterwards.
fn wait(
    state: &mut State,
    requests: &mut [MPI_Request],
    limit: Timeout,
    much: Much,
) -> Result<Wait> {
    let mut left = std::mem::take(&mut state.lists.awaited);
    left.clear();
    let waited = awaited(state, requests, &mut left)
        .and_then(|()| wait_for(state, requests, &mut left, limit, much));
    state.lists.awaited = left;
    waited
}

/// Waits for those requests of a list that are not over.
fn wait_for(
    state: &mut State,
    requests: &mut [MPI_Request],
    left: &mut Vec<Awaited>,
    limit: Timeout,
    much: Much,
) -> Result<Wait> {
    let any_over = requests.iter().any(|raw| *raw != null() && state.outcome(*raw).is_some());
    if left.is_empty() || much == Much::One && any_over {
        return Ok(Wait::Done);
    }
    let makings = makings(state, requests);
    if !makings.is_empty() {
        return wait_making(state, requests, (left, &makings), limit, much);
    }
    let waited = if let [Awaited::Block(block)] = left[..] {
        state.guest.wait_block(block, limit)
    } else {
        let (messages, foreign) = messages(state, requests, left);
        state.guest.wait(limit, (&messages, foreign), |probe| {
            let before = left.len();
            left.retain(|what| match what {
                Awaited::Operation(post) => !probe.request(*post),
                Awaited::Block(block) => !probe.block(*block),
                Awaited::Collective(block, number) => !probe.collective(*block, *number),
                Awaited::Making => false,
            });
            left.is_empty() || much == Much::One && left.len() < before
        })
    };
    state.settle();
    Ok(waited)
}

/// The messages of ours in a list, and whether others of the program's requests are in it that are
/// not over.
fn messages(state: &mut State, requests: &[MPI_Request], left: &[Awaited]) -> (Vec<Waiting>, bool) {
    let found = requests.iter().filter_map(|raw| state.message(*raw));
    let found: Vec<_> = found.map(|it| (it.comm, it.peer, it.post)).collect();
    let is_foreign = |what: &Awaited| match what {
        Awaited::Operation(post) => !found.iter().any(|(.., message)| message == post),
        Awaited::Block(_) | Awaited::Collective(..) | Awaited::Making => false,
    };
    let foreign = left.iter().any(is_foreign);
    (found, foreign)
}

/// The communicators in the making that are in a list, or that blocks in it wait for.
fn makings(state: &mut State, requests: &[MPI_Request]) -> Vec<MPI_Request> {
    let mut found = Vec::new();
    for raw in requests {
        match state.entry(*raw) {
            Some(Entry { kind: Kind::Making(making), .. }) if making.outcome().is_none() => {
                found.push(*raw);
            }
            Some(Entry { kind: Kind::Block(block), .. }) if !block.makings.is_empty() => {
                let inside = std::mem::take(&mut block.makings);
                found.extend(makings(state, &inside));
                if let Ok(block) = state.block(*raw) {
                    block.makings = inside;
                }
            }
            _ => {}
        }
    }
    found
}

/// Waits for requests with communicators in the making among them, or in their blocks, which go on
/// in their own steps. A block that waits for one ends when a block around it is doomed.
fn wait_making(
    state: &mut State,
    requests: &[MPI_Request],
    (left, makings): (&[Awaited], &[MPI_Request]),
    limit: Timeout,
    much: Much,
) -> Result<Wait> {
    const STEP: Duration = Duration::from_micros(200);
    let is_making = |what: &Awaited| matches!(what, Awaited::Making);
    let ends_early = !left.iter().any(is_making);
    let mut steps = Guest::in_steps(limit);
    loop {
        for making in makings {
            recover::advance(state, *making);
        }
        for what in left {
            if let Awaited::Operation(post) = what {
                state.guest.with_mpi(|mpi| mpi.test(*post, &mut None));
            }
        }
        state.settle();
        let mut over = requests.iter().map(|raw| state.outcome(*raw).is_some());
        let is_enough = match much {
            Much::All => over.all(|it| it),
            Much::One => over.any(|it| it),
        };
        if is_enough {
            return Ok(Wait::Done);
        }
        match state.guest.step_of_wait(&mut steps, STEP) {
            Wait::TimedOut => return Ok(Wait::TimedOut),
            Wait::Doomed if ends_early => return Ok(Wait::Doomed),
            _ => {}
        }
    }
}

/// An error for waits that did not come to their end.
fn unfinished(waited: Wait) -> Result<()> {
    if waited == Wait::Done { Ok(()) } else { Err(code_of_unfinished(waited)) }
}

/// What a wait returns that did not come to its end.
fn code_of_unfinished(waited: Wait) -> c_int {
    match waited {
        Wait::TimedOut => FAMPI_ERR_TIMEOUT,
        Wait::Done | Wait::Doomed => FAMPI_ERR_INTERRUPTED,
    }
}

fn status_ignored() -> *mut MPI_Status {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_STATUS_IGNORE }
}

/// True when the program does not ignore a status, or statuses.
#[inline]
fn is_wanted(pointer: *mut MPI_Status) -> bool {
    pointer != status_ignored() && !pointer.is_null()
}

/// Writes a status, unless the program ignores it.
///
/// # Safety
///
/// The pointer is `MPI_STATUS_IGNORE` or to a status of the program.
unsafe fn put_status(pointer: *mut MPI_Status, status: MPI_Status) {
    if is_wanted(pointer) {
        // SAFETY: our caller's promise.
        unsafe { pointer.write(status) };
    }
}

/// Waits for one request: any of MPI's, or a finished block. When the block that this rank is in
/// is doomed by a failure elsewhere, the wait ends.
///
/// The handle, and each copy of it, stays valid and can be given to a finish, or waited for again,
/// until `MPI_Request_free` or a wait of MPI's. A persistent request is inactive when it is
/// complete; what it came to is told until it is started again. Waits for blocks may come in any
/// order, and be repeated. `MPI_Test` by its own name may need some calls to see that a block is
/// decided.
///
/// `FAMPI_TIMEOUT_POLL` looks once and does not wait, `FAMPI_TIMEOUT_NEVER` has no limit. A timeout
/// says nothing about the outcome.
///
/// Returns `FAMPI_ERR_TIMEOUT` (unknown, wait again), `FAMPI_ERR_INTERRUPTED` (finish the block),
/// `FAMPI_ERR_TRYBLOCK_FOUND_ERRORS` for a faulty block, the code of its fault for a request that
/// failed (`FAMPI_ERR_PROC_FAILED_SOFT`, `FAMPI_ERR_INTERRUPTED`, also for a receive that was
/// cancelled because it was late at the end of its block, an error class of MPI), `FAMPI_ERR_STATE`
/// for a block that is not finished, `FAMPI_ERR_ARG`. What a death has cut short tells one or the
/// other until the wait for its block, then what `FAMPI_Get_failed_requests` finds.
///
/// # Safety
///
/// The pointers are null, or to a live request and to a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Wait_local(
    request: *mut MPI_Request,
    status: *mut MPI_Status,
    timeout: FAMPI_Timeout,
) -> c_int {
    enter(|state| {
        let limit = self::timeout(timeout)?;
        // SAFETY: our caller's promise.
        let requests = unsafe { list(1, request) }?;
        // SAFETY: as above.
        unsafe { wait_here(state, requests, status, limit, false) }
    })
}

/// Waits for all requests of a list, as `FAMPI_Wait_local` does for one.
///
/// Of several failures the code of the first in the list is returned; `MPI_ERROR` of each status
/// has the code of its request. Returns `FAMPI_ERR_REQUEST` when a request is in the list twice.
///
/// # Safety
///
/// The arrays are null or have `count` live requests and `count` statuses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Waitall_local(
    count: c_int,
    requests: *mut MPI_Request,
    statuses: *mut MPI_Status,
    timeout: FAMPI_Timeout,
) -> c_int {
    // SAFETY: our caller's promise.
    unsafe { wait_all(count, requests, statuses, timeout, false) }
}

/// `release` frees the requests that are over, as MPI's own waits do.
pub(crate) unsafe fn wait_all(
    count: c_int,
    requests: *mut MPI_Request,
    statuses: *mut MPI_Status,
    limit: FAMPI_Timeout,
    release: bool,
) -> c_int {
    enter(|state| {
        let limit = timeout(limit)?;
        // SAFETY: our caller's promise.
        let requests = unsafe { list(count, requests) }?;
        // SAFETY: as above.
        unsafe { wait_here(state, requests, statuses, limit, release) }
    })
}

/// Waits for requests that were checked before.
///
/// # Safety
///
/// As `put_statuses`, for each of the list.
// As `enter`.
#[allow(clippy::inline_always)]
#[inline(always)]
unsafe fn wait_here(
    state: &mut Option<State>,
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
    limit: Timeout,
    release: bool,
) -> Result<()> {
    if let ([slot], Some(state)) = (&mut *requests, state.as_mut())
        && let Some(waited) = wait_block(state, *slot, limit)
    {
        let code = waited?;
        if is_wanted(statuses) {
            // SAFETY: our caller's promise.
            unsafe { tell(state, *slot, statuses) };
        }
        if release {
            state.release(slot);
        }
        return done(code);
    }
    // SAFETY: our caller's promise.
    unsafe { wait_list(state, requests, statuses, limit, release) }
}

/// Waits for a list of requests, apart from the short way of a single block.
///
/// # Safety
///
/// As `put_statuses`, for each of the list.
#[inline(never)]
unsafe fn wait_list(
    state: &mut Option<State>,
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
    limit: Timeout,
    release: bool,
) -> Result<()> {
    if requests.iter().all(|raw| *raw == null()) {
        for at in 0..requests.len() {
            // SAFETY: our caller's promise.
            unsafe { put_statuses(statuses, at, empty_status()) };
        }
        return Ok(());
    }
    let state = State::started(state)?;
    unfinished(wait(state, requests, limit, Much::All)?)?;
    let mut first = 0;
    for (at, slot) in requests.iter_mut().enumerate() {
        let (status, code) = state.outcome(*slot).ok_or_else(|| state.code_for_block(*slot))?;
        first = if first == 0 { code } else { first };
        // SAFETY: our caller's promise.
        unsafe { put_statuses(statuses, at, status) };
        if release && *slot != null() {
            state.release(slot);
        }
    }
    if first == 0 { Ok(()) } else { Err(first) }
}

/// Writes the status of a request that is over.
///
/// # Safety
///
/// As `put_statuses`.
#[inline(never)]
unsafe fn tell(state: &mut State, raw: MPI_Request, status: *mut MPI_Status) {
    if let Some((found, _)) = state.outcome(raw) {
        // SAFETY: our caller's promise.
        unsafe { put_statuses(status, 0, found) };
    }
}

/// Writes the k-th status of an array.
///
/// # Safety
///
/// The pointer is `MPI_STATUSES_IGNORE`, null, or to an array with more than `at` statuses.
unsafe fn put_statuses(statuses: *mut MPI_Status, at: usize, status: MPI_Status) {
    if is_wanted(statuses) {
        // SAFETY: our caller's promise.
        unsafe { put_status(statuses.wrapping_add(at), status) };
    }
}

/// Waits for the next request of a list. `index` becomes its place, `MPI_UNDEFINED` when all are
/// `MPI_REQUEST_NULL`. A request that is over stays in the list, also a persistent one, which is
/// inactive then: take it out before the next call.
///
/// Returns as `FAMPI_Waitall_local`, about the request found.
///
/// # Safety
///
/// The array is null or has `count` live requests; the other pointers are null or to variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Waitany_local(
    count: c_int,
    requests: *mut MPI_Request,
    index: *mut c_int,
    status: *mut MPI_Status,
    timeout: FAMPI_Timeout,
) -> c_int {
    enter(|state| {
        let limit = self::timeout(timeout)?;
        // SAFETY: our caller's promise.
        let requests = unsafe { list(count, requests) }?;
        if index.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let state = State::started(state)?;
        unfinished(wait(state, requests, limit, Much::One)?)?;
        for (at, slot) in requests.iter_mut().enumerate().filter(|(_, slot)| **slot != null()) {
            if let Some((found, code)) = state.outcome(*slot) {
                // SAFETY: our caller's promise.
                unsafe { put(index, at as c_int) }?;
                // SAFETY: as above.
                unsafe { put_status(status, found) };
                return done(code);
            }
        }
        // SAFETY: our caller's promise, and reading a constant that MPI's library defines.
        unsafe { put(index, undefined()) }
    })
}

fn undefined() -> c_int {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_UNDEFINED }
}

/// Waits until at least one request of a list is over, and names all that are: `outcount` of
/// them, `MPI_UNDEFINED` when all are `MPI_REQUEST_NULL`. They stay in the list: take them out
/// before the next call.
///
/// Returns as `FAMPI_Waitall_local`, about the requests found.
///
/// # Safety
///
/// The arrays are null or have room for `incount`; the requests are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Waitsome_local(
    incount: c_int,
    requests: *mut MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
    timeout: FAMPI_Timeout,
) -> c_int {
    enter(|state| {
        let limit = self::timeout(timeout)?;
        // SAFETY: our caller's promise.
        let requests = unsafe { list(incount, requests) }?;
        // SAFETY: our caller's promise.
        let indices = unsafe { list(incount, indices) }?;
        if outcount.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        if requests.iter().all(|raw| *raw == null()) {
            // SAFETY: our caller's promise.
            return unsafe { put(outcount, undefined()) };
        }
        let state = State::started(state)?;
        unfinished(wait(state, requests, limit, Much::One)?)?;
        let (mut found, mut first) = (0, 0);
        for (at, slot) in requests.iter_mut().enumerate().filter(|(_, slot)| **slot != null()) {
            if let Some((status, code)) = state.outcome(*slot) {
                indices[found] = at as c_int;
                // SAFETY: our caller's promise.
                unsafe { put_statuses(statuses, found, status) };
                (found, first) = (found + 1, if first == 0 { code } else { first });
            }
        }
        // SAFETY: our caller's promise.
        unsafe { put(outcount, found as c_int) }?;
        if first == 0 { Ok(()) } else { Err(first) }
    })
}
