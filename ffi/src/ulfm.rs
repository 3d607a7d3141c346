//! The calls of ULFM on fampi's own detector and agreement; `fampi_ulfm.h` has ULFM's names for
//! them.
//!
//! An error of a call is raised on the communicator: its error handler is called, after which the
//! call returns the code, one of MPI's own where MPI has one.
//!
//! Reference: Bland et al. 2013; the names are those of MPI's fault tolerance working group.

use std::ffi::c_int;

use fampi_core::{Rank, Timeout, guest::GuestComm};
use mpi::ffi::{self, MPI_Comm, MPI_Group, MPI_Request};

use crate::{
    arguments::put,
    block::FAMPI_Init,
    calls,
    codes::{
        FAMPI_ERR_ARG, FAMPI_ERR_COMM, FAMPI_ERR_CREATION, FAMPI_ERR_INTERNAL, FAMPI_ERR_THREAD,
        FAMPI_ERR_UNSUPPORTED, PROC_FAILED, Result, done, of_agreement,
    },
    origin::{links_two_groups, no_comm, place_in},
    query::part_of_group,
    recover::shrink_unused,
    state::{State, enter},
};

/// Errors that are only returned: the communicator is none, or MPI may not be called.
const RETURNED_ONLY: [c_int; 5] =
    [FAMPI_ERR_ARG, FAMPI_ERR_COMM, FAMPI_ERR_UNSUPPORTED, FAMPI_ERR_THREAD, FAMPI_ERR_INTERNAL];

/// Raises an error on a communicator: whatever its error handler does, and then the code.
fn raised(comm: MPI_Comm, code: c_int) -> c_int {
    let code = if code == FAMPI_ERR_CREATION { PROC_FAILED } else { code };
    if code != 0 && !RETURNED_ONLY.contains(&code) {
        // SAFETY: live, as the program has promised.
        unsafe { ffi::MPI_Comm_call_errhandler(comm, code) };
    }
    code
}

/// Takes a communicator into use as `FAMPI_Init` does, and keeps its error handler, but for that of
/// `MPI_COMM_WORLD` and `MPI_COMM_SELF`, whose errors return. From now on fampi goes on inside of
/// MPI's own waits, so that deaths which MPI does not hear of end them, too. With `fampi_ulfm.h`
/// this happens to each communicator that the program makes.
///
/// Returns MPI's `MPI_ERR_PROC_FAILED` when a process has died in it or before it, on all living
/// ranks; else as `FAMPI_Init`.
#[unsafe(no_mangle)]
pub extern "C" fn FAMPI_Comm_use(comm: MPI_Comm) -> c_int {
    let code = use_it(comm);
    if code == FAMPI_ERR_CREATION { PROC_FAILED } else { code }
}

fn use_it(comm: MPI_Comm) -> c_int {
    if comm == no_comm() {
        return 0;
    }
    let code = keeping_handler(comm, || FAMPI_Init(comm));
    let served = enter(|state| {
        State::started(state)?.serves = true;
        Ok(())
    });
    if code == 0 { served } else { code }
}

/// Does something with a communicator that makes its errors return, and gives it its error handler
/// back, unless it is one of MPI's own.
fn keeping_handler<T>(comm: MPI_Comm, something: impl FnOnce() -> T) -> T {
    // SAFETY: reading a constant that MPI's library defines.
    let own = unsafe { ffi::RSMPI_COMM_SELF };
    let is_mpis = comm == calls::all() || comm == own;
    let handler = (!is_mpis).then(|| calls::error_handler(comm)).flatten();
    let done = something();
    if let Some(handler) = handler {
        calls::set_error_handler(comm, handler);
    }
    done
}

/// A communicator of one group, which is in use from now on and keeps its error handler.
fn in_use(state: &mut State, comm: MPI_Comm) -> Result<GuestComm> {
    if let Some(known) = state.known(comm) {
        return Ok(known);
    }
    if links_two_groups(comm)? {
        return Err(FAMPI_ERR_COMM);
    }
    keeping_handler(comm, || state.comm(comm))
}

/// Revokes a communicator: on all living ranks what is pending on it ends, in MPI and in blocks,
/// which are faulty from now on; agreements and shrinks work. Local, and not undone.
///
/// Returns `FAMPI_ERR_COMM`, `FAMPI_ERR_UNSUPPORTED`.
#[unsafe(no_mangle)]
pub extern "C" fn FAMPI_Comm_revoke(comm: MPI_Comm) -> c_int {
    let code = enter(|state| {
        let state = State::started(state)?;
        links_two_groups(comm)?;
        if let Some(known) = state.known(comm) {
            state.guest.revoke(known);
        }
        // SAFETY: live, as the program has promised.
        state.guest.with_mpi(|mpi| unsafe { mpi.revoke_users(comm) });
        Ok(())
    });
    raised(comm, code)
}

/// Whether a communicator is revoked, as far as this rank has heard. Local.
///
/// Returns `FAMPI_ERR_ARG` for a null pointer, `FAMPI_ERR_COMM`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_is_revoked(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    let code = enter(|state| {
        let state = State::started(state)?;
        links_two_groups(comm)?;
        let here = state.known(comm).is_some_and(|known| state.guest.is_revoked(known));
        // SAFETY: live, as the program has promised.
        let revoked = here || state.guest.with_mpi(|mpi| unsafe { mpi.has_revoked(comm) });
        // SAFETY: our caller's promise.
        unsafe { put(flag, c_int::from(revoked)) }
    });
    raised(comm, code)
}

/// The communicator, which is in use, and all its dead of whom this rank knows.
fn failed(state: &mut State, comm: MPI_Comm) -> Result<(GuestComm, Vec<Rank>)> {
    let known = state.known(comm).ok_or(FAMPI_ERR_COMM)?;
    // SAFETY: live, as it is in use.
    let heard = state.guest.with_mpi(|mpi| unsafe { mpi.failed_by_mpi(comm) });
    let failed = state.guest.failed(known, &heard);
    Ok((known, failed))
}

/// Gives the program a group of ranks of a communicator.
///
/// # Safety
///
/// The pointer is null or to a variable.
unsafe fn put_group(comm: MPI_Comm, ranks: &[Rank], group: *mut MPI_Group) -> Result<()> {
    if group.is_null() {
        return Err(FAMPI_ERR_ARG);
    }
    let ranks: Vec<c_int> = ranks.iter().map(|rank| rank.number() as c_int).collect();
    // SAFETY: our caller's promise.
    unsafe { put(group, part_of_group(comm, &ranks)?) }
}

/// The dead of whom this rank knows, as a group that the program frees. Those of an earlier call
/// come first, in the same order. Local.
///
/// Returns `FAMPI_ERR_COMM` for a communicator that is not in use, `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_get_failed(comm: MPI_Comm, failedgrp: *mut MPI_Group) -> c_int {
    let code = enter(|state| {
        let state = State::started(state)?;
        let (_, ranks) = failed(state, comm)?;
        // SAFETY: our caller's promise.
        unsafe { put_group(comm, &ranks, failedgrp) }
    });
    raised(comm, code)
}

/// Acknowledges the first so many of the dead that `FAMPI_Comm_get_failed` gives: agreements in
/// which all have acknowledged a death are no error any more, and MPI's receives from any source
/// work again once all that this rank knows of are acknowledged. `num_acked` is how many are
/// acknowledged now; with 0 to acknowledge it is only told. Local.
///
/// Returns `FAMPI_ERR_COMM` for a communicator that is not in use, `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_ack_failed(
    comm: MPI_Comm,
    num_to_ack: c_int,
    num_acked: *mut c_int,
) -> c_int {
    let code = enter(|state| {
        let state = State::started(state)?;
        let wanted = usize::try_from(num_to_ack).map_err(|_| FAMPI_ERR_ARG)?;
        let known = state.known(comm).ok_or(FAMPI_ERR_COMM)?;
        let acknowledged = acknowledge(state, comm, known, wanted)?;
        // SAFETY: our caller's promise.
        unsafe { put(num_acked, acknowledged as c_int) }
    });
    raised(comm, code)
}

fn acknowledge(
    state: &mut State,
    comm: MPI_Comm,
    known: GuestComm,
    wanted: usize,
) -> Result<usize> {
    let (_, all) = failed(state, comm)?;
    let acknowledged = state.guest.acknowledge(known, wanted);
    if wanted > 0 && acknowledged == all.len() {
        // SAFETY: live, as it is in use.
        let heard = state.guest.with_mpi(|mpi| unsafe { mpi.failed_by_mpi(comm) });
        // MPI may have heard of one more by now, of whom the program was not told.
        if heard.iter().all(|rank| all.contains(rank)) {
            // SAFETY: as above.
            state.guest.with_mpi(|mpi| unsafe { mpi.acknowledge_users(comm) });
        }
    }
    Ok(acknowledged)
}

/// Acknowledges all deaths of which this rank knows. Local.
///
/// Returns `FAMPI_ERR_COMM` for a communicator that is not in use.
#[unsafe(no_mangle)]
pub extern "C" fn FAMPI_Comm_failure_ack(comm: MPI_Comm) -> c_int {
    let code = enter(|state| {
        let state = State::started(state)?;
        let (known, all) = failed(state, comm)?;
        acknowledge(state, comm, known, all.len()).map(|_| ())
    });
    raised(comm, code)
}

/// The dead whom this rank has acknowledged, as a group that the program frees. Local.
///
/// Returns `FAMPI_ERR_COMM` for a communicator that is not in use, `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_failure_get_acked(
    comm: MPI_Comm,
    failedgrp: *mut MPI_Group,
) -> c_int {
    let code = enter(|state| {
        let state = State::started(state)?;
        let known = state.known(comm).ok_or(FAMPI_ERR_COMM)?;
        let ranks = state.guest.acknowledged(known);
        // SAFETY: our caller's promise.
        unsafe { put_group(comm, &ranks, failedgrp) }
    });
    raised(comm, code)
}

/// Agrees on the bits that are set in the flags of all living ranks. All of them call it, in one
/// order with the blocks that they start on the communicator; it waits for them, and works on a
/// revoked communicator. `flag` becomes the result, which is the same on all of them, also when
/// somebody died: bits that the dead had not set count if they got that far.
///
/// Returns MPI's `MPI_ERR_PROC_FAILED`, on all living ranks, until all of them have acknowledged
/// all deaths that one of them knows of (`FAMPI_Comm_ack_failed`); `FAMPI_ERR_NOT_AGREED` when
/// others ended a block instead; else as `FAMPI_Init`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_agree(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    let code = enter(|state| {
        if flag.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let state = State::started(state)?;
        let known = in_use(state, comm)?;
        state.serves = true;
        // SAFETY: not null, and the rest is our caller's promise.
        let mine = unsafe { flag.read() };
        let agreement = state.guest.agree(known, mine);
        state.guest.wait_agreement(agreement, Timeout::Never);
        let agreed = state.guest.agreed(agreement);
        state.guest.release(agreement);
        if let Ok(agreed) = &agreed {
            // SAFETY: as above.
            unsafe { put(flag, agreed.flag) }?;
        }
        done(of_agreement(&agreed))
    });
    raised(comm, code)
}

/// `FAMPI_Comm_agree` without waiting: `request` is complete when the ranks have agreed, and
/// `flag`, which is read at once, is the result then. It is a request for every call of MPI and of
/// fampi; waiting for it returns what `FAMPI_Comm_agree` returns.
///
/// # Safety
///
/// The pointers are null, or to variables that live until the request is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_iagree(
    comm: MPI_Comm,
    flag: *mut c_int,
    request: *mut MPI_Request,
) -> c_int {
    let code = enter(|state| {
        if flag.is_null() || request.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let state = State::started(state)?;
        let known = in_use(state, comm)?;
        state.serves = true;
        // SAFETY: not null, and the rest is our caller's promise.
        let mine = unsafe { flag.read() };
        state.handles.announce();
        let agreement = state.guest.agree(known, mine);
        let made = match state.handles.add_block(agreement) {
            Ok(made) => made,
            Err(code) => {
                state.guest.release(agreement);
                return Err(code);
            }
        };
        let block = state.block(made)?;
        (block.finished, block.flag) = (true, Some(flag));
        state.settle();
        // SAFETY: asked for null above, and the rest is our caller's promise.
        unsafe { put(request, made) }
    });
    raised(comm, code)
}

/// A communicator of the living ranks, in the same order, whoever dies meanwhile. All of them call
/// it; it waits for them, and works on a revoked communicator. `newcomm` is in use, its errors
/// return, and the program frees it.
///
/// Returns `FAMPI_ERR_ARG`, `FAMPI_ERR_COMM`, `FAMPI_ERR_PENDING` as `FAMPI_Comm_ishrink`, which
/// does it without waiting.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_shrink(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> c_int {
    let code = match shrunk(comm, newcomm.is_null()) {
        // SAFETY: our caller's promise.
        Ok(made) => unsafe { put(newcomm, made) }.err().unwrap_or(0),
        Err(code) => code,
    };
    raised(comm, code)
}

fn shrunk(comm: MPI_Comm, nowhere: bool) -> Result<MPI_Comm> {
    if nowhere {
        return Err(FAMPI_ERR_ARG);
    }
    let taken = done(enter(|state| in_use(State::started(state)?, comm).map(|_| ())));
    let attempt = match taken {
        Ok(()) => calls::shrink,
        Err(FAMPI_ERR_CREATION) => shrunk_unused,
        Err(code) => return Err(code),
    };
    let (_, size) = place_in(comm)?;
    // Each attempt that fails is the end of another rank.
    let mut attempts = (0..size).map(|_| attempt(comm));
    attempts.find(|made| *made != Err(FAMPI_ERR_CREATION)).unwrap_or(Err(FAMPI_ERR_CREATION))
}

fn shrunk_unused(comm: MPI_Comm) -> Result<MPI_Comm> {
    let mut made = no_comm();
    let code = enter(|state| {
        // SAFETY: the variable lives for the call.
        let step = |state: &mut State| unsafe { shrink_unused(state, comm, &raw mut made) };
        State::started(state)?.repeat(step)
    });
    done(code).map(|()| made)
}
