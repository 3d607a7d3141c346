//! Starts operations of the application, and keeps what MPI uses until they are over.
//!
//! Most small sends are over before their start returns: MPI has copied the message. They never
//! get a slot, and nobody tests them.

use super::{Extra, Held, Kind, Post, Posts, fault};
use crate::{
    engine::{
        buffer::AnyBuffer,
        collective::Collective,
        platform::{Envelope, FileAccess, Lane, Operation, PostId, Posted},
        record::Record,
    },
    fault::FaultCode,
    mpi::{
        calls::{BUFFER, COUNT},
        collectives::Layout,
        comm::Comm,
        expose::{Exposure, Numbers},
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

/// What MPI sees of the buffer of a request that is about to start.
// Nearly always it is a vector of numbers, of which less has to be known.
#[allow(clippy::inline_always)]
#[inline(always)]
fn exposed(record: &mut Record) -> Result<Exposure, FaultCode> {
    let buffer = record.loaded().ok_or(FaultCode::Mpi(BUFFER))?;
    match buffer.numbers().and_then(Numbers::exposure) {
        Some(exposure) => Ok(exposure),
        None => exposed_other(buffer),
    }
}

#[inline(never)]
fn exposed_other(buffer: &mut AnyBuffer) -> Result<Exposure, FaultCode> {
    buffer.expose()
}

impl Posts {
    /// Starts a send as a request of a block; false when it cannot start.
    // The hot path of messages, called in one place.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(in crate::mpi) fn start_send(
        &mut self,
        (lane, comm): (Lane, &Comm),
        Envelope { peer, tag }: Envelope,
        synchronous: bool,
        record: &mut Record,
    ) -> bool {
        let exposure = match exposed(record) {
            Ok(exposure) => exposure,
            Err(code) => return record.refuse(code),
        };
        // SAFETY: the record keeps the buffer until it is told that the request is over.
        match unsafe { Request::send(comm, &exposure, peer, tag, synchronous) } {
            Ok(request) if request.raw() == self.finished.raw() => {
                record.end_at_once(exposure.elements);
            }
            Ok(request) => {
                record.begin(self.note(Kind::Send, request, &exposure, (lane, comm)));
            }
            Err(refusal) => return record.refuse(fault(refusal)),
        }
        true
    }

    /// The same for a receive.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(in crate::mpi) fn start_receive(
        &mut self,
        (lane, comm): (Lane, &Comm),
        Envelope { peer, tag }: Envelope,
        record: &mut Record,
    ) -> bool {
        let exposure = match exposed(record) {
            Ok(exposure) if exposure.writable => exposure,
            refused => return record.refuse(refused.err().unwrap_or(FaultCode::Mpi(BUFFER))),
        };
        // SAFETY: as above.
        match unsafe { Request::receive(comm, &exposure, Some(peer), Some(tag)) } {
            Ok(request) => {
                record.begin(self.note(Kind::ReceiveFrom, request, &exposure, (lane, comm)));
                true
            }
            Err(refusal) => record.refuse(fault(refusal)),
        }
    }

    /// Notes an operation that was started.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn note(
        &mut self,
        kind: Kind,
        request: Request,
        exposure: &Exposure,
        (lane, comm): (Lane, &Comm),
    ) -> PostId {
        let slot = self.free_slot(comm);
        let post = &mut self.slots[slot as usize];
        post.request = request;
        (post.kind, post.cancelling) = (kind, false);
        post.elements = exposure.elements as u32;
        post.bytes = exposure.elements * exposure.stride;
        post.element = exposure.element;
        (post.lane, post.comm) = (lane, comm.handle());
        PostId(slot)
    }

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
                unsafe { Request::send(comm, &exposure, to, tag, synchronous) }.map_err(fault)
            }
            _ if !exposure.writable => Err(FaultCode::Mpi(BUFFER)),
            Operation::Receive { from, tag } => {
                kind = if from.is_some() { Kind::ReceiveFrom } else { Kind::Receive };
                // SAFETY: as above.
                unsafe { Request::receive(comm, &exposure, from, tag) }.map_err(fault)
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
            Ok(request) if kind == Kind::Send && request.raw() == self.finished.raw() => {
                Ok(Posted::Complete(exposure.elements, buffer))
            }
            Ok(request) => {
                let post = self.note(kind, request, &exposure, place);
                Ok(self.keep(post, buffer, extra))
            }
            Err(code) => Err((code, buffer)),
        }
    }

    /// Keeps what MPI uses until an operation is over.
    fn keep(&mut self, post: PostId, buffer: AnyBuffer, extra: Option<Extra>) -> Posted {
        self.slot(post).is_held = true;
        self.held[post.0 as usize] = Held { buffer: Some(buffer), _extra: extra.map(Box::new) };
        Posted::Running(post)
    }

    #[inline]
    fn free_slot(&mut self, comm: &Comm) -> u32 {
        let slot = self.free;
        if let Some(post) = self.slots.get(slot as usize) {
            self.free = post.next;
            return slot;
        }
        self.slots.push(Post::free(comm.handle()));
        self.held.push(Held::default());
        self.slots.len() as u32 - 1
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
        let post = self.note(Kind::File, request, &exposure, (Lane::NOWHERE, &alone));
        Ok(self.keep(post, buffer, Some(Extra { _layout: Layout::default(), _file: file })))
    }
}
