//! Requests of a program that owns its MPI, as the engine and that program share them.

use std::ptr;

use mpi::ffi;

use super::{platform::MpiPlatform, users::Ended};
use crate::{
    fault::FaultCode,
    mpi::this_mpi::{Free, Keeping},
    seam::platform::{DataId, Lane, PostId},
};

/// What a request of the user is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kept {
    /// It is kept.
    Already,
    /// A send or a receive, which is not kept.
    Message,
    /// Anything else.
    Unknown,
}

impl MpiPlatform {
    /// Keeps a request that the user started. Whatever frees it, or tells of its end, calls
    /// `instead`, which notes that and makes the caller's handle null; the request stays until
    /// [`Self::free_request`] was called, and no block has it.
    ///
    /// # Safety
    ///
    /// The request is live, is no other one that was adopted, and not
    /// [`Self::finished_request`].
    pub unsafe fn adopt_request(&mut self, raw: ffi::MPI_Request, instead: Free) -> Option<PostId> {
        let keeping = Keeping::find().ok()?;
        // SAFETY: our caller's promise.
        Some(unsafe { self.table.add_users(keeping, raw, instead) })
    }

    /// What is known of a request of the user: whether it is kept, and calls this function.
    ///
    /// # Safety
    ///
    /// The request is live.
    #[inline]
    pub unsafe fn kind_of(&self, raw: ffi::MPI_Request, instead: Free) -> Kept {
        let Ok(keeping) = Keeping::find() else { return Kept::Unknown };
        // SAFETY: our caller's promise.
        let free = unsafe { keeping.free_of(raw) };
        if ptr::fn_addr_eq(free, instead) {
            Kept::Already
        } else if keeping.frees_messages(free) {
            Kept::Message
        } else {
            Kept::Unknown
        }
    }

    /// The same for a message in a lane of ours, whose tag on the wire has so many bits beside the
    /// user's.
    ///
    /// # Safety
    ///
    /// As for [`Self::adopt_request`].
    pub unsafe fn adopt_message(
        &mut self,
        raw: ffi::MPI_Request,
        instead: Free,
        tag_bits: u32,
    ) -> Option<PostId> {
        // SAFETY: our caller's promise.
        let post = unsafe { self.adopt_request(raw, instead) }?;
        if let Some((users, _)) = self.table.users(post) {
            users.tag_bits = tag_bits;
        }
        Some(post)
    }

    /// The operation that a request stands for now, which is another one after the user has started
    /// it again.
    pub fn renew_request(&mut self, post: PostId) -> PostId {
        self.table.renew_users(post)
    }

    /// One more block has the request, a block on this communicator, and ends it with itself.
    pub fn share_request(&mut self, post: PostId, data: Option<DataId>) {
        if let Some((users, lane)) = self.table.users(post) {
            users.uses += 1;
            users.given_up = None;
            *lane = data.map_or(Lane::NOWHERE, |data| Lane { data, context: 0 });
        }
    }

    /// The user says that the operation has failed with this code, whatever it comes to. False when
    /// a block has it already.
    pub fn raise_in_request(&mut self, post: PostId, code: i32) -> bool {
        match self.table.users_request(post) {
            Some((users, request, Lane::NOWHERE)) => {
                users.raise(request, FaultCode::Application(code));
                true
            }
            _ => false,
        }
    }

    /// The request that MPI gives for whatever was over before its start returned, as often as it
    /// likes; null if there is none.
    pub fn finished_request(&self) -> ffi::MPI_Request {
        self.flights.finished()
    }

    /// What became of a request, as far as is known without another look.
    pub fn ended(&mut self, post: PostId) -> Option<Ended> {
        let (users, request, _) = self.table.users_request(post)?;
        users.ended(request)
    }

    /// The user has freed the request, perhaps not for the first time. True when no block has it:
    /// no copy of its handle is to be used any more.
    pub fn free_request(&mut self, post: PostId) -> bool {
        match self.table.users(post) {
            Some((users, _)) if !users.is_freed => users.is_freed = true,
            _ => return false,
        }
        self.table.forget_users(post)
    }

    /// A block that had this request is no more. The rest is as for [`Self::free_request`].
    pub fn forget_request(&mut self, post: PostId) -> bool {
        self.table.forget_users(post)
    }

    /// MPI ends, and has all requests back.
    pub fn close_requests(&mut self) {
        self.table.give_back_users();
    }

    /// Finds out why an operation of the user failed whose error class does not say it. One that is
    /// in no block yet may run on any communicator.
    #[cold]
    pub(in crate::mpi) fn explain(&mut self, post: PostId) -> Option<FaultCode> {
        let (users, lane) = self.table.users(post)?;
        let block = Some(lane.data).filter(|_| *lane != Lane::NOWHERE);
        let cause = self.users.disturbance(block, self.ulfm)?;
        users.explain(cause);
        Some(cause)
    }
}
