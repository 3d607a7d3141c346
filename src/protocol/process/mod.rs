//! The life of the blocks and communicators of one process.
//!
//! [`Process`] holds what a process knows of its communicators and of its blocks, and decides what
//! follows from what happens to them: which operations have no chance any more, who is told of
//! that, what a rank votes, which data contexts and which communicators come after an abort. One
//! [`Commit`](super::commit::Commit) per communicator decides the verdicts.
//!
//! It is told what happened by calls (`handle_…` for what comes from outside), and answers through
//! an out-parameter, [`Outlet`]: messages leave at once, all else is a [`Command`] that the driver
//! carries out when the call has returned, in order. What a command comes to (a request that
//! failed, say) is the next call. No call comes back into the process while another is under way.
//!
//! ```text
//!            calls                          commands
//!  driver ─────────▶ Process ── events ──▶ FailRequests, Conclude, RetireContexts, …  ──▶ driver
//!                      │ ▲  (a queue, until it is empty)
//!                      ▼ │
//!            Commit, Interrupts of each communicator ── messages ──▶ network
//! ```
//!
//! | file | idea |
//! |---|---|
//! | [`block`] | a block: open, draining, voted, decided |
//! | [`communicator`] | what a process knows of a communicator |
//! | `verdict` | votes, decisions, and what follows from an abort |
//! | `patience` | blocks in which a death ends only what needed the dead |
//! | `interruption` | which operations have a chance, and how a doomed block is cut short |
//! | `epochs` | communicators that start afresh after an abort, and those that are over |
//! | `agreements` | agreements, deaths that are acknowledged, communicators that are revoked |
//! | `riders` | small collectives, which ride on a commit |
//! | `universe` | a death, and all that it concerns |
//!
//! **Guarantees.** A block has one [`Command::Conclude`]. A death is told to each communicator that
//! has the process once.
//! **Assumes.** The driver carries commands out in their order, and before it gives control back to
//! the application.

mod agreements;
pub mod block;
pub mod communicator;
mod epochs;
mod interruption;
mod patience;
mod riders;
mod universe;
mod verdict;

use alloc::{collections::VecDeque, vec::Vec};

use smallvec::SmallVec;

pub use self::{
    agreements::Acknowledged,
    block::{Block, Level, NO_BLOCK, Need, Patience, Phase},
    communicator::Communicator,
    epochs::Remembered,
};
use self::{patience::Stages, universe::Universe};
use super::{
    Effects, Event,
    commit::Commit,
    exchange::Shape,
    fused::Values,
    interrupt::{Interrupts, REVOCATION},
    message::{Message, Yes},
    planted::planted,
};
use crate::{
    fault::{FaultCode, FaultReport},
    ids::{BlockId, CommId, DataId, UniverseId},
    rank::Rank,
};

pub use crate::ids::{BlockKey, CommKey};

/// Where a process puts the effects of a call.
pub trait Outlet {
    /// Sends a message about a communicator to a process of a universe.
    fn send(&mut self, to: Address, comm: CommId, message: &Message);

    /// Sends a message of the fast path.
    fn send_yes(&mut self, to: Address, comm: CommId, yes: Yes);

    /// Sends a message of the fast path with values.
    fn send_fused(&mut self, to: Address, comm: CommId, yes: Yes, values: &Values);

    /// To be done by the driver when the call has returned, in the order of the commands.
    fn command(&mut self, command: Command);
}

/// A process: the universe, and its rank there.
pub type Address = (UniverseId, Rank);

/// What the driver has to do.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Command {
    /// The block is doomed while requests of it may be pending.
    Interrupted(BlockKey),
    /// Requests of the block that are pending and that this chooses have failed with this code.
    FailRequests(BlockKey, FaultCode, Chosen),
    /// The block is finished: this rank votes as soon as none of its requests is pending.
    Finish(BlockKey),
    /// The block is decided: its copies, windows and buffers follow the verdict. The driver calls
    /// [`Process::conclude`] when that is done.
    Conclude(BlockKey, bool),
    /// A block of this communicator, which this rank need not have started, was aborted.
    Aborted(CommKey, BlockId, FaultReport),
    /// No operation of a context below this one completes any more; a further context is made ready
    /// if that is possible (the flag).
    RetireContexts(DataId, u32, bool),
    /// A process died; to be answered, sooner or later, by [`Process::handle_cause`].
    Died(Address, Source),
    /// The job ends without this process, which was a spare.
    Dismissed,
    /// Nothing is sent or received in this universe any more.
    DiscardUniverse(UniverseId),
    /// No operation uses this communicator any more.
    DiscardData(DataId),
    /// Messages of aborted attempts may wait on this communicator.
    DiscardStaleMessages(CommKey),
}

/// Which pending requests of a block.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Chosen {
    /// All.
    All,
    /// All but the ends of inner blocks.
    Operations,
    /// Those that cannot complete without this rank.
    Needing(Rank),
}

/// Who told of a death first.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Source {
    /// The platform: MPI's own report, the watcher or the observer.
    Platform,
    /// A request that failed.
    Request,
    /// Another rank, in a message of the agreement.
    Ranks,
}

/// What happened in the machines of a communicator and is still to be followed up.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Next {
    Learned(Rank),
    Interrupted(BlockId),
    /// A block was aborted, after which blocks run in this context.
    Aborted(BlockId, u32),
}

/// A process with its communicators and blocks.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Process {
    shape: Shape,
    comms: Vec<Communicator>,
    /// Places in the table of communicators that are free.
    vacant: Vec<CommKey>,
    /// Names on the wire of communicators that were over last: no rank waits for an answer to what
    /// comes for them.
    forgotten: VecDeque<(UniverseId, CommId)>,
    /// True when communicators may be over that were not before.
    sweep_due: bool,
    blocks: Vec<Block>,
    /// Places in the table of blocks that are free.
    free: Vec<u32>,
    /// Blocks that voted and are not decided.
    voted: SmallVec<[BlockKey; 4]>,
    /// Blocks that were interrupted while they were open or draining.
    interrupted: SmallVec<[BlockKey; 4]>,
    /// Blocks whose handles went while the thread panicked.
    orphans: SmallVec<[BlockKey; 1]>,
    /// The number of blocks that were started.
    serial: u64,
    /// Messages about communicators that the sender made before this process did.
    early: Vec<(Address, CommId, Message)>,
    /// Deaths in universes that this process has not adopted.
    early_deaths: Vec<Address>,
    universes: Vec<Universe>,
    /// True when this process has left the job: it tells nothing any more.
    left: bool,
    /// What is still to be followed up in this call; empty between calls.
    pending: VecDeque<(CommKey, Next)>,
}

impl Process {
    /// A process that knows no other yet. The exchanges of all its communicators have this shape.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            comms: Vec::new(),
            vacant: Vec::new(),
            forgotten: VecDeque::new(),
            sweep_due: false,
            blocks: Vec::new(),
            free: Vec::new(),
            voted: SmallVec::new(),
            interrupted: SmallVec::new(),
            orphans: SmallVec::new(),
            serial: 0,
            early: Vec::new(),
            early_deaths: Vec::new(),
            universes: Vec::new(),
            left: false,
            pending: VecDeque::new(),
        }
    }

    /// Registers a communicator: `members[rank]` is the process in the universe, `me` our rank.
    pub fn register(
        &mut self,
        id: CommId,
        universe: UniverseId,
        (members, me): (Vec<Rank>, Rank),
        data: Option<DataId>,
        out: &mut impl Outlet,
    ) -> CommKey {
        self.universe_mut(universe);
        let state = self.fresh(id, universe, (members, me), data);
        let key = self.add_comm(state);
        self.meet(key, out);
        for address in core::mem::take(&mut self.early_deaths) {
            self.note_death(address, Source::Platform, out);
        }
        self.follow_up(out);
        key
    }

    /// Tells a communicator's new machines what happened before they were there.
    fn meet(&mut self, key: CommKey, out: &mut impl Outlet) {
        let universe = self.comm(key).universe;
        let known = self.universes.iter().find(|known| known.id == universe);
        let dead = known.map(|known| known.dead.clone()).unwrap_or_default();
        for process in dead.iter() {
            if let Some(rank) = self.comm(key).rank_of(process) {
                self.drive(key, out, |commit, out| commit.handle_failure(rank, out));
            }
        }
        self.pass_causes_on(key, out);
        for (from, comm, message) in core::mem::take(&mut self.early) {
            self.take_message(from, comm, message, out);
        }
    }

    /// A message about a communicator, from a process of a universe.
    pub fn handle_message(
        &mut self,
        from: Address,
        comm: CommId,
        message: Message,
        out: &mut impl Outlet,
    ) {
        self.take_message(from, comm, message, out);
        self.follow_up(out);
    }

    /// A message of the fast path, as [`Self::handle_message`].
    #[inline]
    pub fn handle_yes(&mut self, from: Address, comm: CommId, yes: Yes, out: &mut impl Outlet) {
        if let Some((key, rank)) = self.place(from, comm) {
            self.drive(key, out, |commit, out| commit.handle_yes(rank, yes, out));
            self.follow_up(out);
        } else {
            self.keep_early(from, comm, Message::Yes(yes));
        }
    }

    /// A message of the fast path with values, as [`Self::handle_message`].
    #[inline]
    pub fn handle_fused(
        &mut self,
        from: Address,
        comm: CommId,
        (yes, values): (Yes, &Values),
        out: &mut impl Outlet,
    ) {
        if let Some((key, rank)) = self.place(from, comm) {
            self.drive(key, out, |commit, out| commit.handle_fused(rank, yes, values, out));
            self.follow_up(out);
        } else {
            let fused = super::message::Fused { yes, values: *values };
            self.keep_early(from, comm, Message::Fused(fused));
        }
    }

    fn take_message(
        &mut self,
        from: Address,
        comm: CommId,
        message: Message,
        out: &mut impl Outlet,
    ) {
        let Some((key, rank)) = self.place(from, comm) else {
            return self.keep_early(from, comm, message);
        };
        let is_dead = self.comm(key).commit.dead().contains(rank);
        match message {
            Message::Interrupt(_) | Message::HowFar(_) | Message::Wanted(_) | Message::Ahead(_)
                if is_dead => {}
            Message::Interrupt(block) => self.flood(key, block, out),
            Message::HowFar(block) => self.answer(key, (rank, block), out),
            Message::Reached(block, stage) => {
                self.comm_mut(key).stages.handle_answer(rank, block, stage);
            }
            Message::Wanted(_) | Message::Ahead(_) => self.handle_rider(key, rank, &message, out),
            message => {
                self.drive(key, out, |commit, out| commit.handle_message(rank, message, out));
            }
        }
    }

    /// Keeps a message about a communicator that its sender made before this process did. Each is
    /// one of a protocol that does not repeat itself: none may be lost.
    #[cold]
    fn keep_early(&mut self, from: Address, comm: CommId, message: Message) {
        let is_lost = planted!(LoseEarlyMessages) && self.early.len() >= 4;
        if !self.forgotten.contains(&(from.0, comm)) && !is_lost {
            self.early.push((from, comm, message));
        }
    }

    /// The communicator of this name on the wire, and the rank of a process in it.
    #[inline]
    fn place(&self, (universe, from): Address, comm: CommId) -> Option<(CommKey, Rank)> {
        let known = |state: &Communicator| state.wire == comm && state.universe == universe;
        let at = self.comms.iter().rposition(known)?;
        Some((CommKey::new(at), self.comms[at].rank_of(from)?))
    }

    /// One turn of a communicator's commit machine. A decision is taken over at once, as the
    /// machine may forget it with the next vote; all else that happened is followed up later.
    #[inline]
    fn drive<O: Outlet>(
        &mut self,
        key: CommKey,
        out: &mut O,
        turn: impl FnOnce(&mut Commit, &mut Adapter<'_, O>),
    ) {
        let mut events = Events::new();
        let (commit, _, _, mut adapter) = self.comms[key.index()].machines(out, &mut events);
        turn(commit, &mut adapter);
        for event in events {
            match event {
                Event::Decided(id) => self.take_decision(key, id, out),
                Event::Learned(rank) => self.pending.push_back((key, Next::Learned(rank))),
                Event::Interrupted(id) => self.pending.push_back((key, Next::Interrupted(id))),
            }
        }
    }

    /// Floods the news that a block is doomed.
    fn flood(&mut self, key: CommKey, block: BlockId, out: &mut impl Outlet) {
        let mut events = Events::new();
        let (commit, interrupts, _, mut adapter) =
            self.comms[key.index()].machines(out, &mut events);
        interrupts.handle_interrupt(block, commit.dead(), &mut adapter);
        for event in events {
            if let Event::Interrupted(id) = event {
                self.pending.push_back((key, Next::Interrupted(id)));
            }
        }
    }

    /// Follows up what happened in the machines, until nothing is left.
    #[inline]
    fn follow_up(&mut self, out: &mut impl Outlet) {
        while let Some((key, next)) = self.pending.pop_front() {
            match next {
                Next::Learned(rank) => {
                    let comm = self.comm(key);
                    let address = (comm.universe, comm.members[rank.index()]);
                    self.note_death(address, Source::Ranks, out);
                }
                Next::Interrupted(REVOCATION) => self.cut_all_short(key, out),
                Next::Interrupted(block) => self.cut_short(key, block, out),
                Next::Aborted(block, context) => self.start_afresh(key, block, context, out),
            }
        }
    }

    /// A communicator of the table.
    #[inline]
    pub fn comm(&self, key: CommKey) -> &Communicator {
        &self.comms[key.index()]
    }

    /// A communicator of the table, to be changed.
    #[inline]
    pub fn comm_mut(&mut self, key: CommKey) -> &mut Communicator {
        &mut self.comms[key.index()]
    }

    /// The keys of all places in the table of communicators.
    pub fn comms(&self) -> impl Iterator<Item = CommKey> + use<> {
        (0..self.comms.len()).map(CommKey::new)
    }

    /// The blocks that voted and are not decided.
    #[inline]
    pub fn voted(&self) -> &[BlockKey] {
        &self.voted
    }

    /// How many blocks this process has started.
    #[inline]
    pub fn started(&self) -> u64 {
        self.serial
    }

    /// True when [`Self::sweep`] may find something.
    #[inline]
    pub fn is_sweep_due(&self) -> bool {
        self.sweep_due
    }

    /// True when this process has left the job.
    #[inline]
    pub fn has_left(&self) -> bool {
        self.left
    }
}

type Events = SmallVec<[Event; 4]>;

/// The effects of a communicator's machine on their way out: messages leave at once, events are
/// collected.
struct Adapter<'a, O> {
    out: &'a mut O,
    universe: UniverseId,
    comm: CommId,
    members: &'a [Rank],
    events: &'a mut Events,
}

impl<O> Adapter<'_, O> {
    #[inline]
    fn address(&self, rank: Rank) -> Address {
        (self.universe, self.members[rank.index()])
    }
}

impl<O: Outlet> Effects for Adapter<'_, O> {
    #[inline]
    fn send(&mut self, to: Rank, message: Message) {
        self.out.send(self.address(to), self.comm, &message);
    }

    #[inline]
    fn send_yes(&mut self, to: Rank, yes: Yes) {
        self.out.send_yes(self.address(to), self.comm, yes);
    }

    #[inline]
    fn send_fused(&mut self, to: Rank, yes: Yes, values: &Values) {
        self.out.send_fused(self.address(to), self.comm, yes, values);
    }

    #[inline]
    fn emit(&mut self, event: Event) {
        self.events.push(event);
    }
}

impl Communicator {
    #[inline]
    fn machines<'a, O: Outlet>(
        &'a mut self,
        out: &'a mut O,
        events: &'a mut Events,
    ) -> (&'a mut Commit, &'a mut Interrupts, &'a mut Stages, Adapter<'a, O>) {
        let adapter = Adapter {
            out,
            universe: self.universe,
            comm: self.wire,
            members: &self.members,
            events,
        };
        (&mut self.commit, &mut self.interrupts, &mut self.stages, adapter)
    }
}

#[cfg(test)]
mod tests;
