//! Counts what is rare, and names what happens for those who listen.
//!
//! The numbers are events of the crate `tracing` with the target `fampi::metrics`.
//!
//! What is counted is rare, or known anyway, so a run without faults pays nothing for it. The
//! crate's documentation has the table of the events.

use core::cell::Cell;

use super::job::Job;
use crate::{
    protocol::{
        membership::Membership,
        process::{Address, BlockKey, CommKey, Communicator, Process, Source},
    },
    rank::{Rank, RankSet},
    seam::{
        entry::{CommName, Entry},
        platform::Platform,
        pulse::Pulse,
    },
};

/// What this process shows of itself to others.
pub(super) struct Metrics {
    /// Where a watchdog looks whether this process makes progress.
    pub(super) pulse: Option<Pulse>,
    /// Blocks that did not commit.
    pub(super) faulty: u64,
    /// Processes, by their numbers in the job, whose deaths were counted.
    dead: RankSet,
    deaths: u64,
    /// Intervals in which the observer of this node was kept from testing, that were told.
    stalls: Cell<u64>,
}

impl Metrics {
    pub(super) fn new(pulse: Option<Pulse>) -> Self {
        Self { pulse, faulty: 0, dead: RankSet::default(), deaths: 0, stalls: Cell::new(0) }
    }

    /// Counts a death: a process that is in several universes counts once.
    pub(super) fn count_death(
        &mut self,
        (universe, dead): Address,
        source: Source,
        (process, job, platform): (&Process, &Job, &dyn Platform),
    ) -> Entry {
        let number = job.numbers_of(universe).get(dead.index()).copied();
        let comms = process.comms().map(|key| process.comm(key));
        let both = comms.filter(|comm| comm.universe == universe && comm.data.is_some());
        let ranks = both.filter_map(|comm| Some((comm.me, comm.rank_of(dead)?))).collect();
        let is_new = number.is_none_or(|number| self.dead.insert(Rank::new(number)));
        self.deaths += u64::from(is_new);
        let source = is_new.then(|| {
            platform.who_told(universe, dead).unwrap_or(match source {
                Source::Platform => "mpi",
                Source::Request => "request",
                Source::Ranks => "ranks",
            })
        });
        Entry::Died { process: number, rank: dead, source, ranks }
    }

    /// The entry of what is new among so many intervals in which the observer was kept from
    /// testing.
    pub(super) fn count_stalls(&self, stalls: u64) -> Option<Entry> {
        let new = stalls.saturating_sub(self.stalls.replace(stalls));
        (new > 0).then_some(Entry::Stalled { intervals: new })
    }

    /// True when this process knows of a death.
    pub(super) fn has_losses(&self) -> bool {
        self.deaths > 0
    }

    /// The sums of this process, which leaves.
    pub(super) fn sums(&self, process: &Process, job: &Job) -> Entry {
        let rank = job.world.map(|world| process.comm(world).me.number());
        let (blocks, open) = (process.started(), process.undecided() as u64);
        let Self { faulty, deaths, .. } = *self;
        let committed = blocks.saturating_sub(faulty + open);
        let generation = job.roster.generation;
        Entry::Left { rank, generation, blocks, committed, faulty, deaths }
    }
}

/// The entry of a census that has made one group of the other.
pub(super) fn census(before: &Membership, after: &Membership) -> Entry {
    let turned = |rank: &Rank| before.counter(*rank) != after.counter(*rank);
    let returned = |rank: &Rank| before.is_benched(*rank);
    Entry::Counted {
        epoch: after.epoch(),
        members: after.members().count(),
        benched: after.benched().filter(turned).collect(),
        rejoined: after.members().filter(returned).collect(),
    }
}

/// The entry of a block that has started.
pub(super) fn started(process: &Process, key: BlockKey) -> Entry {
    let block = process.block(key);
    let comm = name_of(process, block.comm);
    Entry::Started { block: block.serial, number: block.scope, level: block.level, comm }
}

/// The name of a communicator for those who listen.
pub(super) fn name_of(process: &Process, key: CommKey) -> CommName {
    let comm: &Communicator = process.comm(key);
    match comm.data {
        None => CommName::Universe,
        Some(_) if comm.is_world() => CommName::World,
        Some(_) => CommName::Other(comm.id.0),
    }
}

/// The place of this process in the roster of the job.
pub(super) fn place(process: &Process, job: &Job) -> Entry {
    let roster = &job.roster;
    let me = job.universe.map(|key| process.comm(key).me);
    let rank = me.and_then(|me| roster.rank_of(me));
    let role = match rank {
        None => "spare",
        Some(_) if job.replacement => "replacement",
        Some(_) => "rank",
    };
    Entry::Placed {
        process: me.and_then(|me| roster.processes.get(me.index()).copied()),
        rank: rank.map(|rank| (rank, roster.origins[rank.index()])),
        generation: roster.generation,
        role,
    }
}
