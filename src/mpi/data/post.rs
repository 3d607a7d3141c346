//! Starts operations of the application, and keeps what MPI uses until they are over.
//!
//! Most small sends are over before their start returns: MPI has copied the message. They never
//! get a slot, and nobody tests them.

use super::{Extra, Kind, NO_DATA, Post, Posts, fault};
use crate::{
    engine::{
        buffer::Buffer,
        collective::Collective,
        platform::{DataId, FileAccess, Operation, PostId, Posted},
    },
    fault::FaultCode,
    mpi::{
        calls::{BUFFER, COUNT},
        collectives::Layout,
        comm::Comm,
        expose::Exposure,
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
    // The hot path of messages, called in one place.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(in crate::mpi) fn post(
        &mut self,
        place: (DataId, u32, &Comm),
        operation: &Operation,
        mut buffer: Box<dyn Buffer>,
    ) -> Result<Posted, (FaultCode, Box<dyn Buffer>)> {
        // By reference: what is copied right after it was written is waited for.
        let exposed = buffer.expose();
        let exposure = match &exposed {
            Ok(exposure) => exposure,
            Err(code) => return Err((*code, buffer)),
        };
        let comm = place.2;
        match *operation {
            Operation::Send { to, tag, synchronous } => {
                // SAFETY: the post, then the quarantine, keeps the buffer until it is over.
                match unsafe { Request::send(comm, exposure, to, tag, synchronous) } {
                    Ok(request) if request.raw() == self.finished.raw() => {
                        Ok(Posted::Complete(exposure.elements, buffer))
                    }
                    Ok(request) => Ok(self.keep(Kind::Plain, request, exposure, buffer, place)),
                    Err(refusal) => Err((fault(refusal), buffer)),
                }
            }
            Operation::Receive { from: from @ Some(_), tag } if exposure.writable => {
                // SAFETY: as above.
                match unsafe { Request::receive(comm, exposure, from, tag) } {
                    Ok(request) => {
                        Ok(self.keep(Kind::ReceiveFrom, request, exposure, buffer, place))
                    }
                    Err(refusal) => Err((fault(refusal), buffer)),
                }
            }
            _ => self.post_other(place, operation, exposure, buffer),
        }
    }

    /// The same for what is rarer than a message with a named peer.
    #[cold]
    fn post_other(
        &mut self,
        place: (DataId, u32, &Comm),
        operation: &Operation,
        exposure: &Exposure,
        buffer: Box<dyn Buffer>,
    ) -> Result<Posted, (FaultCode, Box<dyn Buffer>)> {
        let comm = place.2;
        let (mut kind, mut extra) = (Kind::Receive, None);
        let started = match *operation {
            _ if !exposure.writable => Err(FaultCode::Mpi(BUFFER)),
            Operation::Receive { from, tag } => {
                // SAFETY: as above.
                unsafe { Request::receive(comm, exposure, from, tag) }.map_err(fault)
            }
            Operation::ReceiveMatched { message, .. } => {
                // SAFETY: as above.
                let receive = |message: Matched| unsafe { message.receive(*exposure) };
                let message = self.take_message(message).ok_or(FaultCode::Interrupted);
                message.and_then(|message| receive(message).map_err(fault))
            }
            Operation::Collective(ref collective) => {
                kind = Kind::Plain;
                let started = start_collective(comm, collective, exposure, buffer.elements());
                started.map(|(request, its)| {
                    extra = Some(its);
                    request
                })
            }
            Operation::Send { .. } | Operation::File(_) => Err(FaultCode::Mpi(FILE)),
        };
        match started {
            Ok(request) => {
                let posted = self.keep(kind, request, exposure, buffer, place);
                if let Some(extra) = extra {
                    self.keep_extra(&posted, extra);
                }
                Ok(posted)
            }
            Err(code) => Err((code, buffer)),
        }
    }

    fn keep_extra(&mut self, posted: &Posted, extra: Extra) {
        if let Posted::Running(post) = posted {
            self.slot(*post).extra = Some(Box::new(extra));
        }
    }

    /// Keeps what MPI uses until an operation is over.
    #[inline]
    fn keep(
        &mut self,
        kind: Kind,
        request: Request,
        exposure: &Exposure,
        buffer: Box<dyn Buffer>,
        (data, context, comm): (DataId, u32, &Comm),
    ) -> Posted {
        let slot = self.free_slot(comm);
        let post = &mut self.slots[slot as usize];
        post.request = request;
        post.buffer = Some(buffer);
        post.elements = exposure.elements as u32;
        post.bytes = exposure.elements * exposure.stride;
        (post.kind, post.cancelling) = (kind, false);
        (post.data, post.context, post.comm) = (data, context, comm.handle());
        Posted::Running(PostId(slot))
    }

    #[inline]
    fn free_slot(&mut self, comm: &Comm) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Post::free(comm.handle()));
            self.slots.len() as u32 - 1
        })
    }

    /// Starts an access to a file.
    pub(in crate::mpi) fn post_file(
        &mut self,
        access: FileAccess,
        mut buffer: Box<dyn Buffer>,
    ) -> Result<Posted, (FaultCode, Box<dyn Buffer>)> {
        let file = self.files.get(access.file.0 as usize).cloned().flatten();
        let start = |buffer: &mut dyn Buffer| {
            let (file, exposure) = (file.as_ref().ok_or(FaultCode::Mpi(FILE))?, buffer.expose()?);
            // SAFETY: the post, then the quarantine, keeps buffer and file until it is over.
            let request = unsafe { file.start(access, &exposure) };
            Ok((request.map_err(fault)?, exposure, Comm::alone().map_err(fault)?))
        };
        let (request, exposure, alone) = match start(buffer.as_mut()) {
            Ok(started) => started,
            Err(code) => return Err((code, buffer)),
        };
        let posted = self.keep(Kind::File, request, &exposure, buffer, (NO_DATA, 0, &alone));
        self.keep_extra(&posted, Extra { _layout: Layout::default(), _file: file });
        Ok(posted)
    }
}
