//! The exchange of the fast path among ranks that are on several nodes.
//!
//! What the ranks of a node say is combined in the memory that they share and comes to the *head*
//! of the node, its first living rank. The heads exchange with one message a step between nodes
//! ([`exchange`](super::exchange)), and tell their nodes what came of it:
//!
//! ```text
//! node 0: ranks 0 1 2     1 → 0, 2 → 0     3 → 5 …     gather, in groups of eight
//! node 1: ranks 5 3 4          0 ↔ 5                   log₂(nodes) rounds among the heads
//!                         0 → 1, 0 → 2     5 → 3 …     tell
//! ```
//!
//! Where each node has one rank of those that exchange, or where all share one node, all are heads:
//! there is nothing to gather, and no rank to be told.
//!
//! **Steps.** Those of the exchange among heads come first, then one for each that a rank gathers
//! from, then that of being told.

use super::{
    exchange::{self, Exchange, Shape},
    planted::planted,
};

/// Where a rank is among those that exchange.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Seat {
    /// The node.
    pub node: u32,
    /// How many nodes there are.
    pub nodes: u32,
    /// Which of its node the rank is; 0 is the head.
    pub member: u32,
    /// How many ranks the node has, at most [`MOST_MEMBERS`].
    pub members: u32,
}

/// A rank, or a node, that a rank exchanges with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peer {
    /// The head of a node.
    Head(u32),
    /// A member of the rank's own node.
    Member(u32),
}

/// What an exchange does next.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// Something of the exchange among heads, which is never [`exchange::Move::Send`].
    Among(exchange::Move),
    /// These steps, a bit for each, have brought what the rank gathers.
    Gathered(u64),
    /// The rank was told the result, by this step.
    Told(u8),
    /// To this one, as this step of its own.
    Send(Peer, u8),
}

/// How far an exchange is at a rank.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Stage {
    Gathering,
    Among,
    Telling,
    Over,
}

/// The state of one exchange at one rank, whose [`Seat`] is the same in each call.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NodeExchange {
    heads: Exchange,
    stage: Stage,
}

/// The most ranks that gather in one place; a larger node counts as several.
pub const MOST_MEMBERS: u32 = 1 << (DIGITS * DIGIT);

/// Members gather in groups of eight, in so many rounds.
const DIGIT: u32 = 3;
const DIGITS: u32 = 3;
/// The first step of those who are gathered from: beyond all steps among heads.
const FIRST_MEMBER: u8 = 42;
/// The step of being told.
const TOLD: u8 = FIRST_MEMBER + (DIGITS * ((1 << DIGIT) - 1)) as u8;
const _: () = assert!(TOLD == 63, "the steps fit in a word");

/// The step of the member that differs from the gathering one by this digit in this round.
const fn step_of(round: u32, digit: u32) -> u8 {
    FIRST_MEMBER + (round * ((1 << DIGIT) - 1) + digit - 1) as u8
}

impl Seat {
    /// Of one among so many, all of which are heads.
    pub const fn alone(node: u32, nodes: u32) -> Self {
        Self { node, nodes, member: 0, members: 1 }
    }

    /// The members that this one gathers from, with their steps here.
    pub fn children(self) -> impl Iterator<Item = (u32, u8)> {
        // As many rounds as the member has zeros at its end, written in digits; the head has all.
        let rounds = (self.member.trailing_zeros() / DIGIT).min(DIGITS);
        let digits = (0..rounds).flat_map(|round| (1..1 << DIGIT).map(move |digit| (round, digit)));
        let child =
            move |(round, digit)| (self.member + (digit << (round * DIGIT)), step_of(round, digit));
        digits.map(child).filter(move |(member, _)| *member < self.members)
    }

    /// The member that gathers from this one, and the step of this one there; nothing for a head.
    pub const fn parent(self) -> Option<(u32, u8)> {
        if self.member == 0 {
            return None;
        }
        let round = self.member.trailing_zeros() / DIGIT;
        let digit = self.member >> (round * DIGIT) & 7;
        Some((self.member - (digit << (round * DIGIT)), step_of(round, digit)))
    }

    /// The steps by which this one gathers, a bit for each.
    fn gathers(self) -> u64 {
        self.children().fold(0, |steps, (_, step)| steps | 1 << step)
    }

    /// Those who wait for this one, at one time or another.
    pub fn partners(self, shape: Shape) -> impl Iterator<Item = Peer> {
        let heads = (self.member == 0).then(|| Exchange::partners(self.node, self.nodes, shape));
        let near = self.children().map(|(child, _)| child);
        let near = near.chain(self.parent().map(|(parent, _)| parent));
        heads.into_iter().flatten().map(Peer::Head).chain(near.map(Peer::Member))
    }
}

impl NodeExchange {
    /// An exchange seen from one seat, the heads in this shape; call [`Self::advance`] next.
    pub fn new(seat: Seat, shape: Shape) -> Self {
        let stage = if seat.members == 1 { Stage::Among } else { Stage::Gathering };
        Self { heads: Exchange::new(seat.node, seat.nodes, shape), stage }
    }

    /// Notes the message of a step; true when it comes from whom it is expected from.
    #[inline]
    pub fn arrive(&mut self, seat: Seat, from: Peer, step: u8) -> bool {
        if step < FIRST_MEMBER {
            let Peer::Head(node) = from else { return false };
            return seat.member == 0 && self.heads.arrive(node, step);
        }
        let Peer::Member(member) = from else { return false };
        let expected = sender(seat, step) == Some(member);
        if expected {
            self.heads.arrive_early(1 << step);
        }
        expected
    }

    /// True when the message of this step, which may be any number, completes a round of two among
    /// heads, which is all that happens.
    #[inline]
    pub(super) fn pairs(&self, step: u8) -> bool {
        self.stage == Stage::Among && self.heads.pairs(step)
    }

    /// Notes the steps whose messages arrived before the exchange began.
    #[inline]
    pub fn arrive_early(&mut self, steps: u64) {
        self.heads.arrive_early(steps);
    }

    /// Goes as far as the arrived messages allow. True when all votes are combined.
    #[inline]
    pub fn advance(&mut self, seat: Seat, mut act: impl FnMut(Move)) -> bool {
        if self.stage == Stage::Gathering && !self.gather(seat, &mut act) {
            return false;
        }
        if self.stage == Stage::Among {
            let complete = self.heads.advance(|step| {
                act(match step {
                    exchange::Move::Send(node, step) => Move::Send(Peer::Head(node), step),
                    other => Move::Among(other),
                });
            });
            if !complete {
                return false;
            }
            self.stage = Stage::Over;
            tell(seat, &mut act);
        }
        if self.stage == Stage::Telling {
            if !self.heads.has_arrived(1 << TOLD) {
                return false;
            }
            self.stage = Stage::Over;
            act(Move::Told(TOLD));
            tell(seat, &mut act);
        }
        true
    }

    /// Gathers from members; true when all has come.
    #[cold]
    fn gather(&mut self, seat: Seat, act: &mut impl FnMut(Move)) -> bool {
        let mut steps = seat.gathers();
        if planted!(LeaveOutAMember) {
            steps &= steps.wrapping_sub(1);
        }
        if !self.heads.has_arrived(steps) {
            return false;
        }
        if steps != 0 {
            act(Move::Gathered(steps));
        }
        self.stage = Stage::Among;
        if let Some((parent, step)) = seat.parent() {
            act(Move::Send(Peer::Member(parent), step));
            self.stage = Stage::Telling;
        } else if planted!(TellBeforeTheHeads) {
            tell(seat, act);
        }
        true
    }

    /// A rank whose message the exchange waits for.
    #[inline]
    pub fn awaits(&self, seat: Seat) -> Option<Peer> {
        match self.stage {
            Stage::Among => self.heads.awaits().map(Peer::Head),
            Stage::Gathering => {
                let mut steps = seat.children();
                let missing = steps.find(|(_, step)| !self.heads.has_arrived(1 << *step));
                missing.map(|(member, _)| Peer::Member(member))
            }
            Stage::Telling => seat.parent().map(|(parent, _)| Peer::Member(parent)),
            Stage::Over => None,
        }
    }
}

/// Tells the result to those from whom a rank has gathered.
#[inline]
fn tell(seat: Seat, act: &mut impl FnMut(Move)) {
    if seat.members > 1 {
        seat.children().for_each(|(child, _)| act(Move::Send(Peer::Member(child), TOLD)));
    }
}

/// The member that sends a step, from the first of members on.
fn sender(seat: Seat, step: u8) -> Option<u32> {
    if step == TOLD {
        return seat.parent().map(|(parent, _)| parent);
    }
    seat.children().find(|(_, own)| *own == step).map(|(child, _)| child)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        protocol::{placement::Nodes, view::View},
        rank::Rank,
    };
    use alloc::{collections::VecDeque, vec, vec::Vec};

    /// Placements of `size` ranks: by node, by slot, in a heap, uneven, with one rank alone.
    fn placements(size: u32) -> Vec<Vec<u32>> {
        let by = |node: &dyn Fn(u32) -> u32| (0..size).map(node).collect();
        vec![
            by(&|rank| rank / 4),
            by(&|rank| rank % 3),
            by(&|rank| rank * 2 / size),
            by(&|rank| u32::from(rank != 1)),
            by(&|rank| rank.ilog2_or_zero()),
            by(&|rank| (size - rank) / 9),
        ]
    }

    trait Logarithm {
        fn ilog2_or_zero(self) -> u32;
    }

    impl Logarithm for u32 {
        fn ilog2_or_zero(self) -> u32 {
            self.checked_ilog2().unwrap_or(0)
        }
    }

    /// Runs the exchange of a view: what each rank knows of in the end, and all messages.
    fn run(view: &View) -> (Vec<Vec<bool>>, Vec<(Rank, Rank)>) {
        let ranks: Vec<Rank> = (0..view.live()).map(|position| view.rank_at(position)).collect();
        let seats: Vec<Seat> = ranks.iter().map(|rank| view.seat(*rank)).collect();
        let mut machines: Vec<_> =
            seats.iter().map(|seat| NodeExchange::new(*seat, view.shape())).collect();
        let mut known: Vec<Vec<bool>> =
            (0..ranks.len()).map(|one| (0..ranks.len()).map(|at| at == one).collect()).collect();
        let (mut links, mut sent) = (VecDeque::new(), Vec::new());
        let mut over = vec![false; ranks.len()];
        let mut go = |at: usize, machine: &mut NodeExchange, what: &[bool]| {
            let mut new = Vec::new();
            let done = machine.advance(seats[at], |act| {
                if let Move::Send(peer, step) = act {
                    let to = view.rank_of(seats[at], peer);
                    sent.push((ranks[at], to));
                    new.push((at, view.position_of(to) as usize, step, what.to_vec()));
                }
            });
            (done, new)
        };
        for at in 0..ranks.len() {
            let (done, new) = go(at, &mut machines[at], &known[at].clone());
            (over[at], ()) = (done, links.extend(new));
        }
        while let Some((from, to, step, what)) = links.pop_front() {
            let peer = view.peer(seats[to], ranks[from]).expect("they exchange");
            assert!(machines[to].arrive(seats[to], peer, step), "{from} to {to} by {step}");
            // Merged at once, as votes are.
            known[to].iter_mut().zip(&what).for_each(|(known, what)| *known |= *what);
            let (done, new) = go(to, &mut machines[to], &known[to].clone());
            (over[to], ()) = (done, links.extend(new));
        }
        assert!(over.iter().all(|over| *over));
        (known, sent)
    }

    fn dead(ranks: &[u32]) -> crate::rank::RankSet {
        ranks.iter().copied().map(Rank::new).collect()
    }

    #[test]
    fn everybody_hears_of_everybody_wherever_the_ranks_are() {
        for size in 1..40 {
            for nodes in placements(size) {
                let mut view = View::new(size, Shape::WIDE).on_nodes(&Nodes::new(&nodes));
                for gone in [&[][..], &[0], &[size / 2], &[size - 1, 1]] {
                    let gone = dead(gone);
                    if gone.len() < size as usize {
                        view.exclude(&gone.iter().filter(|it| it.number() < size).collect());
                    }
                    let (known, _) = run(&view);
                    assert!(known.iter().flatten().all(|known| *known), "{nodes:?} {view:?}");
                }
            }
        }
    }

    #[test]
    fn one_message_a_step_goes_between_nodes() {
        let nodes: Vec<u32> = (0..64).map(|rank| rank % 4).collect();
        let (_, sent) = run(&View::new(64, Shape::DOUBLING).on_nodes(&Nodes::new(&nodes)));
        let node = |rank: &Rank| nodes[rank.index()];
        let between = sent.iter().filter(|(from, to)| node(from) != node(to)).count();
        assert_eq!(between, 4 * 2, "four heads, two rounds");
        assert_eq!(sent.len() - between, 60 * 2, "each of the others tells, and is told");
    }

    #[test]
    fn a_large_node_gathers_in_rounds_and_one_that_is_too_large_counts_as_several() {
        let nodes: Vec<u32> = (0..1200).map(|rank| rank / 1000).collect();
        let view = View::new(1200, Shape::WIDE).on_nodes(&Nodes::new(&nodes));
        let seats: Vec<Seat> = (0..1200).map(|rank| view.seat(Rank::new(rank))).collect();
        assert!(seats.iter().all(|seat| (seat.nodes, seat.members <= MOST_MEMBERS) == (3, true)));
        assert!(seats.iter().all(|seat| seat.children().count() <= 21));
        for seat in &seats {
            for (child, step) in seat.children() {
                let below = Seat { member: child, ..*seat };
                assert_eq!(below.parent(), Some((seat.member, step)));
            }
        }
        let (known, _) = run(&view);
        assert!(known.iter().flatten().all(|known| *known));
    }

    #[test]
    fn what_comes_from_somebody_else_is_refused() {
        let view = View::new(6, Shape::WIDE).on_nodes(&Nodes::new(&[0, 0, 0, 1, 1, 1]));
        let seat = view.seat(Rank::new(0));
        let mut machine = NodeExchange::new(seat, view.shape());
        for step in 0..=u8::MAX {
            let from = [Peer::Head(0), Peer::Head(7), Peer::Member(0), Peer::Member(5)];
            assert!(from.iter().all(|peer| !machine.arrive(seat, *peer, step)), "{step}");
        }
        assert_eq!(view.peer(seat, Rank::new(4)), None, "it is no head");
        assert_eq!(machine.awaits(seat), Some(Peer::Member(1)));
    }
}
