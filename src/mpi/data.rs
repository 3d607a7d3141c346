//! Operations of the application: posts, their results, and buffers that MPI still holds.
//!
//! MPI forgets a request when it is over, ours stays until it is taken. A buffer leaves this
//! module only after MPI has let go of it.

use std::{
    ffi::CString,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use super::{
    calls::{BUFFER, COUNT, Checked, PROC_FAILED_PENDING, Refusal},
    collectives::Layout,
    comm::Comm,
    files::{self, File},
    matched::Matched,
    request::{Done, Request, empty_status},
    ulfm::Ulfm,
};
use crate::{
    engine::{
        buffer::Buffer,
        platform::{
            DataId, FileAccess, FileId, FileMode, MessageId, Operation, PostId, Progress, Status,
        },
    },
    error::Error,
    fault::FaultCode,
    rank::Rank,
};

/// `MPI_ERR_BAD_FILE` and `MPI_ERR_FILE` of Open MPI.
const BAD_FILE: i32 = 23;
const FILE: i32 = 30;
/// What is on no communicator.
const NO_DATA: DataId = DataId(u32::MAX);
/// Operations of a revoked communicator are over within 0.5 ms.
const DRAIN_WITHIN: Duration = Duration::from_millis(2);

/// An operation that was started. Its place is filled field by field: what is moved as a whole
/// goes through memory twice.
struct Post {
    request: Request,
    /// Nothing in a place that is free.
    held: Option<Held>,
    /// What it came to, if it was over before the engine asked.
    progress: Progress,
    kind: Kind,
    cancelling: bool,
    data: DataId,
    context: u32,
    comm: Comm,
}

/// What its status is good for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// Nothing.
    Plain,
    /// It tells of a message, and MPI can cancel it.
    Receive,
    /// It tells how many elements were read or written.
    File,
}

/// All operations of this process.
#[derive(Default)]
pub(super) struct Posts {
    slots: Vec<Post>,
    free: Vec<u32>,
    /// Given up by the engine, not yet by MPI.
    quarantine: Vec<Stray>,
    /// Matched and not received, by the order of their match.
    messages: Vec<(MessageId, Matched)>,
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
    fn free(comm: Comm) -> Self {
        let (held, progress, data) = (None, Progress::Pending, DataId(0));
        let (request, kind, cancelling, context) = (Request::null(), Kind::Plain, false, 0);
        Self { request, held, progress, kind, cancelling, data, context, comm }
    }

    /// What an operation that is over has moved.
    fn moved(&mut self, done: &Done) -> Progress {
        if self.cancelling && done.is_cancelled() {
            return Progress::Complete(Status { cancelled: true, ..Status::default() });
        }
        let Some(held) = &mut self.held else { return Progress::Pending };
        match held.buffer.expose().map(|exposure| done.elements(&exposure)) {
            Ok(Ok(elements)) => {
                let message = self.kind == Kind::Receive;
                let (source, tag) = if message { (done.source(), done.tag()) } else { (None, 0) };
                Progress::Complete(Status { source, tag, elements, cancelled: false })
            }
            Ok(Err(refusal)) => Progress::Failed(fault(refusal)),
            Err(code) => Progress::Failed(code),
        }
    }

    /// True while MPI has it.
    #[inline]
    fn is_pending(&self) -> bool {
        self.held.is_some() && !self.request.is_over()
    }

    /// Looks once. What it came to is not remembered: a copy of what was just written is slow.
    #[inline]
    fn look(&mut self, ulfm: &Ulfm) -> Progress {
        let mut done = Done::new(empty_status());
        match self.request.test_with((self.kind != Kind::Plain).then_some(&mut done)) {
            Ok(false) => Progress::Pending,
            Ok(true) if self.kind != Kind::Plain => self.moved(&done),
            Ok(true) => {
                let elements = self.held.as_ref().map_or(0, |held| held.buffer.elements());
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

/// Starts an operation; beside the buffer, what it needs as long as it runs.
#[inline]
fn start(
    comm: &Comm,
    operation: &Operation,
    buffer: &mut dyn Buffer,
    message: Option<Matched>,
) -> Result<(Request, Layout), FaultCode> {
    // By reference: what is copied right after it was written is waited for.
    let exposed = buffer.expose();
    let exposure = exposed.as_ref().map_err(|code| *code)?;
    if !exposure.writable && !matches!(operation, Operation::Send { .. }) {
        return Err(FaultCode::Mpi(BUFFER));
    }
    let mut layout = Layout::default();
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
            unsafe { message.receive(*exposure) }
        }
        Operation::Collective(collective) => {
            let shape = collective.check(comm.rank(), comm.size(), buffer.elements());
            shape.map_err(|_| FaultCode::Mpi(COUNT))?;
            layout = Layout::of(collective).map_err(fault)?;
            // SAFETY: as above, and so is the layout; the shape was checked.
            unsafe { Request::collective(comm, *exposure, collective, &layout) }
        }
        Operation::File(_) => return Err(FaultCode::Mpi(FILE)),
    };
    Ok((started.map_err(fault)?, layout))
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
    _layout: Layout,
    _file: Option<Rc<File>>,
}

impl Posts {
    /// Starts an operation on the communicator of a context.
    pub(super) fn post(
        &mut self,
        (data, context): (DataId, u32),
        comm: &Comm,
        operation: &Operation,
        mut buffer: Box<dyn Buffer>,
    ) -> Result<PostId, (FaultCode, Box<dyn Buffer>)> {
        let message = match operation {
            Operation::ReceiveMatched { message, .. } => self.take_message(*message),
            _ => None,
        };
        let (request, layout) = match start(comm, operation, buffer.as_mut(), message) {
            Ok(started) => started,
            Err(code) => return Err((code, buffer)),
        };
        let slot = self.free_slot(comm);
        let post = &mut self.slots[slot as usize];
        post.request = request;
        post.held = Some(Held { buffer, _layout: layout, _file: None });
        post.progress = Progress::Pending;
        let receives =
            matches!(operation, Operation::Receive { .. } | Operation::ReceiveMatched { .. });
        post.kind = if receives { Kind::Receive } else { Kind::Plain };
        post.cancelling = false;
        (post.data, post.context, post.comm) = (data, context, *comm);
        Ok(PostId(slot))
    }

    #[inline]
    fn free_slot(&mut self, comm: &Comm) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Post::free(*comm));
            self.slots.len() as u32 - 1
        })
    }

    /// Starts an access to a file.
    pub(super) fn post_file(
        &mut self,
        access: FileAccess,
        mut buffer: Box<dyn Buffer>,
    ) -> Result<PostId, (FaultCode, Box<dyn Buffer>)> {
        let file = self.files.get(access.file.0 as usize).cloned().flatten();
        let start = |buffer: &mut dyn Buffer| {
            let (file, exposure) = (file.as_ref().ok_or(FaultCode::Mpi(FILE))?, buffer.expose()?);
            // SAFETY: the post, then the quarantine, keeps buffer and file until it is over.
            let request = unsafe { file.start(access, &exposure) };
            Ok((request.map_err(fault)?, Comm::alone().map_err(fault)?))
        };
        let (request, alone) = match start(buffer.as_mut()) {
            Ok(started) => started,
            Err(code) => return Err((code, buffer)),
        };
        let slot = self.free_slot(&alone);
        let mut post = Post::free(alone);
        (post.request, post.kind, post.data) = (request, Kind::File, NO_DATA);
        post.held = Some(Held { buffer, _layout: Layout::default(), _file: file });
        self.slots[slot as usize] = post;
        Ok(PostId(slot))
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
        let post = self.slot(post);
        if post.is_pending() { post.look(ulfm) } else { post.progress }
    }

    /// Frees the place of an operation.
    #[inline]
    fn remove(&mut self, post: PostId) -> Option<Held> {
        let held = self.slot(post).held.take();
        if held.is_some() {
            self.free.push(post.0);
        }
        held
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
        if post.kind == Kind::Receive && post.is_pending() {
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
                let (buffer, layout) = (Box::new(nowhere), Layout::default());
                let held = Held { buffer, _layout: layout, _file: None };
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
        let mut request = std::mem::replace(request, Request::null());
        if *kind == Kind::Receive {
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
                |post: &&mut Post| post.is_pending() && post.data == data && post.context < context;
            for post in self.slots.iter_mut().filter(retired) {
                post.progress = post.look(ulfm);
            }
        }
    }

    /// Operations whose buffers are here, and buffers in quarantine.
    pub(super) fn held(&self) -> (usize, usize) {
        let operations = self.slots.iter().filter(|post| post.held.is_some()).count();
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
