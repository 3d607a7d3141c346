//! Requests of a program that owns its MPI, as the engine and that program share them.

use mpi::ffi;

use super::{platform::MpiPlatform, users::Ended, users_table::place_of};
use crate::{
    fault::FaultCode,
    mpi::{
        calls::{inside, kept::Origin},
        this_mpi::{self, Free, Keeping},
    },
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
    /// Keeps a request that the user started. Whatever frees it, or tells of its end, makes the
    /// caller's handle null, and calls `instead` when no block has it; the request stays until it
    /// was freed, and no block has it.
    ///
    /// # Safety
    ///
    /// The request is live, is no other one that was adopted, and not
    /// [`Self::finished_request`].
    #[inline]
    pub unsafe fn adopt_request(&mut self, raw: ffi::MPI_Request, instead: Free) -> Option<PostId> {
        let keeping = Keeping::find().ok()?;
        // SAFETY: our caller's promise.
        Some(unsafe { self.table.users.keep(keeping, raw, instead) })
    }

    /// [`Self::adopt_request`] for one of the list that has begun, of a block on this communicator.
    ///
    /// # Safety
    ///
    /// As for [`Self::adopt_request`].
    #[inline]
    pub unsafe fn adopt_listed(
        &mut self,
        raw: ffi::MPI_Request,
        instead: Free,
        data: Option<DataId>,
    ) -> Option<PostId> {
        let (keeping, data) = (Keeping::find().ok()?, data.unwrap_or(Lane::NOWHERE.data));
        // SAFETY: our caller's promise.
        Some(unsafe { self.table.users.keep_listed(keeping, raw, instead, data) })
    }

    /// The operation that a request stands for now, if it is kept: another one after the user has
    /// started it again.
    #[inline]
    pub fn find_request(&mut self, raw: ffi::MPI_Request) -> Option<PostId> {
        self.table.users.find(raw)
    }

    /// [`Self::find_request`] for one that is live: takes note that it was started again.
    #[inline]
    pub fn renew_request(&mut self, raw: ffi::MPI_Request) -> Option<PostId> {
        let post = self.table.users.find(raw)?;
        Some(self.table.users.renew(post))
    }

    /// A list of requests comes.
    pub fn begin_list(&mut self) {
        self.table.users.begin_list();
    }

    /// Takes note that a request is in the list that has begun; false when it was there before.
    #[inline]
    pub fn note_listed(&mut self, post: PostId) -> bool {
        self.table.users.note_listed(post)
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
        if keeping.frees_messages(free) {
            Kept::Message
        } else if keeping.is_of_kept(free, instead) {
            Kept::Already
        } else {
            Kept::Unknown
        }
    }

    /// A request that was adopted is a message in a lane of ours, whose tag on the wire has so many
    /// bits beside the user's. Its number among the requests of the user, which is small.
    pub fn mark_message(&mut self, post: PostId, tag_bits: u32) -> usize {
        if let Some(users) = self.table.users.get(post) {
            users.set_tag_bits(tag_bits);
        }
        place_of(post).unwrap_or_default()
    }

    /// The number of a message of ours; nothing for another request.
    #[inline]
    pub fn number_of_message(&mut self, post: PostId) -> Option<usize> {
        let is_ours = self.table.users.get(post)?.is_ours();
        place_of(post).filter(|_| is_ours)
    }

    /// Where a request came from.
    ///
    /// # Safety
    ///
    /// It is live, and not [`Self::finished_request`].
    pub unsafe fn origin(&self, raw: ffi::MPI_Request) -> Origin {
        // SAFETY: our caller's promise.
        unsafe { this_mpi::origin(raw) }
    }

    /// The request of the user behind an operation.
    pub fn request_of(&mut self, post: PostId) -> Option<ffi::MPI_Request> {
        self.table.users.get(post).map(|users| users.raw())
    }

    /// One more block has the request, a block on this communicator, and ends it with itself.
    #[inline]
    pub fn share_request(&mut self, post: PostId, data: Option<DataId>) {
        self.table.users.share(post, data.unwrap_or(Lane::NOWHERE.data));
    }

    /// The user says that the operation has failed with this code, whatever it comes to. False when
    /// a block has it already.
    pub fn raise_in_request(&mut self, post: PostId, code: i32) -> bool {
        let users = self.table.users.get(post).filter(|users| users.data().is_none());
        users.map(|users| users.raise(FaultCode::Application(code))).is_some()
    }

    /// The request that MPI gives for whatever was over before its start returned, as often as it
    /// likes; null if there is none.
    pub fn finished_request(&self) -> ffi::MPI_Request {
        self.flights.finished()
    }

    /// True for a request that MPI gives for many operations, where `finished` is
    /// [`Self::finished_request`].
    #[inline]
    pub fn is_shared(request: ffi::MPI_Request, finished: ffi::MPI_Request) -> bool {
        this_mpi::is_shared(request, finished)
    }

    /// What became of a request, as far as is known without another look.
    pub fn ended(&mut self, post: PostId) -> Option<Ended> {
        self.table.users.get(post)?.ended()
    }

    /// The user has freed a request that no block has, perhaps not for the first time.
    pub fn free_request(&mut self, raw: ffi::MPI_Request) {
        if let Some(post) = self.table.users.find(raw) {
            self.table.users.free(post);
        }
    }

    /// A block that had these requests is no more. Of one of which it was the last, and that the
    /// user has freed, no copy of the handle is to be used any more.
    #[inline]
    pub fn forget_requests(&mut self, posts: impl Iterator<Item = PostId>) {
        let _inside = inside::ordinary();
        posts.for_each(|post| self.table.users.forget(post));
    }

    /// MPI ends, and has all requests back.
    pub fn close_requests(&mut self) {
        self.table.users.give_back();
    }

    /// A block that had this request was cut short by a fault of this kind, and so was the request
    /// if it has failed.
    #[cold]
    pub fn blame_request(&mut self, post: PostId, code: FaultCode) {
        if let Some(users) = self.table.users.get(post) {
            users.blame(code);
        }
    }

    /// Finds out why an operation of the user failed whose error class does not say it. One that is
    /// in no block yet may run on any communicator.
    #[cold]
    pub(in crate::mpi) fn explain(&mut self, post: PostId) -> Option<FaultCode> {
        let users = self.table.users.get(post)?;
        let cause = self.users.disturbance(users.data(), self.ulfm)?;
        users.explain(cause);
        Some(cause)
    }
}
