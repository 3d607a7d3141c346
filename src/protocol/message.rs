//! What ranks tell each other about one communicator's blocks.

use super::{
    agreement::{Contribution, Decision},
    fused::{Held, Values},
};
use crate::{
    ids::{Ballot, BlockId},
    rank::RankSet,
};

/// A message between two ranks of one communicator.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Message {
    /// Fast path: all votes combined by the sender so far are *yes*.
    Yes(Yes),
    /// Fast path: as [`Self::Yes`], with values of a fused reduction.
    Fused(Fused),
    /// Slow path: contribute to this block under this ballot.
    Ask(Slow),
    /// Slow path: the sender's subtree has contributed this.
    Contribute(Slow, Contribution),
    /// Slow path: the decision of the ballot's root.
    Decide(Slow, Decision),
    /// The block is doomed: a request of it failed because a process died.
    Interrupt(BlockId),
    /// The sender waits for the receiver in this block, and wants to know how far that one is.
    HowFar(BlockId),
    /// The sender has come so far in the block.
    Reached(BlockId, Stage),
    /// The sender, or a rank that it has heard of, waits for a rider ahead of the commit.
    Wanted(RiderId),
    /// What the sender has combined of a rider, ahead of the commit.
    Ahead(Ahead),
    /// The sender gave the communicator up and would be waited for in silence.
    Retired,
}

/// How far a rank is in a block.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Stage {
    /// It starts no more operations there.
    Posted,
    /// Its operations there are over.
    Over,
    /// They are over, and it has found faults.
    Failed,
}

/// The fixed-size message of the fast path.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Yes {
    /// The block.
    pub block: BlockId,
    /// The receiver's step of the exchange, see [`super::exchange`].
    pub step: u8,
    /// Fingerprint of the sender's view and of the block's data context.
    pub view: u64,
    /// The lowest block that any of the combined voters has not decided.
    pub floor: BlockId,
}

/// The message of the fast path in a block with a fused reduction.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Fused {
    /// The vote; its view names the shape of the values, too.
    pub yes: Yes,
    /// What the sender has combined so far.
    pub values: Values,
}

/// The header of every slow-path message.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Slow {
    /// The block.
    pub block: BlockId,
    /// The ballot: every rank below its root is dead.
    pub ballot: Ballot,
    /// All deaths that the sender knows of; news of a death travel with every message.
    pub dead: RankSet,
}

/// Names a rider of a communicator: its block, and its place among the riders of that.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RiderId {
    /// The block.
    pub block: BlockId,
    /// How many riders of the block were posted before.
    pub number: u32,
}

/// What a rank has combined of a rider so far, for the receiver's step of the exchange.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Ahead {
    /// The rider.
    pub rider: RiderId,
    /// The step.
    pub step: u8,
    /// Fingerprint of the sender's view and of the block's data context.
    pub view: u64,
    /// What is combined; nothing for a barrier.
    pub values: Held,
}
