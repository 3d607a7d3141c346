//! Who is where at the launch: nodes in the order of the ring, and the processes of each.
//!
//! All observers of a job have the same layout, and one that lives in memory once can be shared.

use alloc::vec::Vec;

use super::{Node, Rank};

/// The nodes and processes of the launch.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Layout {
    /// Nodes by their place in the ring.
    ring: Vec<Node>,
    /// Places in the ring, by node.
    places: Vec<u32>,
    /// Nodes by the rank of a process.
    nodes_of: Vec<Node>,
    /// Ranks, node after node; those of one begin where `begins` says.
    ranks: Vec<Rank>,
    begins: Vec<u32>,
}

impl Layout {
    /// A layout of the nodes in this ring, of which every number below their count is in it once,
    /// and of processes on these nodes, by rank. `None` for what is no such thing.
    pub fn new(ring: Vec<Node>, nodes_of: Vec<Node>) -> Option<Self> {
        let nodes = ring.len();
        let mut places = alloc::vec![u32::MAX; nodes];
        for (place, node) in ring.iter().enumerate() {
            let entry = places.get_mut(node.0 as usize).filter(|entry| **entry == u32::MAX)?;
            *entry = place as u32;
        }
        if ring.is_empty() || nodes_of.iter().any(|node| node.0 as usize >= nodes) {
            return None;
        }
        let mut ranks: Vec<Rank> = (0..nodes_of.len() as u32).map(Rank).collect();
        ranks.sort_by_key(|rank| nodes_of[rank.index()]);
        let begins = (0..=nodes as u32)
            .map(|node| ranks.partition_point(|rank| nodes_of[rank.index()].0 < node) as u32)
            .collect();
        Some(Self { ring, places, nodes_of, ranks, begins })
    }

    /// Nodes in a ring by number, with so many processes on each, by rank one node after another.
    ///
    /// # Panics
    ///
    /// Without nodes.
    pub fn regular(nodes: u32, processes_each: u32) -> Self {
        let nodes_of = (0..nodes * processes_each).map(|rank| Node(rank / processes_each));
        let layout = Self::new((0..nodes).map(Node).collect(), nodes_of.collect());
        layout.expect("every number is in the ring once")
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.ring.len() as u32
    }

    /// True for a node of the job.
    pub fn contains(&self, node: Node) -> bool {
        node.0 < self.nodes()
    }

    /// The node on which a rank was launched.
    pub fn node_of(&self, rank: Rank) -> Option<Node> {
        self.nodes_of.get(rank.index()).copied()
    }

    /// The ranks launched on a node, ascending; none on a node that is not of the job.
    pub fn ranks_on(&self, node: Node) -> &[Rank] {
        if !self.contains(node) {
            return &[];
        }
        let at = |index: usize| self.begins[index] as usize;
        &self.ranks[at(node.0 as usize)..at(node.0 as usize + 1)]
    }

    /// All other nodes, those before this one in the ring, nearest first.
    pub fn predecessors(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        let (place, nodes) = (self.places[node.0 as usize] as usize, self.ring.len());
        (1..nodes).map(move |distance| self.ring[(place + nodes - distance) % nodes])
    }

    /// All other nodes, those after this one in the ring, nearest first.
    pub fn successors(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        let (place, nodes) = (self.places[node.0 as usize] as usize, self.ring.len());
        (1..nodes).map(move |distance| self.ring[(place + distance) % nodes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn what_is_no_ring_is_no_layout() {
        assert_eq!(Layout::new(vec![], vec![]), None);
        assert_eq!(Layout::new(vec![Node(0), Node(0)], vec![]), None);
        assert_eq!(Layout::new(vec![Node(1), Node(2)], vec![]), None);
        assert_eq!(Layout::new(vec![Node(0)], vec![Node(1)]), None);
    }

    #[test]
    fn ranks_are_found_by_node_and_nodes_by_rank() {
        let ring = [2, 0, 1].map(Node).to_vec();
        let layout = Layout::new(ring, [1, 0, 1, 1].map(Node).to_vec()).expect("a ring");
        assert_eq!(layout.ranks_on(Node(0)), [1].map(Rank));
        assert_eq!(layout.ranks_on(Node(1)), [0, 2, 3].map(Rank));
        assert!(layout.ranks_on(Node(2)).is_empty());
        assert!(layout.ranks_on(Node(u32::MAX)).is_empty());
        assert_eq!(layout.node_of(Rank(3)), Some(Node(1)));
        assert_eq!(layout.node_of(Rank(4)), None);
        assert!(layout.predecessors(Node(2)).eq([1, 0].map(Node)));
        assert!(layout.successors(Node(2)).eq([0, 1].map(Node)));
    }
}
