//! Universes, whose processes are on nodes; communicators of them to which nothing has happened;
//! and a death: every communicator that has the process hears of it, and what needs the process
//! fails.

use alloc::vec::Vec;

use super::{Address, Chosen, CommKey, Command, Communicator, Events, Outlet, Process, Source};
use crate::{
    fault::{Cause, FaultCode},
    ids::{CommId, DataId, UniverseId},
    protocol::{placement::Nodes, planted::planted},
    rank::{Rank, RankSet},
};

/// What is known about the processes of a universe.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Universe {
    pub(super) id: UniverseId,
    pub(super) dead: RankSet,
    /// How they have died, of those of whom this process was told.
    pub(super) causes: Vec<(Rank, Cause)>,
    /// True when nothing is sent or received there any more.
    pub(super) silent: bool,
    /// The nodes of its processes; nothing where they are unknown.
    nodes: Vec<u32>,
}

impl Process {
    /// Says on which nodes the processes of a universe are: numbers of any kind, equal for
    /// processes that share memory, which all processes of the universe give alike. Before a
    /// communicator of it is registered.
    pub fn put_on_nodes(&mut self, universe: UniverseId, nodes: Vec<u32>) {
        self.universe_mut(universe).nodes = nodes;
    }

    /// The nodes of the ranks of a communicator, in their order; nothing where they are unknown.
    pub fn nodes(&self, key: CommKey) -> Vec<u32> {
        let Communicator { universe, members, .. } = self.comm(key);
        self.nodes_of(*universe, members).unwrap_or_default()
    }

    fn nodes_of(&self, universe: UniverseId, members: &[Rank]) -> Option<Vec<u32>> {
        let known = self.universes.iter().find(|known| known.id == universe)?;
        members.iter().map(|member| known.nodes.get(member.index()).copied()).collect()
    }

    pub(super) fn universe_mut(&mut self, id: UniverseId) -> &mut Universe {
        let known = self.universes.iter().position(|known| known.id == id);
        let at = known.unwrap_or_else(|| {
            let (dead, silent) = (RankSet::new(), false);
            let (causes, nodes) = (Vec::new(), Vec::new());
            self.universes.push(Universe { id, dead, causes, silent, nodes });
            self.universes.len() - 1
        });
        &mut self.universes[at]
    }

    /// A communicator that nothing has happened to, with its members where they are.
    pub(super) fn fresh(
        &self,
        id: CommId,
        universe: UniverseId,
        (members, me): (Vec<Rank>, Rank),
        data: Option<DataId>,
    ) -> Communicator {
        let nodes = self.nodes_of(universe, &members);
        let mut fresh = Communicator::new(id, universe, (members, me), data, self.shape);
        if let Some(nodes) = nodes {
            let nodes = Nodes::new(&nodes);
            fresh.commit = fresh.commit.on_nodes(&nodes);
            fresh.interrupts = fresh.interrupts.on_nodes(&nodes);
        }
        fresh
    }

    /// A process of a universe died. A death is never taken back.
    pub fn handle_death(&mut self, address: Address, source: Source, out: &mut impl Outlet) {
        self.note_death(address, source, out);
        self.follow_up(out);
    }

    pub(super) fn note_death(&mut self, address: Address, source: Source, out: &mut impl Outlet) {
        let (universe, process) = address;
        let Some(known) = self.universes.iter_mut().find(|known| known.id == universe) else {
            // It is made, and not all have confirmed that: the rank that adopts it has to know.
            if !planted!(DropEarlyDeaths) {
                self.early_deaths.push(address);
            }
            return;
        };
        if !known.dead.insert(process) {
            return;
        }
        out.command(Command::Died(address, source));
        for key in self.comms() {
            if self.comm(key).universe != universe {
                continue;
            }
            let Some(rank) = self.comm(key).rank_of(process) else { continue };
            self.drive(key, out, |commit, out| commit.handle_failure(rank, out));
            self.flood_around(key, rank, out);
            self.fail_dependents(key, rank, out);
        }
    }

    /// How a process has died of whose death a [`Command::Died`] has told, as far as it is to be
    /// known here: what it was to be part of waits for that.
    pub fn handle_cause(&mut self, address: Address, cause: Cause, out: &mut impl Outlet) {
        let (universe, process) = address;
        let Some(known) = self.universes.iter_mut().find(|known| known.id == universe) else {
            return;
        };
        let at = known.causes.partition_point(|(told, _)| *told < process);
        known.causes.insert(at, (process, cause));
        for key in self.comms() {
            let state = self.comm(key);
            if let Some(rank) = state.rank_of(process).filter(|_| state.universe == universe) {
                self.drive(key, out, |commit, out| commit.handle_cause(rank, cause, out));
            }
        }
        self.follow_up(out);
    }

    /// Tells the machine of a new communicator how those of its ranks have died of whom this
    /// process was told.
    pub(super) fn pass_causes_on(&mut self, key: CommKey, out: &mut impl Outlet) {
        let universe = self.comm(key).universe;
        let known = self.universes.iter().find(|known| known.id == universe);
        for (process, cause) in known.map(|known| known.causes.clone()).unwrap_or_default() {
            if let Some(rank) = self.comm(key).rank_of(process) {
                self.drive(key, out, |commit, out| commit.handle_cause(rank, cause, out));
            }
        }
    }

    /// The ranks of a communicator that reports have named dead: its own, and those of others with
    /// all its processes.
    pub fn told_dead(&self, key: CommKey) -> RankSet {
        let state = self.comm(key);
        let mut told = state.commit.reported_dead().clone();
        for other in self.comms() {
            let above = self.comm(other);
            let has_all = || state.members.iter().all(|it| above.rank_of(*it).is_some());
            if other != key && above.universe == state.universe && has_all() {
                told.union_with(&self.places(other, above.commit.reported_dead(), key));
            }
        }
        told
    }

    /// The ranks that processes of a communicator have in another one, as far as they are in it.
    pub fn places(&self, of: CommKey, ranks: &RankSet, there: CommKey) -> RankSet {
        let (from, to) = (self.comm(of), self.comm(there));
        let place = |rank: Rank| to.rank_of(*from.members.get(rank.index())?);
        let known = ranks.iter().filter(|_| from.universe == to.universe);
        known.filter_map(place).collect()
    }

    /// Passes interruptions on around a rank that has died.
    fn flood_around(&mut self, key: CommKey, dead: Rank, out: &mut impl Outlet) {
        let mut events = Events::new();
        let (commit, interrupts, _, mut adapter) =
            self.comms[key.index()].machines(out, &mut events);
        interrupts.handle_failure(dead, commit.dead(), &mut adapter);
        debug_assert!(events.is_empty(), "a death interrupts nothing by itself");
    }

    /// A member died: what cannot complete without it fails now, whatever MPI says later.
    fn fail_dependents(&mut self, comm: CommKey, dead: Rank, out: &mut impl Outlet) {
        for key in self.used_blocks() {
            let block = self.block(key);
            if block.comm == comm && block.is_running() {
                let (code, chosen) = (FaultCode::ProcessFailed, Chosen::Needing(dead));
                out.command(Command::FailRequests(key, code, chosen));
            }
        }
    }
}
