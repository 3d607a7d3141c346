//! Which daemons are linked with each other.
//!
//! Up to [`MESH`] nodes each is linked with each. Beyond that they stand on a ring, and each looks
//! for others at about 1, 2, 4, 8, … places ahead, as in a binomial graph: it is linked with those,
//! and with those that find it so. When nodes are lost others are found in their places. A node
//! that joins later has no place on the ring: it is linked with all.
//!
//! ```text
//!  me ─ 1 ─ 2 ──── 4 ────────── 8 ──────────────────── 16    one in each of [2^k, 2^(k+1))
//! ```
//!
//! **Guarantees.** All living nodes are connected by links among themselves, whichever are lost, as
//! each is linked with the next living one. Two nodes that know the same losses, and of the same
//! nodes that joined, agree on whether they are linked. From any node there is a way of links to
//! any other: one link if either has joined, else one on which each step leads further along the
//! ring and none beyond the other.
//!
//! Reference: Angskun, Bosilca and Dongarra, *Binomial Graph: A Scalable and Fault-Tolerant Logical
//! Network Topology* (2007). There the places of the lost stay empty; here others are found for
//! them, spread over the ring, as nodes that are lost together are often side by side.

use std::collections::{BTreeMap, BTreeSet};

use super::Node;

/// So many nodes are all linked with each other.
pub const MESH: u32 = 64;
/// How many places are tried for a link.
const TRIALS: u32 = 16;

/// The links of some nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Graph {
    /// How many are on the ring, the first of which has number 0.
    nodes: u32,
    /// How many have joined, with the numbers after those.
    joined: u32,
}

impl Graph {
    /// Of so many nodes, all on the ring.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn new(nodes: u32) -> Self {
        assert!(nodes > 0, "a job has a node");
        Self { nodes, joined: 0 }
    }

    /// The same with one more node that has joined.
    #[must_use]
    pub const fn with_one_more(self) -> Self {
        Self { joined: self.joined + 1, ..self }
    }

    /// True for a node that has joined: it is linked with all.
    pub const fn has_joined(self, node: Node) -> bool {
        node.0 >= self.nodes
    }

    /// The nodes that have joined, and this one if it has.
    fn joined(self, me: Node) -> impl Iterator<Item = Node> {
        (self.nodes..(self.nodes + self.joined).max(me.0 + 1)).map(Node)
    }

    /// How far a node is ahead of another one on the ring.
    pub const fn ahead(self, of: Node, node: Node) -> u32 {
        if node.0 >= of.0 { node.0 - of.0 } else { node.0 + self.nodes - of.0 }
    }

    /// The nodes that are linked with this one, if these live.
    pub fn neighbours(self, me: Node, lives: impl Fn(Node) -> bool) -> BTreeSet<Node> {
        let is_other = |node: &Node| *node != me && lives(*node);
        let joined = self.joined(me).filter(is_other);
        let others = (0..self.nodes).map(Node).filter(is_other);
        if self.has_joined(me) {
            return others.chain(joined).collect();
        }
        let mut found: BTreeSet<Node> = self.found_by(me, &lives).chain(joined).collect();
        found.extend(self.living_after(me, &lives, |ahead| self.nodes - ahead));
        found.extend(others.filter(|node| {
            let ahead = self.ahead(*node, me);
            self.at(*node, ahead.ilog2(), &lives) == Some(me)
        }));
        found
    }

    /// The living nodes that this one looks for: the next one, and others further ahead.
    fn found_by(self, me: Node, lives: &impl Fn(Node) -> bool) -> impl Iterator<Item = Node> {
        let steps = self.nodes.ilog2() + 1;
        let further = (0..steps).filter_map(move |step| self.at(me, step, lives));
        self.living_after(me, lives, |ahead| ahead).into_iter().chain(further)
    }

    /// The first living node on the way around the ring from this one, in either direction.
    fn living_after(
        self,
        me: Node,
        lives: &impl Fn(Node) -> bool,
        place: impl Fn(u32) -> u32,
    ) -> Option<Node> {
        (1..self.nodes).map(|ahead| self.place(me, place(ahead))).find(|node| lives(*node))
    }

    fn place(self, me: Node, ahead: u32) -> Node {
        Node(((u64::from(me.0) + u64::from(ahead)) % u64::from(self.nodes)) as u32)
    }

    /// The living node that this one looks for at 2^step places ahead, and below twice as many.
    fn at(self, me: Node, step: u32, lives: &impl Fn(Node) -> bool) -> Option<Node> {
        let first = 1 << step;
        let places = self.nodes.min(first << 1).checked_sub(first).filter(|places| *places > 0)?;
        let trial = |trial: u32| match trial {
            0 => first,
            _ => first + mixed(me.0, step, trial) % places,
        };
        (0..TRIALS).map(|it| self.place(me, trial(it))).find(|node| lives(*node))
    }

    /// The living nodes that this one can reach when links between such nodes are cut.
    pub fn reached(
        self,
        me: Node,
        lives: impl Fn(Node) -> bool,
        is_cut: impl Fn(Node, Node) -> bool,
    ) -> BTreeSet<Node> {
        let mut links: BTreeMap<Node, Vec<Node>> = BTreeMap::new();
        let mut link = |one: Node, other: Node| {
            if !is_cut(one, other) {
                links.entry(one).or_default().push(other);
                links.entry(other).or_default().push(one);
            }
        };
        for node in (0..self.nodes).map(Node).filter(|node| lives(*node)) {
            self.found_by(node, &lives).for_each(|other| link(node, other));
        }
        for node in self.joined(me).filter(|node| lives(*node)) {
            let before = (0..node.0).map(Node).filter(|other| lives(*other));
            before.for_each(|other| link(node, other));
        }
        let (mut reached, mut next) = (BTreeSet::from([me]), vec![me]);
        while let Some(node) = next.pop() {
            let others = links.get(&node).into_iter().flatten();
            next.extend(others.filter(|other| reached.insert(**other)));
        }
        reached
    }

    /// The next step from a node to another one, over one of these links: the only one, if either
    /// has joined, else that which leads furthest along the ring and not beyond it.
    pub fn step(self, me: Node, to: Node, mut over: impl Iterator<Item = Node>) -> Option<Node> {
        if self.has_joined(me) || self.has_joined(to) {
            return over.find(|link| *link == to);
        }
        let over = over.filter(|link| !self.has_joined(*link));
        let far = self.ahead(me, to);
        over.filter(|link| self.ahead(me, *link) <= far).max_by_key(|link| self.ahead(me, *link))
    }
}

/// A number in which each bit depends on all bits of these.
fn mixed(node: u32, step: u32, trial: u32) -> u32 {
    let mut word = u64::from(node) << 32 | u64::from(step) << 16 | u64::from(trial);
    for _ in 0..2 {
        word = (word ^ word >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (word >> 32) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Random nodes, of which some have joined, and those of them that live.
    fn some() -> impl Strategy<Value = (Graph, BTreeSet<Node>)> {
        (2_u32..200, 0_u32..4, any::<u64>(), 0_u64..5).prop_map(|(nodes, joined, seed, dead)| {
            let lives = |node: &Node| {
                u64::from(mixed(node.0, 0, (seed % 65_536) as u32)) % 5 >= dead || node.0 == 0
            };
            let graph = (0..joined).fold(Graph::new(nodes), |graph, _| graph.with_one_more());
            (graph, (0..nodes + joined).map(Node).filter(lives).collect())
        })
    }

    proptest! {
        #[test]
        fn both_ends_know_of_a_link_and_all_who_live_are_connected((graph, living) in some()) {
            let lives = |node: Node| living.contains(&node);
            let links = |node: &Node| (*node, graph.neighbours(*node, lives));
            let links: BTreeMap<Node, BTreeSet<Node>> = living.iter().map(links).collect();
            for (node, others) in &links {
                for other in others {
                    prop_assert!(other != node && lives(*other));
                    prop_assert!(links[other].contains(node));
                }
            }
            let reached = graph.reached(Node(0), lives, |_, _| false);
            prop_assert_eq!(&reached, &living);
        }

        #[test]
        fn each_step_leads_nearer_and_few_lead_there((graph, living) in some()) {
            let lives = |node: Node| living.contains(&node);
            for to in living.iter().copied() {
                let (mut at, mut steps) = (Node(0), 0);
                while at != to {
                    let over = graph.neighbours(at, lives).into_iter();
                    at = graph.step(at, to, over).expect("the next living one is a step");
                    steps += 1;
                }
                let most = if graph.has_joined(to) { 1 } else { 3 * (graph.nodes.ilog2() + 1) };
                prop_assert!(steps <= most, "{} of {}", steps, graph.nodes);
            }
        }
    }

    #[test]
    fn nobody_has_many_links_though_half_of_all_are_lost_side_by_side() {
        let nodes = 1024;
        let graph = Graph::new(nodes);
        let most = |lives: &dyn Fn(Node) -> bool| {
            let living = (0..nodes).map(Node).filter(|node| lives(*node));
            living.map(|node| graph.neighbours(node, lives).len()).max().expect("some live")
        };
        assert_eq!(most(&|_| true), 19, "ten ahead, ten behind, and one of them is both");
        assert!(most(&|node| node.0 < 512) < 45);
        assert!(most(&|node| node.0.is_multiple_of(2)) < 45);
    }

    #[test]
    fn who_has_joined_is_linked_with_all_and_does_not_know_yet_that_it_counts() {
        let graph = Graph::new(100);
        let everybody: BTreeSet<Node> = (0..100).map(Node).collect();
        let me = Node(100);
        assert_eq!(graph.neighbours(me, |_| true), everybody);
        assert_eq!(graph.reached(me, |_| true, |_, _| false).len(), 101);
        let after = graph.with_one_more();
        assert!(after.neighbours(Node(5), |_| true).contains(&me));
        // All links of the ring between two parts are cut: it leads from one to the other.
        let is_cut =
            |one: Node, other: Node| one != me && other != me && (one.0 < 30) != (other.0 < 30);
        assert_eq!(after.reached(Node(70), |_| true, is_cut).len(), 101);
        assert_eq!(after.reached(Node(70), |node| node != me, is_cut).len(), 70);
    }

    #[test]
    fn a_cut_is_between_those_whose_links_are_all_cut() {
        let graph = Graph::new(100);
        let is_cut = |one: Node, other: Node| (one.0 < 30) != (other.0 < 30);
        let reached = graph.reached(Node(70), |_| true, is_cut);
        assert_eq!(reached, (30..100).map(Node).collect());
        let one_is_left = |one, other| is_cut(one, other) && one != Node(29) && other != Node(29);
        assert_eq!(graph.reached(Node(70), |_| true, one_is_left).len(), 100);
    }
}
