//! Calls of MPI and of this interface for what is built on it: checked, with results as values.
//!
//! **Assumes** that each handle is live. MPI or a function of this file has made it, and its owner
//! frees it once.

use std::{
    ffi::{CString, c_char, c_int},
    mem::MaybeUninit,
    ptr::{null, null_mut},
};

use mpi::ffi::{self, MPI_Comm, MPI_Group, MPI_Request};

use crate::{
    alike::FAMPI_Iallgather,
    block::{
        FAMPI_Init, FAMPI_Request_raise_error, FAMPI_TryBlock_finish, FAMPI_TryBlock_interrupt,
        FAMPI_TryBlock_start,
    },
    codes::{FAMPI_TIMEOUT_NEVER, FAMPI_TRYBLOCK_GLOBAL, FAMPI_Timeout, Result, done},
    origin::no_comm,
    query::{FAMPI_Comm_known_failed, FAMPI_Get_failed_group},
    recover::{FAMPI_Comm_irebuild_join, FAMPI_Comm_ishrink, igrow},
    request::null as no_request,
    rooted::FAMPI_Ibcast,
    spawn::FAMPI_Comm_spawn,
    standard::FAMPI_Request_free,
    state::{self, State},
    wait::FAMPI_Wait_local,
};

pub(crate) fn all() -> MPI_Comm {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_COMM_WORLD }
}

/// A communicator with the same ranks.
pub(crate) fn duplicate(comm: MPI_Comm) -> Result<MPI_Comm> {
    let mut made = no_comm();
    // SAFETY: live; the result is ours.
    done(unsafe { ffi::MPI_Comm_dup(comm, &raw mut made) })?;
    Ok(made)
}

/// Takes a communicator into use.
pub(crate) fn enter(comm: MPI_Comm) -> Result<()> {
    done(FAMPI_Init(comm))
}

/// The part of a communicator with the ranks that have a place, in the order of these; nothing for
/// one without.
pub(crate) fn split(comm: MPI_Comm, place: Option<c_int>) -> Result<Option<MPI_Comm>> {
    let mut made = no_comm();
    // SAFETY: reading a constant that MPI's library defines.
    let nowhere = unsafe { ffi::RSMPI_UNDEFINED };
    let (color, key) = place.map_or((nowhere, 0), |place| (0, place));
    // SAFETY: live; the result is ours.
    done(unsafe { ffi::MPI_Comm_split(comm, color, key, &raw mut made) })?;
    Ok((made != no_comm()).then_some(made))
}

fn group_of(comm: MPI_Comm) -> Result<MPI_Group> {
    // SAFETY: reading a constant that MPI's library defines.
    let mut group = unsafe { ffi::RSMPI_GROUP_NULL };
    // SAFETY: live; the result is ours.
    done(unsafe { ffi::MPI_Comm_group(comm, &raw mut group) })?;
    Ok(group)
}

fn free_group(mut group: MPI_Group) {
    // SAFETY: it is ours, and given away here.
    unsafe { ffi::MPI_Group_free(&raw mut group) };
}

/// Which ranks of a communicator are in another one.
pub(crate) fn ranks_that_are_in(
    comm: MPI_Comm,
    other: MPI_Comm,
    ranks: c_int,
) -> Result<Vec<bool>> {
    let (from, to) = (group_of(comm)?, group_of(other)?);
    let all: Vec<c_int> = (0..ranks).collect();
    let mut found = vec![0; all.len()];
    let (given, taken) = (all.as_ptr(), found.as_mut_ptr());
    // SAFETY: both lists are as long as told, and both groups are ours.
    let code = unsafe { ffi::MPI_Group_translate_ranks(from, ranks, given, to, taken) };
    free_group(from);
    free_group(to);
    done(code)?;
    // SAFETY: reading a constant that MPI's library defines.
    let nowhere = unsafe { ffi::RSMPI_UNDEFINED };
    Ok(found.into_iter().map(|rank| rank != nowhere).collect())
}

/// An open block.
pub(crate) fn start_block(comm: MPI_Comm) -> Result<MPI_Request> {
    let mut block = no_request();
    // SAFETY: the result is ours.
    done(unsafe { FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &raw mut block) })?;
    Ok(block)
}

/// Makes a block faulty with a code.
pub(crate) fn raise(block: MPI_Request, code: c_int) -> Result<()> {
    done(FAMPI_Request_raise_error(block, code))
}

/// Ends the waits of all ranks in a block.
pub(crate) fn interrupt(block: MPI_Request) -> Result<()> {
    done(FAMPI_TryBlock_interrupt(block))
}

/// Finishes a block with these requests.
pub(crate) fn finish(block: MPI_Request, requests: &mut [MPI_Request]) -> Result<()> {
    let (count, list) = (requests.len() as c_int, requests.as_mut_ptr());
    // SAFETY: a list of live requests, as long as told.
    done(unsafe { FAMPI_TryBlock_finish(block, count, list, FAMPI_TIMEOUT_NEVER) })
}

/// Waits for a request, which stays.
pub(crate) fn wait(request: &mut MPI_Request, timeout: FAMPI_Timeout) -> Result<()> {
    // SAFETY: a live request; a null pointer means that its status is not wanted.
    done(unsafe { FAMPI_Wait_local(request, null_mut(), timeout) })
}

pub(crate) fn free_request(request: &mut MPI_Request) {
    // SAFETY: a live request, or none.
    unsafe { FAMPI_Request_free(request) };
}

/// Whether a rank has raised a code in a block.
pub(crate) fn has_fault(block: MPI_Request, mut code: c_int, comm: MPI_Comm) -> Result<bool> {
    let list = &raw mut code;
    // SAFETY: a list of one code; the result is a variable.
    has_members(|group| unsafe { FAMPI_Get_failed_group(block, 1, list, comm, group) })
}

/// Whether reports on a communicator have named dead ranks.
pub(crate) fn has_lost_ranks(comm: MPI_Comm) -> Result<bool> {
    // SAFETY: the result is a variable.
    has_members(|group| unsafe { FAMPI_Comm_known_failed(comm, group) })
}

fn has_members(give: impl FnOnce(*mut MPI_Group) -> c_int) -> Result<bool> {
    // SAFETY: reading a constant that MPI's library defines.
    let mut group = unsafe { ffi::RSMPI_GROUP_NULL };
    done(give(&raw mut group))?;
    let mut size = 0;
    // SAFETY: the group is ours, and so is the result.
    let code = unsafe { ffi::MPI_Group_size(group, &raw mut size) };
    free_group(group);
    done(code)?;
    Ok(size > 0)
}

/// Waits for a communicator in the making.
fn made_by(start: impl FnOnce(*mut MPI_Comm, *mut MPI_Request) -> c_int) -> Result<MPI_Comm> {
    let (mut made, mut request) = (no_comm(), no_request());
    done(start(&raw mut made, &raw mut request))?;
    let over = wait(&mut request, FAMPI_TIMEOUT_NEVER);
    free_request(&mut request);
    over.map(|()| made)
}

/// The living ranks of a communicator.
pub(crate) fn shrink(comm: MPI_Comm) -> Result<MPI_Comm> {
    // SAFETY: both variables live until the wait has ended.
    made_by(|made, request| unsafe { FAMPI_Comm_ishrink(comm, made, request) })
}

/// An error as long as a communicator is being made.
pub(crate) fn nothing_in_the_making() -> Result<()> {
    done(state::enter(|state| State::started(state)?.nothing_in_the_making()))
}

/// The ranks of a communicator, and behind them those that are linked to them.
pub(crate) fn grow(comm: MPI_Comm, link: MPI_Comm, new: c_int) -> Result<MPI_Comm> {
    // SAFETY: both variables live until the wait has ended.
    made_by(|made, request| unsafe { igrow(comm, link, new, made, request) })
}

/// The part of the linked ones.
pub(crate) fn join(link: MPI_Comm) -> Result<MPI_Comm> {
    // SAFETY: both variables live until the wait has ended.
    made_by(|made, request| unsafe { FAMPI_Comm_irebuild_join(link, made, request) })
}

/// New processes that run these words, linked to the ranks of a communicator.
pub(crate) fn spawn(comm: MPI_Comm, words: &[CString], count: c_int) -> Result<MPI_Comm> {
    let mut link = no_comm();
    let program = words.first().map_or(null(), |word| word.as_ptr());
    let rest = words.iter().skip(1).map(|word| word.as_ptr().cast_mut());
    let mut rest: Vec<*mut c_char> = rest.chain([null_mut()]).collect();
    // SAFETY: reading a constant that MPI's library defines.
    let no_hints = unsafe { ffi::RSMPI_INFO_NULL };
    let (rest, made) = (rest.as_mut_ptr(), &raw mut link);
    // SAFETY: texts and a list of texts with a null pointer at its end.
    done(unsafe { FAMPI_Comm_spawn(program, rest, count, no_hints, comm, made) })?;
    Ok(link)
}

/// Starts the greatest of each number over all ranks. Both lists stay where they are until the
/// request is over.
pub(crate) fn greatest(comm: MPI_Comm, mine: &[c_int], all: &mut [c_int]) -> Result<MPI_Request> {
    let mut request = no_request();
    let (given, taken) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
    // SAFETY: reading a constant that MPI's library defines.
    let numbers = unsafe { ffi::RSMPI_INT32_T };
    // SAFETY: as above.
    let max = unsafe { ffi::RSMPI_MAX };
    let (count, started) = (mine.len() as c_int, &raw mut request);
    // SAFETY: both lists have so many numbers, and stay, as our caller promises.
    done(unsafe { ffi::MPI_Iallreduce(given, taken, count, numbers, max, comm, started) })?;
    Ok(request)
}

/// Starts to gather the words of all living ranks, by rank; those of the dead stay as they are.
/// Both lists stay where they are until the request is over.
pub(crate) fn gather(comm: MPI_Comm, own: &[u64], all: &mut [u64]) -> Result<MPI_Request> {
    let mut request = no_request();
    let (given, taken) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
    // SAFETY: reading a constant that MPI's library defines.
    let words = unsafe { ffi::RSMPI_UINT64_T };
    let (count, started) = (own.len() as c_int, &raw mut request);
    // SAFETY: the lists have so many words, for each rank, and stay, as our caller promises.
    done(unsafe { FAMPI_Iallgather(given, count, words, taken, count, words, comm, started) })?;
    Ok(request)
}

/// Starts to give the words of one rank to all. The list stays where it is until the request is
/// over.
pub(crate) fn spread(comm: MPI_Comm, from: c_int, all: &mut [u64]) -> Result<MPI_Request> {
    let mut request = no_request();
    // SAFETY: reading a constant that MPI's library defines.
    let words = unsafe { ffi::RSMPI_UINT64_T };
    let (list, count, started) = (all.as_mut_ptr().cast(), all.len() as c_int, &raw mut request);
    // SAFETY: the list has so many words, and stays, as our caller promises.
    done(unsafe { FAMPI_Ibcast(list, count, words, from, comm, started) })?;
    Ok(request)
}

/// The error handler of a communicator, which is to be given back to it.
pub(crate) fn error_handler(comm: MPI_Comm) -> Option<ffi::MPI_Errhandler> {
    let mut handler = MaybeUninit::uninit();
    // SAFETY: live; the result is ours.
    let code = unsafe { ffi::MPI_Comm_get_errhandler(comm, handler.as_mut_ptr()) };
    // SAFETY: MPI has written it.
    (code == 0).then(|| unsafe { handler.assume_init() })
}

/// Gives a communicator an error handler, which is let go of here.
pub(crate) fn set_error_handler(comm: MPI_Comm, mut handler: ffi::MPI_Errhandler) {
    // SAFETY: both are live.
    unsafe { ffi::MPI_Comm_set_errhandler(comm, handler) };
    // SAFETY: a reference of ours; the communicator has its own.
    unsafe { ffi::MPI_Errhandler_free(&raw mut handler) };
}

/// The end of MPI.
pub(crate) fn finalize() {
    // SAFETY: MPI is initialised, and nothing of ours comes after it.
    unsafe { ffi::MPI_Finalize() };
}
