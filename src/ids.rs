//! Names that all ranks derive alike, without a message: communicators, blocks, ballots; and keys
//! of the tables of a process.

/// Identifies a communicator on all its ranks.
///
/// The identifier of a derived communicator is a function of its parent's and of how many were
/// derived from that parent before, so that ranks which derive in the same order agree on it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CommId(pub u64);

impl CommId {
    /// The communicator of all processes of a generation; the launch is generation 0.
    pub const fn universe(generation: u32) -> Self {
        Self(mix(0x6661_6d70_6900_0000 ^ generation as u64))
    }

    /// The `sequence`-th communicator derived from this one.
    #[must_use]
    pub const fn derived(self, sequence: u32) -> Self {
        Self(mix(self.0 ^ mix(1 + sequence as u64)))
    }

    /// The part of a split that has this lowest rank: the parts of one split have names of their
    /// own, as a report can name several.
    #[must_use]
    pub(crate) const fn part(self, lowest: u32) -> Self {
        Self(mix(self.0 ^ mix(lowest as u64)))
    }
}

impl CommId {
    /// The name on the wire after this block was aborted, of a communicator whose name on the wire
    /// is `ancestor` and that this one was derived from.
    #[must_use]
    pub(crate) const fn after_abort(self, ancestor: Self, block: BlockId) -> Self {
        Self(self.0 ^ mix(ancestor.0 ^ mix(block.0)))
    }
}

/// A universe known to this process: a set of processes that reach each other.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct UniverseId(pub u32);

/// A data communicator known to this process, by its number in the platform.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DataId(pub u32);

/// A communicator in the table of its process.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CommKey(usize);

impl CommKey {
    /// The communicator at this place of the table.
    pub const fn new(at: usize) -> Self {
        Self(at)
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

/// Names a block in the table of its process, by its slot and how often that was used before;
/// outdated after the block was released. Both in eight bytes, so that handles travel in registers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct BlockKey([u32; 2]);

impl BlockKey {
    #[inline]
    pub(crate) const fn new(slot: usize, generation: u32) -> Self {
        Self([slot as u32, generation])
    }

    /// The block's place in the table.
    #[inline]
    pub const fn slot(self) -> usize {
        self.0[0] as usize
    }

    #[inline]
    pub(crate) const fn generation(self) -> u32 {
        self.0[1]
    }
}

/// Numbers the synchronising blocks of one communicator in the order of their start.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BlockId(pub u64);

impl BlockId {
    /// The next block.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Orders decisions of one block: the fast path is lowest, then the acting root's rank.
///
/// A root acts only when every lower rank is dead, so ballots only grow, and one ballot has one
/// decider.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ballot(pub u32);

impl Ballot {
    /// The ballot of a decision by the fast path.
    pub const FAST: Self = Self(0);

    /// The ballot of the root with this rank.
    pub const fn of_root(root: crate::rank::Rank) -> Self {
        Self(root.number() + 1)
    }
}

/// Spreads the bits of a word: the finaliser of `SplitMix64`, a bijection.
pub(crate) const fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
