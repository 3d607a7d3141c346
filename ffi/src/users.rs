//! The program's own requests that it has given to us, by their handles, which stay what they are.
//!
//! MPI keeps such a request as long as it is here: until the program has freed it, or has waited
//! for it by a call that frees, and has freed each block that had it in its list. Until then every
//! copy of the handle is as good as any other.

use std::{collections::HashMap, ffi::c_int, hash::BuildHasherDefault};

use fampi_core::{
    FaultCode, Rank,
    engine::platform::PostId,
    guest::{Guest, GuestComm},
};
use mpi::ffi::{self, MPI_Request, MPI_Status};

use crate::{
    callbacks::note_freed_by_program,
    codes::FAMPI_ERR_REQUEST,
    handles::Spread,
    message::Message,
    request::{key, null},
    state::Result,
};

/// A request of the program.
struct User {
    post: PostId,
    /// Its communicator and peer, if it is a message of ours.
    message: Option<Message>,
    /// The program has freed it.
    is_freed: bool,
}

/// All requests of the program that are ours to look at.
#[derive(Default)]
pub(crate) struct Users {
    by_key: HashMap<usize, User, BuildHasherDefault<Spread>>,
}

/// What MPI calls in place of its own function when it frees a request that we keep.
unsafe extern "C" fn freed(slot: *mut MPI_Request) -> c_int {
    // SAFETY: MPI passes the variable of its caller.
    let raw = unsafe { slot.replace(null()) };
    note_freed_by_program(raw);
    ffi::MPI_SUCCESS.cast_signed()
}

impl Users {
    /// The operation behind a handle, if it is here.
    #[inline]
    pub(crate) fn get(&self, raw: MPI_Request) -> Option<PostId> {
        self.by_key.get(&key(raw)).map(|user| user.post)
    }

    /// The operation behind a handle of the program, which is kept from now on. A persistent
    /// request stands for a new one each time that it was started.
    pub(crate) fn adopt(&mut self, guest: &mut Guest, raw: MPI_Request) -> Result<PostId> {
        if let Some(user) = self.by_key.get_mut(&key(raw)) {
            user.post = guest.with_mpi(|mpi| mpi.renew_request(user.post));
            return Ok(user.post);
        }
        // SAFETY: the program gave it as a live request; it is not here, so not adopted.
        let post = guest.with_mpi(|mpi| unsafe { mpi.adopt_request(raw, freed) });
        let post = post.ok_or(FAMPI_ERR_REQUEST)?;
        self.by_key.insert(key(raw), User { post, message: None, is_freed: false });
        Ok(post)
    }

    /// Keeps a message of ours that MPI has just started.
    pub(crate) fn adopt_message(
        &mut self,
        guest: &mut Guest,
        raw: MPI_Request,
        comm: GuestComm,
        peer: Option<Rank>,
    ) -> Result<()> {
        let tag_bits = guest.tag_bits();
        // SAFETY: MPI has just given it, for one operation.
        let post = guest.with_mpi(|mpi| unsafe { mpi.adopt_message(raw, freed, tag_bits) });
        let post = post.ok_or(FAMPI_ERR_REQUEST)?;
        let block = guest.last_open(comm);
        let message = Some(Message { comm, block, peer, post });
        self.by_key.insert(key(raw), User { post, message, is_freed: false });
        Ok(())
    }

    /// The message of ours behind a handle, if it is one.
    pub(crate) fn message(&self, raw: MPI_Request) -> Option<Message> {
        self.by_key.get(&key(raw))?.message
    }

    /// The program has freed a request, by one of the copies of its handle.
    pub(crate) fn free(&mut self, guest: &mut Guest, raw: MPI_Request) {
        let Some(user) = self.by_key.get_mut(&key(raw)).filter(|user| !user.is_freed) else {
            return;
        };
        user.is_freed = true;
        let post = user.post;
        if guest.with_mpi(|mpi| mpi.free_request(post)) {
            self.by_key.remove(&key(raw));
        }
    }

    /// A block that had this request was freed.
    pub(crate) fn forget(&mut self, guest: &mut Guest, raw: MPI_Request, post: PostId) {
        if guest.with_mpi(|mpi| mpi.forget_request(post)) {
            self.by_key.remove(&key(raw));
        }
    }
}

/// Status and code of an operation that is over, as far as is known without another look.
pub(crate) fn outcome(guest: &mut Guest, post: PostId) -> Option<(MPI_Status, c_int)> {
    let ended = guest.with_mpi(|mpi| mpi.ended(post))?;
    let code = ended.fault.map_or(0, FaultCode::number);
    Some((MPI_Status { MPI_ERROR: code, ..ended.status }, code))
}

/// True for an operation that is over, of a request that can be started again.
pub(crate) fn is_persistent(guest: &mut Guest, post: PostId) -> bool {
    guest.with_mpi(|mpi| mpi.ended(post)).is_some_and(|ended| ended.is_persistent)
}
