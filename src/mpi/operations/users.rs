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
    seam::platform::{DataId, Progress, Status, UniverseId},
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
    keeping: &'static Keeping,
    /// How MPI frees the request, once it may.
    free: Free,
    /// The user has freed it.
    pub(super) is_freed: bool,
    /// Nobody asks for it any more, and it is over: the next is kept in its place.
    pub(super) is_former: bool,
    /// It is a message that is over, with the status that is in the request.
    is_whole: bool,
    /// What it came to, if there is more to say.
    ended: Option<Ended>,
    /// How many ask for it: the user, blocks.
    pub(super) uses: u32,
    /// The user says that it has failed, whatever it comes to.
    raised: Option<FaultCode>,
    /// Its block was doomed while it was pending.
    pub(super) given_up: Option<FaultCode>,
    /// What it has failed with, for its block, when MPI was asked to end it.
    cut: Option<FaultCode>,
    /// How many bits of its tag on the wire are not the user's.
    pub(super) tag_bits: u32,
}

impl Users {
    /// Keeps a request; what frees it calls a function of the binding instead.
    ///
    /// # Safety
    ///
    /// It is live, is not kept, and MPI gives it for this operation only.
    pub(super) unsafe fn keep(
        keeping: &'static Keeping,
        raw: ffi::MPI_Request,
        instead: Free,
    ) -> Self {
        // SAFETY: our caller's promise.
        Self::new(keeping, unsafe { keeping.keep(raw, instead) })
    }

    fn new(keeping: &'static Keeping, free: Free) -> Self {
        let (ended, raised, given_up, cut) = (None, None, None, None);
        let (is_freed, is_former, is_whole) = (false, false, false);
        let (uses, tag_bits) = (1, 0);
        Self {
            keeping,
            free,
            is_freed,
            is_former,
            is_whole,
            ended,
            uses,
            raised,
            given_up,
            cut,
            tag_bits,
        }
    }

    /// Keeps another request, after this one.
    ///
    /// # Safety
    ///
    /// As for [`Self::keep`].
    #[inline]
    pub(super) unsafe fn keep_next(
        &mut self,
        keeping: &'static Keeping,
        raw: ffi::MPI_Request,
        instead: Free,
    ) {
        self.keeping = keeping;
        // SAFETY: our caller's promise.
        self.free = unsafe { keeping.keep(raw, instead) };
        (self.is_freed, self.is_former, self.is_whole) = (false, false, false);
        self.uses = 1;
        self.ended = None;
        self.raised = None;
        self.given_up = None;
        self.cut = None;
        self.tag_bits = 0;
    }

    /// What it came to, if it is over.
    pub(super) fn ended(&self, request: &Request) -> Option<Ended> {
        if !self.is_whole {
            return self.ended;
        }
        // SAFETY: kept, and found to be so.
        let status = unsafe { self.keeping.status(request.raw()) };
        Some(Ended { status, fault: None, is_persistent: false })
    }

    /// True when it is over.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.is_whole || self.ended.is_some()
    }

    /// True for a message that is over, and has not failed. No call is made.
    #[inline]
    pub(super) fn is_whole(&mut self, request: &Request) -> bool {
        // SAFETY: kept since it was adopted, and not given back before it has ended.
        let is_whole = || unsafe { self.keeping.is_whole(request.raw(), self.free) };
        let is_clear = self.ended.is_none() && self.raised.is_none() && self.cut.is_none();
        // The tag of a message of ours is still that of the wire.
        let is_clear = is_clear && self.tag_bits == 0;
        self.is_whole |= is_clear && is_whole();
        self.is_whole
    }

    /// Looks once, unless it is over.
    pub(super) fn look(&mut self, request: &mut Request) -> Progress {
        if self.is_whole(request) {
            return Progress::Complete(Status::default());
        }
        if self.ended.is_none() {
            self.test(request);
        }
        match &self.ended {
            Some(Ended { fault: Some(code), .. }) => Progress::Failed(*code),
            Some(_) => Progress::Complete(Status::default()),
            None => self.given_up.map_or(Progress::Pending, Progress::Failed),
        }
    }

    fn test(&mut self, request: &mut Request) {
        let keeping = self.keeping;
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
            self.cut = Some(FaultCode::ProcessFailed);
            request.cancel();
            self.given_up = Some(FaultCode::ProcessFailed);
            return;
        }
        // What was cancelled is complete for MPI, with nothing in its buffer.
        let fault = match class {
            // What the receiver took out of the way, long after it was given up, was not served.
            0 if self.tag_bits > 0 && self.given_up.is_some() => self.given_up,
            0 => self.cut.filter(|_| done.is_cancelled()),
            class => Some(FaultCode::from_mpi_class(class)),
        };
        let mut status = done.into_raw();
        if self.tag_bits > 0 && status.MPI_TAG > 0 {
            status.MPI_TAG >>= self.tag_bits;
            // SAFETY: live, as it is kept.
            unsafe { keeping.set_tag(request.raw(), status.MPI_TAG) };
        }
        status.MPI_ERROR = class;
        self.ended = Some(Ended { status, fault: fault.or(self.raised), is_persistent });
    }

    /// It failed for this reason, if MPI has given none.
    pub(super) fn explain(&mut self, cause: FaultCode) {
        if let Some(Ended { status, fault: Some(fault), .. }) = &mut self.ended
            && fault.is_unspecific()
        {
            *fault = cause;
            status.MPI_ERROR = cause.to_mpi_class();
        }
    }

    /// The user says that it has failed.
    pub(super) fn raise(&mut self, request: &Request, code: FaultCode) {
        self.raised.get_or_insert(code);
        self.ended = self.ended(request);
        self.is_whole = false;
        if let Some(ended) = &mut self.ended {
            ended.fault.get_or_insert(code);
        }
    }

    /// Its block is doomed, and MPI was given a moment to end it.
    pub(super) fn interrupt(&mut self) {
        self.explain(FaultCode::Interrupted);
        self.given_up.get_or_insert(FaultCode::Interrupted);
    }

    /// Asks MPI to end it. One that has failed for its block was interrupted for whoever waits for
    /// it: a deadline that has passed would be taken for that of the wait.
    pub(super) fn cancel(&mut self, request: &mut Request, why: Option<FaultCode>) {
        if self.has_ended() {
            return;
        }
        self.cut = self.cut.or(why.map(|_| FaultCode::Interrupted));
        if why == Some(FaultCode::Interrupted) {
            self.given_up.get_or_insert(FaultCode::Interrupted);
        }
        request.cancel();
    }

    /// One of those who ask for it does no more; true when it was the last.
    pub(super) fn forget(&mut self) -> bool {
        let is_last = self.uses == 1;
        self.uses = self.uses.saturating_sub(1);
        is_last
    }

    /// The operation that the request stands for now, if the user has started it again after the
    /// end of this one.
    pub(super) fn again(&self, request: &Request) -> Option<(Request, Self)> {
        // SAFETY: live, as it is kept.
        let is_active = || unsafe { self.keeping.is_active(request.raw()) };
        let rests = |ended: Ended| ended.is_persistent && ended.status.MPI_ERROR == 0;
        if !self.ended.is_some_and(rests) || !is_active() {
            return None;
        }
        // SAFETY: it stays live for the new operation; the old one has ended, and looks no more.
        let request = unsafe { Request::from_raw(request.raw()) };
        Some((request, Self::new(self.keeping, self.free)))
    }

    /// MPI ends: it may free the request as it likes.
    pub(super) fn give_back(&self, request: &Request) {
        // SAFETY: live, as it is kept, with this function.
        unsafe { self.keeping.give_back(request.raw(), self.free) };
    }

    /// MPI has the request back that the user has freed.
    pub(super) fn end(&self, request: &Request) {
        if self.is_freed {
            self.give_back(request);
            // SAFETY: the user has freed it, and no block has it; it has this function again.
            unsafe { request.free_by(self.free) };
        }
    }
}

/// The communicators of the user.
#[derive(Default)]
pub(in crate::mpi) struct UsersComms {
    pub(in crate::mpi) comms: Vec<(DataId, UniverseId, Comm)>,
    /// The age of each: of two that a process is in the one that it had first is the smaller one,
    /// and what takes the place of another one is as old as that.
    ages: Vec<(DataId, u32)>,
    /// The greatest age that this process has heard of.
    pub(in crate::mpi) newest: u32,
    pub(in crate::mpi) links: Vec<Linked>,
}

/// What rebuilds know of a link between survivors and new processes, after a first one over it.
pub(in crate::mpi) struct Linked {
    /// The link, the user's.
    pub(in crate::mpi) raw: ffi::MPI_Comm,
    /// All of them, the survivors first.
    pub(in crate::mpi) merged: Comm,
    /// How many survivors there are.
    pub(in crate::mpi) survivors: u32,
    /// At a new process: the ages of the communicators that it is missing from, the next one first.
    pub(in crate::mpi) lacking: Vec<u32>,
}

impl UsersComms {
    /// Drops a communicator that the user frees.
    pub(in crate::mpi) fn forget(&mut self, data: DataId) {
        self.comms.retain(|(known, ..)| *known != data);
        self.ages.retain(|(known, _)| *known != data);
    }

    /// From now on this is the age of a communicator.
    pub(in crate::mpi) fn set_age(&mut self, data: DataId, age: u32) {
        self.ages.retain(|(known, _)| *known != data);
        self.ages.push((data, age));
        self.newest = self.newest.max(age);
    }

    /// The age of a communicator.
    pub(in crate::mpi) fn age(&self, data: DataId) -> u32 {
        self.ages.iter().find(|(known, _)| *known == data).map_or(0, |(_, age)| *age)
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
