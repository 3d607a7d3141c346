//! Requests of a program that owns its MPI, as the engine and that program share them.

use mpi::ffi;

use super::{
    platform::MpiPlatform,
    table::Owner,
    users::{Ended, Users},
};
use crate::{
    fault::FaultCode,
    mpi::this_mpi::{Free, Keeping},
    native::Request,
    seam::platform::{DataId, Lane, PostId},
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
        let keeping = Keeping::find().ok()?;
        // SAFETY: our caller's promise.
        let users = unsafe { Users::keep(keeping, raw, instead) };
        // SAFETY: live until we give it back.
        let request = unsafe { Request::from_raw(raw) };
        Some(self.table.add(request, Lane::NOWHERE, Owner::User(users)))
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

    /// The request belongs to a block on this communicator, and ends with it.
    pub fn assign(&mut self, post: PostId, data: Option<DataId>) {
        if let Some((users, lane)) = self.table.users(post) {
            users.given_up = None;
            *lane = data.map_or(Lane::NOWHERE, |data| Lane { data, context: 0 });
        }
    }

    /// The user says that the operation has failed with this code, whatever it comes to. False when
    /// a block has it already.
    pub fn raise_in_request(&mut self, post: PostId, code: i32) -> bool {
        match self.table.users(post) {
            Some((users, lane)) if *lane == Lane::NOWHERE => {
                users.raise(FaultCode::Application(code));
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
        self.table.users(post)?.0.ended
    }

    /// One more block has this request.
    pub fn share_request(&mut self, post: PostId) {
        if let Some((users, _)) = self.table.users(post) {
            users.uses += 1;
        }
    }

    /// The user has freed the request. True when no block has it: no copy of its handle is to be
    /// used any more.
    pub fn free_request(&mut self, post: PostId) -> bool {
        if let Some((users, _)) = self.table.users(post) {
            users.is_freed = true;
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
