//! Who keeps whose copy, and how ranks tell each other what they have: for the world of a job,
//! whose roster says who stands for whom, and for the communicators of a program that owns its MPI.

use alloc::vec::Vec;

use crate::{
    engine::{BlockKey, CommKey, Engine, contents},
    error::Error,
    protocol::redundancy::Redundancy,
    rank::Rank,
};

/// What differs between the two. A communicator has two ranks or more where ranks are asked for.
pub(super) trait Partners {
    /// The version of a state that a block protects; `commits` is the number of the block.
    fn next_version(&self, last: u64, commits: u64) -> u64;

    /// True when a communicator has the ranks of the one on which a state was protected, and that
    /// was whole.
    fn is_like(&self, engine: &Engine, comm: CommKey, over: Option<CommKey>) -> bool;

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
    fn next_version(&self, last: u64, _: u64) -> u64 {
        last + 1
    }

    fn is_like(&self, _: &Engine, _: CommKey, _: Option<CommKey>) -> bool {
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
    /// A replacement may have begun anew, beside survivors that have not.
    fn next_version(&self, _: u64, commits: u64) -> u64 {
        commits + 1
    }

    fn is_like(&self, engine: &Engine, comm: CommKey, over: Option<CommKey>) -> bool {
        let place = |comm: CommKey| (engine.comm(comm).me, engine.comm(comm).size());
        over.is_some_and(|over| place(over) == place(comm))
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

    /// The rank that keeps our copy and the rank whose copy we keep; `None` when we are alone.
    pub(super) fn partners(&self, comm: CommKey) -> (Option<Rank>, Option<Rank>) {
        let (ranks, me) = (self.comm(comm).size(), self.comm(comm).me);
        let ward = || self.behind(comm, me, ranks - ranks / 2);
        (self.partner_over(me, comm), (ranks > 1).then(ward))
    }

    /// The rank that keeps the copy of a rank of a communicator.
    pub(super) fn partner_over(&self, rank: Rank, comm: CommKey) -> Option<Rank> {
        let ranks = self.comm(comm).size();
        (ranks > 1).then(|| self.behind(comm, rank, ranks / 2))
    }

    /// The rank that comes so many places behind another one, at most as many as there are.
    fn behind(&self, comm: CommKey, rank: Rank, ranks: u32) -> Rank {
        let partnership = self.partnership();
        let place = partnership.place(self, comm, rank);
        partnership.rank_at(self, comm, (place + ranks) % self.comm(comm).size())
    }

    /// The groups of ranks that share codes, each in the order of their places, and the number of
    /// the group that a rank is in.
    pub(super) fn groups(
        &self,
        comm: CommKey,
        redundancy: Redundancy,
        rank: Rank,
    ) -> (Vec<Vec<Rank>>, usize) {
        let (size, partnership) = (self.comm(comm).size(), self.partnership());
        let groups = redundancy.groups(size);
        let members = |group: u32| {
            let places = (group..size).step_by(groups as usize);
            places.map(|place| partnership.rank_at(self, comm, place)).collect()
        };
        let mine = partnership.place(self, comm, rank) % groups;
        ((0..groups).map(members).collect(), mine as usize)
    }
}
