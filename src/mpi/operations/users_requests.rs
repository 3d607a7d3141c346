//! Requests of a program that owns its MPI, as the engine and that program share them.

use mpi::ffi;

use super::{external::Ended, platform::MpiPlatform};
use crate::{
    engine::platform::{DataId, PostId},
    mpi::calls::request::Request,
};

impl MpiPlatform {
    /// Takes a request that the user started.
    ///
    /// # Safety
    ///
    /// The request is live, and nobody else tests or frees it any more.
    pub unsafe fn adopt_request(&mut self, raw: ffi::MPI_Request) -> PostId {
        // SAFETY: live and ours to test, says our caller.
        self.guests.add(unsafe { Request::from_raw(raw) })
    }

    /// The request belongs to a block on this communicator, and ends with it.
    pub fn assign(&mut self, post: PostId, data: Option<DataId>) {
        if let Some(operation) = self.guests.operation(post) {
            (operation.block, operation.given_up) = (data, None);
        }
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

    /// One more asks for this request.
    pub fn share_request(&mut self, post: PostId) {
        if let Some(operation) = self.guests.operation(post) {
            operation.uses += 1;
        }
    }

    /// One of those who asked for this request does no more. After the last, MPI completes it in
    /// its own time.
    pub fn forget_request(&mut self, post: PostId) {
        if let Some(operation) = self.guests.operation(post) {
            operation.uses = operation.uses.saturating_sub(1);
            if operation.uses == 0 && operation.ended.is_some() {
                self.guests.remove(post);
            }
        }
    }
}
