//! Communicators and requests of a program that owns its MPI.
//!
//! Operations are the user's: they run on the user's communicator and write to the user's memory.
//! All that is done to them is `MPI_Test`; when their block is doomed, their communicator is
//! revoked, which ends them. One that does not end even so, as it runs on another communicator,
//! is over for its block, while MPI still has it.

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
    /// A persistent request that is inactive now; MPI has forgotten all others.
    pub persistent: Option<ffi::MPI_Request>,
}

/// An operation of the user.
pub(super) struct Operation {
    request: Request,
    pub(super) ended: Option<Ended>,
    /// How many ask for it: the handle that stands for it, blocks.
    pub(super) uses: u32,
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
    invited: bool,
}

/// True for operations of the user.
#[inline]
pub(in crate::mpi) fn is_guest(post: PostId) -> bool {
    post.0 & GUEST != 0
}

impl Operation {
    fn look(&mut self) -> Progress {
        if self.ended.is_none() {
            let mut done = Done::new(empty_status());
            let tested = self.request.test_with(Some(&mut done));
            let class = match tested {
                Ok(false) => 0,
                Ok(true) => {
                    // What was cancelled is complete for MPI, with nothing in its buffer.
                    let fault = self.cut.filter(|_| done.is_cancelled());
                    self.end(done.into_raw(), fault);
                    0
                }
                Err(refusal) => refusal.class,
            };
            if class == PROC_FAILED_PENDING {
                // A wildcard whose sender may be the dead: the block is doomed.
                self.cut = Some(FaultCode::ProcessFailed);
                self.request.cancel();
                self.given_up = Some(FaultCode::ProcessFailed);
            } else if class != 0 {
                let mut status = done.into_raw();
                status.MPI_ERROR = class;
                let fault = FaultCode::from_mpi_class(class);
                self.end(status, Some(fault));
            }
        }
        match &self.ended {
            Some(Ended { fault: Some(code), .. }) => Progress::Failed(*code),
            Some(_) => Progress::Complete(Status::default()),
            None => self.given_up.map_or(Progress::Pending, Progress::Failed),
        }
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

    fn end(&mut self, status: ffi::MPI_Status, fault: Option<FaultCode>) {
        let persistent = (!self.request.is_over()).then(|| self.request.raw());
        self.ended = Some(Ended { status, fault, persistent });
    }
}

impl Guests {
    /// Those of a program that owns its MPI, when it comes in.
    pub(in crate::mpi) fn invited() -> Self {
        Self { invited: true, ..Self::default() }
    }

    /// Takes a communicator of the user into use.
    pub(in crate::mpi) fn add_comm(&mut self, data: DataId, universe: UniverseId, users: Comm) {
        self.comms.push((data, universe, users));
    }

    /// Drops a communicator that the user frees.
    pub(in crate::mpi) fn forget_comm(&mut self, data: DataId) {
        self.comms.retain(|(known, ..)| *known != data);
    }

    /// Frees the place of an operation.
    pub(super) fn remove(&mut self, post: PostId) {
        self.operations[(post.0 & !GUEST) as usize] = None;
        self.free.push(post.0 & !GUEST);
    }

    pub(super) fn operation(&mut self, post: PostId) -> Option<&mut Operation> {
        self.operations.get_mut((post.0 & !GUEST) as usize)?.as_mut()
    }

    pub(in crate::mpi) fn test(&mut self, post: PostId, ulfm: &Ulfm) -> Progress {
        let gone = Progress::Failed(FaultCode::Interrupted);
        match self.operation(post).map_or(gone, Operation::look) {
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

    pub(super) fn add(&mut self, request: Request) -> PostId {
        let (block, given_up, cut) = (None, None, None);
        let made = Operation { request, ended: None, uses: 1, block, given_up, cut };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.operations.push(None);
            self.operations.len() as u32 - 1
        });
        self.operations[slot as usize] = Some(made);
        PostId(slot | GUEST)
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
        for slot in 0..self.operations.len() {
            if let Some(operation) = self.operations[slot].as_mut().filter(|it| it.uses == 0)
                && operation.look() != Progress::Pending
            {
                self.operations[slot] = None;
                self.free.push(slot as u32);
            }
        }
    }

    /// True when a program that owns its MPI has come in.
    pub(in crate::mpi) fn are_in_use(&self) -> bool {
        self.invited
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
        users.revoke(ulfm);
        let began = Instant::now();
        while began.elapsed() < DRAIN_WITHIN {
            if self.of_blocks_on(data).all(|operation| operation.look() != Progress::Pending) {
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
