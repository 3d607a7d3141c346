//! Which nodes take part, which of them are lost, and whether those that are left may go on.
//!
//! A link that was closed proves the death of the daemon at its other end, as a system closes what
//! a dead process leaves. Silence proves nothing: the other side of a network that was cut may live
//! and take us for dead. So the nodes that are heard of go on only if they are more than half of
//! those that are not proved dead, or half of them with the first of these; others stop
//! themselves. They do so before those who go on declare them lost, as they wait for less long.
//! Where the person says that the network is not cut, silence is taken for death
//! ([`Partition::Any`]).
//!
//! A node that joined later counts half. While some know already that it counts and others do not
//! yet, two parts could otherwise each take itself for the larger one: in half votes, a node of the
//! launch has two and the first one more, so that there is no tie, and one that joined has one; two
//! parts that agree on all nodes but one such cannot both have more than half.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Node;

/// Which parts of a network that was cut go on.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Partition {
    /// The larger one, or of two halves that with the first node; others stop themselves.
    #[default]
    Majority,
    /// Each, however small, as if the others were dead. Two of them may write the same results.
    Any,
}

/// The nodes of a job, as one of them sees it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Membership {
    me: Node,
    /// How many were launched; those with higher numbers have joined.
    launched: u32,
    partition: Partition,
    nodes: u32,
    lost: BTreeSet<Node>,
    /// Of the lost, those whose death is proved.
    dead: BTreeSet<Node>,
    /// Not heard of for a while.
    quiet: BTreeSet<Node>,
    /// Added, and not counted in.
    joining: BTreeSet<Node>,
}

impl Membership {
    /// So many nodes, all of which live; this one may have to join them.
    pub fn new(me: Node, nodes: u32) -> Self {
        let none = BTreeSet::new;
        let (lost, dead, quiet, joining) = (none(), none(), none(), none());
        let partition = Partition::default();
        Self { me, launched: nodes, partition, nodes, lost, dead, quiet, joining }
    }

    /// With these parts of a network going on.
    #[must_use]
    pub fn under(self, partition: Partition) -> Self {
        Self { partition, ..self }
    }

    /// This node.
    pub const fn me(&self) -> Node {
        self.me
    }

    /// How many nodes were launched.
    pub const fn launched(&self) -> u32 {
        self.launched
    }

    /// True when a node is lost.
    pub fn is_lost(&self, node: Node) -> bool {
        self.lost.contains(&node)
    }

    /// True for a living node that was added and does not count yet.
    pub fn is_joining(&self, node: Node) -> bool {
        self.joining.contains(&node) && !self.is_lost(node)
    }

    /// The living nodes that were added and do not count yet.
    pub fn joining(&self) -> impl Iterator<Item = Node> + '_ {
        self.joining.iter().copied().filter(|node| !self.is_lost(*node))
    }

    /// All nodes that are not lost, without this one.
    pub fn others(&self) -> impl Iterator<Item = Node> + '_ {
        let all = (0..self.nodes).map(Node);
        all.filter(|node| *node != self.me && !self.lost.contains(node))
    }

    /// Those of them that count.
    pub fn serving_others(&self) -> BTreeSet<Node> {
        self.others().filter(|node| !self.joining.contains(node)).collect()
    }

    /// The living node with the lowest number.
    pub fn first(&self) -> Node {
        self.others().next().map_or(self.me, |other| other.min(self.me))
    }

    /// The nodes that are lost.
    pub fn lost(&self) -> BTreeSet<u32> {
        self.lost.iter().map(|node| node.0).collect()
    }

    /// True when a node is known to be lost, and to be dead if that is to be proved.
    pub fn knows_loss(&self, node: Node, is_proved: bool) -> bool {
        self.is_lost(node) && (!is_proved || self.dead.contains(&node))
    }

    /// A node is lost; false if that is known.
    pub fn note_lost(&mut self, node: Node) -> bool {
        self.lost.insert(node)
    }

    /// A node is lost, and its death is proved.
    pub fn note_dead(&mut self, node: Node) {
        self.dead.insert(node);
    }

    /// A node has not been heard of for a while.
    pub fn note_quiet(&mut self, node: Node) {
        self.quiet.insert(node);
    }

    /// A node was heard of.
    pub fn note_heard(&mut self, node: Node) {
        self.quiet.remove(&node);
    }

    /// All nodes that are not heard of, of those that are not lost.
    pub fn set_quiet(&mut self, quiet: BTreeSet<Node>) {
        self.quiet = quiet;
    }

    /// One more node is to join, under the next number.
    pub fn note_added(&mut self) {
        self.joining.insert(Node(self.nodes));
        self.nodes += 1;
    }

    /// A node has joined; false if that is known.
    pub fn note_came(&mut self, node: Node) -> bool {
        self.joining.remove(&node)
    }

    /// True for a node that counts, or has counted.
    pub fn has_come(&self, node: Node) -> bool {
        node.0 < self.nodes && !self.joining.contains(&node)
    }

    /// How many nodes count, or have counted.
    pub fn counted(&self) -> u32 {
        self.nodes - self.joining.len() as u32
    }

    /// False when those that are heard of have to stop.
    pub fn may_go_on(&self) -> bool {
        if self.partition == Partition::Any {
            return true;
        }
        let counts = |node: &Node| self.has_come(*node) && !self.dead.contains(node);
        let base = || (0..self.nodes).map(Node).filter(counts);
        let first = base().next();
        let votes =
            |node: Node| 1 + u32::from(node.0 < self.launched) + u32::from(Some(node) == first);
        let is_heard = |node: &Node| !self.quiet.contains(node) && !self.lost.contains(node);
        let all: u32 = base().map(votes).sum();
        let heard: u32 = base().filter(is_heard).map(votes).sum();
        2 * heard > all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(me: u32, nodes: u32, dead: &[u32], quiet: &[u32]) -> bool {
        let mut members = Membership::new(Node(me), nodes);
        for node in dead {
            members.note_lost(Node(*node));
            members.note_dead(Node(*node));
        }
        for node in quiet {
            members.note_quiet(Node(*node));
        }
        members.may_go_on()
    }

    #[test]
    fn each_part_goes_on_where_silence_is_taken_for_death() {
        let mut members = Membership::new(Node(3), 5).under(Partition::Any);
        for node in [0, 1, 2, 4] {
            members.note_quiet(Node(node));
        }
        assert!(members.may_go_on());
    }

    #[test]
    fn the_larger_part_of_a_cut_network_goes_on_and_the_others_stop() {
        assert!(after(0, 5, &[], &[3, 4]));
        assert!(!after(3, 5, &[], &[0, 1, 2]));
        assert!(after(0, 4, &[], &[2, 3]), "half of it, with the first");
        assert!(!after(2, 4, &[], &[0, 1]));
        assert!(after(0, 2, &[], &[1]));
        assert!(!after(1, 2, &[], &[0]));
    }

    #[test]
    fn proved_deaths_leave_any_number() {
        assert!(after(4, 5, &[0, 1, 2, 3], &[]));
        assert!(after(1, 2, &[0], &[]));
        assert!(after(2, 5, &[0, 1], &[4]));
        assert!(!after(4, 5, &[0, 1], &[2, 3]));
    }

    #[test]
    fn silent_nodes_that_were_declared_lost_still_count() {
        let mut members = Membership::new(Node(0), 5);
        for node in [1, 2] {
            members.note_quiet(Node(node));
            members.note_lost(Node(node));
        }
        assert!(members.may_go_on());
        members.note_quiet(Node(3));
        assert!(!members.may_go_on(), "two of five");
        members.note_heard(Node(3));
        assert!(members.may_go_on());
    }

    /// All nodes of a part of a network, as one of them sees it that knows these to be dead and
    /// these to have joined: true when they may go on.
    fn part_goes_on(part: u32, launched: u32, joined: u32, dead: u32) -> bool {
        let mut members = Membership::new(Node(0), launched);
        for _ in 0..joined {
            members.note_added();
            members.note_came(Node(members.nodes - 1));
        }
        for node in (0..launched + joined).map(Node) {
            if dead & 1 << node.0 != 0 {
                members.note_lost(node);
                members.note_dead(node);
            } else if part & 1 << node.0 == 0 {
                members.note_quiet(node);
            }
        }
        members.may_go_on()
    }

    #[test]
    fn no_two_parts_go_on_when_one_of_them_knows_of_one_more_node_or_death() {
        let mut one_goes_on = 0;
        for (launched, joined) in [(1, 0), (1, 3), (2, 1), (2, 3), (3, 1), (3, 3), (4, 0), (4, 2)] {
            let nodes = launched + joined + 1;
            for assigned in 0..4_u32.pow(nodes) {
                // Each node is in one part, in the other, or dead, as one part knows, or both.
                let of = |what| (0..nodes).filter(move |it| assigned >> (2 * it) & 3 == what);
                let set = |what| of(what).map(|node| 1_u32 << node).sum::<u32>();
                let (one, other, dead, seen) = (set(0), set(1), set(2) | set(3), set(3));
                let known = |part: u32, joined: u32, dead: u32| {
                    part != 0 && part_goes_on(part, launched, joined, dead)
                };
                for (more, less) in [(one, other), (other, one)] {
                    for (theirs, others) in [(dead, seen), (seen, dead)] {
                        let here = known(more, joined + 1, theirs);
                        let there = known(less & !(1 << (nodes - 1)), joined, others);
                        assert!(!(here && there), "{launched}+{joined}: {assigned:b}");
                        one_goes_on += u32::from(here);
                    }
                }
            }
        }
        assert!(one_goes_on > 0);
    }

    #[test]
    fn nodes_that_joined_go_on_without_those_of_the_launch() {
        assert!(part_goes_on(0b1100, 2, 2, 0b0011));
        assert!(part_goes_on(0b0100, 2, 2, 0b0011), "half, with the first");
        assert!(!part_goes_on(0b1000, 2, 2, 0b0011));
        assert!(part_goes_on(0b1110, 2, 2, 0), "four votes of seven");
        assert!(!part_goes_on(0b0001, 2, 2, 0));
    }
}
