//! Which daemons are linked with each other.
//!
//! Up to [`MESH`] nodes each is linked with each. Beyond that they stand on a ring, and each looks
//! for others at about 1, 2, 4, 8, … places ahead, as in a binomial graph: it is linked with those,
//! and with those that find it so. When nodes are lost others are found in their places.
//!
//! ```text
//!  me ─ 1 ─ 2 ──── 4 ────────── 8 ──────────────────── 16    one in each of [2^k, 2^(k+1))
//! ```
//!
//! **Guarantees.** All living nodes are connected by links among themselves, whichever are lost, as
//! each is linked with the next living one. Two nodes that know the same losses agree on whether
//! they are linked. From any node there is a way of links to any other on which each step leads
//! further along the ring and none beyond the other.
//!
//! Reference: Angskun, Bosilca and Dongarra, *Binomial Graph: A Scalable and Fault-Tolerant Logical
//! Network Topology* (2007). There the places of the lost stay empty; here others are found for
//! them, spread over the ring, as nodes that are lost together are often side by side.

use std::collections::BTreeSet;

use super::Node;

/// So many nodes are all linked with each other.
pub const MESH: u32 = 64;
/// How many places are tried for a link.
const TRIALS: u32 = 16;

/// The links of so many nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Graph {
    nodes: u32,
}

impl Graph {
    /// Of so many nodes, the first of which has number 0.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn new(nodes: u32) -> Self {
        assert!(nodes > 0, "a job has a node");
        Self { nodes }
    }

    /// How far a node is ahead of another one on the ring.
    pub const fn ahead(self, of: Node, node: Node) -> u32 {
        if node.0 >= of.0 { node.0 - of.0 } else { node.0 + self.nodes - of.0 }
    }

    /// The nodes that are linked with this one, if these live.
    pub fn neighbours(self, me: Node, lives: impl Fn(Node) -> bool) -> BTreeSet<Node> {
        let mut found: BTreeSet<Node> = self.found_by(me, &lives).collect();
        found.extend(self.living_after(me, &lives, |ahead| self.nodes - ahead));
        let others = (0..self.nodes).map(Node).filter(|node| *node != me && lives(*node));
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
        let mut links = vec![Vec::new(); self.nodes as usize];
        for node in (0..self.nodes).map(Node).filter(|node| lives(*node)) {
            for other in self.found_by(node, &lives).filter(|other| !is_cut(node, *other)) {
                links[node.0 as usize].push(other);
                links[other.0 as usize].push(node);
            }
        }
        let (mut reached, mut next) = (BTreeSet::from([me]), vec![me]);
        while let Some(node) = next.pop() {
            let new = links[node.0 as usize].iter().filter(|other| reached.insert(**other));
            next.extend(new);
        }
        reached
    }

    /// The next step from a node to another one, over one of these links: that which leads furthest
    /// along the ring and not beyond it.
    pub fn step(self, me: Node, to: Node, over: impl Iterator<Item = Node>) -> Option<Node> {
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

    /// Random nodes, and those of them that live.
    fn some() -> impl Strategy<Value = (u32, BTreeSet<Node>)> {
        (2_u32..200, any::<u64>(), 0_u64..5).prop_map(|(nodes, seed, dead)| {
            let lives = |node: &Node| {
                u64::from(mixed(node.0, 0, (seed % 65_536) as u32)) % 5 >= dead || node.0 == 0
            };
            (nodes, (0..nodes).map(Node).filter(lives).collect())
        })
    }

    proptest! {
        #[test]
        fn both_ends_know_of_a_link_and_all_who_live_are_connected((nodes, living) in some()) {
            let (graph, lives) = (Graph::new(nodes), |node: Node| living.contains(&node));
            for node in &living {
                for other in graph.neighbours(*node, lives) {
                    prop_assert!(other != *node && lives(other));
                    prop_assert!(graph.neighbours(other, lives).contains(node));
                }
            }
            let reached = graph.reached(Node(0), lives, |_, _| false);
            prop_assert_eq!(&reached, &living);
        }

        #[test]
        fn each_step_leads_nearer_and_few_lead_there((nodes, living) in some()) {
            let (graph, lives) = (Graph::new(nodes), |node: Node| living.contains(&node));
            for to in living.iter().copied() {
                let (mut at, mut steps) = (Node(0), 0);
                while at != to {
                    let over = graph.neighbours(at, lives).into_iter();
                    at = graph.step(at, to, over).expect("the next living one is a step");
                    steps += 1;
                }
                prop_assert!(steps <= 3 * (nodes.ilog2() + 1), "{} of {}", steps, nodes);
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
    fn a_cut_is_between_those_whose_links_are_all_cut() {
        let graph = Graph::new(100);
        let is_cut = |one: Node, other: Node| (one.0 < 30) != (other.0 < 30);
        let reached = graph.reached(Node(70), |_| true, is_cut);
        assert_eq!(reached, (30..100).map(Node).collect());
        let one_is_left = |one, other| is_cut(one, other) && one != Node(29) && other != Node(29);
        assert_eq!(graph.reached(Node(70), |_| true, one_is_left).len(), 100);
    }
}
