//! A `TryBlock` that is open: operations go in here.

use super::{Finished, Pending, Request, RequestId, Source, Tag, TagSelector, request};
use crate::{
    engine::{BlockKey, CommKey, Level, Need, Patience, Shared},
    error::Error,
    fault::FaultCode,
    native::Element,
    rank::{Rank, RankSet},
    recovery::{
        Redundancy,
        copies::{Length, MAX_SLOTS},
    },
    seam::{
        buffer::{AnyBuffer, Buffer},
        entry::Entry,
        platform::{Operation, Way},
    },
    timeout::Timeout,
};

/// How a block of the closure form behaves.
#[derive(Clone, Copy, Debug)]
pub struct BlockOptions {
    /// Who learns of its faults.
    pub level: Level,
    /// How long its requests may take after the closure's end before they are faults.
    pub timeout: Timeout,
}

impl BlockOptions {
    /// A global block whose requests have this long to complete.
    pub const fn global(timeout: Timeout) -> Self {
        Self { level: Level::Global, timeout }
    }

    /// A block with a synchronising collective in it, whose requests have this long to complete.
    pub const fn with_collective(timeout: Timeout) -> Self {
        Self { level: Level::WithCollective, timeout }
    }

    /// A local block whose requests have this long to complete.
    pub const fn local(timeout: Timeout) -> Self {
        Self { level: Level::Local, timeout }
    }
}

/// An open block (paper §3.1). Operations are posted on it, it ends with [`Self::finish`].
///
/// A block that is dropped without an end leaves: this rank votes *no* and does not wait.
#[must_use = "a dropped block votes no; end it with `finish`"]
pub struct TryBlock {
    /// Nothing once the block has ended.
    engine: Option<Shared>,
    pub(super) key: BlockKey,
}

impl TryBlock {
    #[inline]
    pub(super) fn new(engine: Shared, key: BlockKey) -> Self {
        Self { engine: Some(engine), key }
    }

    #[inline]
    pub(super) fn engine(&self) -> &Shared {
        self.engine.as_ref().expect("only the end of a block takes it")
    }

    /// The handle of the block from now on.
    #[inline]
    pub(super) fn end(mut self) -> Pending {
        Pending::new(self.engine.take().expect("a block ends once"), self.key)
    }

    /// Says what a death does to this block, whatever [`Comm::set_patience`] says.
    ///
    /// [`Comm::set_patience`]: super::Comm::set_patience
    pub fn set_patience(&mut self, patience: Patience) {
        self.engine().borrow_mut().block_mut(self.key).patience = patience;
    }

    /// Says whether the collectives of this block run over the living, whatever
    /// [`Comm::set_run_through`] says. All ranks say the same.
    ///
    /// [`Comm::set_run_through`]: super::Comm::set_run_through
    pub fn set_run_through(&mut self, on: bool) {
        self.engine().borrow_mut().block_mut(self.key).run_through = on;
    }

    /// The ranks that the collectives of this block leave out, if it runs through: those that
    /// reports have named dead before it was started. In blocks that are committed the same on all
    /// ranks.
    pub fn left_out(&self) -> RankSet {
        let engine = self.engine().borrow();
        engine.comm(engine.block(self.key).comm).commit.reported_dead().clone()
    }

    /// This rank, the number of ranks, and the communicator.
    pub(super) fn place_in(&self) -> (usize, usize, CommKey) {
        let engine = self.engine().borrow();
        let key = engine.block(self.key).comm;
        let comm = engine.comm(key);
        (comm.me.index(), comm.members.len(), key)
    }

    /// Sends a buffer (`MPI_Isend`, MPI 4.1 §3.7.2). It comes back when the request is complete.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`], [`Error::TagTooLarge`], [`Error::TooManyOpen`]. Everything else, also
    /// that the receiver is dead, is a fault of the request.
    #[inline]
    pub fn isend<T: Element>(
        &mut self,
        buffer: Vec<T>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<T>, Error> {
        self.send(buffer, to, tag, false).map(Request::of)
    }

    /// Sends a buffer; complete only when the receive has started (`MPI_Issend`).
    ///
    /// # Errors
    ///
    /// As [`Self::isend`].
    #[inline]
    pub fn issend<T: Element>(
        &mut self,
        buffer: Vec<T>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<T>, Error> {
        self.send(buffer, to, tag, true).map(Request::of)
    }

    /// Receives into a buffer, whose length is the most that is received (`MPI_Irecv`).
    ///
    /// # Errors
    ///
    /// As [`Self::isend`].
    #[inline]
    pub fn irecv<T: Element>(
        &mut self,
        buffer: Vec<T>,
        from: impl Into<Source>,
        tag: impl Into<TagSelector>,
    ) -> Result<Request<T>, Error> {
        self.receive(buffer, from.into(), tag.into()).map(Request::of)
    }

    /// Makes an inner block's end an operation of this one: this block waits for it, and its
    /// fault is a fault of this block that names the inner communicator.
    pub fn nest(&mut self, inner: Pending) {
        let inner = inner.into_key();
        self.engine().borrow_mut().nest(self.key, inner);
    }

    /// Hands the fault of an inner block, which was not handled, to this block: a fault that names
    /// the inner communicator.
    pub fn escalate(&mut self, inner: &Finished) {
        if !inner.is_committed() {
            self.engine().borrow_mut().process.raise_inner(self.key, inner.key);
        }
    }

    /// Raises a fault of the application (`MPI_Request_raise_error`, paper appendix A): the block
    /// will be faulty on all ranks, with this code and this rank in its report. The block goes
    /// on; others are not interrupted. A filter by numbers takes 262144000 to 262144255 for codes
    /// of fampi's own, which a C program cannot raise.
    pub fn raise_error(&mut self, code: i32) {
        self.engine().borrow_mut().raise(self.key, FaultCode::Application(code));
    }

    /// Takes the buffer of a request that is over, before the block's end. Whether it counts is
    /// only known after the commit. That of one that failed comes back, too, with whatever is in
    /// it: ask for its [`Self::fault`].
    ///
    /// # Errors
    ///
    /// [`Error::NotComplete`], [`Error::Quarantined`] when it failed and MPI has the buffer still,
    /// which can be taken later, [`Error::NoSuchRequest`] when the buffer was taken before or the
    /// request is another block's.
    #[inline]
    pub fn take<T: Element>(&mut self, request: Request<T>) -> Result<Vec<T>, Error> {
        let index = self.index(request.id)?;
        request::take(&mut self.engine().borrow_mut(), self.key, index)
    }

    /// Says where the states are kept that are protected in this block from now on: at a partner,
    /// unless it says otherwise. All ranks say the same; for one state it may change from block to
    /// block.
    pub fn set_redundancy(&mut self, redundancy: Redundancy) {
        self.engine().borrow_mut().contents_mut(self.key).redundancy = redundancy;
    }

    /// Protects a state of this rank: it goes to where the block keeps states
    /// ([`Self::set_redundancy`]), and is valid with this block's commit, on all ranks or on none.
    /// Every rank calls it, in a global block of the world, or of a communicator shrunk from it,
    /// with the same number and, on one communicator, always the same length of its own. Where
    /// several blocks are open at once, all ranks protect a state in them in the same order, and
    /// the last of those that commit counts.
    ///
    /// Waits, the first time on a communicator, for the lengths of others, without a limit; a death
    /// or a rank that leaves the block ends it.
    ///
    /// # Errors
    ///
    /// [`Error::NotGlobal`] in a local block; [`Error::LengthChanged`]; [`Error::NotNumbers`];
    /// [`Error::Request`] when a length could not be had.
    ///
    /// # Panics
    ///
    /// When `number` is [`MAX_SLOTS`] or more.
    pub fn protect<T: Element + Default>(&mut self, number: u32, state: &[T]) -> Result<(), Error> {
        self.protect_as(number, state, Length::Fixed)
    }

    /// Protects a state as [`Self::protect`] does, whose length may be another one each time: each
    /// time it waits for the lengths of others. All ranks protect the states of one number so.
    ///
    /// # Errors
    ///
    /// [`Error::NotGlobal`] in a local block; [`Error::NotNumbers`]; [`Error::Request`] when a
    /// length could not be had.
    ///
    /// # Panics
    ///
    /// As [`Self::protect`].
    pub fn protect_any_length<T: Element + Default>(
        &mut self,
        number: u32,
        state: &[T],
    ) -> Result<(), Error> {
        self.protect_as(number, state, Length::Any)
    }

    fn protect_as<T: Element + Default>(
        &mut self,
        number: u32,
        state: &[T],
        length: Length,
    ) -> Result<(), Error> {
        assert!(number < MAX_SLOTS, "states are numbered below {MAX_SLOTS}");
        let mut engine = self.engine().borrow_mut();
        if !engine.block(self.key).level.is_agreed() {
            return Err(Error::NotGlobal);
        }
        engine.protect(self.key, number, state, length)
    }

    /// True when this rank has protected a state in the block.
    pub(super) fn protects(&self) -> bool {
        !self.engine().borrow().contents(self.key).copies.is_empty()
    }

    /// Brings back the state with this number as of its last commit, after a rebuild: from this
    /// rank's own copy, or from what others keep of it when this rank is a replacement. Every rank
    /// of the world calls it, in a global block of the world; it counts with the block's commit. In
    /// a block of a shrunk communicator it is the own copy, without a message. Waits for others
    /// without a limit; a death or a rank that leaves the block ends it.
    ///
    /// # Errors
    ///
    /// [`Error::StateLost`] and [`Error::NothingProtected`], with which the block is faulty: after
    /// the latter, all ranks start anew; [`Error::Request`] when a rank died or left meanwhile;
    /// [`Error::StateType`].
    ///
    /// Not every rank may get the same: **what to do next follows from the end of the block**, not
    /// from this error. [`Comm::try_block`](super::Comm::try_block) sees to it; a block that was
    /// started and is left by hand is to be asked for [`Finished::agreed_error`].
    pub fn restore<T: Element + Default>(&mut self, number: u32) -> Result<Vec<T>, Error> {
        let mut engine = self.engine().borrow_mut();
        engine.tell(&Entry::Begun { work: "restore" });
        let restored = engine.restore(self.key, number);
        engine.tell(&Entry::Done { work: "restore" });
        restored
    }

    /// The protected state of a rank that died before a shrink, if this rank keeps its copy, in a
    /// block of the shrunk communicator. The rank is one of the communicator on which the state
    /// was protected. It is there until this rank protects a state on the new communicator.
    ///
    /// # Errors
    ///
    /// [`Error::StateType`].
    pub fn inherit<T: Element>(&mut self, number: u32) -> Result<Option<(Rank, Vec<T>)>, Error> {
        self.engine().borrow_mut().inherit(self.key, number)
    }

    /// Ends the block (`MPI_TryBlock_finish`): when its requests are over, this rank votes.
    /// Returns at once.
    ///
    /// Requests that are not complete after `timeout` are faults, in a wait on any block that goes
    /// on beyond it. A wait with a longer timeout counts from its beginning, waits with a shorter
    /// one add up. A wait with the same timeout ends first, with
    /// [`Outcome::TimedOut`](super::Outcome::TimedOut), and so does each further one. With
    /// [`Timeout::Poll`] what is not complete is a fault as soon as a wait has looked once and goes
    /// on; a wait that is a poll itself makes nothing late.
    #[inline]
    pub fn finish(self, timeout: Timeout) -> Pending {
        self.engine().borrow_mut().finish_block(self.key, timeout);
        self.end()
    }

    /// Ends, with this block, something that ends on all ranks; otherwise the block is faulty.
    pub(super) fn say_last(&mut self) {
        self.engine().borrow_mut().block_mut(self.key).proviso = Some(FaultCode::NotAllDone);
    }

    /// Leaves the block because of this error, which becomes this rank's vote (*no*). Requests
    /// that are not complete are given up, and the other ranks do not wait for this one.
    ///
    /// The error is this rank's alone, others may leave with another one or finish: branch on the
    /// report, on [`Finished::failed_group`], or, where the block restores, on
    /// [`Finished::agreed_error`], which are the same on all ranks. Branches that follow this error
    /// split the ranks.
    pub fn leave(self, error: &Error) -> Pending {
        let code = match error {
            Error::Raised(code) => FaultCode::Application(*code),
            // Who died is for the detector to say.
            Error::Request(code) if code.is_process_failure() => FaultCode::Interrupted,
            Error::Request(code) => *code,
            _ => FaultCode::LeftBlock,
        };
        self.engine().borrow_mut().leave_block(self.key, code);
        self.end()
    }

    #[inline]
    pub(super) fn send<B: Buffer>(
        &mut self,
        buffer: B,
        to: Rank,
        tag: Tag,
        synchronous: bool,
    ) -> Result<RequestId, Error> {
        let tag = tag.checked()?;
        let mut engine = self.engine().borrow_mut();
        let index = engine.post_message(self.key, Way::Send { synchronous }, (to, tag), buffer)?;
        Ok(RequestId { block: self.key, index })
    }

    #[inline]
    pub(super) fn receive<B: Buffer>(
        &mut self,
        buffer: B,
        from: Source,
        tag: TagSelector,
    ) -> Result<RequestId, Error> {
        let envelope = (from.rank(), tag.checked()?);
        let mut engine = self.engine().borrow_mut();
        let index = match envelope {
            (Some(from), Some(tag)) => {
                engine.post_message(self.key, Way::Receive, (from, tag), buffer)?
            }
            _ => engine.post_any_receive(self.key, envelope, buffer)?,
        };
        Ok(RequestId { block: self.key, index })
    }

    pub(super) fn post<T: Element>(
        &self,
        need: Need,
        operation: &Operation,
        buffer: Vec<T>,
    ) -> Request<T> {
        let mut engine = self.engine().borrow_mut();
        let index = engine.post(self.key, need, operation, AnyBuffer::of(buffer));
        Request::of(RequestId { block: self.key, index })
    }

    /// This rank, and how many there are.
    pub(super) fn place(&self) -> (Rank, u32) {
        let engine = self.engine().borrow();
        let comm = engine.comm(engine.block(self.key).comm);
        (comm.me, comm.size())
    }

    /// What a receive accepts, as it is on the wire.
    pub(super) fn envelope(
        &self,
        from: Source,
        tag: TagSelector,
    ) -> Result<(Option<Rank>, Option<u32>), Error> {
        self.engine().borrow().blocks.on_the_wire(self.key, (from.rank(), tag.checked()?))
    }

    pub(super) fn index(&self, request: RequestId) -> Result<usize, Error> {
        if request.block == self.key { Ok(request.index) } else { Err(Error::NoSuchRequest) }
    }
}

impl Drop for TryBlock {
    #[inline]
    fn drop(&mut self) {
        let Some(engine) = self.engine.take() else { return };
        if let Ok(mut engine) = engine.try_borrow_mut()
            && !engine.process.has_left()
        {
            if std::thread::panicking() {
                return engine.process.orphan(self.key);
            }
            engine.leave_block(self.key, FaultCode::LeftBlock);
            engine.detach(self.key);
        }
    }
}
