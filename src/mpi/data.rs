//! Operations of the application: posts, their results, and buffers that MPI still holds.
//!
//! MPI forgets a request when it is over, ours stays until it is taken. A buffer leaves this
//! module only after MPI has let go of it.

use std::time::{Duration, Instant};

use super::{
    calls::{COUNT, Checked, PROC_FAILED, PROC_FAILED_PENDING, REVOKED, Refusal},
    collectives::Layout,
    comm::Comm,
    request::Request,
    ulfm::Ulfm,
};
use crate::{
    engine::{
        buffer::Buffer,
        platform::{DataId, Operation, PostId, Progress, Status},
    },
    fault::FaultCode,
};

/// Operations of a revoked communicator are over within 0.5 ms.
const DRAIN_WITHIN: Duration = Duration::from_millis(2);

/// An operation that was started.
struct Post {
    request: Request,
    held: Held,
    progress: Progress,
    receives: bool,
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
    /// Looks once; what is over is remembered.
    #[inline]
    fn advance(&mut self, ulfm: &Ulfm) -> Progress {
        if self.progress != Progress::Pending {
            return self.progress;
        }
        self.progress = match self.request.test() {
            Ok(None) => Progress::Pending,
            Ok(Some(done)) if self.receives => {
                let counted = self
                    .held
                    .buffer
                    .expose()
                    .map_err(Err)
                    .and_then(|exposure| done.count(exposure.datatype).map_err(Ok));
                match counted {
                    Ok(elements) => {
                        let (source, tag) = (done.source(), done.tag());
                        Progress::Complete(Status { source, tag, elements })
                    }
                    Err(Ok(refusal)) => Progress::Failed(fault(refusal)),
                    Err(Err(code)) => Progress::Failed(code),
                }
            }
            Ok(Some(_)) => {
                let elements = self.held.buffer.elements();
                Progress::Complete(Status { source: None, tag: 0, elements })
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
    layout: &Layout,
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
        let started = layout
            .and_then(|layout| Ok((start(&comm, operation, buffer.as_mut(), &layout)?, layout)));
        let (request, layout) = match started {
            Ok(started) => started,
            Err(code) => return Err((code, buffer)),
        };
        let held = Held { buffer, _layout: layout };
        let receives = matches!(operation, Operation::Receive { .. });
        let progress = Progress::Pending;
        let post = Post { request, held, progress, receives, data, context, comm };
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
