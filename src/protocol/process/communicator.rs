//! What a process knows of one communicator.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::{Acknowledged, NO_BLOCK, Patience, patience::Stages};
use crate::{
    fault::FaultCode,
    ids::{BlockId, BlockKey, CommId, CommKey, DataId, UniverseId},
    protocol::{commit::Commit, exchange::Shape, interrupt::Interrupts, riders::Riders},
    rank::{Rank, RankSet},
};

/// What a process knows of one communicator.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Communicator {
    /// Its name for users.
    pub id: CommId,
    /// Its name in messages, which changes when the communicator starts afresh.
    pub wire: CommId,
    /// The communicator that this one was derived from.
    pub parent: Option<CommKey>,
    /// The universe of its processes.
    pub universe: UniverseId,
    /// The process of each rank, as its position in the universe.
    pub members: Vec<Rank>,
    /// The rank of this process.
    pub me: Rank,
    /// The machine that decides the verdicts of its blocks.
    pub commit: Commit,
    /// The interruptions of its blocks.
    pub interrupts: Interrupts,
    /// How far the others are in its blocks, as far as this rank has asked.
    pub stages: Stages,
    /// Small collectives of its undecided blocks.
    pub riders: Riders,
    /// The deaths that the application has asked for, and how many of them it has acknowledged.
    pub acknowledged: Acknowledged,
    /// The ranks that the last census here has benched.
    pub benched: RankSet,
    /// What a death does to blocks that start now.
    pub patience: Patience,
    /// Collectives of blocks that start now leave out the ranks that reports have named dead.
    pub run_through: bool,
    /// A context, and how many collectives made of messages were started in it.
    pub collectives: (u32, u32),
    /// The platform's communicator for operations; `None` for the communicator of a whole universe,
    /// which carries none.
    pub data: Option<DataId>,
    /// The data context of blocks that start now.
    pub context: u32,
    /// The highest context that is known to be there, or not to come.
    pub settled_context: u32,
    /// The newest context in which a block here had a fault, and the agreed block that had the
    /// first one there. What that left behind could meet operations of other blocks of the context:
    /// they start no collective, and are not committed if they have operations. [`NO_BLOCK`] if
    /// only a local block has left a collective behind.
    pub tainted: Option<(u32, BlockId)>,
    /// The context of the last collective that a local block gave up, and why it did.
    pub lost: Option<(u32, FaultCode)>,
    /// The number of the next agreed block.
    pub next_block: BlockId,
    /// How many communicators were derived from this one.
    pub derived: u32,
    /// The path in the roster of a communicator that a rebuild makes again; empty for the world.
    pub lineage: Option<Vec<u32>>,
    /// Agreed blocks that are not decided.
    pub open: SmallVec<[BlockKey; 4]>,
    /// True when this process gave it up: it votes *no* on all blocks that it has not voted on.
    pub retired: bool,
    /// The aborted block that began the present epoch, and its communicator.
    pub(super) epoch: Option<(CommKey, BlockId)>,
    /// In a past epoch of a communicator: where the present one is.
    pub present: Option<CommKey>,
    /// The block with whose decision all ranks gave it up, and the communicator of that block.
    pub(super) over: Option<(CommKey, BlockId)>,
    /// How many handles the application has.
    pub handles: u32,
}

impl Communicator {
    pub(super) fn new(
        id: CommId,
        universe: UniverseId,
        (members, me): (Vec<Rank>, Rank),
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
            commit: Commit::new(id, me, size).with_shape(shape).with_causes(),
            interrupts: Interrupts::new(me, size),
            stages: Stages::default(),
            riders: Riders::default(),
            acknowledged: Acknowledged::default(),
            benched: RankSet::new(),
            patience: Patience::Prompt,
            run_through: false,
            collectives: (0, 0),
            data,
            context: 0,
            settled_context: 1,
            tainted: None,
            lost: None,
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

    /// The number of its ranks.
    #[inline]
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// True when none of its ranks is dead and none of its blocks is interrupted.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.commit.dead().is_empty() && self.interrupts.is_empty()
    }

    /// An agreed block of this context had a fault, or ([`NO_BLOCK`]) a local one has left a
    /// collective behind.
    pub fn taint(&mut self, context: u32, block: BlockId) {
        let is_known = |(newest, first)| newest > context || newest == context && first != NO_BLOCK;
        if !self.tainted.is_some_and(is_known) {
            self.tainted = Some((context, block));
        }
    }

    /// True when a block of this context had a fault.
    #[inline]
    pub fn is_tainted(&self, context: u32) -> bool {
        self.tainted.is_some_and(|(newest, _)| newest == context)
    }

    /// Why a local block gave up a collective of this context, if one did: the next collective of
    /// this rank there would meet the one that was given up.
    pub fn lost_collective(&self, context: u32) -> Option<FaultCode> {
        self.lost.filter(|(lost, _)| *lost == context).map(|(_, cause)| cause)
    }

    /// The ranks that no report has named dead: the same on all of them in blocks of one context.
    pub fn view(&self) -> impl Iterator<Item = Rank> + '_ {
        let all = (0..self.size()).map(Rank::new);
        all.filter(|rank| !self.commit.reported_dead().contains(*rank))
    }

    /// The number of the next collective made of messages among those of its context, which all
    /// ranks start in the same order.
    pub fn count_collective(&mut self, context: u32) -> u32 {
        let (of, known) = self.collectives;
        let number = if of == context { known } else { 0 };
        self.collectives = (context, number + 1);
        number
    }

    /// True when ranks are dead of which no report has told.
    pub fn has_unreported_deaths(&self) -> bool {
        self.commit.dead().len() > self.commit.reported_dead().len()
    }

    /// True for a communicator that is derived from no other: the world, and each that a C program
    /// took into use.
    pub fn is_root(&self) -> bool {
        self.data.is_some() && self.parent.is_none() && self.present.is_none()
    }

    /// True for the world itself, which has all ranks, and of which everything else is derived.
    pub fn is_world(&self) -> bool {
        self.lineage.as_ref().is_some_and(Vec::is_empty)
    }

    /// True when it was given up by all ranks.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// The rank of a process, if it is a member.
    #[inline]
    pub fn rank_of(&self, process: Rank) -> Option<Rank> {
        if self.members.get(process.index()) == Some(&process) {
            return Some(process);
        }
        self.members.iter().position(|member| *member == process).map(Rank::from)
    }
}
