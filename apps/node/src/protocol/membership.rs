//! Which nodes take part, which of them are lost, and whether those that are left may go on.
//!
//! A link that was closed proves the death of the daemon at its other end, as a system closes what
//! a dead process leaves. Silence proves nothing: the other side of a network that was cut may live
//! and take us for dead. So the nodes that are heard of go on only if they are more than half of
//! those that are not proved dead, or half of them with the first of these; others stop
//! themselves. They do so before those who go on declare them lost, as they wait for less long.

use std::collections::BTreeSet;

use super::Node;

/// The nodes of a job, as one of them sees it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Membership {
    me: Node,
    nodes: u32,
    lost: BTreeSet<Node>,
    /// Of the lost, those whose death is proved.
    dead: BTreeSet<Node>,
    /// Not heard of for a while.
    quiet: BTreeSet<Node>,
}

impl Membership {
    /// So many nodes, all of which live.
    pub fn new(me: Node, nodes: u32) -> Self {
        let none = BTreeSet::new;
        Self { me, nodes, lost: none(), dead: none(), quiet: none() }
    }

    /// This node.
    pub const fn me(&self) -> Node {
        self.me
    }

    /// True when a node is lost.
    pub fn is_lost(&self, node: Node) -> bool {
        self.lost.contains(&node)
    }

    /// All nodes that are not lost, without this one.
    pub fn others(&self) -> impl Iterator<Item = Node> + '_ {
        let all = (0..self.nodes).map(Node);
        all.filter(|node| *node != self.me && !self.lost.contains(node))
    }

    /// The nodes that are lost.
    pub fn lost(&self) -> BTreeSet<u32> {
        self.lost.iter().map(|node| node.0).collect()
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

    /// False when those that are heard of have to stop.
    pub fn may_go_on(&self) -> bool {
        let silent = |node: &Node| self.quiet.contains(node) || self.lost.contains(node);
        let base = || (0..self.nodes).map(Node).filter(|node| !self.dead.contains(node));
        let (all, heard) = (base().count(), base().filter(|node| !silent(node)).count());
        let has_first = base().next().is_some_and(|first| !silent(&first));
        2 * heard > all || (2 * heard == all && has_first)
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
}
