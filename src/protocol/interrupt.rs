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

use super::{Effects, Event, message::Message};
use crate::{ids::BlockId, rank::Rank};

/// Which blocks of one communicator have been interrupted.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Interrupts {
    me: Rank,
    size: u32,
    seen: Vec<BlockId>,
}

impl Interrupts {
    /// For this rank of a communicator of this size.
    pub const fn new(me: Rank, size: u32) -> Self {
        Self { me, size, seen: Vec::new() }
    }

    /// Interrupts a block, because a request of this rank failed or because a neighbour said so.
    pub fn handle_interrupt(&mut self, block: BlockId, out: &mut impl Effects) {
        if self.contains(block) {
            return;
        }
        self.seen.push(block);
        for neighbour in neighbours(self.me, self.size) {
            out.send(neighbour, Message::Interrupt(block));
        }
        out.emit(Event::Interrupted(block));
    }

    /// True when the block has been interrupted.
    pub fn contains(&self, block: BlockId) -> bool {
        self.seen.contains(&block)
    }

    /// Forgets blocks that all living ranks have decided.
    pub fn forget_below(&mut self, floor: BlockId) {
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
