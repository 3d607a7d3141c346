//! Starts operations, and keeps what MPI uses until they are over.

use std::rc::Rc;

use super::{
    contexts::lane_of,
    platform::MpiPlatform,
    table::{Extra, Own, State},
};
use crate::{
    fault::FaultCode,
    mpi::calls::{
        collectives::Layout,
        comm::Handle,
        inside,
        library::{BUFFER, COUNT, Refusal},
    },
    native::{Exposure, Kind, Request},
    seam::{
        buffer::AnyBuffer,
        platform::{FileAccess, Lane, Operation, Posted},
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

impl MpiPlatform {
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
                unsafe { Request::receive(comm, exposure, from, tag, &inside::ordinary()) }
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
