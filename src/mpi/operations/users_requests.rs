//! Requests of a program that owns its MPI, as the engine and that program share them.

use mpi::ffi;

use super::{external::Ended, platform::MpiPlatform};
use crate::{
    engine::platform::{DataId, PostId},
    fault::FaultCode,
    mpi::this_mpi::Free,
};

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
        // SAFETY: our caller's promise.
        unsafe { self.guests.add(raw, instead) }
    }

    /// The operation that a request stands for now, which is another one after the user has started
    /// it again.
    pub fn renew_request(&mut self, post: PostId) -> PostId {
        self.guests.renew(post)
    }

    /// The request belongs to a block on this communicator, and ends with it.
    pub fn assign(&mut self, post: PostId, data: Option<DataId>) {
        if let Some(operation) = self.guests.operation(post) {
            (operation.block, operation.given_up) = (data, None);
        }
    }

    /// The user says that the operation has failed with this code, whatever it comes to. False when
    /// a block has it already.
    pub fn raise_in_request(&mut self, post: PostId, code: i32) -> bool {
        let free = self.guests.operation(post).filter(|operation| operation.block.is_none());
        let found = free.is_some();
        if let Some(operation) = free {
            operation.raise(FaultCode::Application(code));
        }
        found
    }

    /// The request that MPI gives for whatever was over before its start returned, as often as it
    /// likes; null if there is none.
    pub fn finished_request(&self) -> ffi::MPI_Request {
        self.posts.finished()
    }

    /// What became of a request, as far as is known without another look.
    pub fn ended(&mut self, post: PostId) -> Option<Ended> {
        self.guests.operation(post)?.ended
    }

    /// One more block has this request.
    pub fn share_request(&mut self, post: PostId) {
        if let Some(operation) = self.guests.operation(post) {
            operation.uses += 1;
        }
    }

    /// The user has freed the request. True when no block has it: no copy of its handle is to be
    /// used any more.
    pub fn free_request(&mut self, post: PostId) -> bool {
        if let Some(operation) = self.guests.operation(post) {
            operation.is_freed = true;
        }
        self.guests.let_go(post)
    }

    /// A block that had this request is no more. The rest is as for [`Self::free_request`].
    pub fn forget_request(&mut self, post: PostId) -> bool {
        self.guests.let_go(post)
    }

    /// MPI ends, and has all requests back.
    pub fn close_requests(&mut self) {
        self.guests.close();
    }
}
