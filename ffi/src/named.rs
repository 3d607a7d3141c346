//! What the handles of requests stand for that the program passes.

use std::ffi::c_int;

use fampi_core::{
    engine::platform::{Platform as _, PostId, Progress},
    mpi::MpiPlatform,
};
use mpi::ffi;

use crate::{
    beneath,
    codes::{FAMPI_ERR_INTERRUPTED, FAMPI_ERR_REQUEST, FAMPI_ERR_STATE, Result, number},
    handles::Kind,
    request::{empty_status, null},
    state::State,
    users::{self, Message},
};

impl State {
    /// The operation behind a request of the program's own, which MPI keeps from now on; nothing
    /// for one that was over when it started, which is one request for all of these.
    pub(crate) fn operation(&mut self, raw: ffi::MPI_Request) -> Result<Option<PostId>> {
        let Self { guest, handles, finished, .. } = self;
        if MpiPlatform::is_shared(raw, *finished) {
            return Ok(None);
        }
        if handles.is_freed(raw) {
            return Err(FAMPI_ERR_REQUEST);
        }
        guest.with_mpi(|mpi| users::adopt(mpi, raw, users::kind_of(mpi, raw))).map(Some)
    }

    /// True for a request of the program's own that is no other one's, too.
    pub(crate) fn may_be_named(&mut self, raw: ffi::MPI_Request) -> bool {
        let is_known = self.user(raw).is_some();
        let is_shared = MpiPlatform::is_shared(raw, self.finished);
        raw != null() && !is_shared && (is_known || !self.handles.was_freed(raw))
    }

    /// Records that a request of the program's own has failed.
    pub(crate) fn raise_in(&mut self, raw: ffi::MPI_Request, code: c_int) -> Result<()> {
        let post = self.operation(raw)?.ok_or(FAMPI_ERR_REQUEST)?;
        let raised = self.guest.with_mpi(|mpi| mpi.raise_in_request(post, code));
        if raised { Ok(()) } else { Err(FAMPI_ERR_STATE) }
    }

    /// The operation behind a request of the program's own that MPI keeps for us.
    fn user(&mut self, raw: ffi::MPI_Request) -> Option<PostId> {
        self.guest.with_mpi(|mpi| mpi.find_request(raw))
    }

    /// The message of ours behind a request, if it is one.
    pub(crate) fn message(&mut self, raw: ffi::MPI_Request) -> Option<Message> {
        let Self { guest, users, .. } = self;
        guest.with_mpi(|mpi| mpi.find_request(raw).and_then(|post| users.message(mpi, post)))
    }

    /// True for a request that we made, or that MPI keeps for us.
    pub(crate) fn knows(&mut self, raw: ffi::MPI_Request) -> bool {
        self.entry(raw).is_some() || self.user(raw).is_some()
    }

    /// Status and code of a request that is over, as far as is known; null is over.
    pub(crate) fn outcome(&mut self, raw: ffi::MPI_Request) -> Option<(ffi::MPI_Status, c_int)> {
        if raw == null() || MpiPlatform::is_shared(raw, self.finished) {
            return Some((empty_status(), 0));
        }
        if let Some(entry) = self.entry(raw) {
            return entry.handle.outcome();
        }
        let post = self.user(raw)?;
        users::outcome(&mut self.guest, post)
    }

    /// The code of a request that is over for its block only, as MPI does not let go of it.
    #[cold]
    pub(crate) fn code_for_block(&mut self, raw: ffi::MPI_Request) -> c_int {
        let post = self.user(raw);
        match post.map(|post| self.guest.with_mpi(|mpi| mpi.test(post, &mut None))) {
            Some(Progress::Failed(code)) => number(code),
            _ => FAMPI_ERR_INTERRUPTED,
        }
    }

    /// The program frees a request that MPI has to free: one that is not over does so later.
    #[inline(never)]
    pub(crate) fn leave(&mut self, raw: ffi::MPI_Request) {
        let Some(entry) = self.handles.entry(raw) else { return };
        entry.held = entry.handle.is_complete();
        if let Kind::Block(block) = &entry.kind
            && !block.finished
        {
            self.guest.leave_block(block.name);
            self.settle();
        }
    }

    /// Frees a request that is over; one that can be started again stays.
    #[inline(never)]
    pub(crate) fn release(&mut self, slot: &mut ffi::MPI_Request) {
        if self.entry(*slot).is_none()
            && let Some(post) = self.user(*slot)
            && users::is_persistent(&mut self.guest, post)
        {
            return;
        }
        if self.free(slot) == Ok(false) {
            // SAFETY: complete; the program has given it to us to be freed.
            unsafe { beneath::free(slot) };
        }
    }
}
