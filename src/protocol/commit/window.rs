//! What a rank knows of single blocks, and the window of those that it knows something of, over all
//! blocks of a communicator.
//!
//! Intuition: a ring. Blocks come in at its upper end and are forgotten at its lower end; their
//! places are used again as they are, so that a commit moves and allocates nothing.

use alloc::{boxed::Box, vec::Vec};
use core::hash::{Hash, Hasher};

use super::fusion::Fusion;
use crate::{
    ids::{Ballot, BlockId},
    protocol::{
        agreement::{Contribution, Decision, Vote},
        fused::Values,
        nodes::NodeExchange,
        planted::planted,
    },
    rank::{Rank, RankSet},
};

/// The blocks from [`Self::base`] on, as many as were spoken of.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    base: u64,
    len: u64,
    /// A power of two; the place of a block follows from its number. Who is not in use is unknown.
    places: Vec<Block>,
}

impl Window {
    #[inline]
    pub(super) fn base(&self) -> BlockId {
        BlockId(self.base)
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) fn holds(&self, id: BlockId) -> bool {
        id.0.wrapping_sub(self.base) < self.len
    }

    #[inline]
    pub(super) fn get(&self, id: BlockId) -> Option<&Block> {
        self.holds(id).then(|| &self.places[self.place(id)])
    }

    /// A block of the window.
    #[inline]
    pub(super) fn at(&self, id: BlockId) -> &Block {
        assert!(self.holds(id), "block {id:?} is forgotten, or nobody spoke of it");
        &self.places[self.place(id)]
    }

    /// A block of the window, to be changed.
    #[inline]
    pub(super) fn at_mut(&mut self, id: BlockId) -> &mut Block {
        assert!(self.holds(id), "block {id:?} is forgotten, or nobody spoke of it");
        let place = self.place(id);
        &mut self.places[place]
    }

    /// Takes in all blocks up to this one.
    #[inline]
    pub(super) fn reach(&mut self, id: BlockId) {
        while id.0 >= self.base + self.len {
            if self.len() == self.places.len() {
                self.grow();
            }
            self.len += 1;
        }
    }

    /// The block that is forgotten next.
    #[inline]
    pub(super) fn lowest(&mut self) -> Option<&mut Block> {
        (self.len > 0).then(|| self.at_mut(self.base()))
    }

    /// Forgets the lowest block.
    #[inline]
    pub(super) fn forget_lowest(&mut self) {
        self.at_mut(self.base()).clear();
        self.base += 1;
        self.len -= 1;
    }

    /// All of them, as they are now.
    pub(super) fn ids(&self) -> impl Iterator<Item = BlockId> + use<> {
        (self.base..self.base + self.len).map(BlockId)
    }

    #[inline]
    fn place(&self, id: BlockId) -> usize {
        id.0 as usize & (self.places.len() - 1)
    }

    /// Doubles the ring.
    #[cold]
    fn grow(&mut self) {
        let mut larger = Self { base: self.base, len: self.len, places: Vec::new() };
        larger.places.resize(2 * self.places.len().max(1), Block::UNKNOWN);
        for id in self.ids() {
            let place = larger.place(id);
            larger.places[place] = core::mem::replace(self.at_mut(id), Block::UNKNOWN);
        }
        *self = larger;
    }

    /// What it is, whatever happened before: the places that are not in use do not count.
    fn known(&self) -> (u64, impl Iterator<Item = &Block>) {
        (self.base, self.ids().map(|id| self.at(id)))
    }
}

impl PartialEq for Window {
    fn eq(&self, other: &Self) -> bool {
        let ((base, known), (other_base, others)) = (self.known(), other.known());
        base == other_base && self.len == other.len && known.eq(others)
    }
}

impl Eq for Window {}

impl Hash for Window {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (base, known) = self.known();
        (base, self.len).hash(state);
        known.for_each(|block| block.hash(state));
    }
}

/// One block, from the first news of it until all living ranks have decided it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Block {
    pub(super) vote: Option<Vote>,
    pub(super) fast: Fast,
    pub(super) slow: Option<Box<Gathering>>,
    pub(super) decided: Option<Decided>,
    /// Values of a fused reduction.
    pub(super) fusion: Option<Box<Fusion>>,
}

/// How a block was decided; small, since most are decided by the fast path.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Decided {
    Fast { context: u32, floor: BlockId },
    Slow(Box<(Decision, Ballot)>),
}

impl Decided {
    pub(super) fn ballot(&self) -> Ballot {
        match self {
            Self::Fast { .. } => Ballot::FAST,
            Self::Slow(agreed) => agreed.1,
        }
    }
}

/// The fast path of a block.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Fast {
    /// Not voted yet; steps whose messages came early, all in one view.
    Open { steps: u64, view: u64, floor: BlockId },
    /// Not voted yet, and early messages came from different views.
    Torn,
    /// Voted *yes*; combining.
    Exchanging { exchange: NodeExchange, view: u64, floor: BlockId },
    /// Decided, or promised to the slow path.
    Left,
}

impl Fast {
    const UNKNOWN: Self = Self::Open { steps: 0, view: 0, floor: BlockId(u64::MAX) };
}

/// What a rank has gathered for one block under one ballot.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Gathering {
    pub(super) ballot: Ballot,
    /// Neighbours in the tree that were asked under this ballot.
    pub(super) asked: RankSet,
    pub(super) contributions: Vec<(Rank, Contribution)>,
    /// The parent that has our contribution.
    pub(super) sent_to: Option<Rank>,
}

impl Gathering {
    pub(super) fn new(ballot: Ballot) -> Self {
        Self { ballot, asked: RankSet::new(), contributions: Vec::new(), sent_to: None }
    }

    /// A lower root died: start again under the next one.
    pub(super) fn raise(&mut self, ballot: Ballot) {
        if self.ballot < ballot {
            self.ballot = ballot;
            self.asked.clear();
            self.contributions.clear();
            self.sent_to = None;
        }
    }

    pub(super) fn contributed(&self, rank: Rank) -> bool {
        self.contributions.iter().any(|(from, _)| *from == rank)
    }
}

impl Block {
    /// Nothing is known of it; a constant, so that it is copied as a whole.
    pub(super) const UNKNOWN: Self =
        Self { vote: None, fast: Fast::UNKNOWN, slow: None, decided: None, fusion: None };

    /// Makes it as if nothing were known of it.
    #[inline]
    pub(super) fn clear(&mut self) {
        let Self { vote, fast, slow, decided, fusion } = self;
        (*vote, *slow, *decided, *fusion) = (None, None, None, None);
        *fast = Fast::UNKNOWN;
    }

    #[inline]
    pub(super) fn decision(&self) -> Option<Decision> {
        match self.decided.as_ref()? {
            Decided::Fast { context, floor } => {
                let mut decision = Decision::all_yes(*context, *floor);
                if self.fusion.is_some() {
                    decision.values = self.values().copied().map(Box::new);
                }
                Some(decision)
            }
            Decided::Slow(agreed) => Some(agreed.0.clone()),
        }
    }

    /// The result of the fused reduction.
    #[inline]
    pub(super) fn values(&self) -> Option<&Values> {
        match self.decided.as_ref()? {
            Decided::Fast { .. } => {
                let Fusion { own, combined, .. } = &**self.fusion.as_ref()?;
                if planted!(PassOnOwn) { own.get() } else { combined.get() }
            }
            Decided::Slow(agreed) => agreed.0.values.as_deref(),
        }
    }

    /// What this rank brings to the fused reduction; nothing unless it votes *yes*.
    #[inline]
    pub(super) fn own_values(&self) -> Option<Values> {
        self.fusion.as_ref()?.own.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::agreement::Vote;

    fn voted(context: u32) -> Vote {
        Vote { faults: Vec::new(), context }
    }

    #[test]
    fn blocks_keep_what_is_known_of_them_while_the_ring_turns_and_grows() {
        let mut window = Window::default();
        for id in 0..1000 {
            window.reach(BlockId(id));
            window.at_mut(BlockId(id)).vote = Some(voted(id as u32));
            // Two in, one out, up to a time; then as many out as in.
            if id % 2 == 1 || id > 600 {
                window.forget_lowest();
            }
            for known in window.ids() {
                assert_eq!(window.at(known).vote, Some(voted(known.0 as u32)));
            }
        }
        assert_eq!(window.base(), BlockId(699));
        assert_eq!(window.len(), 301);
    }

    #[test]
    fn a_place_is_unknown_when_it_is_used_again() {
        let mut window = Window::default();
        for id in 0..10 {
            window.reach(BlockId(id));
            assert_eq!(*window.at(BlockId(id)), Block::UNKNOWN);
            window.at_mut(BlockId(id)).vote = Some(voted(1));
            window.forget_lowest();
        }
    }

    #[test]
    fn what_was_before_makes_no_difference() {
        let (mut one, mut other) = (Window::default(), Window::default());
        one.reach(BlockId(9));
        other.reach(BlockId(0));
        for _ in 0..8 {
            one.forget_lowest();
        }
        for id in 1..10 {
            other.reach(BlockId(id));
            if id < 9 {
                other.forget_lowest();
            }
        }
        assert_eq!(one, other);
    }

    #[test]
    #[should_panic(expected = "forgotten")]
    fn nobody_looks_below() {
        let mut window = Window::default();
        window.reach(BlockId(0));
        window.forget_lowest();
        let _ = window.at(BlockId(0));
    }
}
