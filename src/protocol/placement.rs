//! On which nodes the ranks of a communicator are.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use super::nodes::{MOST_MEMBERS, Seat};
use crate::{
    ids::mix,
    rank::{Rank, RankSet},
};

/// The nodes of all ranks, the same on each of them; clones share what they say. It counts for
/// nothing where there is one node, or where nodes are unknown.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Nodes(Option<Arc<Placement>>);

/// Some of the ranks, node by node. Nodes come in the order of their first ranks.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Placement {
    /// The node of each rank, taken or left out, below the number of ranks.
    nodes: Vec<u32>,
    /// The ranks that are taken, in the order of their nodes, those of one node in their own.
    order: Vec<Rank>,
    /// Where each node begins in that order, and where the last one ends.
    starts: Vec<u32>,
    /// Where each rank is in that order; anything for those that are left out.
    places: Vec<u32>,
    /// A number for the nodes of all ranks.
    fingerprint: u64,
}

/// The node of each rank, numbered in the order of their first ranks.
pub(super) fn numbered(nodes: &[u32]) -> Vec<u32> {
    let mut known = BTreeMap::new();
    let number = |node: &u32| {
        let next = known.len() as u32;
        *known.entry(*node).or_insert(next)
    };
    nodes.iter().map(number).collect()
}

/// A number for nodes that are numbered so.
pub(super) fn fingerprint(nodes: &[u32]) -> u64 {
    mix(nodes.iter().fold(0, |all, node| mix(all ^ u64::from(*node))))
}

impl Nodes {
    /// One for each rank: numbers of any kind, equal for ranks that share memory.
    pub fn new(nodes: &[u32]) -> Self {
        let nodes = numbered(nodes);
        let fingerprint = fingerprint(&nodes);
        Self(Placement::of(nodes, fingerprint, &RankSet::new()))
    }

    /// A number for these nodes; 0 where they count for nothing.
    pub fn fingerprint(&self) -> u64 {
        self.0.as_ref().map_or(0, |all| all.fingerprint)
    }

    pub(super) fn placement(&self) -> Option<Arc<Placement>> {
        self.0.clone()
    }

    /// Where a rank is when ranks are counted node by node, as in the tree of the slow path and in
    /// the graph of an interruption: most neighbours there share a node.
    pub fn place(&self, rank: Rank) -> Rank {
        self.0.as_ref().map_or(rank, |all| Rank::new(all.places[rank.index()]))
    }

    /// The rank at such a place.
    pub fn rank(&self, place: Rank) -> Rank {
        self.0.as_ref().map_or(place, |all| all.order[place.index()])
    }

    /// The places of ranks.
    pub fn places(&self, ranks: &RankSet) -> RankSet {
        if self.0.is_none() {
            ranks.clone()
        } else {
            ranks.iter().map(|it| self.place(it)).collect()
        }
    }
}

impl Placement {
    /// Without these ranks; nothing if the others share one node.
    fn of(nodes: Vec<u32>, fingerprint: u64, out: &RankSet) -> Option<Arc<Self>> {
        let ranks = (0..nodes.len()).map(Rank::from);
        let mut order: Vec<Rank> = ranks.filter(|rank| !out.contains(*rank)).collect();
        let mut first = alloc::vec![None; nodes.len()];
        for rank in &order {
            first[nodes[rank.index()] as usize].get_or_insert(*rank);
        }
        order.sort_by_key(|rank| first[nodes[rank.index()] as usize]);
        let (mut starts, mut places) = (Vec::new(), alloc::vec![0; nodes.len()]);
        let mut last = None;
        for (at, rank) in order.iter().enumerate() {
            let (at, node) = (at as u32, nodes[rank.index()]);
            let is_full = starts.last().is_some_and(|start| at - start == MOST_MEMBERS);
            if last.replace(node) != Some(node) || is_full {
                starts.push(at);
            }
            places[rank.index()] = at;
        }
        let several = starts.len() > 1;
        starts.push(order.len() as u32);
        several.then(|| Arc::new(Self { nodes, order, starts, places, fingerprint }))
    }

    /// The placement without these ranks; nothing if the others share one node.
    pub(super) fn without(&self, out: &RankSet) -> Option<Arc<Self>> {
        Self::of(self.nodes.clone(), self.fingerprint, out)
    }

    pub(super) fn seat(&self, rank: Rank) -> Seat {
        let place = self.places[rank.index()];
        let node = self.starts.partition_point(|start| *start <= place) as u32 - 1;
        let member = place - self.starts[node as usize];
        let (nodes, members) = (self.starts.len() as u32 - 1, self.members(node).len() as u32);
        Seat { node, nodes, member, members }
    }

    /// The ranks of a node, in the order of their seats.
    pub(super) fn members(&self, node: u32) -> &[Rank] {
        let [start, end] = [node, node + 1].map(|node| self.starts[node as usize] as usize);
        &self.order[start..end]
    }
}
