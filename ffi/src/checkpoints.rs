//! Checkpoints: protected states that outlive the job, in files.
//!
//! ```text
//! set_checkpoints  where, how often          by the environment otherwise
//! restart          where the states are      the first call of a block that brings them back
//! checkpoint       saves what is valid       when it is due
//! saved            a state of any rank       of a job that had another number of ranks
//! ```

use std::{
    ffi::{CStr, OsStr, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt as _,
};

use fampi_core::{Checkpoints, Error, Files, Interval, Rank, guest::States};
use mpi::ffi::{MPI_Datatype, MPI_Request};

use crate::{
    arguments::put,
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_COUNT, FAMPI_ERR_STATE, of_error},
    copies::{Room, open_block, slot},
    state::{State, enter, enter_started, say},
};

/// Each rank saves its states in a file of its own.
pub const FAMPI_FILES_OF_RANKS: c_int = 0;
/// Ranks of a node that follow each other save theirs in one file.
pub const FAMPI_FILES_OF_NODES: c_int = 1;
/// All ranks save theirs in one file, in a folder that all nodes share.
pub const FAMPI_FILES_OF_JOB: c_int = 2;

/// The job goes on from the newest checkpoint that is there. Without this a job whose folder has
/// checkpoints saves nothing, so that none is lost by mistake.
pub const FAMPI_CHECKPOINT_RESTART: c_int = 1;
/// States are compressed (LZ4), each where that makes it smaller.
pub const FAMPI_CHECKPOINT_COMPRESSED: c_int = 2;

/// There is no state to go on from: all ranks begin, and do not call `FAMPI_Restore`.
pub const FAMPI_STATES_NOWHERE: c_int = 0;
/// States are in the memory of ranks.
pub const FAMPI_STATES_IN_MEMORY: c_int = 1;
/// States were found in a checkpoint.
pub const FAMPI_STATES_IN_FILES: c_int = 2;

/// Says where protected states are saved, so that they outlive the job: in files of this folder,
/// one set of files for each checkpoint. All ranks call it with the same arguments, replacements,
/// too, before `FAMPI_Restart`. Without this call the environment decides, which `fampi run
/// --checkpoint FOLDER` and `fampi restart FOLDER` set; this call goes before it. With no folder,
/// or an empty name, nothing is saved. Local; after `MPI_Init`.
///
/// `every` is the number of steps from one checkpoint to the next, 1 or more; with 0 it is what is
/// best for the measured cost of saving and a failure an hour. `files` is one of `FAMPI_FILES_*`;
/// what was saved in files of another kind can be read as well. `flags` is a sum of
/// `FAMPI_CHECKPOINT_*`, or 0. Where ranks want different numbers of
/// steps, kinds of files or compression, nothing is saved, and they say so. After this call
/// `FAMPI_Checkpoint` needs a new `FAMPI_Restart` before.
///
/// Returns `FAMPI_ERR_ARG`; `FAMPI_ERR_COUNT` for a negative number of steps;
/// `FAMPI_ERR_UNSUPPORTED`.
///
/// # Safety
///
/// The folder is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Set_checkpoints(
    folder: *const c_char,
    every: c_int,
    files: c_int,
    flags: c_int,
) -> c_int {
    enter(|state| {
        let steps = u32::try_from(every).map_err(|_| FAMPI_ERR_COUNT)?;
        let files = match files {
            FAMPI_FILES_OF_RANKS => Files::OfEachRank,
            FAMPI_FILES_OF_NODES => Files::OfEachNode,
            FAMPI_FILES_OF_JOB => Files::OfTheJob,
            _ => return Err(FAMPI_ERR_ARG),
        };
        let has = |flag: c_int| flags & flag != 0;
        if flags & !(FAMPI_CHECKPOINT_RESTART | FAMPI_CHECKPOINT_COMPRESSED) != 0 {
            return Err(FAMPI_ERR_ARG);
        }
        let state = State::started(state)?;
        let folder = if folder.is_null() {
            &[]
        } else {
            // SAFETY: not null; our caller's promise.
            unsafe { CStr::from_ptr(folder) }.to_bytes()
        };
        if folder.is_empty() {
            state.guest.set_checkpoints(None);
            return Ok(());
        }
        let mut checkpoints = Checkpoints::in_folder(OsStr::from_bytes(folder)).files(files);
        if steps > 0 {
            checkpoints = checkpoints.every(Interval::Every(steps));
        }
        if has(FAMPI_CHECKPOINT_COMPRESSED) {
            checkpoints = checkpoints.compressed();
        }
        if has(FAMPI_CHECKPOINT_RESTART) {
            checkpoints = checkpoints.restart();
        }
        state.guest.set_checkpoints(Some(checkpoints));
        Ok(())
    })
}

/// Says where the states are that ranks go on from, or whether they begin: the first call of a
/// global block in which they do that, at the start of the program, after each recovery, and on
/// replacements. All ranks call it, on a communicator of all ranks of the job; what it says is the
/// same on all. A program that uses it calls it in each block in which it calls `FAMPI_Restore`,
/// and has to, once that has found a state lost. It works without checkpoints as well, and then
/// finds states in memory only.
///
/// `from` becomes one of `FAMPI_STATES_*`, and `step` the step that the checkpoint is of
/// (`FAMPI_Checkpoint`), or -1 for what is not from files. Files are used where the job is to go on
/// from them and has nothing in memory; and where a state is lost in memory: when `FAMPI_Restore`
/// has found `FAMPI_ERR_STATE_LOST` or `FAMPI_ERR_TOO_MANY_LOST` in a block with this call, recover
/// and do the same again, and all ranks go back to the newest checkpoint. All states come from
/// there then, also those that were protected on other communicators: restore each of them in this
/// block. After a shrink nothing is lost in this sense; what the dead had is at `FAMPI_Inherit`.
///
/// `size` becomes the number of ranks that have saved it, or that there are now. If `resizes` is 0,
/// only checkpoints of as many ranks as the communicator has count. Otherwise it may be another
/// number, and then there is nothing for `FAMPI_Restore`: each rank takes what it needs by
/// `FAMPI_Saved`, and protects what it has then. All ranks give the same `resizes`.
///
/// Returns, on all ranks that are not told of a fault, `FAMPI_ERR_CHECKPOINTS_EXIST` where the
/// folder has checkpoints and the job is not to go on from one, and `FAMPI_ERR_NO_CHECKPOINT` where
/// it is to and there is none: from the block's commit on the job saves nothing, and the program
/// begins or ends. `FAMPI_ERR_STATE_LOST` or `FAMPI_ERR_TOO_MANY_LOST` where no checkpoint has a
/// state that is lost in memory: the program begins, which is saved again, or ends. Rank 0 says
/// these on standard error. Else as `FAMPI_Restore`.
///
/// # Safety
///
/// The pointers are null or to variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Restart(
    tb_request: MPI_Request,
    resizes: c_int,
    from: *mut c_int,
    step: *mut i64,
    size: *mut c_int,
) -> c_int {
    enter_started(|known| {
        let block = open_block(known, tb_request)?;
        if from.is_null() || step.is_null() || size.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let found = known.guest.restart(block, resizes != 0).map_err(|error| {
            let place = known.guest.place(known.guest.comm_of(block));
            tell(&error, place)
        })?;
        let (_, ranks) = known.guest.place(known.guest.comm_of(block));
        let (place, steps, ranks) = match found {
            States::Nowhere => (FAMPI_STATES_NOWHERE, -1, ranks),
            States::InMemory => (FAMPI_STATES_IN_MEMORY, -1, ranks),
            States::Saved(steps, ranks) => (FAMPI_STATES_IN_FILES, steps.cast_signed(), ranks),
        };
        // SAFETY: our caller's promise.
        unsafe { put(from, place) }?;
        // SAFETY: our caller's promise.
        unsafe { put(step, steps) }?;
        // SAFETY: our caller's promise.
        unsafe { put(size, ranks.cast_signed()) }
    })
}

/// The code of an error, which rank 0 says if all ranks have it.
fn tell(error: &Error, (me, _): (Rank, u32)) -> c_int {
    let is_agreed = matches!(
        error,
        Error::CheckpointsExist { .. } | Error::NoCheckpoint { .. } | Error::StateLost { .. }
    );
    if is_agreed && me.number() == 0 {
        say(error);
    }
    of_error(error)
}

/// Saves the states that the last commit on this communicator has made valid, if a checkpoint is
/// due, in a global block that is not finished. All ranks call it in each step, on the communicator
/// of `FAMPI_Restart`, with the same `step`: the number of steps that lead to these states, which
/// never becomes less but by going back to them. What is protected in the same block is not valid
/// yet. The checkpoint can be gone on from when `flag` becomes 1, on all ranks; it becomes 0 when
/// none was due, and when a rank could not save its states, which says so on standard error, and
/// the job goes on. The same happens where a state was protected on another communicator, also on
/// one from which this was shrunk, or came from a checkpoint and was not restored: it would be
/// missing.
///
/// Older checkpoints are removed when the new one is complete. The call waits until the blocks that
/// were started before on this communicator are decided, and, when a checkpoint is due, for the
/// other ranks. Where nothing is to be saved, and in a block with `FAMPI_Restart`, `flag` becomes
/// 0.
///
/// Returns `FAMPI_ERR_STATE`, and this rank has left the block, before one with `FAMPI_Restart` was
/// committed, since `FAMPI_Set_checkpoints` if that was called, and on a communicator of another
/// number of ranks; `FAMPI_ERR_ARG` for a negative step; else as `FAMPI_Protect`.
///
/// # Safety
///
/// The flag is null or a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Checkpoint(
    tb_request: MPI_Request,
    step: i64,
    flag: *mut c_int,
) -> c_int {
    enter_started(|known| {
        let block = open_block(known, tb_request)?;
        let step = u64::try_from(step).map_err(|_| FAMPI_ERR_ARG)?;
        if flag.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let saved = known.guest.checkpoint(block, step).map_err(|error| of_error(&error))?;
        // SAFETY: our caller's promise.
        unsafe { put(flag, c_int::from(saved)) }
    })
}

/// The state of one of the ranks that have saved the checkpoint which `FAMPI_Restart` has found
/// last, if these are not as many as there are now. Local; it reads files, and keeps the states of
/// the rank that was asked for last.
///
/// At most `max_count` elements are written; `count` says how many there are.
///
/// Returns `FAMPI_ERR_STATE` when there is no such checkpoint; `FAMPI_ERR_ARG` for a rank or a type
/// that does not fit; `FAMPI_ERR_NOTHING_PROTECTED` when the rank has no such state;
/// `FAMPI_ERR_NO_CHECKPOINT` when its file cannot be read any more; `FAMPI_ERR_COUNT`.
///
/// # Safety
///
/// The state is null or has room for `max_count` elements, `count` is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Saved(
    rank: c_int,
    slot: c_int,
    state: *mut c_void,
    max_count: c_int,
    datatype: MPI_Datatype,
    count: *mut c_int,
) -> c_int {
    enter_started(|known| {
        let (rank, slot) = (u32::try_from(rank).map_err(|_| FAMPI_ERR_ARG)?, self::slot(slot)?);
        let room = Room::new(state, max_count, datatype, count)?;
        let saved = known.guest.saved(rank, slot).map_err(|error| match error {
            Error::NoSuchRank { size: 0, .. } => FAMPI_ERR_STATE,
            Error::NoSuchRank { .. } => FAMPI_ERR_ARG,
            error => of_error(&error),
        })?;
        // SAFETY: our caller's promise.
        unsafe { room.fill(saved) }
    })
}
