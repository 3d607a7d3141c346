//! The entrance for bindings to other languages, whose programs own their MPI.
//!
//! A [`Guest`] runs blocks on communicators that the program made, over requests that the program
//! started. Handles are plain numbers, as a C interface needs them; who keeps one past its
//! release gets a panic, so the binding has its own table. Programs in Rust use
//! [`crate::World`].

use core::time::Duration;

use crate::{
    engine::{
        BlockKey, CommKey, Engine, Level, Need, Patience, Phase, Span, Waited, contents::FIRST_COPY,
    },
    error::Error,
    fault::{FaultCode, FaultReport},
    ids::CommId,
    rank::{Rank, RankSet},
    recovery::filing::{Filing, Reader},
    seam::{
        buffer::AnyBuffer,
        collective::Collective,
        platform::{DataId, Idle, Lane, Platform, PostId, Progress},
        reduction::Values,
    },
    timeout::Timeout,
};

mod adopt;
mod checkpoints;
mod copies;
mod recover;
mod ulfm;

pub use checkpoints::States;
pub use recover::{Repairing, Reporting, Shrinking, Task};

/// A process whose program owns its MPI.
pub struct Guest {
    engine: Engine,
    /// The wait of MPI's own in which this process is called back.
    in_mpi: Option<InMpi>,
    /// Where states are saved, if they are.
    filing: Option<Filing>,
    /// The block in which ranks have told each other last what they have.
    restarted: Option<GuestBlock>,
    /// What that has found of another number of ranks.
    saved: Option<Reader>,
}

/// Calls by MPI, one after the other.
#[derive(Clone, Copy)]
struct InMpi {
    began: Duration,
    last: Duration,
}

/// Between two calls by an MPI that waits there is no longer pause: the program did something else.
const PAUSE: Duration = Duration::from_millis(50);

/// When MPI waits for longer, it may be for a collective that would ride on the commit of a block.
const LONG_IN_MPI: Duration = Duration::from_millis(1);

/// The greatest tag that the program may give to a message in a lane of [`Guest::lane`].
pub const MAX_TAG: u32 = FIRST_COPY - 1;

/// What a message needs with this peer, or with one that is unknown.
fn need_of(peer: Option<Rank>) -> Need {
    peer.map_or(Need::Anybody, Need::Peer)
}

/// A wait of the program that the binding makes in several steps.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    limit: Timeout,
    span: Option<Span>,
}

/// A communicator that was adopted.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct GuestComm(CommKey);

/// A block, until [`Guest::release`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct GuestBlock(BlockKey);

/// A message in a lane of [`Guest::lane`] that is waited for: its communicator, its peer if that is
/// known, its request.
pub type Waiting = (GuestComm, Option<Rank>, PostId);

/// What [`Guest::finish`] takes.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A request that the platform knows.
    Request(PostId),
    /// A message of this block ([`Guest::last_open`]) in the lane of [`Guest::lane`], or of a local
    /// block: its request, and its peer, which is unknown for a receive from any source.
    Message(PostId, Option<Rank>),
    /// A request that the platform knows, and that needs no process of the block's communicator.
    Elsewhere(PostId),
    /// An inner block.
    Block(GuestBlock),
    /// A collective of this block, by what [`Guest::collective`] has given.
    Collective(usize),
    /// A communicator in the making, of whose end [`Guest::end_making`] tells; or one that has
    /// failed.
    Making(bool),
}

impl Part {
    /// The request that it is, unless it is an inner block.
    #[inline]
    pub fn post(&self) -> Option<PostId> {
        match self {
            Self::Request(post) | Self::Message(post, _) | Self::Elsewhere(post) => Some(*post),
            Self::Block(_) | Self::Collective(_) | Self::Making(_) => None,
        }
    }
}

/// What waiting came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wait {
    /// It is over.
    Done,
    /// Not within the timeout.
    TimedOut,
    /// A block that this process is in is doomed: finish it.
    Doomed,
}

impl Guest {
    /// Enters with a platform that has no universe yet.
    pub fn new(platform: Box<dyn Platform>) -> Self {
        let engine = Engine::new(platform);
        Self { engine, in_mpi: None, filing: None, restarted: None, saved: None }
    }

    /// The platform.
    pub fn with_platform<R>(&mut self, use_it: impl FnOnce(&mut dyn Platform) -> R) -> R {
        use_it(&mut *self.engine.platform)
    }

    /// The data communicator.
    pub fn data(&self, comm: GuestComm) -> Option<DataId> {
        self.engine.comm(comm.0).data
    }

    /// Says what a death does to the blocks that start now: [`Patience::Patient`] at first.
    pub fn set_patience(&mut self, comm: GuestComm, patience: Patience) {
        self.engine.comm_mut(comm.0).patience = patience;
    }

    /// The block to which messages belong that the program starts now: the one that was started
    /// last on the communicator and is not finished.
    pub fn last_open(&self, comm: GuestComm) -> Option<GuestBlock> {
        self.engine.process.last_open(comm.0).map(GuestBlock)
    }

    /// Where a message of the program can run so that no other attempt meets it, and its tag there.
    /// The largest tag of the program is [`MAX_TAG`].
    pub fn lane(&self, comm: GuestComm, tag: u32) -> (Lane, u32) {
        self.engine.guests_lane(comm.0, tag)
    }

    /// How many bits of such a tag are not the program's: those below.
    pub fn tag_bits(&self) -> u32 {
        self.engine.blocks.tag_bits()
    }

    /// The data communicator of a block.
    pub fn data_of(&self, block: GuestBlock) -> Option<DataId> {
        let engine = &self.engine;
        engine.comm(engine.block(block.0).comm).data
    }

    /// This process's rank, and how many there are.
    pub fn place(&self, comm: GuestComm) -> (Rank, u32) {
        let comm = self.engine.comm(comm.0);
        (comm.me, comm.size())
    }

    /// The name by which reports call it.
    pub fn id(&self, comm: GuestComm) -> CommId {
        self.engine.comm(comm.0).id
    }

    /// All ranks that the report of some block has named dead.
    pub fn known_failed(&self, comm: GuestComm) -> RankSet {
        self.engine.process.told_dead(comm.0)
    }

    /// All ranks that a shrunken communicator leaves out: those of [`Self::known_failed`], and
    /// those whose death steps of recoveries have found since.
    pub fn left_out(&self, comm: GuestComm) -> RankSet {
        self.engine.comm(comm.0).commit.agreed_dead().clone()
    }

    /// Starts a block.
    #[inline]
    pub fn start(&mut self, comm: GuestComm, level: Level) -> GuestBlock {
        GuestBlock(self.engine.start_block(comm.0, level))
    }

    /// Whether the ranks agree on the verdict.
    pub fn is_agreed(&self, block: GuestBlock) -> bool {
        self.engine.block(block.0).level.is_agreed()
    }

    /// Ends a block: its requests, in this order, are its parts. Repeated, it moves the deadline.
    #[inline]
    pub fn finish(&mut self, block: GuestBlock, parts: &[Part], timeout: Timeout) {
        let engine = &mut self.engine;
        if !parts.is_empty() {
            engine.contents_mut(block.0).begin_list();
        }
        for part in parts {
            match part {
                Part::Request(post) => {
                    engine.contents_mut(block.0).adopt_request(*post, Need::Foreign);
                }
                Part::Message(post, peer) => {
                    engine.contents_mut(block.0).adopt_request(*post, need_of(*peer));
                }
                Part::Elsewhere(post) => {
                    engine.contents_mut(block.0).adopt_request(*post, Need::Nobody);
                }
                Part::Block(inner) => engine.adopt_block(block.0, inner.0),
                Part::Making(failed) => engine.adopt_making(block.0, *failed),
                Part::Collective(index) => {
                    engine.list_collective(block.0, *index);
                    engine.contents_mut(block.0).note_collective();
                }
            }
        }
        if engine.needs_no_collective(block.0) {
            engine.contents_mut(block.0).note_collective();
        }
        engine.finish_adopted(block.0, timeout);
        self.in_mpi = None;
    }

    /// Says of a block, which is finished next, that it has its collective.
    pub fn note_collective(&mut self, block: GuestBlock) {
        self.engine.contents_mut(block.0).note_collective();
    }

    /// True for a block that is faulty if it has none.
    pub fn needs_collective(&self, block: GuestBlock) -> bool {
        self.engine.block(block.0).level == Level::WithCollective
    }

    /// Starts a collective over the living in a block that is not finished, in place in a buffer of
    /// this shape; its number in the block.
    ///
    /// # Errors
    ///
    /// Those of [`Collective::check`].
    pub fn collective(
        &mut self,
        block: GuestBlock,
        collective: Collective,
        buffer: AnyBuffer,
    ) -> Result<usize, Error> {
        let engine = &mut self.engine;
        let comm = engine.comm(engine.block(block.0).comm);
        collective.check(comm.me, comm.size(), buffer.elements())?;
        Ok(engine.post_collective(block.0, collective, buffer))
    }

    /// A communicator in the making, which is this part of a finished block, was made, or was not.
    pub fn end_making(&mut self, block: GuestBlock, part: usize, made: bool) {
        if self.engine.process.current(block.0).is_some() {
            let index = self.number_of(block, part);
            self.engine.end_adopted_making(block.0, index, made);
        }
    }

    /// The number of the part of this place in the list of a finished block.
    pub fn number_of(&self, block: GuestBlock, part: usize) -> usize {
        self.engine.contents(block.0).first_listed() + part
    }

    /// What a collective has come to, once it is over, and its buffer, which is told once.
    pub fn take_collective(
        &mut self,
        block: GuestBlock,
        number: usize,
    ) -> Option<(Progress, Option<AnyBuffer>)> {
        self.engine.take_collective(block.0, number)
    }

    /// The numbers that this process brings to the reduction on the commit of a block, which is
    /// finished next. All ranks bring some of the same shape, otherwise the block is faulty.
    pub fn fuse(&mut self, block: GuestBlock, values: Values) {
        self.engine.fuse(block.0, values);
    }

    /// The result of that reduction, once the block is committed.
    pub fn fused(&self, block: GuestBlock) -> Option<Values> {
        self.engine.fused(block.0).copied()
    }

    /// Records a fault of this process in a block that is not finished.
    pub fn raise(&mut self, block: GuestBlock, code: i32) {
        self.engine.raise(block.0, FaultCode::Application(code));
    }

    /// Records a fault of this process in a collective of a block; false if that is finished.
    pub fn raise_in_collective(&mut self, block: GuestBlock, number: usize, code: i32) -> bool {
        let current = self.engine.process.current(block.0);
        let is_open = current.is_some_and(|block| block.phase == Phase::Open);
        if is_open {
            self.engine.raise_in(block.0, number, FaultCode::Application(code));
        }
        is_open
    }

    /// Makes a block faulty and ends the waits of all that are in it.
    pub fn interrupt(&mut self, block: GuestBlock) {
        let engine = &mut self.engine;
        engine.raise(block.0, FaultCode::Interrupted);
        let (comm, scope) = (engine.block(block.0).comm, engine.block(block.0).scope);
        if engine.block(block.0).level.is_agreed() {
            engine.interrupt(comm, scope);
        }
    }

    /// Waits for the verdict on a block that was finished.
    #[inline]
    pub fn wait_block(&mut self, block: GuestBlock, timeout: Timeout) -> Wait {
        match self.engine.wait_block(block.0, timeout) {
            Waited::Decided => Wait::Done,
            Waited::TimedOut => Wait::TimedOut,
            Waited::Doomed => Wait::Doomed,
        }
    }

    /// Waits until `done` holds of the platform, and of messages in lanes of [`Self::lane`], each
    /// with its communicator and peer; `foreign` says that there are other requests.
    pub fn wait(
        &mut self,
        timeout: Timeout,
        (messages, foreign): (&[Waiting], bool),
        mut done: impl FnMut(&mut Probe<'_>) -> bool,
    ) -> Wait {
        let engine = &mut self.engine;
        let messages = messages.iter().map(|(comm, peer, post)| (comm.0, need_of(*peer), *post));
        let awaited = (messages.collect(), foreign);
        let waited = engine.wait_inside(timeout, awaited, |engine| done(&mut Probe { engine }));
        match waited {
            Waited::Decided => Wait::Done,
            Waited::TimedOut => Wait::TimedOut,
            Waited::Doomed => Wait::Doomed,
        }
    }

    /// Begins a wait of several steps.
    pub fn in_steps(limit: Timeout) -> Steps {
        Steps { limit, span: None }
    }

    /// Takes a step of a wait: what is late in a block is judged by the wait as a whole, which ends
    /// with [`Wait::TimedOut`].
    pub fn step_of_wait(&mut self, steps: &mut Steps, step: Duration) -> Wait {
        let engine = &mut self.engine;
        let now = engine.platform.now();
        let span = *steps.span.get_or_insert(Span::new(now, steps.limit));
        if !span.goes_beyond(now) {
            return Wait::TimedOut;
        }
        engine.within(span, |engine| {
            let nothing = (Vec::new(), true);
            if engine.wait_inside(Timeout::After(step), nothing, |_| false) != Waited::Doomed {
                return Wait::Done;
            }
            engine.wait(Timeout::Poll, Idle::Busy, |_| false);
            Wait::Doomed
        })
    }

    /// The verdict, if there is one: whether the block committed, and its report.
    pub fn report(&self, block: GuestBlock) -> Option<(bool, FaultReport)> {
        let engine = &self.engine;
        engine.verdict(block.0).map(|committed| (committed, engine.report(block.0).clone()))
    }

    /// Whether the block committed, once it is decided.
    #[inline]
    pub fn verdict(&self, block: GuestBlock) -> Option<bool> {
        self.engine.verdict(block.0)
    }

    /// The communicator of a block.
    pub fn comm_of(&self, block: GuestBlock) -> GuestComm {
        GuestComm(self.engine.block(block.0).comm)
    }

    /// The communicators of blocks inside of a block, where they are others than its own.
    pub fn used(&self, block: GuestBlock) -> Vec<GuestComm> {
        self.engine.contents(block.0).used.iter().copied().map(GuestComm).collect()
    }

    /// The faults of this rank's requests, by their place in the block.
    pub fn failed_requests(&self, block: GuestBlock) -> Vec<(usize, FaultCode)> {
        // Partner copies are not in the list.
        self.engine.contents(block.0).faults_of_list().collect()
    }

    /// Leaves a block that is not finished: it is faulty.
    pub fn leave_block(&mut self, block: GuestBlock) {
        let engine = &mut self.engine;
        // Requests of the program's own wait for this rank without asking it: all are told.
        engine.block_mut(block.0).patience = Patience::Prompt;
        engine.leave_block(block.0, FaultCode::LeftBlock);
    }

    /// Releases a block: now, or as soon as it is decided. One that was not finished leaves.
    // Little more than a call.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub fn release(&mut self, block: GuestBlock) {
        if self.verdict(block).is_some() {
            self.engine.detach(block.0);
        } else {
            self.release_undecided(block);
        }
    }

    #[cold]
    fn release_undecided(&mut self, block: GuestBlock) {
        self.leave_block(block);
        self.engine.detach(block.0);
    }

    /// One step of everything.
    pub fn progress(&mut self) {
        if !self.engine.process.has_left() {
            self.engine.wait(Timeout::Poll, crate::seam::platform::Idle::Busy, |_| false);
        }
    }

    /// One step of everything, while MPI waits, without limit, in a call of its own.
    pub fn progress_in_mpi(&mut self) {
        if self.engine.process.has_left() {
            return;
        }
        let now = self.engine.platform.now();
        let began = self.in_mpi.filter(|it| now < it.last + PAUSE).map_or(now, |it| it.began);
        if now >= began + LONG_IN_MPI {
            self.engine.want_all_riders();
        }
        let span = Span::new(began, Timeout::Never);
        self.engine.within(span, |engine| engine.wait(Timeout::Poll, Idle::Busy, |_| false));
        self.in_mpi = Some(InMpi { began, last: now });
    }

    /// Leaves in order, before MPI is finalised.
    pub fn leave(&mut self) {
        self.engine.leave();
    }
}

/// What a wait may look at.
pub struct Probe<'a> {
    engine: &'a mut Engine,
}

impl Probe<'_> {
    /// Looks at a request of the platform.
    pub fn request(&mut self, post: PostId) -> bool {
        let progress = self.engine.platform.test(post, &mut None);
        if !self.engine.is_awaited_message(post) {
            self.engine.note_foreign_loss(progress);
        }
        progress != Progress::Pending
    }

    /// Looks at a collective of a block.
    pub fn collective(&mut self, block: GuestBlock, number: usize) -> bool {
        self.engine.want(block.0, number);
        let progress = self.engine.test_request(block.0, number);
        progress != Progress::Pending && !self.engine.is_riding(block.0, number)
    }

    /// Looks at a block.
    pub fn block(&mut self, block: GuestBlock) -> bool {
        self.engine.verdict(block.0).is_some()
    }
}
