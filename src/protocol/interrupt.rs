//! The interruption flood: to a block what *revoke* is to a communicator.
//!
//! A rank whose own request failed because a process died tells its neighbours in the binomial
//! graph (ranks at distance ± 2^k, counted node by node), each of which passes it on once. Ranks
//! that still wait inside the block then give up their pending requests and go to the commit.
//!
//! ```text
//! 1 ─▶ 2 (dead)     the neighbours of a dead neighbour are neighbours: so are theirs, if they
//! 1 ─────────▶ 4    are dead; a death that is learned later makes more of them
//! ```
//!
//! **Guarantees** that every living rank hears of it, whichever die, as long as one that has heard
//! of it lives and learns of the deaths; the commit does not rely on it.
//!
//! **Differs from the paper**, where so many deaths as a rank has neighbours can cut the graph.
//!
//! Reference: ULFM team 2015, "Logarithmic Revoke Routine"; Hassani et al. 2015, §3.2.

use alloc::{collections::BTreeSet, vec::Vec};

use super::{Effects, Event, message::Message, placement::Nodes, planted::planted};
use crate::{
    ids::BlockId,
    rank::{Rank, RankSet},
};

/// In the place of a block: the communicator itself is revoked, and with it all its blocks.
pub const REVOCATION: BlockId = BlockId(u64::MAX - 1);

/// Which blocks of one communicator have been interrupted.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Interrupts {
    me: Rank,
    size: u32,
    /// Where the ranks are in the graph.
    nodes: Nodes,
    seen: Vec<BlockId>,
    floor: BlockId,
}

impl Interrupts {
    /// For this rank of a communicator of this size.
    pub fn new(me: Rank, size: u32) -> Self {
        Self { me, size, nodes: Nodes::default(), seen: Vec::new(), floor: BlockId(0) }
    }

    /// Among ranks on these nodes, the same on all ranks. Before the first block.
    #[must_use]
    pub fn on_nodes(self, nodes: &Nodes) -> Self {
        Self { nodes: nodes.clone(), ..self }
    }

    /// The living ranks that this one tells if these are dead.
    fn neighbours(&self, dead: &RankSet) -> BTreeSet<Rank> {
        let found = neighbours(self.nodes.place(self.me), self.size, &self.nodes.places(dead));
        found.into_iter().map(|place| self.nodes.rank(place)).collect()
    }

    /// Interrupts a block, because a request of this rank failed or because a neighbour said so.
    /// `dead` are all ranks that this one knows to be dead.
    pub fn handle_interrupt(&mut self, block: BlockId, dead: &RankSet, out: &mut impl Effects) {
        if block < self.floor || self.seen.contains(&block) {
            return;
        }
        self.seen.push(block);
        for neighbour in self.neighbours(dead) {
            if planted!(KeepTheInterruption) {
                break;
            }
            out.send(neighbour, Message::Interrupt(block));
        }
        out.emit(Event::Interrupted(block));
    }

    /// A rank died, one of `dead`, which may not have passed on what it heard.
    pub fn handle_failure(&mut self, rank: Rank, dead: &RankSet, out: &mut impl Effects) {
        if self.is_empty() {
            return;
        }
        let others: RankSet = dead.iter().filter(|other| *other != rank).collect();
        let told = self.neighbours(&others);
        for neighbour in self.neighbours(dead).difference(&told) {
            for block in &self.seen {
                out.send(*neighbour, Message::Interrupt(*block));
            }
        }
    }

    /// True when no block is interrupted that a rank may still be in.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// True when the block has been interrupted, or the communicator revoked.
    pub fn contains(&self, block: BlockId) -> bool {
        self.seen.contains(&block) || self.is_revoked()
    }

    /// True when the communicator is revoked, as far as this rank knows.
    pub fn is_revoked(&self) -> bool {
        self.seen.contains(&REVOCATION)
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

/// The living neighbours of a rank in the binomial graph from which the dead have been taken, with
/// an edge between any two that a dead rank was between.
fn neighbours(me: Rank, size: u32, dead: &RankSet) -> BTreeSet<Rank> {
    let mut found = BTreeSet::from([me]);
    let mut through = Vec::from([me]);
    while let Some(rank) = through.pop() {
        let distances = (0..u32::BITS).map(|k| 1_u32 << k).take_while(|distance| *distance < size);
        for distance in distances.flat_map(|distance| [distance, size - distance]) {
            let number = (u64::from(rank.number()) + u64::from(distance)) % u64::from(size);
            let next = Rank::new(number as u32);
            if found.insert(next) && dead.contains(next) && !planted!(CutTheFlood) {
                through.push(next);
            }
        }
    }
    found.retain(|rank| *rank != me && !dead.contains(*rank));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Effect;
    use alloc::{collections::VecDeque, vec};
    use proptest::prelude::*;

    const BLOCK: BlockId = BlockId(3);

    /// A group of ranks, of which some are dead.
    struct Group {
        machines: Vec<Interrupts>,
        dead: RankSet,
        known: Vec<RankSet>,
        messages: VecDeque<(Rank, Rank)>,
        heard: Vec<bool>,
    }

    impl Group {
        fn new(size: u32, dead: RankSet) -> Self {
            let all = (0..size).map(Rank::new);
            Self {
                machines: all.map(|rank| Interrupts::new(rank, size)).collect(),
                known: vec![dead.clone(); size as usize],
                dead,
                messages: VecDeque::new(),
                heard: vec![false; size as usize],
            }
        }

        fn carry_out(&mut self, rank: Rank, out: Vec<Effect>) {
            for effect in out {
                match effect {
                    Effect::Send(to, _) => self.messages.push_back((rank, to)),
                    Effect::Emit(_) => {
                        assert!(!self.heard[rank.index()], "each rank passes it on once");
                        self.heard[rank.index()] = true;
                    }
                }
            }
        }

        fn hear(&mut self, rank: Rank) {
            let mut out = Vec::new();
            let index = rank.index();
            self.machines[index].handle_interrupt(BLOCK, &self.known[index], &mut out);
            self.carry_out(rank, out);
        }

        /// The rank dies with the messages that it still had to take, and all learn of it.
        fn die(&mut self, rank: Rank) {
            self.dead.insert(rank);
            for other in (0..self.machines.len()).map(Rank::from) {
                let (mut out, index) = (Vec::new(), other.index());
                if !self.dead.contains(other) {
                    self.known[index].insert(rank);
                    let known = &self.known[index];
                    self.machines[index].handle_failure(rank, known, &mut out);
                    self.carry_out(other, out);
                }
            }
        }

        fn flood(&mut self) {
            while let Some((_, to)) = self.messages.pop_front() {
                if !self.dead.contains(to) {
                    self.hear(to);
                }
            }
        }

        fn everybody_heard(&self) -> bool {
            let heard = self.heard.iter().enumerate();
            heard.clone().all(|(at, heard)| *heard || self.dead.contains(Rank::from(at)))
        }
    }

    #[test]
    fn a_late_interruption_of_a_forgotten_block_is_not_echoed() {
        let mut machine = Interrupts::new(Rank::new(0), 4);
        let (mut out, dead): (Vec<Effect>, _) = (Vec::new(), RankSet::new());
        machine.handle_interrupt(BLOCK, &dead, &mut out);
        machine.forget_below(BlockId(4));
        out.clear();
        machine.handle_interrupt(BLOCK, &dead, &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn a_flood_reaches_everybody_and_each_rank_passes_it_on_once() {
        for size in 1..33_u32 {
            let mut group = Group::new(size, RankSet::new());
            group.hear(Rank::new(0));
            group.flood();
            assert!(group.everybody_heard(), "{size}");
        }
    }

    #[test]
    fn it_goes_around_the_dead_however_many_they_are() {
        for size in 2..=11_u32 {
            for dead in 0..(1_u32 << size) - 1 {
                let ranks = (0..size).map(Rank::new);
                let (dead, alive): (Vec<_>, Vec<_>) =
                    ranks.partition(|rank| dead >> rank.number() & 1 == 1);
                let mut group = Group::new(size, dead.iter().copied().collect());
                group.hear(alive[0]);
                group.flood();
                assert!(group.everybody_heard(), "{size} ranks without {dead:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn it_goes_around_those_who_die_before_they_pass_it_on(
            size in 2_u32..40,
            deaths in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..20), 0..40),
        ) {
            let mut group = Group::new(size, RankSet::new());
            group.hear(Rank::new(0));
            for (who, after) in deaths {
                for _ in 0..after {
                    let Some((_, to)) = group.messages.pop_front() else { break };
                    if !group.dead.contains(to) {
                        group.hear(to);
                    }
                }
                // What the first one heard is not lost as long as it lives.
                let who = Rank::from(1 + who.index(size as usize - 1));
                if !group.dead.contains(who) {
                    group.messages.retain(|(from, _)| *from != who);
                    group.die(who);
                }
            }
            group.flood();
            prop_assert!(group.everybody_heard());
        }
    }
}
