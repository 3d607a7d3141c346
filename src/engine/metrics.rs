//! Numbers about a process, as events of the crate `tracing` with the target `fampi::metrics`.
//!
//! What is counted is rare, or known anyway, so a run without faults pays nothing for it. The
//! crate's documentation has the table of the events.

use super::{Engine, Phase, platform::UniverseId};
use crate::rank::{Rank, RankSet};

/// What is counted until this process leaves.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Blocks that did not commit.
    pub(super) faulty: u64,
    /// Processes, by their numbers in the job, whose deaths were counted.
    dead: RankSet,
    deaths: u64,
}

/// Who told of a death first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Source {
    /// The platform: MPI's own report, the watcher or the observer.
    Platform,
    /// A request that failed.
    Request,
    /// Another rank, in a message of the agreement.
    Ranks,
}

impl Engine {
    /// A process of a universe is dead, which has this number in the job. One that is in several
    /// universes counts once.
    pub(super) fn count_death(
        &mut self,
        (universe, rank): (UniverseId, Rank),
        number: Option<u32>,
        source: Source,
    ) {
        if !number.is_none_or(|number| self.tally.dead.insert(Rank::new(number))) {
            return;
        }
        self.tally.deaths += 1;
        let source = self.platform.who_told(universe, rank).unwrap_or(match source {
            Source::Platform => "mpi",
            Source::Request => "request",
            Source::Ranks => "ranks",
        });
        tracing::info!(target: "fampi::metrics", process = number, source, "death");
    }

    /// This process leaves.
    pub(crate) fn sum_up(&self) {
        let rank = self.job.world.map(|world| self.comm(world).me.number());
        let is_open = |phase: &Phase| !matches!(phase, Phase::Free | Phase::Decided { .. });
        let open = self.blocks.iter().filter(|block| is_open(&block.phase)).count() as u64;
        let Self { serial: blocks, tally: Tally { faulty, deaths, .. }, .. } = self;
        let committed = blocks.saturating_sub(faulty + open);
        let generation = self.job.roster.generation;
        tracing::info!(
            target: "fampi::metrics", rank, blocks, committed, faulty, deaths, generation, "left"
        );
    }
}
