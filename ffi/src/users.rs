//! The program's own requests that it has given to us, by their handles, which stay what they are.
//!
//! MPI keeps such a request as long as it is here: until the program has freed it, or has waited
//! for it by a call that frees, and has freed each block that had it in its list. Until then every
//! copy of the handle is as good as any other.

use std::ffi::c_int;

use fampi_core::{
    Rank,
    engine::platform::{DataId, PostId},
    guest::{Guest, GuestBlock, GuestComm, Part},
    mpi::{Kept, MpiPlatform},
};
use mpi::ffi::{self, MPI_Request, MPI_Status};

use crate::{
    codes::{FAMPI_ERR_REQUEST, Result, number},
    freed::note_freed_by_program,
    request::null,
};

/// A message that the program has started through us.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    pub(crate) comm: GuestComm,
    /// The block that it belongs to.
    pub(crate) block: Option<GuestBlock>,
    /// The rank that it is sent to or received from; nothing for a receive from any source.
    pub(crate) peer: Option<Rank>,
    pub(crate) post: PostId,
}

/// What is known of the requests of the program that MPI does not know.
#[derive(Default)]
pub(crate) struct Users {
    /// Messages of ours, by their numbers.
    messages: Vec<Option<Message>>,
}

/// What MPI calls in place of its own function when it frees a request that we keep, and that no
/// block has.
// Its address is compared: there is to be one of it.
#[inline(never)]
unsafe extern "C" fn freed(slot: *mut MPI_Request) -> c_int {
    // SAFETY: MPI passes the variable of its caller.
    let raw = unsafe { slot.replace(null()) };
    note_freed_by_program(raw);
    ffi::MPI_SUCCESS.cast_signed()
}

/// What is known of a request without a look at the table.
#[inline]
pub(crate) fn kind_of(mpi: &MpiPlatform, raw: MPI_Request) -> Kept {
    // SAFETY: the program gave it as a live request.
    unsafe { mpi.kind_of(raw, freed) }
}

/// The operation behind a handle of the program, which is kept from now on. A persistent request
/// stands for a new one each time that it was started.
#[inline]
pub(crate) fn adopt(mpi: &mut MpiPlatform, raw: MPI_Request, kind: Kept) -> Result<PostId> {
    let kept = (kind == Kept::Already).then(|| mpi.renew_request(raw)).flatten();
    match kept {
        Some(post) => Ok(post),
        // SAFETY: the program gave it as a live request; it is not kept, so not adopted.
        None => unsafe { mpi.adopt_request(raw, freed) }.ok_or(FAMPI_ERR_REQUEST),
    }
}

/// The operation behind a message of a list, of a block on this communicator, that is not kept.
#[inline]
pub(crate) fn adopt_listed(
    mpi: &mut MpiPlatform,
    raw: MPI_Request,
    data: Option<DataId>,
) -> Result<PostId> {
    // SAFETY: the program gave it as a live request; it is not kept, so not adopted.
    unsafe { mpi.adopt_listed(raw, freed, data) }.ok_or(FAMPI_ERR_REQUEST)
}

impl Users {
    /// Keeps a message of ours that MPI has just started.
    pub(crate) fn adopt_message(
        &mut self,
        guest: &mut Guest,
        raw: MPI_Request,
        comm: GuestComm,
        peer: Option<Rank>,
    ) -> Result<()> {
        let tag_bits = guest.tag_bits();
        let post = guest.with_mpi(|mpi| adopt(mpi, raw, Kept::Message))?;
        let number = guest.with_mpi(|mpi| mpi.mark_message(post, tag_bits));
        let block = guest.last_open(comm);
        if self.messages.len() <= number {
            self.messages.resize(number + 1, None);
        }
        self.messages[number] = Some(Message { comm, block, peer, post });
        Ok(())
    }

    /// The message of ours that an operation is, if it is one.
    #[inline]
    pub(crate) fn message(&self, mpi: &mut MpiPlatform, post: PostId) -> Option<Message> {
        *self.messages.get(mpi.number_of_message(post)?)?
    }
}

/// Status and code of an operation that is over, as far as is known without another look.
pub(crate) fn outcome(guest: &mut Guest, post: PostId) -> Option<(MPI_Status, c_int)> {
    let ended = guest.with_mpi(|mpi| mpi.ended(post))?;
    let code = ended.fault.map_or(0, number);
    Some((MPI_Status { MPI_ERROR: code, ..ended.status }, code))
}

/// True for an operation that is over, of a request that can be started again.
pub(crate) fn is_persistent(guest: &mut Guest, post: PostId) -> bool {
    guest.with_mpi(|mpi| mpi.ended(post)).is_some_and(|ended| ended.is_persistent)
}

/// A block that had these parts is no more, or has none of them.
pub(crate) fn forget(mpi: &mut MpiPlatform, parts: &[Part]) {
    mpi.forget_requests(parts.iter().filter_map(Part::post));
}
