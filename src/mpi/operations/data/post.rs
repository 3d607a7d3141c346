//! Starts operations of the application, and keeps what MPI uses until they are over.

use super::{Extra, Held, Kind, Post, Posts, fault};
use crate::{
    engine::{
        buffer::AnyBuffer,
        collective::Collective,
        platform::{FileAccess, Lane, Operation, PostId, Posted},
    },
    fault::FaultCode,
    mpi::calls::{
        collectives::Layout,
        comm::Comm,
        expose::Exposure,
        inside,
        library::{BUFFER, COUNT},
        matched::Matched,
        request::Request,
    },
};

/// `MPI_ERR_FILE` of Open MPI.
const FILE: i32 = 30;

/// Starts an operation of all ranks; with it, what it needs as long as it runs.
fn start_collective(
    comm: &Comm,
    collective: &Collective,
    exposure: &Exposure,
    elements: usize,
) -> Result<(Request, Extra), FaultCode> {
    let shape = collective.check(comm.rank(), comm.size(), elements);
    shape.map_err(|_| FaultCode::Mpi(COUNT))?;
    let layout = Layout::of(collective).map_err(fault)?;
    // SAFETY: the post, then the quarantine, keeps buffer and layout until the request is over; the
    // shape was checked.
    let started = unsafe { Request::collective(comm, *exposure, collective, &layout) };
    Ok((started.map_err(fault)?, Extra { _layout: layout, _file: None }))
}

impl Posts {
    /// Starts an operation on the communicator of a context.
    pub(in crate::mpi) fn post(
        &mut self,
        place: (Lane, &Comm),
        operation: &Operation,
        mut buffer: AnyBuffer,
    ) -> Result<Posted, (FaultCode, AnyBuffer)> {
        let exposure = match buffer.expose() {
            Ok(exposure) => exposure,
            Err(code) => return Err((code, buffer)),
        };
        let comm = place.1;
        let (mut kind, mut extra) = (Kind::Plain, None);
        let started = match *operation {
            Operation::Send { to, tag, synchronous } => {
                kind = Kind::Send;
                // SAFETY: the post, then the quarantine, keeps the buffer until it is over.
                unsafe { Request::send(comm, &exposure, to, tag, synchronous, &inside::ordinary()) }
                    .map_err(fault)
            }
            _ if !exposure.writable => Err(FaultCode::Mpi(BUFFER)),
            Operation::Receive { from, tag } => {
                kind = Kind::Receive;
                // SAFETY: as above.
                unsafe { Request::receive(comm, &exposure, from, tag, &inside::ordinary()) }
                    .map_err(fault)
            }
            Operation::ReceiveMatched { message, .. } => {
                kind = Kind::Receive;
                // SAFETY: as above.
                let receive = |message: Matched| unsafe { message.receive(exposure) };
                let message = self.take_message(message).ok_or(FaultCode::Interrupted);
                message.and_then(|message| receive(message).map_err(fault))
            }
            Operation::Collective(ref collective) => {
                let started = start_collective(comm, collective, &exposure, buffer.elements());
                started.map(|(request, its)| {
                    extra = Some(its);
                    request
                })
            }
            Operation::File(_) => Err(FaultCode::Mpi(FILE)),
        };
        match started {
            Ok(request) if kind == Kind::Send && request.raw() == self.finished => {
                Ok(Posted::Complete(exposure.elements, buffer))
            }
            Ok(request) => Ok(self.keep((kind, request), &exposure, place, (buffer, extra))),
            Err(code) => Err((code, buffer)),
        }
    }

    /// Keeps an operation that was started, with what MPI uses until it is over.
    fn keep(
        &mut self,
        (kind, request): (Kind, Request),
        exposure: &Exposure,
        (lane, comm): (Lane, &Comm),
        (buffer, extra): (AnyBuffer, Option<Extra>),
    ) -> Posted {
        let Exposure { elements, element, .. } = *exposure;
        let held = Held { buffer: Some(buffer), _extra: extra.map(Box::new) };
        let (comm, cancelling) = (comm.handle(), false);
        let post = Post { request, kind, cancelling, elements, element, lane, comm, held };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(post);
        Posted::Running(PostId(slot))
    }

    /// Starts an access to a file.
    pub(in crate::mpi) fn post_file(
        &mut self,
        access: FileAccess,
        mut buffer: AnyBuffer,
    ) -> Result<Posted, (FaultCode, AnyBuffer)> {
        let file = self.files.get(access.file.0 as usize).cloned().flatten();
        let start = |buffer: &mut AnyBuffer| {
            let (file, exposure) = (file.as_ref().ok_or(FaultCode::Mpi(FILE))?, buffer.expose()?);
            // SAFETY: the post, then the quarantine, keeps buffer and file until it is over.
            let request = unsafe { file.start(access, &exposure) };
            Ok((request.map_err(fault)?, exposure, Comm::alone().map_err(fault)?))
        };
        let (request, exposure, alone) = match start(&mut buffer) {
            Ok(started) => started,
            Err(code) => return Err((code, buffer)),
        };
        let extra = Extra { _layout: Layout::default(), _file: file };
        let place = (Lane::NOWHERE, &alone);
        Ok(self.keep((Kind::File, request), &exposure, place, (buffer, Some(extra))))
    }
}
