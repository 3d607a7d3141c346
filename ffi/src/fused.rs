//! Reductions that ride on the commit of a block.

use std::ffi::{c_int, c_void};

use fampi_core::engine::reduction::MAX_VALUES;
use mpi::ffi::{MPI_Datatype, MPI_Op, MPI_Request};

use crate::{
    arguments::{is_in_place, list},
    block::{finish, finish_again},
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_COUNT, FAMPI_ERR_REQUEST, FAMPI_Timeout, Result},
    numbers::{Number, Reduction, Target, operation},
    state::{State, enter_started},
};

/// The type behind a handle, which is looked up once.
pub(crate) fn number(state: &mut State, datatype: MPI_Datatype) -> Result<Number> {
    if let Some((_, number)) = state.numbers.iter().find(|(known, _)| *known == datatype) {
        return Ok(*number);
    }
    let number = Number::named(datatype).ok_or(FAMPI_ERR_ARG)?;
    state.numbers.push((datatype, number));
    Ok(number)
}

/// Ends a block as `FAMPI_TryBlock_finish` does, and reduces a few numbers over all its ranks with
/// the messages of the commit, for nothing more. All ranks call it, with as many numbers of the
/// same type, and the same operation: otherwise the block is faulty, with
/// `FAMPI_ERR_MISMATCHED`.
///
/// One to eight `numbers`, of an integer type or `MPI_FLOAT` or `MPI_DOUBLE`, by `MPI_SUM`,
/// `MPI_PROD`, `MPI_MIN`, `MPI_MAX`, and for integers `MPI_BAND`, `MPI_BOR`, `MPI_LAND`, `MPI_LOR`.
/// They are taken at once. `recvbuf`, which may be the same array (or `sendbuf` `MPI_IN_PLACE`), is
/// written when the block's request is complete, if, and only if, the block is committed; keep it
/// until then. The result has the same bits on all ranks, and in every run with as many ranks.
/// The known dead bring nothing. Of floats, `MPI_MIN` and `MPI_MAX` pass over what is no number.
///
/// Called again on the same block, numbers and list are ignored, and the deadline is moved.
///
/// Returns `FAMPI_ERR_REQUEST` for a local block, `FAMPI_ERR_COUNT` for no numbers or more than
/// eight, `FAMPI_ERR_ARG` for another type or operation; else as `FAMPI_TryBlock_finish`.
///
/// # Safety
///
/// As for `FAMPI_TryBlock_finish`; both buffers are null or have as many numbers as told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_TryBlock_finish_allreduce(
    tb_request: MPI_Request,
    count: c_int,
    array_of_requests: *mut MPI_Request,
    timeout: FAMPI_Timeout,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    numbers: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> c_int {
    enter_started(|state| {
        let limit = crate::arguments::timeout(timeout)?;
        let block = state.block(tb_request)?.name;
        if !state.guest.is_agreed(block) {
            return Err(FAMPI_ERR_REQUEST);
        }
        // SAFETY: our caller's promise.
        let given = unsafe { list(count, array_of_requests) }.and_then(|requests| {
            // SAFETY: as above.
            let reduction = unsafe { given(state, sendbuf, recvbuf, (numbers, datatype, op)) }?;
            Ok((requests, reduction))
        });
        match given {
            Ok((requests, reduction)) => {
                finish(state, tb_request, requests, limit, Some(reduction))
            }
            Err(code) => finish_again(state, tb_request, limit, code),
        }
    })
}

/// What a block is ended with.
///
/// # Safety
///
/// Both buffers are null or have as many numbers as told.
unsafe fn given(
    state: &mut State,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    (numbers, datatype, op): (c_int, MPI_Datatype, MPI_Op),
) -> Result<Reduction> {
    let wanted = usize::try_from(numbers).ok().filter(|it| (1..=MAX_VALUES).contains(it));
    let numbers = wanted.ok_or(FAMPI_ERR_COUNT)?;
    let from = if is_in_place(sendbuf) { recvbuf.cast_const() } else { sendbuf };
    if from.is_null() || recvbuf.is_null() {
        return Err(FAMPI_ERR_ARG);
    }
    let operation = operation(op).ok_or(FAMPI_ERR_ARG)?;
    let number = number(state, datatype)?;
    // SAFETY: not null, and the rest is our caller's promise.
    let values = unsafe { (number.read)(from, numbers, operation) }.ok_or(FAMPI_ERR_ARG)?;
    Ok(Reduction { values, target: Target { number, place: recvbuf } })
}
