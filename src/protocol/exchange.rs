//! The exchange of the fast path: recursive multiplying among the positions of a view.
//!
//! In each round positions in groups of k all tell each other what they have combined; after
//! logₖ n rounds every rank has combined all votes. Groups of two are recursive doubling. A wider
//! group costs more messages and saves rounds, which is worth it where a message is cheaper than
//! a wait: among the ranks of a node, in the first round. So few positions that one group can hold
//! them need one round. Otherwise those at or above the largest power of two fold into a core
//! position first and get the result last:
//!
//! ```text
//! groups of 4, positions 0 … 8 (core 8)    8 ─fold in→ 0          round 0
//!                                          0 1 2 3   4 5 6 7      round 1
//!                                          0↔4 1↔5 2↔6 3↔7        round 2
//!                                          0 ─fold out→ 8         round 3
//! ```
//!
//! A **step** numbers what a position is sent: 0 for the fold in, then the others of its group
//! in each round, by their distance from it, then the fold out.
//!
//! Assumes that what is combined is idempotent (votes that are all *yes*, a minimum), so that an
//! early message may be merged before its round; what is not ([`super::fused`]) waits for it.
//!
//! Reference: M. Ruefenacht, M. Bull, S. Booth, "Generalisation of recursive doubling for
//! `AllReduce`", Parallel Computing 69 (2017).

use super::planted::planted;

/// How wide the groups of an exchange are; the same on all ranks of a communicator.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Shape {
    /// Base-two logarithms: of the first groups in the upper half, of the others in the lower.
    logarithms: u8,
}

/// The state of one exchange at one position.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Exchange {
    position: u32,
    /// Positions that combine: all in one group, or a power of two.
    core: u32,
    shape: Shape,
    /// Another position folds into this one, or this one into another.
    extra: bool,
    /// Rounds between the fold in and the fold out.
    rounds: u8,
    round: u8,
    /// With whom this position combines, or combined last.
    group: Group,
    /// The steps that the round waits for, a bit for each.
    needed: u64,
    arrived: u64,
}

/// What an exchange does next.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// The position that folds into this one has come.
    FoldIn,
    /// A round is complete.
    Combine(Group),
    /// This position is told the result, by this step.
    Told(u8),
    /// To this position, as this step of its own.
    Send(u32, u8),
}

/// The positions that a position exchanges with in one round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Group {
    /// The first of its steps.
    step: u8,
    shift: u8,
    width: u8,
    /// Which of the group this position is.
    member: u8,
}

impl Shape {
    /// Recursive doubling.
    pub const DOUBLING: Self = Self::new(2, 2);
    /// One round among the ranks of a small node.
    pub const WIDE: Self = Self::new(8, 2);
    /// Among nodes a message costs more than a round less is worth.
    pub const BETWEEN_NODES: Self = Self::DOUBLING;

    /// Groups of `first` in the first round and of `later` in all others.
    ///
    /// # Panics
    ///
    /// Unless each is 2, 4 or 8, and `later` is at most 4.
    pub const fn new(first: u32, later: u32) -> Self {
        assert!(matches!(first, 2 | 4 | 8), "the first groups are of 2, 4 or 8");
        assert!(matches!(later, 2 | 4), "later groups are of 2 or 4");
        Self { logarithms: (first.ilog2() as u8) << 4 | later.ilog2() as u8 }
    }

    #[inline]
    const fn first(self) -> u8 {
        self.logarithms >> 4
    }

    #[inline]
    const fn later(self) -> u8 {
        self.logarithms & 15
    }

    /// A number that names the shape.
    pub(super) const fn number(self) -> u64 {
        self.logarithms as u64
    }

    /// The positions that combine.
    #[inline]
    const fn core(self, size: u32) -> u32 {
        let first = self.first();
        if size >> first == 0 || size == 1 << first { size } else { 1 << size.ilog2() }
    }

    #[inline]
    const fn rounds(self, core: u32) -> u8 {
        if core < 2 {
            return 0;
        }
        let beyond = (core.ilog2() as u8).saturating_sub(self.first());
        1 + beyond.div_ceil(self.later())
    }
}

impl Group {
    /// A position by itself.
    const ALONE: Self = Self { step: 0, shift: 0, width: 1, member: 0 };

    /// The steps of its members, in their order; nothing for this position itself.
    #[inline]
    pub fn steps(self) -> impl Iterator<Item = Option<u8>> {
        (0..self.width).map(move |member| {
            let distance = self.modulo(member + self.width - self.member);
            (distance != 0).then(|| self.step + distance - 1)
        })
    }

    /// The step of the other of two.
    #[inline]
    pub const fn other(self) -> Option<u8> {
        if self.width == 2 { Some(self.step) } else { None }
    }

    /// The bits of its steps.
    #[inline]
    const fn mask(self) -> u64 {
        ((1 << (self.width - 1)) - 1) << self.step
    }

    /// The position of the member at this distance from one of its members.
    #[inline]
    const fn at(self, position: u32, distance: u8) -> u32 {
        let member = self.modulo(self.member + distance);
        position - ((self.member as u32) << self.shift) + ((member as u32) << self.shift)
    }

    /// Of less than twice the width.
    #[inline]
    const fn modulo(self, number: u8) -> u8 {
        if number < self.width { number } else { number - self.width }
    }
}

impl Exchange {
    /// An exchange among `size` positions, seen from one of them; call [`Self::advance`] next.
    #[inline]
    pub fn new(position: u32, size: u32, shape: Shape) -> Self {
        let core = shape.core(size);
        let extra = position + core < size || position >= core;
        let rounds = shape.rounds(core) - u8::from(core > 1 && planted!(StopARoundEarly));
        let (round, group, needed, arrived) = (u8::MAX, Group::ALONE, 0, 0);
        Self { position, core, shape, extra, rounds, round, group, needed, arrived }
    }

    /// The positions that wait for this one.
    pub fn partners(position: u32, size: u32, shape: Shape) -> impl Iterator<Item = u32> {
        let exchange = Self::new(position, size, shape);
        (0..=exchange.last()).filter_map(move |step| exchange.sender(step))
    }

    /// Notes the message of a step; true when it comes from the position expected for it.
    #[inline]
    pub fn arrive(&mut self, from: u32, step: u8) -> bool {
        if self.sender(step) != Some(from) {
            return false;
        }
        self.arrived |= 1 << step;
        true
    }

    /// True when the message of this step, which may be any number, completes a round of two.
    #[inline]
    pub(super) fn pairs(&self, step: u8) -> bool {
        let missing = self.needed & !self.arrived;
        self.group.other() == Some(step) && missing == self.group.mask()
    }

    /// Notes the steps whose messages arrived before the exchange began.
    #[inline]
    pub fn arrive_early(&mut self, steps: u64) {
        self.arrived |= steps;
    }

    /// True when the messages of these steps, a bit for each, have arrived.
    #[inline]
    pub(super) const fn has_arrived(&self, steps: u64) -> bool {
        self.arrived & steps == steps
    }

    /// Goes as far as the arrived messages allow. True when all votes are combined.
    #[inline]
    pub fn advance(&mut self, mut act: impl FnMut(Move)) -> bool {
        if self.round == u8::MAX {
            self.enter(u8::from(!self.extra), &mut act);
        }
        while self.arrived & self.needed == self.needed {
            if self.needed != 0 {
                act(match self.round {
                    0 => Move::FoldIn,
                    _ if self.follows() => Move::Told(self.last()),
                    _ => Move::Combine(self.group),
                });
            }
            if self.round + u8::from(!self.extra) > self.rounds {
                self.needed = 0;
                return true;
            }
            self.enter(self.round + 1, &mut act);
        }
        false
    }

    /// A position whose message the exchange waits for.
    #[inline]
    pub fn awaits(&self) -> Option<u32> {
        let missing = self.needed & !self.arrived;
        if missing == 0 { None } else { self.sender(missing.trailing_zeros() as u8) }
    }

    /// The position that folds into this one, if any does.
    pub(super) fn folds_in(&self) -> Option<u32> {
        (self.extra && !self.follows()).then(|| self.position + self.core)
    }

    /// True when this position is told the result, and has no part in combining it.
    #[inline]
    const fn follows(&self) -> bool {
        self.position >= self.core
    }

    /// Begins a round: round 0 is the fold in, the one after the last the fold out.
    #[inline]
    fn enter(&mut self, round: u8, act: &mut impl FnMut(Move)) {
        self.round = round;
        self.needed = 0;
        if (1..=self.rounds).contains(&round) {
            if self.follows() {
                return;
            }
            let group = self.group_of(round);
            self.group = group;
            self.needed = group.mask();
            if group.width > 2 && planted!(SkipAMember) {
                self.needed &= self.needed - 1;
            }
            if planted!(TellTheFoldedEarly) && self.extra && round == self.rounds {
                act(Move::Send(self.position + self.core, self.last()));
            }
            let old = planted!(TellTheOldGroup) && 1 < round && round == self.rounds;
            let shift = if old { self.group_of(round - 1).shift } else { group.shift };
            for distance in 1..group.width {
                let step = group.step + group.width - distance - 1;
                act(Move::Send(Group { shift, ..group }.at(self.position, distance), step));
            }
        } else if self.extra {
            match (round, self.follows()) {
                (0, true) => act(Move::Send(self.position - self.core, 0)),
                (0, false) => self.needed = u64::from(!planted!(LeaveOutTheFolded)),
                (_, true) => self.needed = 1 << self.last(),
                (_, false) => act(Move::Send(self.position + self.core, self.last())),
            }
        }
    }

    /// The position that sends a step; nearly always it is one of the round.
    #[inline]
    fn sender(&self, step: u8) -> Option<u32> {
        let before = step.wrapping_sub(self.group.step);
        if before < self.group.width - 1 {
            return Some(self.group.at(self.position, before + 1));
        }
        self.sender_elsewhere(step)
    }

    #[inline(never)]
    fn sender_elsewhere(&self, step: u8) -> Option<u32> {
        if self.follows() {
            return (step == self.last()).then(|| self.position - self.core);
        }
        if step == 0 {
            return self.extra.then(|| self.position + self.core);
        }
        let mut groups = (1..=self.rounds).map(|round| self.group_of(round));
        let group = groups.find(|group| step - group.step < group.width - 1)?;
        Some(group.at(self.position, step - group.step + 1))
    }

    /// The step of the fold out.
    #[inline]
    const fn last(&self) -> u8 {
        match self.rounds {
            0 => 1,
            rounds => {
                let group = self.group_of(rounds);
                group.step + group.width - 1
            }
        }
    }

    /// The group of this position in a round from 1 on.
    #[inline]
    const fn group_of(&self, round: u8) -> Group {
        let (first, later) = (self.shape.first(), self.shape.later());
        if round == 1 {
            let alone = self.core >> first == 0;
            let width = if alone { self.core as u8 } else { 1 << first };
            let member = self.position as u8;
            let member = if alone { member } else { member & (width - 1) };
            return Group { step: 1, shift: 0, width, member };
        }
        let shift = first + (round - 2) * later;
        let left = self.core >> shift;
        let width = if left >> later == 0 { left as u8 } else { 1 << later };
        let step = (1 << first) + (round - 2) * ((1 << later) - 1);
        let member = (self.position >> shift) as u8 & (width - 1);
        Group { step, shift, width, member }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::VecDeque, vec, vec::Vec};

    const SHAPES: [Shape; 5] =
        [Shape::DOUBLING, Shape::WIDE, Shape::new(4, 4), Shape::new(8, 4), Shape::new(2, 4)];

    /// What a position knows: the positions that are combined in what it has.
    fn combine(known: &mut [Vec<u64>], at: usize, act: Move) {
        let came = |step: u8, known: &[Vec<u64>]| known[at][1 + usize::from(step)];
        let steps: Vec<u8> = match act {
            Move::FoldIn => vec![0],
            Move::Told(step) => vec![step],
            Move::Combine(group) => group.steps().flatten().collect(),
            Move::Send(..) => return,
        };
        for step in steps {
            known[at][0] |= came(step, known);
        }
    }

    #[test]
    fn everybody_hears_of_everybody() {
        for (shape, size) in SHAPES.into_iter().flat_map(|shape| (1..65).map(move |n| (shape, n))) {
            let mut machines: Vec<_> = (0..size).map(|i| Exchange::new(i, size, shape)).collect();
            let mut known: Vec<Vec<u64>> = (0..size).map(|i| vec![1 << i; 65]).collect();
            let mut links = VecDeque::new();
            let mut done = vec![false; size as usize];
            let run = |at: usize,
                       machine: &mut Exchange,
                       known: &mut Vec<Vec<u64>>,
                       links: &mut VecDeque<_>| {
                machine.advance(|act| {
                    combine(known, at, act);
                    if let Move::Send(to, step) = act {
                        links.push_back((at, to as usize, step, known[at][0]));
                    }
                })
            };
            for at in 0..size as usize {
                done[at] = run(at, &mut machines[at], &mut known, &mut links);
            }
            while let Some((from, to, step, what)) = links.pop_front() {
                assert!(machines[to].arrive(from as u32, step), "{shape:?} {size}: {from} to {to}");
                known[to][1 + usize::from(step)] = what;
                done[to] = run(to, &mut machines[to], &mut known, &mut links);
            }
            assert!(done.iter().all(|done| *done), "{shape:?} {size}");
            let everybody = u64::MAX >> (64 - size);
            assert!(known.iter().all(|known| known[0] == everybody), "{shape:?} {size}");
        }
    }

    #[test]
    fn one_step_completes_a_round_of_two_and_none_any_other() {
        for (shape, size) in SHAPES.into_iter().flat_map(|shape| (1..20).map(move |n| (shape, n))) {
            for position in 0..size {
                let mut machine = Exchange::new(position, size, shape);
                let pairs = |machine: &Exchange| -> Vec<u8> {
                    (0..=u8::MAX).filter(|step| machine.pairs(*step)).collect()
                };
                assert!(pairs(&machine).is_empty(), "it has not begun");
                let mut done = machine.advance(|_| {});
                while !done {
                    let inside = (1..=machine.rounds).contains(&machine.round);
                    let of_two = inside && !machine.follows() && machine.needed.is_power_of_two();
                    let step = machine.needed.trailing_zeros() as u8;
                    let expected = if of_two { vec![step] } else { Vec::new() };
                    assert_eq!(pairs(&machine), expected, "{machine:?}");
                    machine.arrive_early(machine.needed);
                    assert!(pairs(&machine).is_empty(), "it has come: {machine:?}");
                    done = machine.advance(|_| {});
                }
            }
        }
    }

    /// The messages of an exchange, if none is held up.
    fn messages(size: u32, shape: Shape) -> u32 {
        let mut sent = 0;
        for position in 0..size {
            let mut machine = Exchange::new(position, size, shape);
            machine.arrive_early(u64::MAX);
            machine.advance(|act| sent += u32::from(matches!(act, Move::Send(..))));
        }
        sent
    }

    #[test]
    fn it_takes_the_messages_that_it_should() {
        for size in 1..65_u32 {
            let (rounds, core) = (size.ilog2(), 1 << size.ilog2());
            assert_eq!(messages(size, Shape::DOUBLING), core * rounds + 2 * (size - core));
        }
        for size in 1..=8 {
            assert_eq!(messages(size, Shape::WIDE), size * (size - 1), "all at once");
        }
        assert_eq!(messages(9, Shape::WIDE), 8 * 7 + 2);
        assert_eq!(messages(16, Shape::WIDE), 16 * (7 + 1));
        assert_eq!(messages(64, Shape::new(8, 4)), 64 * (7 + 3 + 1));
    }

    #[test]
    fn steps_fit_for_all_that_can_be_ranked() {
        for shape in SHAPES {
            let size = u32::MAX;
            let machine = Exchange::new(5, size, shape);
            assert!(machine.last() < 64, "{shape:?}: {}", machine.last());
        }
    }

    #[test]
    fn one_alone_has_no_rounds_and_nobody_never_begins_one() {
        for shape in SHAPES {
            assert_eq!(Exchange::new(0, 0, shape).awaits(), None);
            assert!(Exchange::new(0, 1, shape).advance(|_| panic!("to whom?")));
        }
    }

    #[test]
    fn a_message_from_the_wrong_position_is_refused() {
        for shape in SHAPES {
            let mut machine = Exchange::new(0, 4, shape);
            assert!(!machine.arrive(0, 1));
            assert!(!machine.arrive(1, 9));
            assert!(!machine.arrive(1, 200));
            assert!(machine.arrive(1, 1));
        }
    }
}
