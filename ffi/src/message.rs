//! Messages in a lane of fampi's own on a communicator of the program.
//!
//! The peer of such a message is known, and its tag on the wire names its block. So a death ends
//! those alone that need the dead, and what was sent in one block meets no other.

use std::ffi::{c_int, c_void};

use fampi_core::{Rank, guest::MAX_TAG};
use mpi::ffi::{self, MPI_Comm, MPI_Datatype, MPI_Request};

use crate::{
    arguments::put,
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_COMM, done},
    state::{State, enter},
};

/// What a message is started with, but for its buffer.
#[derive(Clone, Copy)]
struct Envelope {
    peer: c_int,
    tag: c_int,
    comm: MPI_Comm,
}

/// Starts a message by a call of MPI, which takes the peer, the tag and the communicator.
fn start(
    envelope: Envelope,
    request: *mut MPI_Request,
    mut call: impl FnMut(Envelope, *mut MPI_Request) -> c_int,
) -> c_int {
    enter(|state| {
        if request.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let Envelope { peer, tag, comm } = envelope;
        let known = state.as_mut().and_then(|state| Some((state.known(comm)?, state)));
        // SAFETY: reading a constant that MPI's library defines.
        let nobody = unsafe { ffi::RSMPI_PROC_NULL };
        let (comm, state) = match known {
            Some(known) if peer != nobody => known,
            _ => return done(call(envelope, request)),
        };
        let tag = u32::try_from(tag).ok().filter(|tag| *tag <= MAX_TAG);
        let (lane, tag) = state.guest.lane(comm, tag.ok_or(ffi::MPI_ERR_TAG.cast_signed())?);
        // SAFETY: reading a constant that MPI's library defines.
        let from_any = peer == unsafe { ffi::RSMPI_ANY_SOURCE };
        let bereaved = from_any && !state.guest.known_failed(comm).is_empty();
        let carrier = state.guest.with_mpi(|mpi| mpi.comm_of_lane(lane, bereaved));
        let comm_of_lane = carrier.ok_or(FAMPI_ERR_COMM)?;
        let mut raw = crate::request::null();
        done(call(Envelope { peer, tag: tag.cast_signed(), comm: comm_of_lane }, &raw mut raw))?;
        let peer = u32::try_from(peer).ok().map(Rank::new);
        state.know_message(raw, comm, peer)?;
        // SAFETY: our caller's promise, that of the function of the interface.
        unsafe { put(request, raw) }
    })
}

/// `MPI_Isend` in a lane of fampi's own, which the receiver takes by `FAMPI_Irecv`.
///
/// The message belongs to the block that was started last on the communicator and is not finished,
/// or, where there is none, to the next one: give the request to its finish. It meets the receives
/// of that block alone. A death ends it only if it needs the dead, and another rank that does not
/// serve it when that one has ended its part of the block, see `FAMPI_Comm_set_patience`. The
/// request is one of MPI's own, for every call of MPI and of fampi.
///
/// The tag is at most `FAMPI_MAX_TAG`, and `MPI_ERR_TAG` is returned for others. On a communicator
/// that is not in use, and for `MPI_PROC_NULL`, this is `MPI_Isend` itself: all ranks take a
/// communicator into use at the same point of the program (`FAMPI_Init`, or its first block).
///
/// Returns as `MPI_Isend`; `FAMPI_ERR_ARG` for a null pointer.
///
/// # Safety
///
/// As `MPI_Isend`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Isend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    start(Envelope { peer: dest, tag, comm }, request, |to, request| {
        // SAFETY: our caller's promise.
        unsafe { ffi::MPI_Isend(buf, count, datatype, to.peer, to.tag, to.comm, request) }
    })
}

/// `MPI_Issend` in a lane of fampi's own: complete when its receive has started. Otherwise as
/// `FAMPI_Isend`.
///
/// # Safety
///
/// As `MPI_Issend`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Issend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    start(Envelope { peer: dest, tag, comm }, request, |to, request| {
        // SAFETY: our caller's promise.
        unsafe { ffi::MPI_Issend(buf, count, datatype, to.peer, to.tag, to.comm, request) }
    })
}

/// `MPI_Irecv` of a message of `FAMPI_Isend` or `FAMPI_Issend`, as these.
///
/// `MPI_ANY_SOURCE` may be given; one that is pending when a process of the communicator dies has
/// failed, as its message may have been that one's, and after that only messages are received from
/// any source that go without their receiver (4 KiB at most). `MPI_ANY_TAG` is refused with
/// `MPI_ERR_TAG`. A status of `FAMPI_Wait_local`, and every one after the end of the block, has the
/// tag of the message; that of an MPI call before has one that names the block, too.
///
/// # Safety
///
/// As `MPI_Irecv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Irecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    start(Envelope { peer: source, tag, comm }, request, |from, request| {
        // SAFETY: our caller's promise.
        unsafe { ffi::MPI_Irecv(buf, count, datatype, from.peer, from.tag, from.comm, request) }
    })
}

/// Says what a death does to the blocks that this rank starts on a communicator from now on: with
/// `FAMPI_PATIENT`, as at first, it ends what needed the dead; a request between two living ranks
/// goes on until its peer has ended its part of the block without having served it. With
/// `FAMPI_PROMPT` it ends all that waits in the block, so that recovery begins at once.
///
/// Only of messages started by `FAMPI_Isend`, `FAMPI_Issend` and `FAMPI_Irecv` on the communicator
/// of the block the peer is known: a block with other requests that are pending at a death is
/// prompt, and its communicator revoked. Local. All ranks say the same.
///
/// Returns `FAMPI_ERR_ARG` for another number; else as `FAMPI_Init`, as which it is collective if
/// the communicator is not in use.
#[unsafe(no_mangle)]
pub extern "C" fn FAMPI_Comm_set_patience(comm: MPI_Comm, patience: c_int) -> c_int {
    enter(|state| {
        let patience = crate::codes::patience(patience).ok_or(FAMPI_ERR_ARG)?;
        let state = State::started(state)?;
        let comm = state.comm(comm)?;
        state.guest.set_patience(comm, patience);
        Ok(())
    })
}
