//! The live set that all ranks have agreed on, and positions in it.
//!
//! The fast path runs among the ranks of a view. Two ranks may combine votes only in the same
//! view, so each message carries the view's fingerprint, a 64-bit hash of the set of agreed
//! deaths. A counter would not do: a rank that dies with a decision of its own can have another
//! set under the same count.

use super::exchange::Shape;
use crate::{
    ids::mix,
    rank::{Rank, RankSet},
};

/// The ranks `0..size` without those agreed dead.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct View {
    size: u32,
    shape: Shape,
    dead: RankSet,
    fingerprint: u64,
}

impl View {
    /// The view of a communicator of this size in which nobody died.
    pub const fn new(size: u32, shape: Shape) -> Self {
        Self { size, shape, dead: RankSet::new(), fingerprint: mix(shape.number()) }
    }

    /// Removes ranks that a decision has declared dead.
    pub fn exclude(&mut self, dead: &RankSet) {
        for rank in dead.iter() {
            if self.dead.insert(rank) {
                self.fingerprint ^= mix(1 + u64::from(rank.number()));
            }
        }
    }

    /// The agreed deaths.
    #[inline]
    pub fn dead(&self) -> &RankSet {
        &self.dead
    }

    /// The shape of its exchanges.
    #[inline]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of ranks in the view.
    #[inline]
    pub fn live(&self) -> u32 {
        self.size - self.dead.len() as u32
    }

    /// The fingerprint for blocks in this data context.
    #[inline]
    pub fn fingerprint(&self, context: u32) -> u64 {
        self.fingerprint ^ mix(u64::from(context) << 32 | u64::from(self.size))
    }

    /// The position of a live rank among the live ranks.
    #[inline]
    pub fn position_of(&self, rank: Rank) -> u32 {
        rank.number() - self.dead.iter().take_while(|dead| *dead < rank).count() as u32
    }

    /// The live rank at a position.
    #[inline]
    pub fn rank_at(&self, position: u32) -> Rank {
        let mut number = position;
        for dead in self.dead.iter() {
            if dead.number() <= number {
                number += 1;
            }
        }
        Rank::new(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_ranks_are_inverse_in_every_view() {
        for mask in 0_u32..64 {
            let mut view = View::new(6, Shape::WIDE);
            view.exclude(&(0..6).filter(|r| mask >> r & 1 == 1).map(Rank::new).collect());
            for position in 0..view.live() {
                let rank = view.rank_at(position);
                assert!(!view.dead().contains(rank));
                assert_eq!(view.position_of(rank), position);
            }
        }
    }

    #[test]
    fn the_fingerprint_names_the_set_and_the_context() {
        let (mut one, mut other) = (View::new(8, Shape::WIDE), View::new(8, Shape::WIDE));
        one.exclude(&[2, 5].into_iter().map(Rank::new).collect());
        other.exclude(&[5].into_iter().map(Rank::new).collect());
        assert_ne!(one.fingerprint(0), other.fingerprint(0));
        other.exclude(&[2].into_iter().map(Rank::new).collect());
        assert_eq!(one.fingerprint(0), other.fingerprint(0));
        assert_ne!(one.fingerprint(0), other.fingerprint(1));
    }
}
