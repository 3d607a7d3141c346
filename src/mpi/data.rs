//! Operations of the application: posts, their results, and buffers that MPI still holds.
//!
//! MPI forgets a request when it is over, ours stays until it is taken. A buffer leaves this
//! module only after MPI has let go of it. `post` starts them, `settle` ends many at once.

mod post;
mod settle;

use std::{
    ffi::CString,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use self::settle::Run;
use super::{
    calls::{BUFFER, Checked, PROC_FAILED_PENDING, Refusal},
    collectives::Layout,
    comm::{Comm, Handle},
    files::{self, File},
    matched::Matched,
    request::{Done, Request, empty_status},
    ulfm::Ulfm,
};
use crate::{
    engine::{
        buffer::Buffer,
        platform::{DataId, FileId, FileMode, MessageId, PostId, Progress, Status},
    },
    error::Error,
    fault::FaultCode,
    rank::Rank,
};

/// `MPI_ERR_BAD_FILE` of Open MPI.
const BAD_FILE: i32 = 23;
/// What is on no communicator.
const NO_DATA: DataId = DataId(u32::MAX);
/// Operations of a revoked communicator are over within 0.5 ms.
const DRAIN_WITHIN: Duration = Duration::from_millis(2);

/// An operation that was started, in one line of a cache. Its place is filled field by field: what
/// is moved as a whole goes through memory twice.
#[repr(align(64))]
struct Post {
    request: Request,
    /// Nothing in a place that is free.
    buffer: Option<Box<dyn Buffer>>,
    /// How many elements fill the buffer, and bytes.
    elements: u32,
    bytes: usize,
    /// What else MPI uses until it is over.
    extra: Option<Box<Extra>>,
    kind: Kind,
    cancelling: bool,
    data: DataId,
    context: u32,
    comm: Handle,
}

const _: () = assert!(size_of::<Post>() == 64);

/// What its status is good for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// Nothing.
    Plain,
    /// It tells of a message, and MPI can cancel it.
    Receive,
    /// The same from a sender that is known.
    ReceiveFrom,
    /// It tells how many elements were read or written.
    File,
}

impl Kind {
    #[inline]
    fn is_receive(self) -> bool {
        matches!(self, Self::Receive | Self::ReceiveFrom)
    }
}

/// All operations of this process.
#[derive(Default)]
pub(super) struct Posts {
    /// What is over when it starts has this request, and no slot.
    finished: Request,
    slots: Vec<Post>,
    free: Vec<u32>,
    /// What operations came to that were over before the engine asked: few.
    early: Vec<(PostId, Progress)>,
    /// Given up by the engine, not yet by MPI.
    quarantine: Vec<Stray>,
    /// Matched and not received, by the order of their match.
    messages: Vec<(MessageId, Matched)>,
    run: Run,
    /// How many messages were matched.
    matched: u32,
    /// By their numbers; nothing in place of those that are closed.
    files: Vec<Option<Rc<File>>>,
}

/// What the error class of an operation means to the application.
fn fault(refusal: Refusal) -> FaultCode {
    FaultCode::from_mpi_class(refusal.class)
}

impl Post {
    /// A place for an operation.
    fn free(comm: Handle) -> Self {
        Self {
            request: Request::null(),
            buffer: None,
            elements: 0,
            bytes: 0,
            extra: None,
            kind: Kind::Plain,
            cancelling: false,
            data: NO_DATA,
            context: 0,
            comm,
        }
    }

    /// What an operation that is over has moved.
    #[inline]
    fn moved(&mut self, done: &Done) -> Progress {
        if self.cancelling && done.is_cancelled() {
            return Progress::Complete(Status { cancelled: true, ..Status::default() });
        }
        let counted =
            if done.is_of(self.bytes) { Ok(self.elements as usize) } else { self.count(done) };
        match counted {
            Ok(elements) => {
                let message = self.kind.is_receive();
                let (source, tag) = if message { (done.source(), done.tag()) } else { (None, 0) };
                Progress::Complete(Status { source, tag, elements, cancelled: false })
            }
            Err(code) => Progress::Failed(code),
        }
    }

    /// How many elements came of those that have room.
    #[cold]
    fn count(&mut self, done: &Done) -> Result<usize, FaultCode> {
        let Some(buffer) = &mut self.buffer else { return Ok(0) };
        done.count(buffer.expose()?.element).map_err(fault)
    }

    /// True while MPI has it.
    #[inline]
    fn is_pending(&self) -> bool {
        self.buffer.is_some() && !self.request.is_over()
    }

    /// Looks once. What it came to is not remembered: a copy of what was just written is slow.
    #[inline]
    fn look(&mut self, ulfm: &Ulfm) -> Progress {
        let mut done = Done::new(empty_status());
        match self.request.test_with((self.kind != Kind::Plain).then_some(&mut done)) {
            Ok(false) => Progress::Pending,
            Ok(true) if self.kind != Kind::Plain => self.moved(&done),
            Ok(true) => {
                let elements = self.elements as usize;
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
        }
    }
}

/// An operation that nobody but MPI knows any more, on a context unless it receives into nowhere.
struct Stray {
    request: Request,
    held: Held,
    context: Option<(DataId, u32)>,
}

/// What MPI may use until a request is over.
struct Held {
    buffer: Box<dyn Buffer>,
    _extra: Option<Box<Extra>>,
}

/// Beside the buffer, for the few operations that need more.
struct Extra {
    _layout: Layout,
    _file: Option<Rc<File>>,
}

impl Posts {
    /// None yet.
    pub(super) fn new() -> Checked<Self> {
        Ok(Self { finished: Request::finished()?, ..Self::default() })
    }

    /// Opens a file for this process alone.
    pub(super) fn open_file(
        &mut self,
        path: &Path,
        mode: FileMode,
        like: &mut dyn Buffer,
    ) -> Result<FileId, Error> {
        if self.files.is_empty() {
            files::choose_implementation()?;
        }
        let refused = |class| Error::Mpi { call: "MPI_File_open", class };
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| refused(BAD_FILE))?;
        let like = like.expose().map_err(|_| refused(BUFFER))?;
        self.files.push(Some(Rc::new(File::open(&path, mode, &like)?)));
        Ok(FileId(self.files.len() as u32 - 1))
    }

    pub(super) fn sync_file(&self, file: FileId) -> Result<(), Error> {
        let open = self.files.get(file.0 as usize).and_then(Option::as_ref);
        open.map_or(Ok(()), |open| open.sync().map_err(Error::from))
    }

    pub(super) fn close_file(&mut self, file: FileId) {
        if let Some(open) = self.files.get_mut(file.0 as usize) {
            *open = None;
        }
    }

    #[inline]
    fn slot(&mut self, post: PostId) -> &mut Post {
        &mut self.slots[post.0 as usize]
    }

    #[inline]
    pub(super) fn test(&mut self, post: PostId, ulfm: &Ulfm) -> Progress {
        let slot = self.slot(post);
        if slot.is_pending() { slot.look(ulfm) } else { self.recall(post) }
    }

    /// What was remembered of an operation that is over.
    #[cold]
    fn recall(&self, post: PostId) -> Progress {
        let known = self.early.iter().rev().find(|(known, _)| *known == post);
        known.map_or(Progress::Pending, |(_, progress)| *progress)
    }

    /// Frees the place of an operation.
    #[inline]
    fn remove(&mut self, post: PostId) -> Option<Held> {
        let slot = self.slot(post);
        let held = Held { buffer: slot.buffer.take()?, _extra: slot.extra.take() };
        self.free.push(post.0);
        if !self.early.is_empty() {
            self.early.retain(|(known, _)| *known != post);
        }
        Some(held)
    }

    /// The buffer of what is over.
    ///
    /// # Panics
    ///
    /// When the operation is still pending.
    #[inline]
    pub(super) fn take(&mut self, post: PostId) -> Box<dyn Buffer> {
        assert!(!self.slot(post).is_pending(), "taken before it is over");
        self.remove(post).expect("the engine takes what it has not taken before").buffer
    }

    /// Asks MPI to end a receive.
    pub(super) fn cancel(&mut self, post: PostId) {
        let post = self.slot(post);
        if post.kind.is_receive() && post.is_pending() {
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
                let held = Held { buffer: Box::new(nowhere), _extra: None };
                self.quarantine.push(Stray { request, held, context: None });
            }
            Err(refusal) => tracing::debug!(?refusal, "message not dropped"),
        }
    }

    pub(super) fn abandon(&mut self, post: PostId) {
        let Some(held) = self.remove(post) else { return };
        let Post { request, kind, data, context, .. } = self.slot(post);
        if request.is_over() {
            return;
        }
        let context = Some((*data, *context));
        let mut request = std::mem::take(request);
        if kind.is_receive() {
            request.cancel();
        }
        if matches!(request.test(), Ok(None)) || !request.is_over() {
            self.quarantine.push(Stray { request, held, context });
        }
    }

    /// True when an operation of a context below `context` is pending.
    fn is_busy(&self, data: DataId, context: u32) -> bool {
        let pending =
            |post: &Post| post.data == data && post.context < context && post.is_pending();
        self.slots.iter().any(pending)
    }

    /// True when MPI may still work for the operations of this context and those before it, or
    /// somebody has not looked whether it does.
    pub(super) fn needs(&self, data: DataId, context: u32) -> bool {
        let stray = |it: &Stray| it.context.is_some_and(|(of, at)| of == data && at <= context);
        self.is_busy(data, context + 1) || self.quarantine.iter().any(stray)
    }

    /// Tests the operations of the retired contexts until they are over, or for a moment.
    pub(super) fn drain(&mut self, data: DataId, context: u32, ulfm: &Ulfm) {
        if !self.is_busy(data, context) {
            return;
        }
        let began = Instant::now();
        while self.is_busy(data, context) && began.elapsed() < DRAIN_WITHIN {
            let retired =
                |post: &Post| post.is_pending() && post.data == data && post.context < context;
            let slots = self.slots.iter_mut().enumerate();
            for (at, slot) in slots.filter(|(_, post)| retired(post)) {
                let progress = slot.look(ulfm);
                if progress != Progress::Pending {
                    self.early.push((PostId(at as u32), progress));
                }
            }
        }
    }

    /// Operations whose buffers are here, and buffers in quarantine.
    pub(super) fn held(&self) -> (usize, usize) {
        let operations = self.slots.iter().filter(|post| post.buffer.is_some()).count();
        (operations, self.quarantine.len())
    }

    /// Gives up every operation of a data communicator.
    pub(super) fn discard(&mut self, data: DataId) {
        for at in 0..self.slots.len() {
            if self.slots[at].data == data {
                self.abandon(PostId(at as u32));
            }
        }
    }

    /// Drops buffers that MPI has let go of.
    pub(super) fn sweep(&mut self) {
        // An error ends a request as well as success does, except for a pending wildcard.
        self.quarantine
            .retain_mut(|it| matches!(it.request.test(), Ok(None)) || !it.request.is_over());
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
        for stray in self.quarantine.drain(..) {
            std::mem::forget(stray.held);
        }
        self.files.clear();
    }
}
