//! What a process knows of a communicator, and how its machines reach the network.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::{
    BlockKey, Engine,
    platform::{DataId, Lane, Platform, UniverseId},
};
use crate::{
    ids::{BlockId, CommId},
    protocol::{
        Effects, Event, codec,
        commit::Commit,
        exchange::Shape,
        fused::Values,
        interrupt::Interrupts,
        message::{Message, Yes},
    },
    rank::Rank,
};

/// A communicator in the engine's table.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct CommKey(pub(super) usize);

impl CommKey {
    pub(crate) fn new(at: usize) -> Self {
        Self(at)
    }
}

/// What this process knows of one communicator.
pub(crate) struct CommState {
    pub(crate) id: CommId,
    /// The name in frames; it changes when the communicator starts afresh, see [`super::ages`].
    pub(crate) wire: CommId,
    /// The communicator that this one was derived from.
    pub(crate) parent: Option<CommKey>,
    pub(crate) universe: UniverseId,
    /// The process of each rank, as its position in the universe.
    pub(crate) members: Vec<Rank>,
    pub(crate) me: Rank,
    pub(crate) commit: Commit,
    pub(crate) interrupts: Interrupts,
    /// `None` for the communicator of a whole universe, which carries no operations.
    pub(crate) data: Option<DataId>,
    /// The data context of blocks that start now.
    pub(crate) context: u32,
    /// The highest context that is known to be there, or not to come.
    pub(super) settled_context: u32,
    /// A block of ours in this context has a fault: what it left behind in the context could
    /// meet later blocks, so these are not committed either.
    pub(crate) tainted: Option<u32>,
    pub(crate) next_block: BlockId,
    /// How many communicators were derived from this one.
    pub(crate) derived: u32,
    /// For communicators that a rebuild makes again: their path in the roster, which is empty for
    /// the world.
    pub(crate) lineage: Option<Vec<u32>>,
    /// Synchronising blocks that are not decided.
    pub(crate) open: SmallVec<[BlockKey; 4]>,
    pub(crate) retired: bool,
    /// What began this age of it: the aborted block of this communicator.
    pub(super) epoch: Option<(CommKey, BlockId)>,
    /// In a state that belongs to the past of a communicator: where the present one is.
    pub(super) present: Option<CommKey>,
    /// All ranks gave it up when they decided this block of that communicator.
    pub(super) over: Option<(CommKey, BlockId)>,
    /// How many handles the application has.
    pub(crate) handles: u32,
}

impl CommState {
    pub(super) fn new(
        id: CommId,
        universe: UniverseId,
        members: Vec<Rank>,
        me: Rank,
        data: Option<DataId>,
        shape: Shape,
    ) -> Self {
        let size = members.len() as u32;
        Self {
            id,
            wire: id,
            parent: None,
            universe,
            members,
            me,
            commit: Commit::new(id, me, size).with_shape(shape),
            interrupts: Interrupts::new(me, size),
            data,
            context: 0,
            settled_context: 1,
            tainted: None,
            next_block: BlockId(0),
            derived: 0,
            lineage: None,
            open: SmallVec::new(),
            retired: false,
            epoch: None,
            present: None,
            over: None,
            handles: 0,
        }
    }

    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// Where messages of blocks that start now run.
    #[inline]
    pub(super) fn lane(&self) -> Lane {
        self.data.map_or(Lane::NOWHERE, |data| Lane { data, context: self.context })
    }

    /// True when nobody has died here, and no block is interrupted.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.commit.dead().is_empty() && self.interrupts.is_empty()
    }

    /// True for a communicator that is derived from no other: the world, and each that a C program
    /// took into use.
    pub(super) fn is_root(&self) -> bool {
        self.data.is_some() && self.parent.is_none() && self.present.is_none()
    }

    /// True for the world itself, which has all ranks, and of which everything else is derived.
    pub(crate) fn is_world(&self) -> bool {
        self.lineage.as_ref().is_some_and(Vec::is_empty)
    }

    /// The rank of a process, if it is a member.
    #[inline]
    pub(crate) fn rank_of(&self, address: Rank) -> Option<Rank> {
        if self.members.get(address.index()) == Some(&address) {
            return Some(address);
        }
        self.members.iter().position(|member| *member == address).map(Rank::from)
    }
}

pub(super) type Events = SmallVec<[Event; 4]>;

/// The effects of a machine, done at once: messages go out, events are collected.
pub(crate) struct Outlet<'a> {
    platform: &'a mut dyn Platform,
    universe: UniverseId,
    comm: CommId,
    members: &'a [Rank],
    events: &'a mut Events,
}

impl Effects for Outlet<'_> {
    #[inline]
    fn send(&mut self, to: Rank, message: Message) {
        let frame = codec::encode(self.comm, &message);
        self.platform.send(self.universe, self.members[to.index()], &frame);
    }

    #[inline]
    fn send_yes(&mut self, to: Rank, yes: Yes) {
        self.platform.send_yes(self.universe, self.members[to.index()], self.comm, &yes);
    }

    #[inline]
    fn send_fused(&mut self, to: Rank, yes: Yes, values: &Values) {
        let (universe, to) = (self.universe, self.members[to.index()]);
        self.platform.send_fused(universe, to, self.comm, &yes, values);
    }

    #[inline]
    fn emit(&mut self, event: Event) {
        self.events.push(event);
    }
}

impl Engine {
    /// This process leaves: what handles that are left ask for is refused from now on.
    pub(crate) fn close_comms(&mut self) {
        for comm in &mut self.comms {
            (comm.data, comm.retired) = (None, true);
        }
        self.serving.clear();
        self.news += 1;
    }

    /// One turn of a communicator's commit machine, with all that follows from it.
    #[inline]
    pub(crate) fn drive(&mut self, key: CommKey, turn: impl FnOnce(&mut Commit, &mut Outlet<'_>)) {
        let mut events = Events::new();
        let (commit, _, mut outlet) = self.machines(key, &mut events);
        turn(commit, &mut outlet);
        if events.len() > 1 {
            // Other events can lead to a vote, after which the machine may forget a decision.
            events.sort_by_key(|event| !matches!(event, Event::Decided(_)));
        }
        for event in &events {
            self.handle_event(key, event);
        }
    }

    /// Floods the news that a block is doomed.
    pub(crate) fn interrupt(&mut self, key: CommKey, block: BlockId) {
        let mut events = Events::new();
        let (commit, interrupts, mut outlet) = self.machines(key, &mut events);
        interrupts.handle_interrupt(block, commit.dead(), &mut outlet);
        for event in &events {
            self.handle_event(key, event);
        }
    }

    /// Passes interruptions on around a rank that has died.
    pub(super) fn interrupt_around(&mut self, key: CommKey, dead: Rank) {
        let mut events = Events::new();
        let (commit, interrupts, mut outlet) = self.machines(key, &mut events);
        interrupts.handle_failure(dead, commit.dead(), &mut outlet);
    }

    #[inline]
    fn machines<'a>(
        &'a mut self,
        key: CommKey,
        events: &'a mut Events,
    ) -> (&'a mut Commit, &'a mut Interrupts, Outlet<'a>) {
        self.news += 1;
        let comm = &mut self.comms[key.0];
        let outlet = Outlet {
            platform: &mut *self.platform,
            universe: comm.universe,
            comm: comm.wire,
            members: &comm.members,
            events,
        };
        (&mut comm.commit, &mut comm.interrupts, outlet)
    }
}
