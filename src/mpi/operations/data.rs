//! Operations of the application: posts, their results, and buffers that MPI still holds.
//!
//! MPI forgets a request when it is over, ours stays until it is taken. `post` starts them.
//! Messages of blocks are not here but in [`in_flight`](super::in_flight), unless they start while
//! somebody is dead, or while their context is still being made.
//!
//! **Guarantees.** A buffer is let go of only after MPI has let go of it.

mod post;

use std::{
    ffi::CString,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use mpi::ffi;

use crate::{
    engine::{
        buffer::{AnyBuffer, Buffer},
        platform::{DataId, FileId, FileMode, Found, Lane, MessageId, PostId, Progress, Status},
    },
    error::Error,
    fault::FaultCode,
    mpi::{
        calls::{
            collectives::Layout,
            comm::{Comm, Handle},
            files::File,
            library::{BUFFER, PROC_FAILED_PENDING, Refusal},
            matched::Matched,
            request::{Done, Request, empty_status},
            ulfm::Ulfm,
        },
        this_mpi,
    },
    rank::Rank,
};

/// `MPI_ERR_BAD_FILE` of Open MPI.
const BAD_FILE: i32 = 23;
/// Operations of a revoked communicator are over within 0.5 ms.
const DRAIN_WITHIN: Duration = Duration::from_millis(2);

/// An operation that was started.
struct Post {
    request: Request,
    kind: Kind,
    cancelling: bool,
    /// How many elements fill the buffer, and the datatype of one.
    elements: usize,
    element: ffi::MPI_Datatype,
    lane: Lane,
    comm: Handle,
    held: Held,
}

/// What its status is good for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// Nothing: an operation of all ranks.
    Plain,
    /// It tells how many elements were read or written.
    File,
    /// It tells of a message, and MPI can cancel it.
    Receive,
    /// Nothing.
    Send,
}

impl Kind {
    /// True when its status says how much has come.
    #[inline]
    fn is_counted(self) -> bool {
        matches!(self, Self::File | Self::Receive)
    }
}

/// The operations of this process, but for the messages that are in their records.
pub(in crate::mpi) struct Posts {
    /// What is over when it starts has this request, and no slot.
    finished: ffi::MPI_Request,
    slots: Vec<Option<Post>>,
    /// The places that are free.
    free: Vec<u32>,
    /// What operations came to that were over before the engine asked: few.
    early: Vec<(PostId, Progress)>,
    /// Given up by the engine, not yet by MPI.
    quarantine: Vec<Stray>,
    /// Matched and not received, by the order of their match.
    messages: Vec<(MessageId, Matched)>,
    /// How many messages were matched.
    matched: u32,
    /// By their numbers; nothing in place of those that are closed.
    files: Vec<Option<Rc<File>>>,
    closed: bool,
}

/// What the error class of an operation means to the application.
pub(in crate::mpi) fn fault(refusal: Refusal) -> FaultCode {
    FaultCode::from_mpi_class(refusal.class)
}

impl Post {
    /// What an operation that is over has moved.
    fn moved(&self, done: &Done) -> Progress {
        if self.cancelling && done.is_cancelled() {
            return Progress::Complete(Status { cancelled: true, ..Status::default() });
        }
        let counted =
            if self.kind.is_counted() { done.count(self.element) } else { Ok(self.elements) };
        match counted {
            Ok(elements) if self.kind == Kind::Receive => Progress::Complete(done.told(elements)),
            Ok(elements) => Progress::Complete(Status { elements, ..Status::default() }),
            Err(refusal) => Progress::Failed(fault(refusal)),
        }
    }

    /// True while MPI has it.
    #[inline]
    fn is_pending(&self) -> bool {
        !self.request.is_over()
    }

    /// Looks once. What it came to is not remembered: a copy of what was just written is slow.
    #[inline]
    fn look(&mut self, ulfm: &Ulfm) -> Progress {
        let mut done = Done::new(empty_status());
        match self.request.test_with(self.kind.is_counted().then_some(&mut done)) {
            Ok(false) => Progress::Pending,
            Ok(true) => self.moved(&done),
            Err(refusal) if !self.request.is_over() => {
                // Somebody else may still send; MPI wants to hear that we know of the death.
                if refusal.class == PROC_FAILED_PENDING {
                    self.comm.acknowledge_failures(ulfm);
                }
                Progress::Pending
            }
            Err(refusal) => Progress::Failed(fault(refusal)),
        }
    }
}

/// An operation that nobody but MPI knows any more, on a context unless it receives into nowhere.
struct Stray {
    request: Request,
    held: Held,
    lane: Option<Lane>,
}

/// What MPI may use until a request is over.
#[derive(Default)]
struct Held {
    buffer: Option<AnyBuffer>,
    _extra: Option<Box<Extra>>,
}

/// Beside the buffer, for the few operations that need more.
struct Extra {
    _layout: Layout,
    _file: Option<Rc<File>>,
}

impl Posts {
    /// None yet.
    pub(in crate::mpi) fn new(finished: ffi::MPI_Request) -> Self {
        Self {
            finished,
            slots: Vec::new(),
            free: Vec::new(),
            early: Vec::new(),
            quarantine: Vec::new(),
            messages: Vec::new(),
            matched: 0,
            files: Vec::new(),
            closed: false,
        }
    }

    /// Opens a file for this process alone.
    pub(in crate::mpi) fn open_file(
        &mut self,
        path: &Path,
        mode: FileMode,
        like: &mut dyn Buffer,
    ) -> Result<FileId, Error> {
        if self.files.is_empty() {
            this_mpi::prepare_files()?;
        }
        let refused = |class| Error::Mpi { call: "MPI_File_open", class };
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| refused(BAD_FILE))?;
        let like = like.expose().map_err(|_| refused(BUFFER))?;
        self.files.push(Some(Rc::new(File::open(&path, mode, &like)?)));
        Ok(FileId(self.files.len() as u32 - 1))
    }

    pub(in crate::mpi) fn sync_file(&self, file: FileId) -> Result<(), Error> {
        let open = self.files.get(file.0 as usize).and_then(Option::as_ref);
        open.map_or(Ok(()), |open| open.sync().map_err(Error::from))
    }

    pub(in crate::mpi) fn close_file(&mut self, file: FileId) {
        if let Some(open) = self.files.get_mut(file.0 as usize) {
            *open = None;
        }
    }

    /// The request of what is over when it starts.
    pub(in crate::mpi) fn finished(&self) -> ffi::MPI_Request {
        self.finished
    }

    fn slot(&mut self, post: PostId) -> Option<&mut Post> {
        self.slots.get_mut(post.0 as usize)?.as_mut()
    }

    #[inline]
    pub(in crate::mpi) fn test(&mut self, post: PostId, ulfm: &Ulfm) -> Progress {
        match self.slot(post) {
            Some(slot) if slot.is_pending() => slot.look(ulfm),
            _ => self.recall(post),
        }
    }

    /// What was remembered of an operation that is over.
    #[cold]
    fn recall(&self, post: PostId) -> Progress {
        let known = self.early.iter().rev().find(|(known, _)| *known == post);
        known.map_or(Progress::Pending, |(_, progress)| *progress)
    }

    /// Frees the place of an operation.
    fn remove(&mut self, post: PostId) -> Option<Post> {
        let removed = self.slots.get_mut(post.0 as usize)?.take()?;
        self.free.push(post.0);
        self.early.retain(|(known, _)| *known != post);
        Some(removed)
    }

    /// Frees the place of what is over; its buffer.
    ///
    /// # Panics
    ///
    /// When the operation is still pending.
    pub(in crate::mpi) fn take(&mut self, post: PostId) -> Option<AnyBuffer> {
        let taken = self.remove(post).expect("the engine takes what it has not taken before");
        assert!(!taken.is_pending(), "taken before it is over");
        taken.held.buffer
    }

    /// Asks MPI to end a receive.
    pub(in crate::mpi) fn cancel(&mut self, post: PostId) {
        if let Some(post) = self.slot(post)
            && post.kind == Kind::Receive
            && post.is_pending()
        {
            post.cancelling = true;
            post.request.cancel();
        }
    }

    /// Looks for a message and keeps it.
    pub(in crate::mpi) fn probe(
        &mut self,
        comm: &Comm,
        envelope: (Option<Rank>, Option<u32>),
        like: &mut dyn Buffer,
        ulfm: &Ulfm,
    ) -> Result<Option<Found>, FaultCode> {
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
        let status = done.told(message.elements());
        self.messages.push((id, message));
        Ok(Some(Found { status, message: Some(id) }))
    }

    /// Looks for a message and leaves it.
    pub(in crate::mpi) fn peek(
        comm: &Comm,
        envelope: (Option<Rank>, Option<u32>),
        ulfm: &Ulfm,
    ) -> Result<Option<Found>, FaultCode> {
        match Matched::next_envelope(comm, envelope) {
            Err(refusal) if refusal.class == PROC_FAILED_PENDING => {
                comm.acknowledge_failures(ulfm);
                Ok(None)
            }
            Err(refusal) => Err(fault(refusal)),
            Ok(seen) => Ok(seen.map(|(from, tag)| {
                let status = Status { source: Some(from), tag, ..Status::default() };
                Found { status, message: None }
            })),
        }
    }

    fn take_message(&mut self, id: MessageId) -> Option<Matched> {
        let at = self.messages.iter().position(|(known, _)| *known == id)?;
        Some(self.messages.swap_remove(at).1)
    }

    /// Receives a message, if it is still there, into memory in quarantine.
    pub(in crate::mpi) fn drop_message(&mut self, id: MessageId) {
        let Some(message) = self.take_message(id) else { return };
        match message.into_nowhere() {
            Ok((request, nowhere)) => {
                let held = Held { buffer: Some(AnyBuffer::of(nowhere)), _extra: None };
                self.quarantine.push(Stray { request, held, lane: None });
            }
            Err(refusal) => tracing::debug!(?refusal, "message not dropped"),
        }
    }

    /// Gives up an operation.
    pub(in crate::mpi) fn abandon(&mut self, post: PostId) {
        if let Some(Post { request, kind, lane, held, .. }) = self.remove(post) {
            self.quarantine(request, kind == Kind::Receive, (held, lane));
        }
    }

    /// Keeps what MPI uses for a message that was given up.
    pub(in crate::mpi) fn keep_message(
        &mut self,
        request: Request,
        is_receive: bool,
        (buffer, lane): (Option<AnyBuffer>, Lane),
    ) {
        self.quarantine(request, is_receive, (Held { buffer, _extra: None }, lane));
    }

    fn quarantine(&mut self, mut request: Request, is_receive: bool, (held, lane): (Held, Lane)) {
        if request.is_over() {
            return;
        }
        if is_receive {
            request.cancel();
        }
        if matches!(request.test(), Ok(None)) || !request.is_over() {
            self.quarantine.push(Stray { request, held, lane: Some(lane) });
        }
    }

    /// True when an operation of a context below `context` is pending.
    fn is_busy(&self, data: DataId, context: u32) -> bool {
        let pending = |post: &Post| post.lane.is_below(data, context) && post.is_pending();
        self.slots.iter().flatten().any(pending)
    }

    /// True when MPI may still work for those of this context, or of one before it.
    pub(in crate::mpi) fn need(&self, data: DataId, context: u32) -> bool {
        let below = context + 1;
        let stray = |it: &Stray| it.lane.is_some_and(|lane| lane.is_below(data, below));
        self.is_busy(data, below) || self.quarantine.iter().any(stray)
    }

    /// Tests the operations of the retired contexts until they are over, or for a moment.
    pub(in crate::mpi) fn drain(&mut self, data: DataId, context: u32, ulfm: &Ulfm) {
        if !self.is_busy(data, context) {
            return;
        }
        let began = Instant::now();
        while self.is_busy(data, context) && began.elapsed() < DRAIN_WITHIN {
            let retired = |post: &Post| post.is_pending() && post.lane.is_below(data, context);
            let slots = self.slots.iter_mut().enumerate();
            let slots = slots.filter_map(|(at, slot)| Some((at, slot.as_mut()?)));
            for (at, slot) in slots.filter(|(_, post)| retired(post)) {
                let progress = slot.look(ulfm);
                if progress != Progress::Pending {
                    self.early.push((PostId(at as u32), progress));
                }
            }
        }
    }

    /// How many operations there are, and buffers in quarantine.
    pub(in crate::mpi) fn held(&self) -> (usize, usize) {
        (self.slots.iter().flatten().count(), self.quarantine.len())
    }

    /// Gives up the operations of a data communicator.
    pub(in crate::mpi) fn discard(&mut self, data: DataId) {
        for at in 0..self.slots.len() {
            if self.slots[at].as_ref().is_some_and(|post| post.lane.data == data) {
                self.abandon(PostId(at as u32));
            }
        }
    }

    /// Drops buffers that MPI has let go of.
    pub(in crate::mpi) fn sweep(&mut self) {
        // An error ends a request as well as success does, except for a pending wildcard.
        self.quarantine
            .retain_mut(|it| matches!(it.request.test(), Ok(None)) || !it.request.is_over());
    }

    /// Ends everything; what MPI does not let go of is leaked.
    pub(in crate::mpi) fn close(&mut self, within: Duration) {
        for at in 0..self.slots.len() {
            self.abandon(PostId(at as u32));
        }
        let began = Instant::now();
        while !self.quarantine.is_empty() && began.elapsed() < within {
            self.sweep();
        }
        for stray in self.quarantine.drain(..) {
            std::mem::forget(stray.held);
        }
        self.files.clear();
        self.closed = true;
    }

    /// True after [`Self::close`].
    pub(in crate::mpi) fn is_closed(&self) -> bool {
        self.closed
    }
}
