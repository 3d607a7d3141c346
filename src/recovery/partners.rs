//! Who keeps whose copy, and how ranks tell each other what they have: for the world of a job,
//! whose roster says who stands for whom, and for the communicators of a program that owns its MPI.

use alloc::{rc::Rc, vec::Vec};

use crate::{
    engine::{BlockKey, CommKey, Engine, contents},
    error::Error,
    protocol::{keepers::Keepers, redundancy::Redundancy},
    rank::Rank,
};

/// What differs between the two. A communicator has two ranks or more where ranks are asked for.
pub(super) trait Partners {
    /// True when a communicator has the ranks of the one on which a state was protected, and that
    /// was whole.
    fn is_like(&self, engine: &Engine, comm: CommKey, over: Option<CommKey>) -> bool;

    /// True when a state that was protected over a communicator goes to the checkpoints that are
    /// saved over another one.
    fn is_of(&self, comm: CommKey, over: Option<CommKey>) -> bool;

    /// True when ranks of a communicator may lack a state that was protected over another one.
    fn has_replacements(&self, engine: &Engine, comm: CommKey, over: Option<CommKey>) -> bool;

    /// The place of a rank among those of a communicator, which recoveries do not change.
    fn place(&self, engine: &Engine, comm: CommKey, rank: Rank) -> u32;

    /// The rank in such a place.
    fn rank_at(&self, engine: &Engine, comm: CommKey, place: u32) -> Rank;

    /// What all ranks of a block have said, one after the other in the order of the ranks.
    fn tell(&self, engine: &mut Engine, key: BlockKey, mine: &[u64]) -> Result<Vec<u64>, Error>;
}

/// The world of a job, and what was derived from it.
struct OfJob;

/// Communicators of a program that owns its MPI: each is a world of its own, which the program
/// rebuilds.
struct OfProgram;

impl Partners for OfJob {
    fn is_like(&self, _: &Engine, _: CommKey, _: Option<CommKey>) -> bool {
        true
    }

    fn is_of(&self, _: CommKey, _: Option<CommKey>) -> bool {
        true
    }

    fn has_replacements(&self, engine: &Engine, comm: CommKey, _: Option<CommKey>) -> bool {
        Some(comm) == engine.job.world
    }

    fn place(&self, engine: &Engine, comm: CommKey, rank: Rank) -> u32 {
        let is_world = Some(comm) == engine.job.world;
        if is_world { engine.job.roster.origins[rank.index()] } else { rank.number() }
    }

    fn rank_at(&self, engine: &Engine, comm: CommKey, place: u32) -> Rank {
        let is_world = Some(comm) == engine.job.world;
        if is_world { engine.job.roster.standing_for(place) } else { Rank::new(place) }
    }

    fn tell(&self, engine: &mut Engine, key: BlockKey, mine: &[u64]) -> Result<Vec<u64>, Error> {
        engine.gather_words(key, mine)
    }
}

impl Partners for OfProgram {
    fn is_like(&self, engine: &Engine, comm: CommKey, over: Option<CommKey>) -> bool {
        let place = |comm: CommKey| (engine.comm(comm).me, engine.comm(comm).size());
        let (me, size) = place(comm);
        let is_of_part = || engine.job.copies.part == Some((me.number(), size));
        over.map_or_else(is_of_part, |over| place(over) == (me, size))
    }

    fn is_of(&self, comm: CommKey, over: Option<CommKey>) -> bool {
        over == Some(comm)
    }

    fn has_replacements(&self, engine: &Engine, comm: CommKey, over: Option<CommKey>) -> bool {
        let universe = |comm: CommKey| engine.comm(comm).universe;
        over.is_none_or(|over| universe(over) != universe(comm))
    }

    fn place(&self, _: &Engine, _: CommKey, rank: Rank) -> u32 {
        rank.number()
    }

    fn rank_at(&self, _: &Engine, _: CommKey, place: u32) -> Rank {
        Rank::new(place)
    }

    fn tell(&self, engine: &mut Engine, key: BlockKey, mine: &[u64]) -> Result<Vec<u64>, Error> {
        let tag = engine.blocks.wire_tag(key, contents::WORDS);
        engine.pass_words(key, mine, tag)
    }
}

impl Engine {
    /// Which of the two this process is in.
    pub(super) fn partnership(&self) -> &'static dyn Partners {
        if self.job.roster.origins.is_empty() { &OfProgram } else { &OfJob }
    }

    /// Who keeps what among the ranks of a communicator, by their places and where these are now.
    pub(super) fn keepers(&self, comm: CommKey) -> Rc<Keepers> {
        Rc::new(Keepers::new(self.comm(comm).size(), &self.nodes_by_place(comm)))
    }

    /// On which nodes the places of a communicator are; nothing where that is unknown.
    pub(crate) fn nodes_by_place(&self, comm: CommKey) -> Vec<u32> {
        let (size, partnership) = (self.comm(comm).size(), self.partnership());
        let nodes = self.process.nodes(comm);
        let node = |place| nodes.get(partnership.rank_at(self, comm, place).index()).copied();
        let nodes: Option<Vec<u32>> = (0..size).map(node).collect();
        nodes.unwrap_or_default()
    }

    /// The rank that keeps the copy of a rank of a communicator; `None` when that is alone.
    pub(super) fn partner(&self, rank: Rank, comm: CommKey, keepers: &Keepers) -> Option<Rank> {
        self.by_place(rank, comm, |place| keepers.partner(place))
    }

    /// The rank whose copy a rank of a communicator keeps; `None` when that is alone.
    pub(super) fn ward(&self, rank: Rank, comm: CommKey, keepers: &Keepers) -> Option<Rank> {
        self.by_place(rank, comm, |place| keepers.ward(place))
    }

    fn by_place(
        &self,
        rank: Rank,
        comm: CommKey,
        find: impl Fn(u32) -> Option<u32>,
    ) -> Option<Rank> {
        let partnership = self.partnership();
        let found = find(partnership.place(self, comm, rank))?;
        Some(partnership.rank_at(self, comm, found))
    }

    /// The groups of ranks that share codes.
    pub(super) fn groups(
        &self,
        comm: CommKey,
        redundancy: Redundancy,
        keepers: &Keepers,
    ) -> Vec<Vec<Rank>> {
        let partnership = self.partnership();
        let ranks = |places: Vec<u32>| {
            places.into_iter().map(|place| partnership.rank_at(self, comm, place)).collect()
        };
        keepers.groups(redundancy).into_iter().map(ranks).collect()
    }
}
