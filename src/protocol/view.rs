//! The live set that all ranks have agreed on, and positions in it.
//!
//! The fast path runs among the ranks of a view. Two ranks may combine votes only in the same
//! view, so each message carries the view's fingerprint, a 64-bit hash of the set of agreed
//! deaths. A counter would not do: a rank that dies with a decision of its own can have another
//! set under the same count.

use alloc::sync::Arc;

use super::{
    exchange::Shape,
    nodes::{Peer, Seat},
    placement::{Nodes, Placement},
};
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
    /// Where the ranks are, unless all are on one node, or their nodes are unknown.
    placement: Option<Arc<Placement>>,
}

impl View {
    /// The view of a communicator of this size in which no rank died, the node of each of whose
    /// ranks is of no importance.
    pub const fn new(size: u32, shape: Shape) -> Self {
        let fingerprint = mix(shape.number());
        Self { size, shape, dead: RankSet::new(), fingerprint, placement: None }
    }

    /// With ranks on these nodes, the same on all of them.
    #[must_use]
    pub fn on_nodes(mut self, nodes: &Nodes) -> Self {
        self.fingerprint ^= nodes.fingerprint();
        self.placement = nodes.placement();
        self
    }

    /// Removes ranks that a decision has declared dead.
    pub fn exclude(&mut self, dead: &RankSet) {
        for rank in dead.iter() {
            if self.dead.insert(rank) {
                self.fingerprint ^= mix(1 + u64::from(rank.number()));
            }
        }
        if let Some(placement) = self.placement.take() {
            self.placement = placement.without(&self.dead);
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

    /// Where a live rank is: on its node, or at its position, as if that were a node.
    pub fn seat(&self, rank: Rank) -> Seat {
        match &self.placement {
            Some(placement) => placement.seat(rank),
            None => Seat::alone(self.position_of(rank), self.live()),
        }
    }

    /// True when ranks of several nodes exchange by the heads of their nodes.
    pub fn has_heads(&self) -> bool {
        self.placement.is_some()
    }

    /// The living ranks of a node, in the order of their seats.
    pub fn members(&self, node: u32) -> &[Rank] {
        self.placement.as_ref().map_or(&[], |placement| placement.members(node))
    }

    /// What a live rank is to the one at a seat; nothing if they do not exchange.
    #[inline]
    pub fn peer(&self, seat: Seat, rank: Rank) -> Option<Peer> {
        match &self.placement {
            Some(placement) => {
                let other = placement.seat(rank);
                if other.node == seat.node {
                    Some(Peer::Member(other.member))
                } else {
                    (other.member == 0).then_some(Peer::Head(other.node))
                }
            }
            None => Some(Peer::Head(self.position_of(rank))),
        }
    }

    /// The live rank that exchanges with the one at a seat.
    #[inline]
    pub fn rank_of(&self, seat: Seat, peer: Peer) -> Rank {
        let Some(placement) = self.placement.as_ref() else {
            let (Peer::Head(position) | Peer::Member(position)) = peer;
            return self.rank_at(position);
        };
        match peer {
            Peer::Head(node) => placement.members(node)[0],
            Peer::Member(member) => placement.members(seat.node)[member as usize],
        }
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
