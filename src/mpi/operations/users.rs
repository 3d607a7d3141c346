//! Communicators and requests of a program that owns its MPI.
//!
//! Operations are the user's: they run on the user's communicator and write to the user's memory.
//! All that is done to them is `MPI_Test`; when their block is doomed, their communicator is
//! revoked, which ends them. One that does not end even so, as it runs on another communicator,
//! is over for its block, while MPI still has it. The engine and the user share them: each is told
//! what one came to as often as it asks.

use mpi::ffi;

use crate::{
    fault::FaultCode,
    mpi::calls::{
        comm::Comm,
        library::PROC_FAILED_PENDING,
        request::{Done, empty_status},
        ulfm::Ulfm,
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
    /// A persistent request that is inactive now; MPI has forgotten all others.
    pub persistent: Option<ffi::MPI_Request>,
}

/// What is known of an operation of the user.
#[derive(Default)]
pub(super) struct Users {
    pub(super) ended: Option<Ended>,
    /// How many ask for it: the handle that stands for it, blocks.
    pub(super) uses: u32,
    /// Its block was doomed while it was pending.
    pub(super) given_up: Option<FaultCode>,
    /// What it has failed with, for its block, when MPI was asked to end it.
    pub(super) cut: Option<FaultCode>,
}

impl Users {
    /// Looks once, unless it is over.
    pub(super) fn look(&mut self, request: &mut Request) -> Progress {
        if self.ended.is_none() {
            let mut done = Done::new(empty_status());
            match request.test_with(Some(&mut done)) {
                Ok(false) => {}
                Ok(true) => {
                    // What was cancelled is complete for MPI, with nothing in its buffer.
                    let fault = self.cut.filter(|_| done.is_cancelled());
                    self.end(request, done.into_raw(), fault);
                }
                Err(refusal) if refusal.class == PROC_FAILED_PENDING => {
                    // A wildcard whose sender may be the dead: the block is doomed.
                    self.cut = Some(FaultCode::ProcessFailed);
                    request.cancel();
                    self.given_up = Some(FaultCode::ProcessFailed);
                }
                Err(refusal) => {
                    let mut status = done.into_raw();
                    status.MPI_ERROR = refusal.class;
                    self.end(request, status, Some(refusal.fault()));
                }
            }
        }
        match &self.ended {
            Some(Ended { fault: Some(code), .. }) => Progress::Failed(*code),
            Some(_) => Progress::Complete(Status::default()),
            None => self.given_up.map_or(Progress::Pending, Progress::Failed),
        }
    }

    fn end(&mut self, request: &Request, status: ffi::MPI_Status, fault: Option<FaultCode>) {
        let persistent = (!request.is_over()).then(|| request.raw());
        self.ended = Some(Ended { status, fault, persistent });
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

    /// Its block is doomed, and MPI was given a moment to end it.
    pub(super) fn interrupt(&mut self) {
        self.explain(FaultCode::Interrupted);
        self.given_up.get_or_insert(FaultCode::Interrupted);
    }

    /// Asks MPI to end it. One that has failed for its block was interrupted for whoever waits for
    /// it: a deadline that has passed would be taken for that of the wait.
    pub(super) fn cancel(&mut self, request: &mut Request, failed: bool) {
        if self.ended.is_none() {
            self.cut = self.cut.or(failed.then_some(FaultCode::Interrupted));
            request.cancel();
        }
    }

    /// One of those who ask for it does no more; true when it was the last.
    pub(super) fn forget(&mut self) -> bool {
        let is_last = self.uses == 1;
        self.uses = self.uses.saturating_sub(1);
        is_last
    }
}

/// The communicators of the user.
#[derive(Default)]
pub(in crate::mpi) struct UsersComms {
    pub(in crate::mpi) comms: Vec<(DataId, UniverseId, Comm)>,
}

impl UsersComms {
    /// Drops a communicator that the user frees.
    pub(in crate::mpi) fn forget(&mut self, data: DataId) {
        self.comms.retain(|(known, ..)| *known != data);
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
