//! Communicators and requests of a program that owns its MPI.
//!
//! Operations are the user's: they run on the user's communicator and write to the user's memory.
//! All that is done to them is to look at them; when their block is doomed, their communicator is
//! revoked, which ends them. One that does not end even so, as it runs on another communicator,
//! is over for its block, while MPI still has it. The engine and the user share them: each is told
//! what one came to as often as it asks.
//!
//! A request is kept from the moment at which the user gives it to us: MPI frees it when the user
//! has freed it, or has waited for it, by any copy of its handle, and no block has it any more.

use std::ffi::c_int;

use mpi::ffi;

use crate::{
    fault::FaultCode,
    mpi::{
        calls::{
            comm::Comm,
            library::PROC_FAILED_PENDING,
            request::{Done, empty_status},
            ulfm::Ulfm,
        },
        this_mpi::{Free, Keeping, Seen},
    },
    native::Request,
    seam::platform::{DataId, Lane, Progress, Status, UniverseId},
};

/// What became of an operation of the user.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// What MPI says, with the error class in it.
    pub status: ffi::MPI_Status,
    /// Why it failed, if it did.
    pub fault: Option<FaultCode>,
    /// The request can be started again.
    pub is_persistent: bool,
}

/// What is known of an operation of the user, whose request is kept.
pub(super) struct Users {
    request: Request,
    /// How MPI frees the request, once it may.
    free: Free,
    /// What the user is called by when it is freed, and no block has it.
    instead: Free,
    /// What it came to, if there is more to say than its request does, and what is to come of it.
    more: Option<Box<More>>,
    /// The communicator of its block.
    data: DataId,
    /// How many blocks have it.
    uses: u32,
    /// How many bits of its tag on the wire are not the user's.
    tag_bits: u8,
    /// It is a message that is over, with the status that is in the request.
    is_whole: bool,
}

/// What is known of few operations: those that fail, and what is no message.
#[derive(Clone, Copy, Default)]
struct More {
    /// What it came to.
    ended: Option<Ended>,
    /// The user says that it has failed, whatever it comes to.
    raised: Option<FaultCode>,
    /// Its block was doomed while it was pending.
    given_up: Option<FaultCode>,
    /// What an interruption of it is, once its block has found that.
    blamed: Option<FaultCode>,
    /// What it has failed with, for its block, when MPI was asked to end it.
    cut: Option<FaultCode>,
}

/// How requests are kept: known as soon as one is.
fn keeping() -> &'static Keeping {
    Keeping::find().expect("a request is kept by a library that can do so")
}

impl Users {
    /// No operation.
    pub(super) fn none() -> Self {
        let (free, instead) = (Keeping::NO_FREE, Keeping::NO_FREE);
        let (data, uses, tag_bits) = (Lane::NOWHERE.data, 0, 0);
        let (request, is_whole) = (Request::null(), false);
        Self { request, free, instead, more: None, data, uses, tag_bits, is_whole }
    }

    /// An operation whose request is not looked at.
    #[cfg(test)]
    pub(super) fn of(raw: ffi::MPI_Request) -> Self {
        // SAFETY: it is only compared.
        Self { request: unsafe { Request::from_raw(raw) }, ..Self::none() }
    }

    /// Keeps a request in this place; what frees it calls this function of the binding instead, as
    /// long as no block has it.
    ///
    /// # Safety
    ///
    /// It is live, is not kept, and MPI gives it for this operation only. The place has none.
    #[inline]
    pub(super) unsafe fn keep(
        &mut self,
        keeping: &'static Keeping,
        raw: ffi::MPI_Request,
        instead: Free,
    ) {
        // SAFETY: our caller's promise.
        self.free = unsafe { keeping.keep(raw, instead) };
        // SAFETY: live until we give it back.
        self.request = unsafe { Request::from_raw(raw) };
        self.instead = instead;
        (self.uses, self.tag_bits, self.is_whole) = (0, 0, false);
    }

    /// [`Self::keep`] for a request that a block on this communicator has.
    ///
    /// # Safety
    ///
    /// As for [`Self::keep`].
    #[inline]
    pub(super) unsafe fn keep_shared(
        &mut self,
        keeping: &'static Keeping,
        raw: ffi::MPI_Request,
        instead: Free,
        data: DataId,
    ) {
        // SAFETY: our caller's promise.
        self.free = unsafe { keeping.keep_shared(raw) };
        // SAFETY: live until we give it back.
        self.request = unsafe { Request::from_raw(raw) };
        (self.instead, self.data) = (instead, data);
        (self.uses, self.tag_bits, self.is_whole) = (1, 0, false);
    }

    /// True for the operation of this request.
    #[inline]
    pub(super) fn is(&self, raw: ffi::MPI_Request) -> bool {
        self.request.raw() == raw
    }

    pub(super) fn raw(&self) -> ffi::MPI_Request {
        self.request.raw()
    }

    /// It is a message, whose tag on the wire has so many bits beside the user's.
    pub(super) fn set_tag_bits(&mut self, tag_bits: u32) {
        self.tag_bits = tag_bits as u8;
    }

    /// True for a message in a lane of ours.
    #[inline]
    pub(super) fn is_ours(&self) -> bool {
        self.tag_bits > 0
    }

    /// The communicator of its block, if it is in one.
    pub(super) fn data(&self) -> Option<DataId> {
        Some(self.data).filter(|data| *data != Lane::NOWHERE.data)
    }

    /// One more block has it, a block on this communicator.
    #[inline]
    pub(super) fn share(&mut self, data: DataId) {
        if self.uses == 0 {
            // SAFETY: kept.
            unsafe { keeping().keep_shared(self.request.raw()) };
        }
        (self.uses, self.data) = (self.uses + 1, data);
        if let Some(more) = &mut self.more {
            more.given_up = None;
        }
    }

    /// One of the blocks that have it is no more; true when it was the last.
    #[inline]
    pub(super) fn forget(&mut self) -> bool {
        self.uses = self.uses.saturating_sub(1);
        self.uses == 0
    }

    /// True when no block has it.
    pub(super) fn is_unused(&self) -> bool {
        self.uses == 0
    }

    /// True when the user has freed it while a block had it.
    #[inline]
    pub(super) fn is_freed(&self) -> bool {
        // SAFETY: kept.
        unsafe { keeping().was_freed(self.request.raw()) }
    }

    /// It is the user's alone again.
    pub(super) fn rest(&mut self) {
        self.data = Lane::NOWHERE.data;
        // SAFETY: kept, by this function as long as no block has it.
        unsafe { keeping().keep(self.request.raw(), self.instead) };
    }

    /// It is not asked for.
    #[inline]
    pub(super) fn leave(&mut self) {
        self.request = Request::null();
        self.data = Lane::NOWHERE.data;
        if self.more.is_some() {
            self.more = None;
        }
    }

    /// What it came to, if it is over.
    pub(super) fn ended(&self) -> Option<Ended> {
        if !self.is_whole {
            return self.more.as_ref()?.ended;
        }
        // SAFETY: kept, and found to be so.
        let status = unsafe { keeping().status(self.request.raw()) };
        Some(Ended { status, fault: None, is_persistent: false })
    }

    /// True when it is over.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.is_whole || self.more.as_ref().is_some_and(|more| more.ended.is_some())
    }

    /// True for a message that is over, and has not failed. No call is made.
    #[inline]
    pub(super) fn is_whole(&mut self) -> bool {
        if !self.is_whole && self.more.is_none() {
            let raw = self.request.raw();
            // SAFETY: kept since it was adopted, and not given back before it has ended.
            self.is_whole = unsafe { keeping().is_whole(raw, self.free) };
            if self.is_whole && self.is_ours() {
                // SAFETY: as above.
                let tag = unsafe { keeping().status(raw) }.MPI_TAG;
                self.tell_tag(tag);
            }
        }
        self.is_whole
    }

    /// The tag of a message of ours becomes the user's, who may look into the request; this was the
    /// one on the wire.
    fn tell_tag(&self, tag: c_int) -> c_int {
        let told = if tag > 0 { tag >> self.tag_bits } else { tag };
        // SAFETY: live, as it is kept.
        unsafe { keeping().set_tag(self.request.raw(), told) };
        told
    }

    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// Looks once, unless it is over.
    pub(super) fn look(&mut self) -> Progress {
        if self.is_whole() {
            return Progress::Complete(Status::default());
        }
        if !self.has_ended() {
            self.test();
        }
        match self.more.as_deref() {
            Some(More { ended: Some(Ended { fault: Some(code), .. }), .. }) => {
                Progress::Failed(*code)
            }
            Some(More { ended: Some(_), .. }) => Progress::Complete(Status::default()),
            Some(More { given_up: Some(code), .. }) => Progress::Failed(*code),
            _ => Progress::Pending,
        }
    }

    fn test(&mut self) {
        let (keeping, request) = (keeping(), &mut self.request);
        let mut done = Done::new(empty_status());
        // SAFETY: kept since it was adopted, and not given back before it has ended.
        let class = match unsafe { keeping.look(request) } {
            Ok(Seen::Pending) => return,
            Ok(Seen::Wildcard) => PROC_FAILED_PENDING,
            Ok(Seen::Over(seen, class)) => {
                done = seen;
                class
            }
            Err(refusal) => refusal.class,
        };
        // SAFETY: live, as it is kept.
        let is_persistent = unsafe { keeping.is_persistent(request.raw()) };
        // SAFETY: as above.
        let is_active = unsafe { keeping.is_active(request.raw()) };
        let class = if is_persistent && !is_active { 0 } else { class };
        if is_persistent && class == 0 {
            // It can be started again from now on. It is complete, and has no error.
            let _ = request.test_with(None);
        }
        if class == PROC_FAILED_PENDING {
            // A wildcard whose sender may be the dead: the block is doomed.
            request.cancel();
            let failed = Some(FaultCode::ProcessFailed);
            (self.more().cut, self.more().given_up) = (failed, failed);
            return;
        }
        let is_ours = self.is_ours();
        let more = self.more();
        // What was cancelled is complete for MPI, with nothing in its buffer.
        let fault = match class {
            // What came after it was given up has failed, as its block has told.
            0 => more.given_up.or(more.cut.filter(|_| done.is_cancelled())),
            class => Some(FaultCode::from_mpi_class(class)),
        };
        let is_cut = fault == Some(FaultCode::Interrupted);
        let fault = more.blamed.filter(|_| is_cut).or(fault).or(more.raised);
        let mut status = done.into_raw();
        if is_ours {
            status.MPI_TAG = self.tell_tag(status.MPI_TAG);
        }
        status.MPI_ERROR = class;
        self.more().ended = Some(Ended { status, fault, is_persistent });
    }

    /// It failed for this reason, if MPI has given none.
    pub(super) fn explain(&mut self, cause: FaultCode) {
        if let Some(Ended { status, fault: Some(fault), .. }) = &mut self.more().ended
            && fault.is_unspecific()
        {
            *fault = cause;
            status.MPI_ERROR = cause.to_mpi_class();
        }
    }

    /// The user says that it has failed.
    pub(super) fn raise(&mut self, code: FaultCode) {
        let ended = self.ended();
        self.is_whole = false;
        let more = self.more();
        (more.ended, more.raised) = (ended, more.raised.or(Some(code)));
        if let Some(ended) = &mut more.ended {
            ended.fault.get_or_insert(code);
        }
    }

    /// If it is cut short, that is a fault of this kind, as its block has found.
    pub(super) fn blame(&mut self, code: FaultCode) {
        let more = self.more();
        more.blamed = Some(code);
        more.given_up = more.given_up.map(|_| code);
        if let Some(ended) = &mut more.ended
            && ended.fault.is_some_and(|it| it == FaultCode::Interrupted || it.is_unspecific())
        {
            ended.fault = Some(code);
            ended.status.MPI_ERROR = code.to_mpi_class();
        }
    }

    /// Its block is doomed, and MPI was given a moment to end it.
    pub(super) fn interrupt(&mut self) {
        if !self.is_whole {
            self.explain(FaultCode::Interrupted);
            self.more().given_up.get_or_insert(FaultCode::Interrupted);
        }
    }

    /// Asks MPI to end it. One that has failed for its block was interrupted for all that wait for
    /// it: a deadline that has passed would be taken for that of the wait.
    pub(super) fn cancel(&mut self, why: Option<FaultCode>) {
        if self.has_ended() {
            return;
        }
        let more = self.more();
        more.cut = more.cut.or(why.map(|_| FaultCode::Interrupted));
        if why == Some(FaultCode::Interrupted) {
            more.given_up.get_or_insert(FaultCode::Interrupted);
        }
        self.request.cancel();
    }

    /// True when the user has started the request again after the end of this operation.
    #[inline]
    pub(super) fn is_active_again(&self) -> bool {
        let rests = |ended: Ended| ended.is_persistent && ended.status.MPI_ERROR == 0;
        // SAFETY: live, as it is kept.
        let is_active = || unsafe { keeping().is_active(self.request.raw()) };
        self.more.as_ref().and_then(|more| more.ended).is_some_and(rests) && is_active()
    }

    /// The operation that the request stands for then, which no block has.
    pub(super) fn again(&self) -> Self {
        let Self { free, instead, .. } = *self;
        // SAFETY: it stays live for the new operation; the old one has ended, and looks no more.
        let request = unsafe { Request::from_raw(self.request.raw()) };
        let mut again = Self { request, free, instead, ..Self::none() };
        again.rest();
        again
    }

    /// Looks at an operation that the user has freed; true when it is over.
    pub(super) fn ends(&mut self) -> bool {
        self.look();
        self.has_ended()
    }

    /// MPI ends: it may free the request as it likes.
    pub(super) fn give_back(&self) {
        // SAFETY: live, as it is kept, with this function.
        unsafe { keeping().give_back(self.request.raw(), self.free) };
    }

    /// MPI has the request back, which the user has freed.
    #[inline]
    pub(super) fn end(&self) {
        self.give_back();
        // SAFETY: the user has freed it, and no block has it; it has this function again.
        unsafe { self.request.free_by(self.free) };
    }
}

/// A link of two groups that the user has, and that is in use.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct UsersLink {
    pub(in crate::mpi) raw: ffi::MPI_Comm,
    /// All of its processes, group by group.
    pub(in crate::mpi) merged: Comm,
    /// The first rank in that of our own group, and of the other one.
    pub(in crate::mpi) own: u32,
    pub(in crate::mpi) other: u32,
    /// How many communicators were rebuilt over it, or are.
    pub(in crate::mpi) rebuilds: u32,
}

/// The communicators of the user.
#[derive(Default)]
pub(in crate::mpi) struct UsersComms {
    pub(in crate::mpi) comms: Vec<(DataId, UniverseId, Comm)>,
    pub(in crate::mpi) links: Vec<UsersLink>,
}

impl UsersComms {
    /// Drops a communicator that the user frees.
    pub(in crate::mpi) fn forget(&mut self, data: DataId) {
        self.comms.retain(|(known, ..)| *known != data);
    }

    /// The link, if it is in use.
    pub(in crate::mpi) fn link(&mut self, raw: ffi::MPI_Comm) -> Option<&mut UsersLink> {
        self.links.iter_mut().find(|known| known.raw == raw)
    }

    /// Why operations on a communicator of the user fail, or on any of them.
    pub(super) fn disturbance(&self, data: Option<DataId>, ulfm: &Ulfm) -> Option<FaultCode> {
        let mut comms = self.comms.iter().filter(|it| data.is_none_or(|data| data == it.0));
        comms.find_map(|(.., comm)| comm.disturbance(ulfm))
    }

    /// The user's communicator, if this is one.
    pub(in crate::mpi) fn get(&self, data: DataId) -> Option<(UniverseId, Comm)> {
        let found = self.comms.iter().find(|(known, ..)| *known == data)?;
        Some((found.1, found.2))
    }
}
