//! Blocks: start, finish, raise, interrupt; and timeouts.

use std::{ffi::c_int, mem::take};

use fampi_core::{Level, Timeout, guest::GuestBlock, mpi::MpiPlatform};
use mpi::ffi::{MPI_Comm, MPI_Request};

use crate::{
    arguments::{self, list, put},
    codes::{
        FAMPI_ERR_ARG, FAMPI_ERR_REQUEST, FAMPI_ERR_STATE, FAMPI_TIMEOUT_NEVER,
        FAMPI_TRYBLOCK_GLOBAL, FAMPI_TRYBLOCK_LOCAL, FAMPI_TRYBLOCK_WITH_COLLECTIVE, FAMPI_Timeout,
        Result, may_be_raised,
    },
    handles::{Entry, Kind},
    numbers::Reduction,
    origin::{links_two_groups, needs_all},
    rebuild,
    request::null,
    state::{State, enter, enter_started},
};

/// Sets a timeout to so many seconds, fractions included. 0 is `FAMPI_TIMEOUT_POLL`, infinity and
/// what does not fit are `FAMPI_TIMEOUT_NEVER`.
///
/// Returns `FAMPI_ERR_ARG` for a null pointer, a negative number, or not a number.
///
/// # Safety
///
/// The pointer is null or to a timeout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Timeout_set_seconds(
    timeout: *mut FAMPI_Timeout,
    seconds: f64,
) -> c_int {
    if seconds.is_nan() || seconds < 0.0 {
        return FAMPI_ERR_ARG;
    }
    let nanoseconds = seconds * 1e9;
    let fits = nanoseconds < i64::MAX as f64;
    let value = if fits { nanoseconds as i64 } else { FAMPI_TIMEOUT_NEVER };
    // What is too short to count is still not a poll.
    let value = if seconds > 0.0 && value == 0 { 1 } else { value };
    // SAFETY: our caller's promise.
    unsafe { put(timeout, value) }.err().unwrap_or(0)
}

/// The seconds of a timeout; infinity for `FAMPI_TIMEOUT_NEVER`.
///
/// Returns `FAMPI_ERR_ARG` for a null pointer or a number that is no timeout.
///
/// # Safety
///
/// The pointer is null or to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Timeout_get_seconds(
    timeout: FAMPI_Timeout,
    seconds: *mut f64,
) -> c_int {
    let value = match timeout {
        FAMPI_TIMEOUT_NEVER => f64::INFINITY,
        timeout if timeout < 0 => return FAMPI_ERR_ARG,
        timeout => timeout as f64 * 1e-9,
    };
    // SAFETY: our caller's promise.
    unsafe { put(seconds, value) }.err().unwrap_or(0)
}

/// Takes a communicator into use, which the first `FAMPI_TryBlock_start` on it does otherwise.
///
/// Collective over the communicator, and blocking: two `MPI_Comm_dup`, some small exchanges and
/// three agreements, about a millisecond. Its errors return from now on, and with the first
/// communicator those of `MPI_COMM_WORLD` and `MPI_COMM_SELF`. One that has lost a rank cannot be
/// taken into use any more; one that `FAMPI_Comm_ishrink` or `FAMPI_Comm_irebuild` made is in use.
/// `MPI_Comm_free` by the program ends it. `MPI_Init` comes before.
///
/// A link of two groups (`MPI_Intercomm_create`) is taken into use for `FAMPI_Comm_irebuild`, by
/// all of both groups.
///
/// Returns `FAMPI_ERR_COMM`, `FAMPI_ERR_UNSUPPORTED`, or `FAMPI_ERR_CREATION` when a process died
/// in it or before it, or when some may not come, as a rank that waits for them has a block open
/// that cannot commit any more: on all living ranks, now and later, and `comm` is revoked. Go on
/// with what `MPIX_Comm_shrink` makes of it. A rank that dies when it has left this call is one
/// that the first block reports.
///
/// Ranks in this call wait for every living member of `comm`. So a rank that gets an error for one
/// communicator still calls this for the others of which it is a member. Or all ranks call it
/// inside of a block of a larger communicator: a rank that gets an error raises it in that block,
/// which ends the waits of the others.
#[unsafe(no_mangle)]
pub extern "C" fn FAMPI_Init(comm: MPI_Comm) -> c_int {
    enter(|state| {
        let state = State::started(state)?;
        if links_two_groups(comm)? {
            return rebuild::use_link(state, comm);
        }
        state.comm(comm).map(|_| ())
    })
}

/// Starts a block on a communicator: local, no message, except that the first call with a
/// communicator takes it into use (`FAMPI_Init`). All living ranks start their blocks on one
/// communicator in the same order; several may be open at once.
///
/// A block with `FAMPI_TRYBLOCK_LOCAL` sends nothing, and knows faults of this rank only. A request
/// that fails in it makes the next global block of the communicator that has requests faulty, as
/// its message may still come; what is raised in it does not. The ranks agree on one with
/// `FAMPI_TRYBLOCK_GLOBAL`, and on one with `FAMPI_TRYBLOCK_WITH_COLLECTIVE`, which has a
/// collective of all its ranks in its list, or is ended by one (`FAMPI_TryBlock_finish_allreduce`).
/// The last `FAMPI_Ibarrier`, or `FAMPI_Iallreduce` of up to eight numbers, that was started in it
/// rides on the commit; MPI's own do not, and the commit has its messages beside theirs.
/// Where it lacks that, and no process has died, it is faulty on all ranks, with
/// `FAMPI_ERR_NO_COLLECTIVE`, and interrupted, as others may wait in theirs.
///
/// `tb_request` becomes a request of MPI that stands for the block. It is complete when the block
/// is decided, and stays until `MPI_Request_free`. To leave a block that is not finished, free it
/// with `FAMPI_Request_free`: it is faulty then on all ranks. MPI's own call would not tell fampi.
///
/// Returns `FAMPI_ERR_ARG` for an unknown flag or a null pointer; else as `FAMPI_Init`.
///
/// # Safety
///
/// The pointer is null or to a request variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_TryBlock_start(
    comm: MPI_Comm,
    flag: c_int,
    tb_request: *mut MPI_Request,
) -> c_int {
    enter(|state| {
        let level = match flag {
            FAMPI_TRYBLOCK_LOCAL => Level::Local,
            FAMPI_TRYBLOCK_GLOBAL => Level::Global,
            FAMPI_TRYBLOCK_WITH_COLLECTIVE => Level::WithCollective,
            _ => return Err(FAMPI_ERR_ARG),
        };
        if tb_request.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let state = State::started(state)?;
        let comm = state.comm(comm)?;
        state.handles.announce();
        let block = state.guest.start(comm, level);
        let made = match state.handles.add_block(block) {
            Ok(made) => made,
            Err(code) => return refuse(state, block, code),
        };
        // SAFETY: our caller's promise.
        unsafe { put(tb_request, made) }
    })
}

/// MPI has made no request for a block: it is left again.
#[cold]
fn refuse(state: &mut State, block: GuestBlock, code: c_int) -> Result<()> {
    state.guest.release(block);
    Err(code)
}

/// Ends a block: when the requests of the list are over, this rank votes. Does not wait. Several
/// open blocks may be finished, and waited for, in any order.
///
/// The list may hold any requests: point-to-point, collective, persistent, of files, of windows,
/// finished blocks, and `MPI_REQUEST_NULL`, which counts as complete. The array is only read, and
/// the handles stay the program's own. Every copy of them, made before or after, may be waited for,
/// tested, asked for its status and freed, at any time, by MPI's calls and by fampi's. Each request
/// is freed once, by any of its copies: by a call that frees or by a wait of MPI's. A copy of what
/// was freed is good for the rest until the block is freed, too; MPI gives the handle to nothing
/// else before. A persistent request is inactive once it is complete, and may be started again; to
/// free a copy of it is to free it. A finished block in the list stays its owner's, who frees it.
///
/// A shrink, a rebuild and a join may be in the list while they are pending: waits for the block
/// take their steps. One that fails is a fault of the block, `FAMPI_ERR_CREATION`. One that is
/// pending when the block ends, because that was interrupted or had a limit, stays the program's,
/// which waits for it: it ends alike on all ranks.
///
/// A request that is not complete after `timeout` is a fault, on all ranks, and a receive is
/// cancelled then; `FAMPI_TIMEOUT_NEVER` has no limit. It is a fault only in a wait, for any
/// request, that goes on beyond `timeout`: a longer wait counts from its beginning, shorter ones
/// add up. A wait with the same timeout returns `FAMPI_ERR_TIMEOUT` first, and so does each further
/// one: the program may ask again for a rank that is late but alive. `FAMPI_TIMEOUT_POLL` means
/// here as there to look once and not to wait: what is not complete when a wait has looked once is
/// a fault if that wait goes on, and a wait that is a poll makes nothing late. MPI's own waits have
/// no limit. How long to wait for the verdict is told to the wait. Called again on the same block,
/// the list is ignored, and `timeout` counts from the next wait on as long as requests are pending.
///
/// A death ends those messages of `FAMPI_Isend`, `FAMPI_Issend` and `FAMPI_Irecv` that need the
/// dead, and the others when their peer has ended its part of the block without having served them
/// (`FAMPI_Comm_set_patience`). Their communicator goes on, and so do blocks on it with such
/// messages, however many processes have died.
///
/// For any other request fampi does not know which rank it waits for. If a process dies while such
/// a request is pending in the block, the block is cut short on all ranks and its communicator
/// revoked: what is pending there ends with an error, and MPI's own calls on it fail from then on.
/// Messages of fampi's own and blocks go on working, and `FAMPI_Comm_ishrink` and
/// `FAMPI_Comm_irebuild` start from it. Requests on other communicators that cannot end are faults
/// of the block while MPI still has them, and waits for them return `FAMPI_ERR_INTERRUPTED`: their
/// buffers are not to be touched before `MPI_Test` says that they are over. After a fault without a
/// death nothing is revoked: give the next attempt other tags if an old message of MPI's own could
/// match.
///
/// Returns `FAMPI_ERR_REQUEST` when `tb_request` is no block or is in its own list, or when a
/// request is in the list twice, `FAMPI_ERR_STATE` for an inner block that is not finished and for
/// a collective of fampi's own in another open block, `FAMPI_ERR_COUNT`, `FAMPI_ERR_ARG`. Nothing
/// has happened then, and the block is still open.
///
/// # Safety
///
/// The array is null or has `count` requests, each of them live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_TryBlock_finish(
    tb_request: MPI_Request,
    count: c_int,
    array_of_requests: *mut MPI_Request,
    timeout: FAMPI_Timeout,
) -> c_int {
    enter_started(|state| {
        let limit = arguments::timeout(timeout)?;
        // SAFETY: our caller's promise.
        match unsafe { list(count, array_of_requests) } {
            Ok([]) => finish_alone(state, tb_request, limit),
            Ok(requests) => finish(state, tb_request, requests, limit, None),
            Err(code) => finish_again(state, tb_request, limit, code),
        }
    })
}

/// Ends a block without requests, or moves the deadline of one that was ended before.
// As `enter`.
#[allow(clippy::inline_always)]
#[inline(always)]
fn finish_alone(state: &mut State, tb_request: MPI_Request, limit: Timeout) -> Result<()> {
    let State { guest, handles, .. } = state;
    let Some(Entry { kind: Kind::Block(block), .. }) = handles.entry(tb_request) else {
        return Err(FAMPI_ERR_REQUEST);
    };
    guest.finish(block.name, &[], limit);
    if std::mem::replace(&mut block.finished, true) {
        state.settle();
    }
    Ok(())
}

/// Moves the deadline of a block that was ended before, whatever else is given for it now: this
/// code is for another one.
#[cold]
pub(crate) fn finish_again(
    state: &mut State,
    tb_request: MPI_Request,
    limit: Timeout,
    code: c_int,
) -> Result<()> {
    if state.block(tb_request)?.finished {
        finish_alone(state, tb_request, limit)
    } else {
        Err(code)
    }
}

/// Ends a block, with a reduction on its commit or without. Repeated, it moves the deadline.
#[inline(never)]
pub(crate) fn finish(
    state: &mut State,
    tb_request: MPI_Request,
    requests: &[MPI_Request],
    limit: Timeout,
    reduction: Option<Reduction>,
) -> Result<()> {
    let found = state.block(tb_request)?;
    let block = found.name;
    if found.finished {
        return finish_alone(state, tb_request, limit);
    }
    let mut list = take(&mut state.lists.list);
    let done = list.take_over(state, tb_request, requests).and_then(|()| {
        if state.guest.needs_collective(block) && has_collective(state, block, requests) {
            state.guest.note_collective(block);
        }
        if let Some(Reduction { values, target }) = reduction {
            state.block(tb_request)?.result = Some(target);
            state.guest.fuse(block, values);
        }
        state.guest.finish(block, &list.parts, limit);
        list.place_collectives(state, block);
        list.place_makings(state, tb_request)?;
        std::mem::swap(&mut state.block(tb_request)?.parts, &mut list.parts);
        Ok(())
    });
    state.lists.list = list;
    done?;
    state.settle();
    Ok(())
}

/// True when one of these requests needs all ranks of a block, or there are no others.
#[cold]
fn has_collective(state: &mut State, block: GuestBlock, requests: &[MPI_Request]) -> bool {
    let State { guest, finished, .. } = state;
    let data = guest.data_of(block);
    guest.with_mpi(|mpi| {
        let Some(own) = data.and_then(|data| mpi.users_comm(data)) else { return false };
        let is_own = |raw: MPI_Request| raw != null() && !MpiPlatform::is_shared(raw, *finished);
        let mut requests = requests.iter().copied().filter(|raw| is_own(*raw));
        requests.any(|raw| needs_all(mpi, raw, own))
    })
}

/// Raises a fault of the application in a block between its start and its finish, or in a request
/// that is to be given to a finish: the block is faulty on all ranks, with this code and this rank.
/// No rank is interrupted.
///
/// Of a request, `FAMPI_Get_failed_requests` names the place here, and waits return the code once
/// the operation is over, whatever MPI made of it. A collective of fampi's own (`FAMPI_Iallreduce`
/// and so on) is one of the block in which it was started, in the list or not; the other ranks have
/// its result. A request that was over when it started cannot be named, since MPI has one handle
/// for all of these: most sends of a few bytes, and what has `MPI_PROC_NULL`.
///
/// The code is any number but 0, fampi's own (`FAMPI_ERR_TRANSIENT` and `FAMPI_ERR_PERMANENT` are
/// for applications) and those of MPI's own classes: no living rank looks dead. What
/// `MPI_Add_error_code` and `MPI_Add_error_class` give may be raised.
///
/// Returns `FAMPI_ERR_REQUEST` for null, for a request that cannot be named and for a shrink or
/// rebuild, `FAMPI_ERR_STATE` for a block that is finished or a request of such a block,
/// `FAMPI_ERR_ARG` for a code that may not be raised.
#[unsafe(no_mangle)]
pub extern "C" fn FAMPI_Request_raise_error(request: MPI_Request, error_code: c_int) -> c_int {
    enter_started(|state| {
        let is_ours = match state.entry(request) {
            Some(Entry { kind: Kind::Block(block), .. }) if block.finished => {
                return Err(FAMPI_ERR_STATE);
            }
            Some(Entry { kind: Kind::Block(_) | Kind::Collective(_), .. }) => true,
            Some(_) => return Err(FAMPI_ERR_REQUEST),
            None => false,
        };
        if !is_ours && !state.may_be_named(request) {
            return Err(FAMPI_ERR_REQUEST);
        }
        if !may_be_raised(error_code) {
            return Err(FAMPI_ERR_ARG);
        }
        let State { guest, handles, .. } = state;
        match handles.entry(request) {
            Some(Entry { kind: Kind::Collective(running), handle, .. }) => {
                running.raise(guest, error_code)?;
                handle.fail(error_code);
            }
            Some(Entry { kind: Kind::Block(block), .. }) => guest.raise(block.name, error_code),
            _ => state.raise_in(request, error_code)?,
        }
        Ok(())
    })
}

/// Makes a block faulty and ends the waits of all ranks that are in it: what is pending on its
/// communicator ends with an error, as the communicator is revoked.
///
/// Returns `FAMPI_ERR_REQUEST` for anything but a block, `FAMPI_ERR_STATE` for a finished one.
#[unsafe(no_mangle)]
pub extern "C" fn FAMPI_TryBlock_interrupt(tb_request: MPI_Request) -> c_int {
    enter_started(|state| {
        let block = open_block(state, tb_request)?;
        state.guest.interrupt(block);
        Ok(())
    })
}

fn open_block(state: &mut State, raw: MPI_Request) -> Result<GuestBlock> {
    let block = state.block(raw)?;
    if block.finished { Err(FAMPI_ERR_STATE) } else { Ok(block.name) }
}
