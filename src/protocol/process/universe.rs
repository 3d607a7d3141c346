//! Universes, whose processes are on nodes, and communicators of them to which nothing has
//! happened.

use alloc::vec::Vec;

use super::{Communicator, Process};
use crate::{
    ids::{CommId, DataId, UniverseId},
    protocol::placement::Nodes,
    rank::{Rank, RankSet},
};

/// What is known about the processes of a universe.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Universe {
    pub(super) id: UniverseId,
    pub(super) dead: RankSet,
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

    pub(super) fn universe_mut(&mut self, id: UniverseId) -> &mut Universe {
        let known = self.universes.iter().position(|known| known.id == id);
        let at = known.unwrap_or_else(|| {
            let (dead, silent, nodes) = (RankSet::new(), false, Vec::new());
            self.universes.push(Universe { id, dead, silent, nodes });
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
        let known = self.universes.iter().find(|known| known.id == universe);
        let node = |member: &Rank| known?.nodes.get(member.index()).copied();
        let nodes: Option<Vec<u32>> = members.iter().map(node).collect();
        let mut fresh = Communicator::new(id, universe, (members, me), data, self.shape);
        if let Some(nodes) = nodes {
            let nodes = Nodes::new(&nodes);
            fresh.commit = fresh.commit.on_nodes(&nodes);
            fresh.interrupts = fresh.interrupts.on_nodes(&nodes);
        }
        fresh
    }
}
