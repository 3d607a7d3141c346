//! Communicators and requests of a program that owns its MPI.
//!
//! Operations are the user's: they run on the user's communicator and write to the user's memory.
//! All that is done to them is to look at them; when their block is doomed, their communicator is
//! revoked, which ends them. One that does not end even so, as it runs on another communicator,
//! is over for its block, while MPI still has it.
//!
//! A request is kept from the moment at which the user gives it to us: MPI frees it when the user
//! has freed it, or has waited for it, by any copy of its handle, and no block has it any more.

use std::time::{Duration, Instant};

use mpi::ffi;

use crate::{
    engine::platform::{DataId, PostId, Progress, Status, UniverseId},
    fault::FaultCode,
    mpi::calls::{
        comm::Comm,
        library::PROC_FAILED_PENDING,
        request::{Done, Request, empty_status},
        ulfm::Ulfm,
    },
    mpi::this_mpi::{Free, Keeping, Seen},
};

/// Numbers of the users' operations have this bit, those of our own have not.
const GUEST: u32 = 1 << 31;
/// Operations of a revoked communicator are over within 0.5 ms.
const DRAIN_WITHIN: Duration = Duration::from_millis(2);

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

/// An operation of the user.
pub(super) struct Operation {
    request: Request,
    /// How MPI frees it, once it may.
    free: Free,
    /// The user has freed it.
    pub(super) is_freed: bool,
    pub(super) ended: Option<Ended>,
    /// How many ask for it: the user, blocks.
    pub(super) uses: u32,
    /// The user says that it has failed, whatever it comes to.
    pub(super) raised: Option<FaultCode>,
    /// The communicator of its block.
    pub(super) block: Option<DataId>,
    /// Its block was doomed while it was pending.
    pub(super) given_up: Option<FaultCode>,
    /// What it has failed with, for its block, when MPI was asked to end it.
    cut: Option<FaultCode>,
}

/// All that is the user's.
#[derive(Default)]
pub(in crate::mpi) struct Guests {
    comms: Vec<(DataId, UniverseId, Comm)>,
    operations: Vec<Option<Operation>>,
    free: Vec<u32>,
    /// How requests are kept, once a program that owns its MPI has come in.
    keeping: Option<Keeping>,
}

/// True for operations of the user.
#[inline]
pub(in crate::mpi) fn is_guest(post: PostId) -> bool {
    post.0 & GUEST != 0
}

impl Operation {
    fn look(&mut self, keeping: Keeping) -> Progress {
        if self.ended.is_none() {
            self.test(keeping);
        }
        match &self.ended {
            Some(Ended { fault: Some(code), .. }) => Progress::Failed(*code),
            Some(_) => Progress::Complete(Status::default()),
            None => self.given_up.map_or(Progress::Pending, Progress::Failed),
        }
    }

    fn test(&mut self, keeping: Keeping) {
        let mut done = Done::new(empty_status());
        // SAFETY: kept since it was adopted, and not given back before it has ended.
        let class = match unsafe { keeping.look(&self.request) } {
            Ok(Seen::Pending) => return,
            Ok(Seen::Wildcard) => PROC_FAILED_PENDING,
            Ok(Seen::Over(seen, class)) => {
                done = seen;
                class
            }
            Err(refusal) => refusal.class,
        };
        // SAFETY: live, as it is kept.
        let is_persistent = unsafe { keeping.is_persistent(self.request.raw()) };
        // SAFETY: as above.
        let class = if is_persistent && !unsafe { keeping.is_active(self.request.raw()) } {
            0
        } else {
            class
        };
        if is_persistent && class == 0 {
            // It can be started again from now on. It is complete, and has no error.
            let _ = self.request.test_with(None);
        }
        if class == PROC_FAILED_PENDING {
            // A wildcard whose sender may be the dead: the block is doomed.
            self.cut = Some(FaultCode::ProcessFailed);
            self.request.cancel();
            self.given_up = Some(FaultCode::ProcessFailed);
            return;
        }
        // What was cancelled is complete for MPI, with nothing in its buffer.
        let fault = match class {
            0 => self.cut.filter(|_| done.is_cancelled()),
            class => Some(FaultCode::from_mpi_class(class)),
        };
        let mut status = done.into_raw();
        status.MPI_ERROR = class;
        self.ended = Some(Ended { status, fault: fault.or(self.raised), is_persistent });
    }

    /// It failed for this reason, if MPI has given none.
    fn explain(&mut self, cause: FaultCode) {
        if let Some(Ended { status, fault: Some(fault), .. }) = &mut self.ended
            && fault.is_unspecific()
        {
            *fault = cause;
            status.MPI_ERROR = cause.to_mpi_class();
        }
    }

    /// The user says that it has failed.
    pub(super) fn raise(&mut self, code: FaultCode) {
        self.raised.get_or_insert(code);
        if let Some(ended) = &mut self.ended {
            ended.fault.get_or_insert(code);
        }
    }

    /// True when the user has started the request again after its end.
    fn is_started_again(&self, keeping: Keeping) -> bool {
        // SAFETY: live, as it is kept.
        let is_active = || unsafe { keeping.is_active(self.request.raw()) };
        let rests = |ended: Ended| ended.is_persistent && ended.status.MPI_ERROR == 0;
        self.ended.is_some_and(rests) && is_active()
    }

    /// MPI may have the request back.
    fn give_back(self, keeping: Keeping) {
        // SAFETY: kept, with this function.
        unsafe { keeping.give_back(self.request.raw(), self.free) };
        // SAFETY: the user has freed it, and no block has it.
        unsafe { self.request.free() };
    }
}

impl Guests {
    /// Those of a program that owns its MPI, when it comes in.
    pub(in crate::mpi) fn invited(keeping: Keeping) -> Self {
        Self { keeping: Some(keeping), ..Self::default() }
    }

    /// Takes a communicator of the user into use.
    pub(in crate::mpi) fn add_comm(&mut self, data: DataId, universe: UniverseId, users: Comm) {
        self.comms.push((data, universe, users));
    }

    /// Drops a communicator that the user frees.
    pub(in crate::mpi) fn forget_comm(&mut self, data: DataId) {
        self.comms.retain(|(known, ..)| *known != data);
    }

    pub(super) fn operation(&mut self, post: PostId) -> Option<&mut Operation> {
        self.operations.get_mut((post.0 & !GUEST) as usize)?.as_mut()
    }

    pub(in crate::mpi) fn test(&mut self, post: PostId, ulfm: &Ulfm) -> Progress {
        let gone = Progress::Failed(FaultCode::Interrupted);
        let Some(keeping) = self.keeping else { return gone };
        match self.operation(post).map_or(gone, |operation| operation.look(keeping)) {
            Progress::Failed(code) if code.is_unspecific() => {
                Progress::Failed(self.explain(post, ulfm).unwrap_or(code))
            }
            progress => progress,
        }
    }

    /// Finds out why an operation failed whose error class does not say it. One that is in no block
    /// yet may run on any communicator.
    #[cold]
    fn explain(&mut self, post: PostId, ulfm: &Ulfm) -> Option<FaultCode> {
        let block = self.operation(post)?.block;
        let mut comms = self.comms.iter().filter(|it| block.is_none_or(|block| block == it.0));
        let cause = comms.find_map(|(.., comm)| comm.disturbance(ulfm))?;
        self.operation(post)?.explain(cause);
        Some(cause)
    }

    /// Keeps a request of the user; what frees it calls a function of the binding instead.
    ///
    /// # Safety
    ///
    /// It is live, is not kept, and MPI gives it for this operation only.
    pub(super) unsafe fn add(&mut self, raw: ffi::MPI_Request, instead: Free) -> Option<PostId> {
        // SAFETY: our caller's promise.
        let free = unsafe { self.keeping?.keep(raw, instead) };
        // SAFETY: live until we give it back.
        Some(self.put(unsafe { Request::from_raw(raw) }, free))
    }

    fn put(&mut self, request: Request, free: Free) -> PostId {
        let (block, given_up, cut, raised) = (None, None, None, None);
        let (is_freed, ended, uses) = (false, None, 1);
        let made = Operation { request, free, is_freed, ended, uses, raised, block, given_up, cut };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.operations.push(None);
            self.operations.len() as u32 - 1
        });
        self.operations[slot as usize] = Some(made);
        PostId(slot | GUEST)
    }

    /// The present operation of a request: another one if the user has started it again.
    pub(super) fn renew(&mut self, post: PostId) -> PostId {
        let Some(keeping) = self.keeping else { return post };
        let Some(before) = self.operation(post) else { return post };
        if !before.is_started_again(keeping) {
            return post;
        }
        // SAFETY: it stays live for the new operation; the old one has ended, and looks no more.
        let request = unsafe { Request::from_raw(before.request.raw()) };
        let free = before.free;
        self.let_go(post);
        self.put(request, free)
    }

    /// One of those who asked for an operation does no more. True after the last, if the user has
    /// freed the request: MPI has it back as soon as it is over.
    pub(super) fn let_go(&mut self, post: PostId) -> bool {
        let Some(operation) = self.operation(post) else { return false };
        operation.uses = operation.uses.saturating_sub(1);
        let (is_last, is_freed) = (operation.uses == 0, operation.is_freed);
        if is_last && (operation.ended.is_some() || !is_freed) {
            self.remove(post);
        }
        is_last && is_freed
    }

    /// The place of an operation is free, and MPI has a request back that the user has freed.
    fn remove(&mut self, post: PostId) {
        let slot = post.0 & !GUEST;
        if let (Some(operation), Some(keeping)) =
            (self.operations[slot as usize].take(), self.keeping)
        {
            self.free.push(slot);
            if operation.is_freed {
                operation.give_back(keeping);
            }
        }
    }

    /// MPI ends: it may free what it likes.
    pub(super) fn close(&mut self) {
        let Some(keeping) = self.keeping else { return };
        for operation in self.operations.iter().flatten() {
            // SAFETY: live, as it is kept, with this function.
            unsafe { keeping.give_back(operation.request.raw(), operation.free) };
        }
    }

    /// Asks MPI to end an operation. One that has failed for its block was interrupted for whoever
    /// waits for it: a deadline that has passed would be taken for that of the wait.
    pub(in crate::mpi) fn cancel(&mut self, post: PostId, failed: bool) {
        if let Some(operation) = self.operation(post).filter(|it| it.ended.is_none()) {
            operation.cut = operation.cut.or(failed.then_some(FaultCode::Interrupted));
            operation.request.cancel();
        }
    }

    /// Operations that nobody asks for are tested to their end, as MPI wants it.
    pub(in crate::mpi) fn sweep(&mut self) {
        let Some(keeping) = self.keeping else { return };
        let is_over = |operation: &mut Operation| {
            operation.look(keeping);
            operation.ended.is_some()
        };
        for slot in 0..self.operations.len() {
            let unused = self.operations[slot].as_mut().filter(|operation| operation.uses == 0);
            if unused.is_some_and(is_over) {
                self.remove(PostId(slot as u32 | GUEST));
            }
        }
    }

    /// True when a program that owns its MPI has come in.
    pub(in crate::mpi) fn are_in_use(&self) -> bool {
        self.keeping.is_some()
    }

    /// The user's communicator, if this is one.
    pub(in crate::mpi) fn users(&self, data: DataId) -> Option<(UniverseId, Comm)> {
        let found = self.comms.iter().find(|(known, ..)| *known == data)?;
        Some((found.1, found.2))
    }

    fn of_blocks_on(&mut self, data: DataId) -> impl Iterator<Item = &mut Operation> {
        self.operations.iter_mut().flatten().filter(move |it| it.block == Some(data))
    }

    /// A doomed block, or one with a dead member: what is pending on the user's communicator ends
    /// now. False when it is none of the user's.
    pub(in crate::mpi) fn retire(
        &mut self,
        data: DataId,
        everybody_lives: bool,
        ulfm: &Ulfm,
    ) -> bool {
        let Some((_, users)) = self.users(data) else { return false };
        if everybody_lives {
            return true;
        }
        let Some(keeping) = self.keeping else { return true };
        users.revoke(ulfm);
        let began = Instant::now();
        while began.elapsed() < DRAIN_WITHIN {
            if self.of_blocks_on(data).all(|it| it.look(keeping) != Progress::Pending) {
                break;
            }
        }
        for operation in self.of_blocks_on(data) {
            operation.explain(FaultCode::Interrupted);
            operation.given_up.get_or_insert(FaultCode::Interrupted);
        }
        true
    }
}
