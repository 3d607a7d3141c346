//! States what happens to this process, and counts it.
//!
//! The numbers are events of the crate `tracing` with the target `fampi::metrics`.
//!
//! What is counted is rare, or known anyway, so a run without faults pays nothing for it. The
//! crate's documentation has the table of the events.

use tracing::level_filters::LevelFilter;

use super::{BlockKey, CommKey, Engine, Source};
use crate::{
    protocol::process::Address,
    rank::{Rank, RankSet},
    seam::{
        entry::{self, CommName, Entry},
        trace,
    },
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

impl Engine {
    /// States what happens, which is rare.
    pub(crate) fn tell(&self, entry: &Entry) {
        // The trace of a process ends when it has left.
        if self.process.has_left() {
            entry.emit();
        } else {
            entry::tell(entry);
        }
    }

    /// States what happens in every block, if that is recorded or has a subscriber.
    #[inline]
    pub(super) fn tell_often(&self, entry: impl FnOnce(&Self) -> Entry) {
        if trace::is_recorded() || LevelFilter::current() == LevelFilter::TRACE {
            self.tell(&entry(self));
        }
    }

    pub(super) fn start_entry(&self, key: BlockKey) -> Entry {
        let block = self.block(key);
        let comm = self.comm_name(block.comm);
        Entry::Started { block: block.serial, number: block.scope, level: block.level, comm }
    }

    pub(super) fn comm_name(&self, key: CommKey) -> CommName {
        let comm = self.comm(key);
        match comm.data {
            None => CommName::Universe,
            Some(_) if comm.is_world() => CommName::World,
            Some(_) => CommName::Other(comm.id.0),
        }
    }

    /// The place of this process in the roster of the job.
    pub(crate) fn place_entry(&self) -> Entry {
        let roster = &self.job.roster;
        let me = self.job.universe.map(|key| self.comm(key).me);
        let rank = me.and_then(|me| roster.rank_of(me));
        let role = match rank {
            None => "spare",
            Some(_) if self.job.replacement => "replacement",
            Some(_) => "rank",
        };
        Entry::Placed {
            process: me.and_then(|me| roster.processes.get(me.index()).copied()),
            rank: rank.map(|rank| (rank, roster.origins[rank.index()])),
            generation: roster.generation,
            role,
        }
    }
}
