//! The interruption flood: to a block what *revoke* is to a communicator.
//!
//! A rank whose own request failed because a process died tells its neighbours in the binomial
//! graph (ranks at distance ± 2^k), each of which passes it on once. Ranks that still wait inside
//! the block then give up their pending requests and go to the commit.
//!
//! **Guarantees** that every living rank hears of it as long as fewer ranks die during the flood
//! than the graph's degree; the commit does not rely on it.
//!
//! Reference: `papers/ulfm.txt`, "Logarithmic Revoke Routine"; `papers/fa-mpi.txt` §3.2.

use alloc::vec::Vec;

use super::{
    Effects, Event,
    message::Message,
    planted::{Bug, planted},
};
use crate::{ids::BlockId, rank::Rank};

/// Which blocks of one communicator have been interrupted.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Interrupts {
    me: Rank,
    size: u32,
    seen: Vec<BlockId>,
    floor: BlockId,
}

impl Interrupts {
    /// For this rank of a communicator of this size.
    pub const fn new(me: Rank, size: u32) -> Self {
        Self { me, size, seen: Vec::new(), floor: BlockId(0) }
    }

    /// Interrupts a block, because a request of this rank failed or because a neighbour said so.
    pub fn handle_interrupt(&mut self, block: BlockId, out: &mut impl Effects) {
        if block < self.floor || self.contains(block) {
            return;
        }
        self.seen.push(block);
        for neighbour in neighbours(self.me, self.size) {
            if planted(Bug::KeepTheInterruption) {
                break;
            }
            out.send(neighbour, Message::Interrupt(block));
        }
        out.emit(Event::Interrupted(block));
    }

    /// True when no block is interrupted that somebody may still be in.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// True when the block has been interrupted.
    pub fn contains(&self, block: BlockId) -> bool {
        self.seen.contains(&block)
    }

    /// Forgets blocks that all living ranks have decided. An interruption of one of them that is
    /// still on its way dooms nothing and is not passed on, or ranks that forgot it would echo it
    /// for ever.
    pub fn forget_below(&mut self, floor: BlockId) {
        self.floor = floor.max(self.floor);
        if !self.seen.is_empty() {
            self.seen.retain(|block| *block >= floor);
        }
    }
}

/// The neighbours of a rank in the binomial graph, each once.
pub fn neighbours(me: Rank, size: u32) -> Vec<Rank> {
    let mut ranks = Vec::new();
    let mut distance = 1;
    while distance < size {
        for number in [(me.number() + distance) % size, (me.number() + size - distance) % size] {
            let rank = Rank::new(number);
            if rank != me && !ranks.contains(&rank) {
                ranks.push(rank);
            }
        }
        distance <<= 1;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Effect;
    use alloc::{collections::VecDeque, vec};

    #[test]
    fn a_late_interruption_of_a_forgotten_block_is_not_echoed() {
        let mut machine = Interrupts::new(Rank::new(0), 4);
        let mut out: Vec<Effect> = Vec::new();
        machine.handle_interrupt(BlockId(3), &mut out);
        machine.forget_below(BlockId(4));
        out.clear();
        machine.handle_interrupt(BlockId(3), &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn the_living_stay_connected_while_fewer_died_than_a_rank_has_neighbours() {
        for size in 2..=12_u32 {
            let degree = neighbours(Rank::new(0), size).len() as u32;
            for dead in (0..1_u32 << size).filter(|dead| dead.count_ones() < degree) {
                let alive = !dead & ((1 << size) - 1);
                let mut reached = 1 << alive.trailing_zeros();
                let mut before = 0;
                while before != reached {
                    before = reached;
                    for rank in (0..size).filter(|rank| before >> rank & 1 == 1) {
                        for neighbour in neighbours(Rank::new(rank), size) {
                            reached |= alive & 1 << neighbour.number();
                        }
                    }
                }
                assert_eq!(reached, alive, "{size} ranks without {dead:b}");
            }
        }
    }

    #[test]
    fn a_flood_reaches_everybody_and_each_rank_forwards_once() {
        for size in 1..33_u32 {
            let mut machines: Vec<_> =
                (0..size).map(|i| Interrupts::new(Rank::new(i), size)).collect();
            let mut queue = VecDeque::from([Rank::new(0)]);
            let mut turns = vec![0; size as usize];
            while let Some(rank) = queue.pop_front() {
                let mut out: Vec<Effect> = Vec::new();
                machines[rank.index()].handle_interrupt(BlockId(3), &mut out);
                turns[rank.index()] += usize::from(!out.is_empty());
                queue.extend(out.iter().filter_map(|effect| match effect {
                    Effect::Send(to, _) => Some(*to),
                    Effect::Emit(_) => None,
                }));
            }
            assert!(turns.iter().all(|turns| *turns == 1), "{size}: {turns:?}");
        }
    }
}
