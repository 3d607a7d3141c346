//! Requests of a program that owns its MPI, as the engine and that program share them.

use mpi::ffi;

use super::{
    platform::MpiPlatform,
    table::Owner,
    users::{Ended, Users},
};
use crate::{
    fault::FaultCode,
    native::Request,
    seam::platform::{DataId, Lane, PostId},
};

impl MpiPlatform {
    /// Takes a request that the user started.
    ///
    /// # Safety
    ///
    /// The request is live, and nobody else tests or frees it any more.
    pub unsafe fn adopt_request(&mut self, raw: ffi::MPI_Request) -> PostId {
        let users = Users { uses: 1, ..Users::default() };
        // SAFETY: live and ours to test, says our caller.
        let request = unsafe { Request::from_raw(raw) };
        self.table.add(request, Lane::NOWHERE, Owner::User(users))
    }

    /// The request belongs to a block on this communicator, and ends with it.
    pub fn assign(&mut self, post: PostId, data: Option<DataId>) {
        if let Some((users, lane)) = self.table.users(post) {
            users.given_up = None;
            *lane = data.map_or(Lane::NOWHERE, |data| Lane { data, context: 0 });
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

    /// One more asks for this request.
    pub fn share_request(&mut self, post: PostId) {
        if let Some((users, _)) = self.table.users(post) {
            users.uses += 1;
        }
    }

    /// One of those who asked for this request does no more. After the last, MPI completes it in
    /// its own time.
    pub fn forget_request(&mut self, post: PostId) {
        self.table.forget_users(post);
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
