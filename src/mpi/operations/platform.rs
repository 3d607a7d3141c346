//! What this process has of MPI: its control channel, its operations, and what they run on.
//!
//! The rooms above put it together, add to it and end it; `mpi/mod.rs` shows it to the engine.

use std::{mem, rc::Rc, time::Instant};

use super::{
    attempts::Attempts,
    contexts::{DataComm, lane_of},
    files::Files,
    in_flight::Flights,
    probe::Messages,
    table::{Extra, Own, State, Table},
    users::UsersComms,
};
use crate::{
    fault::FaultCode,
    mpi::{
        calls::{
            collectives::Layout,
            comm::{Comm, Handle},
            inside,
            library::{BUFFER, COUNT, Refusal},
            meeting::Meeting,
            ulfm::Ulfm,
        },
        this_mpi,
        transport::control::Control,
    },
    native::{Exposure, Kind, Request},
    seam::{
        buffer::AnyBuffer,
        platform::{DataId, FileAccess, Lane, Operation, Posted, Setup},
    },
};

/// `MPI_ERR_FILE` of Open MPI.
const FILE: i32 = 30;

/// What was started.
struct Started {
    kind: Kind,
    request: Request,
    comm: Option<Handle>,
    /// What it needs beside its buffer.
    extra: Option<Box<Extra>>,
}

/// Who ends MPI.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) enum Finalizer {
    /// This library, which has initialised it.
    Library,
    /// The caller, after the end of the world.
    Caller,
    /// A program in whose end of MPI the world ends.
    Host,
}

/// MPI as the engine sees it.
pub struct MpiPlatform {
    pub(in crate::mpi) ulfm: &'static Ulfm,
    pub(in crate::mpi) started: Instant,
    pub(in crate::mpi) setup: Setup,
    pub(in crate::mpi) control: Control,
    pub(in crate::mpi) table: Table,
    pub(in crate::mpi) flights: Flights,
    pub(in crate::mpi) messages: Messages,
    pub(in crate::mpi) files: Files,
    pub(in crate::mpi) users: UsersComms,
    pub(in crate::mpi) data: Vec<Option<DataComm>>,
    /// Old contexts to be freed when nothing is pending on them.
    pub(in crate::mpi) unneeded: Vec<(DataId, u32, Comm)>,
    pub(in crate::mpi) attempts: Attempts,
    /// What this process has come to, and waits for.
    pub(in crate::mpi) meetings: Vec<Meeting>,
    /// The link to the root, and the processes spawned with us.
    pub(in crate::mpi) spawned: Option<(Comm, Comm)>,
    /// Who ends MPI.
    pub(in crate::mpi) finalizer: Finalizer,
}

impl std::fmt::Debug for MpiPlatform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MPI")
    }
}

impl MpiPlatform {
    pub(in crate::mpi) fn note_unneeded(&mut self, data: DataId, unneeded: Option<(u32, Comm)>) {
        self.unneeded.extend(unneeded.map(|(number, comm)| (data, number, comm)));
    }

    pub(in crate::mpi) fn free_unneeded(&mut self) {
        let (table, flights) = (&self.table, &mut self.flights);
        let idle = |(data, number, _): &mut (DataId, u32, Comm)| {
            !table.needs(*data, *number) && !flights.needs(*data, *number)
        };
        for (.., comm) in self.unneeded.extract_if(.., idle) {
            // SAFETY: its entry among the contexts is gone, and no post is left that names it.
            unsafe { comm.free() };
        }
    }

    /// Starts an operation, and has its buffer until it is over.
    pub(in crate::mpi) fn start_operation(
        &mut self,
        lane: Lane,
        operation: &Operation,
        mut buffer: AnyBuffer,
    ) -> Result<Posted, (FaultCode, AnyBuffer)> {
        let started = buffer.expose().and_then(|exposure| {
            let started = match operation {
                Operation::File(access) => self.launch_access(*access, &exposure),
                _ => self.launch(lane, operation, &exposure),
            };
            started.map(|started| (started, exposure))
        });
        let (Started { kind, request, comm, extra }, exposure) = match started {
            Ok(started) => started,
            Err(code) => return Err((code, buffer)),
        };
        let Exposure { elements, element, .. } = exposure;
        if kind == Kind::Send && request.raw() == self.flights.finished() {
            return Ok(Posted::Complete(elements, buffer));
        }
        let lane = if kind == Kind::File { Lane::NOWHERE } else { lane };
        let (buffer, state) = (Some(buffer), State::Wanted);
        let own = Own { kind, elements, element, comm, buffer, _extra: extra, state };
        Ok(Posted::Running(self.table.add(request, lane, own)))
    }

    /// Starts an operation on the communicator of a context.
    fn launch(
        &mut self,
        lane: Lane,
        operation: &Operation,
        exposure: &Exposure,
    ) -> Result<Started, FaultCode> {
        let comm = lane_of(&self.data, lane).ok_or(FaultCode::Interrupted)?;
        let (mut kind, mut extra) = (Kind::Receive, None);
        let request = match *operation {
            Operation::Send { to, tag, synchronous } => {
                kind = Kind::Send;
                // SAFETY: the slot keeps the buffer until the request is over.
                unsafe { Request::send(comm, exposure, to, tag, synchronous, &inside::ordinary()) }
            }
            _ if !exposure.writable => return Err(FaultCode::Mpi(BUFFER)),
            Operation::Receive { from, tag } => {
                // SAFETY: as above.
                let started =
                    unsafe { Request::receive(comm, exposure, from, tag, &inside::ordinary()) };
                if let Ok(request) = &started
                    && from.is_none()
                {
                    // SAFETY: it has just been started.
                    unsafe { this_mpi::protect_receive(request.raw()) };
                }
                started
            }
            Operation::ReceiveMatched { message, .. } => {
                let message = self.messages.take(message).ok_or(FaultCode::Interrupted)?;
                // SAFETY: as above.
                unsafe { message.receive(*exposure) }
            }
            Operation::Collective(ref collective) => {
                kind = Kind::Plain;
                let shape = collective.check(comm.rank(), comm.size(), exposure.elements);
                shape.map_err(|_| FaultCode::Mpi(COUNT))?;
                let layout = Layout::of(collective).map_err(Refusal::fault)?;
                let layout = &extra.insert(Box::new(Extra { layout, _file: None })).layout;
                // SAFETY: the slot keeps buffer and layout until then; the shape was checked.
                unsafe { Request::collective(comm, *exposure, collective, layout) }
            }
            Operation::File(_) => return Err(FaultCode::Mpi(FILE)),
        };
        let (request, comm) = (request.map_err(Refusal::fault)?, Some(comm.handle()));
        Ok(Started { kind, request, comm, extra })
    }

    /// Starts an access to a file.
    fn launch_access(&self, access: FileAccess, exposure: &Exposure) -> Result<Started, FaultCode> {
        let file = self.files.get(access.file).ok_or(FaultCode::Mpi(FILE))?;
        // SAFETY: the slot keeps buffer and file until the request is over.
        let request = unsafe { file.start(access, exposure) }.map_err(Refusal::fault)?;
        let extra = Extra { layout: Layout::default(), _file: Some(Rc::clone(file)) };
        Ok(Started { kind: Kind::File, request, comm: None, extra: Some(Box::new(extra)) })
    }
}

impl Drop for MpiPlatform {
    /// Without an end in order MPI may still write to what is under way: that is leaked.
    fn drop(&mut self) {
        if !self.table.is_closed() {
            mem::forget((mem::take(&mut self.table), mem::take(&mut self.files)));
            mem::forget(mem::replace(&mut self.control, Control::new(self.ulfm)));
            mem::forget(mem::take(&mut self.data));
            self.meetings.drain(..).for_each(Meeting::end);
        }
    }
}
