//! Numbers about a process, as events of the crate `tracing` with the target `fampi::metrics`.
//!
//! What is counted is rare, or known anyway, so a run without faults pays nothing for it. The
//! crate's documentation has the table of the events.

use super::{Engine, Source, entry::Entry};
use crate::{
    protocol::process::Address,
    rank::{Rank, RankSet},
};

/// What is counted until this process leaves.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Blocks that did not commit.
    pub(super) faulty: u64,
    /// Processes, by their numbers in the job, whose deaths were counted.
    dead: RankSet,
    deaths: u64,
}

impl Engine {
    /// A process is dead. One that is in several universes counts once.
    pub(super) fn note_death(&mut self, (universe, process): Address, source: Source) {
        let number = self.numbers_of(universe).get(process.index()).copied();
        let comms = self.process.comms().map(|key| self.comm(key));
        let both = comms.filter(|comm| comm.universe == universe && comm.data.is_some());
        let ranks = both.filter_map(|comm| Some((comm.me, comm.rank_of(process)?))).collect();
        let is_new = number.is_none_or(|number| self.tally.dead.insert(Rank::new(number)));
        self.tally.deaths += u64::from(is_new);
        let source = is_new.then(|| {
            self.platform.who_told(universe, process).unwrap_or(match source {
                Source::Platform => "mpi",
                Source::Request => "request",
                Source::Ranks => "ranks",
            })
        });
        self.tell(&Entry::Died { process: number, rank: process, source, ranks });
    }

    /// This process leaves.
    pub(crate) fn sum_up(&self) {
        let rank = self.job.world.map(|world| self.comm(world).me.number());
        let (blocks, open) = (self.process.started(), self.process.undecided() as u64);
        let Tally { faulty, deaths, .. } = self.tally;
        let committed = blocks.saturating_sub(faulty + open);
        let generation = self.job.roster.generation;
        self.tell(&Entry::Left { rank, generation, blocks, committed, faulty, deaths });
    }
}
