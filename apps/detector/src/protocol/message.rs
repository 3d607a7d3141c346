//! What observers tell each other.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{
    Cause, Host, Node, Process,
    diagnosis::{Answer, Question},
};

/// The most facts in one message, so that it fits into one packet of any network.
pub const MAX_FACTS: usize = 64;

/// Something that became true for ever: of two facts about one name, the newer incarnation holds,
/// and of one incarnation, death.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Fact {
    /// A process is dead. [`Cause::NodeLost`] and [`Cause::Replaced`] are no causes here: they
    /// follow from other facts.
    Died(Process, Cause),
    /// A process has taken its rank, on this node.
    Joined(Process, Host),
    /// A node is gone, with all that was on it.
    Lost(Host),
    /// An observer has taken its node.
    Returned(Host),
}

/// A message of one observer to another.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Message {
    /// The sender is alive, and this is the digest of what it knows.
    Heartbeat(u64),
    /// The receiver is to send its heartbeats to the sender, and one at once.
    Request,
    /// What a node has found out; whoever has not known it passes it on.
    News {
        /// The node that found it out: the root of the tree.
        origin: Node,
        /// At most [`MAX_FACTS`].
        facts: Vec<Fact>,
    },
    /// All that the sender knows, or a part of it; for whoever knows otherwise.
    Comparison {
        /// The digest of what the sender knows.
        digest: u64,
        /// At most [`MAX_FACTS`].
        facts: Vec<Fact>,
        /// The sender wants to know what the receiver knows and it does not.
        answer: bool,
    },
    /// The receiver has been declared dead. An answer to what it sent tells the company of the
    /// sender; the declaration itself, which may be late, tells none.
    Fence(Option<Company>),
    /// The receiver, an observer or a rank, is tested.
    Question(Question),
    /// What it says to that.
    Answer(Answer),
}

/// The nodes that a node knows to live, itself among them. Of two nodes that hold each other for
/// dead, as when a network fell apart and is whole again, that with the greater company stays.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Company {
    /// How many.
    pub nodes: u32,
    /// The first of them by number.
    pub first: Node,
}

impl Company {
    /// True when this company of a node is the greater one. Of two nodes one has that, always.
    pub fn is_above(self, node: Node, other: Self, other_node: Node) -> bool {
        let key = |it: Self, node: Node| (it.nodes, Reverse(it.first), Reverse(node));
        key(self, node) > key(other, other_node)
    }
}
