//! Operations of the application: posts, their results, and buffers that MPI still holds.
//!
//! MPI forgets a request when it is over, ours stays until it is taken. A buffer leaves this
//! module only after MPI has let go of it.

use std::time::{Duration, Instant};

use super::{
    calls::{COUNT, Checked, PROC_FAILED, PROC_FAILED_PENDING, REVOKED, Refusal},
    collectives::Layout,
    comm::Comm,
    matched::Matched,
    request::{Done, Request},
    ulfm::Ulfm,
};
use crate::{
    engine::{
        buffer::Buffer,
        platform::{DataId, MessageId, Operation, PostId, Progress, Status},
    },
    fault::FaultCode,
    rank::Rank,
};

/// Operations of a revoked communicator are over within 0.5 ms.
const DRAIN_WITHIN: Duration = Duration::from_millis(2);

/// An operation that was started.
struct Post {
    request: Request,
    held: Held,
    progress: Progress,
    receives: bool,
    cancelling: bool,
    data: DataId,
    context: u32,
    comm: Comm,
}

/// All operations of this process.
#[derive(Default)]
pub(super) struct Posts {
    slots: Vec<Option<Post>>,
    free: Vec<u32>,
    /// Given up by the engine, not yet by MPI.
    quarantine: Vec<(Request, Held)>,
    /// Matched and not received, by the order of their match.
    messages: Vec<(MessageId, Matched)>,
    /// How many messages were matched.
    matched: u32,
}

/// What the error class of an operation means to the application.
fn fault(refusal: Refusal) -> FaultCode {
    match refusal.class {
        PROC_FAILED => FaultCode::ProcessFailed,
        REVOKED => FaultCode::Interrupted,
        class => FaultCode::Mpi(class),
    }
}

impl Post {
    /// What a receive that is over has got.
    fn received(&mut self, done: &Done) -> Progress {
        if self.cancelling && done.is_cancelled() {
            return Progress::Complete(Status { cancelled: true, ..Status::default() });
        }
        let exposure = self.held.buffer.expose();
        match exposure.map(|exposure| done.count(exposure.datatype)) {
            Ok(Ok(elements)) => {
                let (source, tag) = (done.source(), done.tag());
                Progress::Complete(Status { source, tag, elements, cancelled: false })
            }
            Ok(Err(refusal)) => Progress::Failed(fault(refusal)),
            Err(code) => Progress::Failed(code),
        }
    }

    /// Looks once; what is over is remembered.
    #[inline]
    fn advance(&mut self, ulfm: &Ulfm) -> Progress {
        if self.progress != Progress::Pending {
            return self.progress;
        }
        self.progress = match self.request.test() {
            Ok(None) => Progress::Pending,
            Ok(Some(done)) if self.receives => self.received(&done),
            Ok(Some(_)) => {
                let elements = self.held.buffer.elements();
                Progress::Complete(Status { elements, ..Status::default() })
            }
            Err(refusal) if !self.request.is_over() => {
                // Somebody else may still send; MPI wants to hear that we know of the death.
                if refusal.class == PROC_FAILED_PENDING {
                    self.comm.acknowledge_failures(ulfm);
                }
                Progress::Pending
            }
            Err(refusal) => Progress::Failed(fault(refusal)),
        };
        self.progress
    }
}

fn start(
    comm: &Comm,
    operation: &Operation,
    buffer: &mut dyn Buffer,
    (layout, message): (&Layout, Option<Matched>),
) -> Result<Request, FaultCode> {
    let exposure = buffer.expose()?;
    let started: Checked<Request> = match operation {
        Operation::Send { to, tag, synchronous } => {
            // SAFETY: the post, then the quarantine, keeps the buffer until the request is over.
            unsafe { Request::send(comm, exposure, *to, *tag, *synchronous) }
        }
        Operation::Receive { from, tag } => {
            // SAFETY: as above.
            unsafe { Request::receive(comm, exposure, *from, *tag) }
        }
        Operation::ReceiveMatched { .. } => {
            let message = message.ok_or(FaultCode::Interrupted)?;
            // SAFETY: as above.
            unsafe { message.receive(exposure) }
        }
        Operation::Collective(collective) => {
            let shape = collective.check(comm.rank(), comm.size(), buffer.elements());
            shape.map_err(|_| FaultCode::Mpi(COUNT))?;
            // SAFETY: as above, and so is the layout; the shape was checked.
            unsafe { Request::collective(comm, exposure, collective, layout) }
        }
    };
    started.map_err(fault)
}

/// What MPI may use until a request is over.
struct Held {
    buffer: Box<dyn Buffer>,
    _layout: Layout,
}

impl Posts {
    /// Starts an operation on the communicator of a context.
    pub(super) fn post(
        &mut self,
        (data, context, comm): (DataId, u32, Comm),
        operation: &Operation,
        mut buffer: Box<dyn Buffer>,
    ) -> Result<PostId, (FaultCode, Box<dyn Buffer>)> {
        let layout = match operation {
            Operation::Collective(collective) => Layout::of(collective).map_err(fault),
            _ => Ok(Layout::default()),
        };
        let message = match operation {
            Operation::ReceiveMatched { message, .. } => self.take_message(*message),
            _ => None,
        };
        let started = layout.and_then(|layout| {
            Ok((start(&comm, operation, buffer.as_mut(), (&layout, message))?, layout))
        });
        let (request, layout) = match started {
            Ok(started) => started,
            Err(code) => return Err((code, buffer)),
        };
        let held = Held { buffer, _layout: layout };
        let receives =
            matches!(operation, Operation::Receive { .. } | Operation::ReceiveMatched { .. });
        let (progress, cancelling) = (Progress::Pending, false);
        let post = Post { request, held, progress, receives, cancelling, data, context, comm };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(post);
        Ok(PostId(slot))
    }

    fn slot(&mut self, post: PostId) -> &mut Post {
        let slot = self.slots.get_mut(post.0 as usize).and_then(Option::as_mut);
        slot.expect("the engine names posts that it has not taken or abandoned")
    }

    #[inline]
    pub(super) fn test(&mut self, post: PostId, ulfm: &Ulfm) -> Progress {
        self.slot(post).advance(ulfm)
    }

    fn remove(&mut self, post: PostId) -> Option<Post> {
        let removed = self.slots.get_mut(post.0 as usize)?.take();
        if removed.is_some() {
            self.free.push(post.0);
        }
        removed
    }

    /// The buffer of what is over.
    ///
    /// # Panics
    ///
    /// When the operation is still pending.
    pub(super) fn take(&mut self, post: PostId) -> Box<dyn Buffer> {
        assert!(self.slot(post).progress != Progress::Pending, "taken before it is over");
        let taken = self.remove(post).expect("looked at above");
        taken.held.buffer
    }

    /// Asks MPI to end a receive.
    pub(super) fn cancel(&mut self, post: PostId) {
        let post = self.slot(post);
        if post.receives && post.progress == Progress::Pending {
            post.cancelling = true;
            post.request.cancel();
        }
    }

    /// Looks for a message and keeps it.
    pub(super) fn probe(
        &mut self,
        comm: &Comm,
        envelope: (Option<Rank>, Option<u32>),
        like: &mut dyn Buffer,
        ulfm: &Ulfm,
    ) -> Result<Option<(MessageId, Status)>, FaultCode> {
        let (message, done) = match Matched::probe(comm, envelope, like.expose()?) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(refusal) if refusal.class == PROC_FAILED_PENDING => {
                comm.acknowledge_failures(ulfm);
                return Ok(None);
            }
            Err(refusal) => return Err(fault(refusal)),
        };
        let id = MessageId(self.matched);
        self.matched = self.matched.wrapping_add(1);
        let (source, tag, elements) = (done.source(), done.tag(), message.elements());
        self.messages.push((id, message));
        Ok(Some((id, Status { source, tag, elements, cancelled: false })))
    }

    fn take_message(&mut self, id: MessageId) -> Option<Matched> {
        let at = self.messages.iter().position(|(known, _)| *known == id)?;
        Some(self.messages.swap_remove(at).1)
    }

    /// Receives a message, if it is still there, into memory in quarantine.
    pub(super) fn drop_message(&mut self, id: MessageId) {
        let Some(message) = self.take_message(id) else { return };
        match message.into_nowhere() {
            Ok((request, nowhere)) => {
                let held = Held { buffer: Box::new(nowhere), _layout: Layout::default() };
                self.quarantine.push((request, held));
            }
            Err(refusal) => tracing::debug!(?refusal, "message not dropped"),
        }
    }

    pub(super) fn abandon(&mut self, post: PostId) {
        if let Some(post) = self.remove(post) {
            self.give_up(post);
        }
    }

    fn give_up(&mut self, mut post: Post) {
        if post.progress != Progress::Pending {
            return;
        }
        if post.receives {
            post.request.cancel();
        }
        if matches!(post.request.test(), Ok(None)) || !post.request.is_over() {
            self.quarantine.push((post.request, post.held));
        }
    }

    /// True when an operation of a context below `context` is pending.
    pub(super) fn is_busy(&self, data: DataId, context: u32) -> bool {
        let pending = |post: &Post| {
            post.data == data && post.context < context && post.progress == Progress::Pending
        };
        self.slots.iter().flatten().any(pending)
    }

    /// Tests the operations of the retired contexts until they are over, or for a moment.
    pub(super) fn drain(&mut self, data: DataId, context: u32, ulfm: &Ulfm) {
        if !self.is_busy(data, context) {
            return;
        }
        let began = Instant::now();
        while self.is_busy(data, context) && began.elapsed() < DRAIN_WITHIN {
            let retired = |post: &&mut Post| post.data == data && post.context < context;
            for post in self.slots.iter_mut().flatten().filter(retired) {
                post.advance(ulfm);
            }
        }
    }

    /// Gives up every operation of a data communicator.
    pub(super) fn discard(&mut self, data: DataId) {
        for at in 0..self.slots.len() {
            if self.slots[at].as_ref().is_some_and(|post| post.data == data) {
                self.abandon(PostId(at as u32));
            }
        }
    }

    /// Drops buffers that MPI has let go of.
    pub(super) fn sweep(&mut self) {
        // An error ends a request as well as success does, except for a pending wildcard.
        self.quarantine
            .retain_mut(|(request, _)| matches!(request.test(), Ok(None)) || !request.is_over());
    }

    /// Ends everything; what MPI does not let go of is leaked.
    pub(super) fn close(&mut self, within: Duration) {
        for at in 0..self.slots.len() {
            self.abandon(PostId(at as u32));
        }
        let began = Instant::now();
        while !self.quarantine.is_empty() && began.elapsed() < within {
            self.sweep();
        }
        for (_, held) in self.quarantine.drain(..) {
            std::mem::forget(held);
        }
    }
}
