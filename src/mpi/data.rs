//! Operations of the application: posts, their results, and buffers that MPI still holds.
//!
//! MPI forgets a request when it is over, ours stays until it is taken. `post` starts them,
//! `settle` ends many at once.
//!
//! **Guarantees.** A buffer is let go of only after MPI has let go of it. That of a message of a
//! block is in the message's [`Record`](crate::engine::record::Record), which this module tells
//! when; all others are here.

mod post;
mod settle;

use std::{
    ffi::CString,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use mpi::ffi;

use self::settle::Run;
use super::{
    calls::{BUFFER, Checked, PROC_FAILED_PENDING, Refusal},
    collectives::Layout,
    comm::{Comm, Handle},
    files::{self, File},
    matched::Matched,
    request::{Done, Request, Types, empty_status},
    ulfm::Ulfm,
};
use crate::{
    engine::{
        buffer::{AnyBuffer, Buffer},
        platform::{DataId, FileId, FileMode, Lane, MessageId, PostId, Progress, Status},
    },
    error::Error,
    fault::FaultCode,
    rank::Rank,
};

/// `MPI_ERR_BAD_FILE` of Open MPI.
const BAD_FILE: i32 = 23;
/// The end of the list of free places.
const END: u32 = u32::MAX;
/// Operations of a revoked communicator are over within 0.5 ms.
const DRAIN_WITHIN: Duration = Duration::from_millis(2);

/// An operation that was started, in one line of a cache. Its place is filled field by field: what
/// is moved as a whole goes through memory twice.
#[repr(align(64))]
struct Post {
    request: Request,
    kind: Kind,
    cancelling: bool,
    /// Its buffer, and what else MPI uses, are here, and not with a request of a block.
    is_held: bool,
    /// How many elements fill the buffer, and bytes.
    elements: u32,
    bytes: usize,
    /// The datatype of an element.
    element: ffi::MPI_Datatype,
    lane: Lane,
    comm: Handle,
    /// The next place that is free, if this one is.
    next: u32,
}

const _: () = assert!(size_of::<Post>() == 64);

/// What its status is good for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// The place is free.
    Free,
    /// Nothing: an operation of all ranks.
    Plain,
    /// It tells how many elements were read or written.
    File,
    /// It tells of a message, and MPI can cancel it.
    Receive,
    /// The same from a sender that is known.
    ReceiveFrom,
    /// Nothing.
    Send,
}

impl Kind {
    #[inline]
    fn is_receive(self) -> bool {
        matches!(self, Self::Receive | Self::ReceiveFrom)
    }

    /// True when its status says how much has come.
    #[inline]
    fn is_counted(self) -> bool {
        matches!(self, Self::File | Self::Receive | Self::ReceiveFrom)
    }
}

/// All operations of this process.
pub(super) struct Posts {
    /// What is over when it starts has this request, and no slot.
    finished: Request,
    slots: Vec<Post>,
    /// What MPI uses for the operations in these places.
    held: Vec<Held>,
    /// The first place that is free, which knows the next.
    free: u32,
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
            kind: Kind::Free,
            cancelling: false,
            is_held: false,
            elements: 0,
            bytes: 0,
            next: END,
            element: Types::bytes(),
            lane: Lane::NOWHERE,
            comm,
        }
    }

    /// What an operation that is over has moved, if it is all that there is room for.
    #[inline]
    fn moved_all(&self, done: &Done) -> Option<Status> {
        let elements = self.elements as usize;
        if !self.kind.is_counted() {
            return Some(Status { elements, ..Status::default() });
        }
        done.is_of(self.bytes).then(|| self.status(done, elements))
    }

    #[inline]
    fn status(&self, done: &Done, elements: usize) -> Status {
        if self.kind == Kind::File {
            return Status { elements, ..Status::default() };
        }
        Status { source: done.source(), tag: done.tag(), elements, cancelled: false }
    }

    /// What an operation that is over has moved.
    #[inline]
    fn moved(&self, done: &Done) -> Progress {
        if self.cancelling && done.is_cancelled() {
            return Progress::Complete(Status { cancelled: true, ..Status::default() });
        }
        self.moved_all(done).map_or_else(|| self.moved_some(done), Progress::Complete)
    }

    /// The same where only some of those came that have room.
    #[cold]
    fn moved_some(&self, done: &Done) -> Progress {
        match done.count(self.element) {
            Ok(elements) => Progress::Complete(self.status(done, elements)),
            Err(refusal) => Progress::Failed(fault(refusal)),
        }
    }

    /// True while MPI has it.
    #[inline]
    fn is_pending(&self) -> bool {
        self.kind != Kind::Free && !self.request.is_over()
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
    pub(super) fn new() -> Checked<Self> {
        Ok(Self {
            finished: Request::finished()?,
            slots: Vec::new(),
            held: Vec::new(),
            free: END,
            early: Vec::new(),
            quarantine: Vec::new(),
            messages: Vec::new(),
            run: Run::default(),
            matched: 0,
            files: Vec::new(),
        })
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
        let slot = &mut self.slots[post.0 as usize];
        if slot.kind == Kind::Free {
            return None;
        }
        let is_held = std::mem::take(&mut slot.is_held);
        let held =
            if is_held { std::mem::take(&mut self.held[post.0 as usize]) } else { Held::default() };
        (slot.kind, slot.next) = (Kind::Free, self.free);
        self.free = post.0;
        if !self.early.is_empty() {
            self.early.retain(|(known, _)| *known != post);
        }
        Some(held)
    }

    /// Frees the place of what is over; its buffer, if it is here.
    ///
    /// # Panics
    ///
    /// When the operation is still pending.
    #[inline]
    pub(super) fn take(&mut self, post: PostId) -> Option<AnyBuffer> {
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
                let held = Held { buffer: Some(AnyBuffer::of(nowhere)), _extra: None };
                self.quarantine.push(Stray { request, held, lane: None });
            }
            Err(refusal) => tracing::debug!(?refusal, "message not dropped"),
        }
    }

    /// Gives up an operation, with the buffer if the request had it.
    pub(super) fn abandon(&mut self, post: PostId, buffer: Option<AnyBuffer>) {
        let Post { kind, lane, .. } = *self.slot(post);
        let Some(mut held) = self.remove(post) else { return };
        held.buffer = held.buffer.or(buffer);
        let mut request = std::mem::take(&mut self.slot(post).request);
        if request.is_over() {
            return;
        }
        let lane = Some(lane);
        if kind.is_receive() {
            request.cancel();
        }
        if matches!(request.test(), Ok(None)) || !request.is_over() {
            self.quarantine.push(Stray { request, held, lane });
        }
    }

    /// True when an operation of a context below `context` is pending.
    fn is_busy(&self, data: DataId, context: u32) -> bool {
        let pending = |post: &Post| post.lane.is_below(data, context) && post.is_pending();
        self.slots.iter().any(pending)
    }

    /// True when MPI may still work for the operations of this context and those before it, or
    /// somebody has not looked whether it does.
    pub(super) fn needs(&self, data: DataId, context: u32) -> bool {
        let below = context + 1;
        let stray = |it: &Stray| it.lane.is_some_and(|lane| lane.is_below(data, below));
        self.is_busy(data, below) || self.quarantine.iter().any(stray)
    }

    /// Tests the operations of the retired contexts until they are over, or for a moment.
    pub(super) fn drain(&mut self, data: DataId, context: u32, ulfm: &Ulfm) {
        if !self.is_busy(data, context) {
            return;
        }
        let began = Instant::now();
        while self.is_busy(data, context) && began.elapsed() < DRAIN_WITHIN {
            let retired = |post: &Post| post.is_pending() && post.lane.is_below(data, context);
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
        let operations = self.slots.iter().filter(|post| post.kind != Kind::Free).count();
        (operations, self.quarantine.len())
    }

    /// Gives up the operations of a data communicator whose buffers are here: that of a request is
    /// given up with its block.
    pub(super) fn discard(&mut self, data: DataId) {
        for at in 0..self.slots.len() {
            if self.slots[at].lane.data == data && self.slots[at].is_held {
                self.abandon(PostId(at as u32), None);
            }
        }
    }

    /// Drops buffers that MPI has let go of.
    pub(super) fn sweep(&mut self) {
        // An error ends a request as well as success does, except for a pending wildcard.
        self.quarantine
            .retain_mut(|it| matches!(it.request.test(), Ok(None)) || !it.request.is_over());
    }

    /// Ends everything; what MPI does not let go of is leaked, as are the buffers that requests
    /// have, who will not hear of their end.
    pub(super) fn close(&mut self, within: Duration) {
        for at in 0..self.slots.len() {
            self.abandon(PostId(at as u32), None);
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
