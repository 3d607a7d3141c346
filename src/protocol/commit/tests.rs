//! The commit in small scenarios.

mod nodes;
mod purposes;

use alloc::{vec, vec::Vec};

use super::*;
use crate::{
    fault::Fault,
    protocol::{
        Effect,
        fused::{ReduceOp, combined},
        message::Yes,
    },
};

const COMM: CommId = CommId(1);
const FIRST: BlockId = BlockId(0);

/// Ranks with links between them; messages wait until they are delivered.
struct Ranks {
    machines: Vec<Commit>,
    links: Vec<(Rank, Rank, Message)>,
    dead: RankSet,
}

impl Ranks {
    /// With doubling, whose rounds the stories below tell of.
    fn new(size: u32) -> Self {
        Self::of(size, Shape::DOUBLING)
    }

    fn of(size: u32, shape: Shape) -> Self {
        let machine = |r| Commit::new(COMM, Rank::new(r), size).with_shape(shape);
        let machines = (0..size).map(machine).collect();
        Self { machines, links: Vec::new(), dead: RankSet::new() }
    }

    fn on_nodes(nodes: &[u32]) -> Self {
        let mut ranks = Self::of(nodes.len() as u32, Shape::WIDE);
        let machines = ranks.machines.drain(..);
        ranks.machines = machines.map(|machine| machine.on_nodes(&Nodes::new(nodes))).collect();
        ranks
    }

    fn turn(&mut self, rank: u32, turn: impl FnOnce(&mut Commit, &mut Vec<Effect>)) {
        let mut out = Vec::new();
        turn(&mut self.machines[rank as usize], &mut out);
        for effect in out {
            if let Effect::Send(to, message) = effect {
                self.links.push((Rank::new(rank), to, message));
            }
        }
    }

    fn vote(&mut self, rank: u32, vote: Vote) {
        self.vote_on(FIRST, rank, vote);
    }

    fn vote_on(&mut self, block: BlockId, rank: u32, vote: Vote) {
        self.turn(rank, |machine, out| machine.handle_vote(block, vote, out));
    }

    fn vote_with(&mut self, rank: u32, values: &Values) {
        self.turn(rank, |m, out| m.handle_fused_vote(FIRST, Vote::yes(0), values, out));
    }

    fn deliver_all(&mut self) {
        while !self.links.is_empty() {
            let (from, to, message) = self.links.remove(0);
            if !self.dead.contains(to) {
                self.turn(to.number(), |m, out| m.handle_message(from, message, out));
            }
        }
    }

    /// Delivers what waits for one rank, and leaves the rest on the links.
    fn deliver_to(&mut self, rank: u32) {
        while let Some(at) = self.links.iter().position(|(_, to, _)| to.number() == rank) {
            let (from, _, message) = self.links.remove(at);
            self.turn(rank, |machine, out| machine.handle_message(from, message, out));
        }
    }

    fn die(&mut self, rank: u32) {
        self.dead.insert(Rank::new(rank));
        for other in 0..self.machines.len() as u32 {
            if !self.dead.contains(Rank::new(other)) {
                self.turn(other, |machine, out| machine.handle_failure(Rank::new(rank), out));
            }
        }
    }

    fn decisions(&self, block: BlockId) -> Vec<Option<Decision>> {
        let live = self.machines.iter().filter(|machine| !self.dead.contains(machine.me));
        live.map(|machine| machine.decision(block)).collect()
    }
}

fn no(rank: u32) -> Vote {
    let fault = Fault { comm: COMM, rank: Rank::new(rank), code: FaultCode::Application(7) };
    Vote { faults: vec![fault], context: 0 }
}

#[test]
fn all_yes_is_committed_by_the_fast_path_alone() {
    for size in 1..20 {
        let mut ranks = Ranks::new(size);
        for rank in 0..size {
            ranks.vote(rank, Vote::yes(0));
        }
        assert!(ranks.links.iter().all(|(_, _, message)| matches!(message, Message::Yes(_))));
        ranks.deliver_all();
        let decisions = ranks.decisions(FIRST);
        assert!(
            decisions.iter().all(|decision| decision.as_ref().is_some_and(|d| d.committed)),
            "{size}"
        );
    }
}

#[test]
fn one_no_is_a_faulty_block_on_every_rank_with_the_same_report() {
    for size in 1..12 {
        for naysayer in 0..size {
            let mut ranks = Ranks::new(size);
            for rank in 0..size {
                let vote = if rank == naysayer { no(rank) } else { Vote::yes(0) };
                ranks.vote(rank, vote);
            }
            ranks.deliver_all();
            for decision in ranks.decisions(FIRST) {
                let decision = decision.expect("decided");
                assert!(!decision.committed);
                assert_eq!(decision.faults, no(naysayer).faults);
                assert_eq!(decision.next_context, 1);
            }
        }
    }
}

#[test]
fn a_death_is_reported_once_and_later_blocks_commit_without_the_dead() {
    let mut ranks = Ranks::new(6);
    for rank in 1..6 {
        ranks.vote(rank, Vote::yes(0));
    }
    ranks.die(0);
    ranks.deliver_all();
    for decision in ranks.decisions(FIRST) {
        let decision = decision.expect("decided");
        assert!(!decision.committed);
        assert_eq!(decision.dead.as_slice(), [Rank::new(0)]);
    }
    for round in 1..50 {
        for rank in 1..6 {
            ranks.vote_on(BlockId(round), rank, Vote::yes(1));
        }
        assert!(ranks.links.iter().all(|(_, _, message)| matches!(message, Message::Yes(_))));
        ranks.deliver_all();
        assert!(
            ranks.decisions(BlockId(round)).iter().all(|d| d.as_ref().is_some_and(|d| d.committed))
        );
    }
    assert!(ranks.machines[1..].iter().all(|machine| machine.retained() <= 2), "decisions stay");
}

#[test]
fn a_late_child_learns_the_old_decision() {
    let mut ranks = Ranks::new(4);
    ranks.vote(0, Vote::yes(0));
    ranks.vote(1, Vote::yes(0));
    ranks.vote(2, Vote::yes(0));
    ranks.vote(3, Vote::yes(0));
    // All ranks but rank 3 hear all.
    let (late, rest): (Vec<_>, Vec<_>) =
        ranks.links.drain(..).partition(|(_, to, _)| *to == Rank::new(3));
    ranks.links = rest;
    for (from, to, message) in late {
        ranks.turn(to.number(), |m, out| m.handle_message(from, message, out));
    }
    while let Some(at) =
        ranks.links.iter().position(|(from, to, _)| *to != Rank::new(3) || *from == Rank::new(1))
    {
        let (from, to, message) = ranks.links.remove(at);
        if to != Rank::new(3) || matches!(message, Message::Yes(Yes { step: 9, .. })) {
            ranks.turn(to.number(), |m, out| m.handle_message(from, message, out));
        }
    }
    assert!(ranks.machines[0].decision(FIRST).is_some_and(|decision| decision.committed));
    assert!(ranks.machines[3].decision(FIRST).is_none());
    // Its partner dies before its message arrives, so it asks, and hears what was decided.
    ranks.die(1);
    ranks.deliver_all();
    assert!(ranks.machines[3].decision(FIRST).is_some_and(|decision| decision.committed));
}

#[test]
fn a_rank_that_gave_up_answers_no_to_blocks_it_never_starts() {
    let mut ranks = Ranks::new(4);
    ranks.turn(2, Commit::retire);
    for rank in [0, 1, 3] {
        ranks.vote(rank, Vote::yes(0));
    }
    ranks.deliver_all();
    for rank in [0, 1, 3] {
        let decision = ranks.machines[rank].decision(FIRST).expect("decided");
        assert_eq!(decision.faults[0].code, FaultCode::Abandoned);
    }
}

#[test]
fn nobody_waits_in_silence_for_a_rank_that_gave_up() {
    // Of three ranks the last one folds into rank 0, which has nothing to say to it before.
    for leaver in 0..3 {
        let mut ranks = Ranks::new(3);
        ranks.turn(leaver, Commit::retire);
        ranks.deliver_all();
        for block in [0, 1].map(BlockId) {
            let others = (0..3).filter(|rank| *rank != leaver);
            others.clone().for_each(|rank| ranks.vote_on(block, rank, Vote::yes(0)));
            ranks.deliver_all();
            for rank in others {
                let decision = ranks.machines[rank as usize].decision(block).expect("decided");
                assert_eq!(decision.faults[0].code, FaultCode::Abandoned);
            }
        }
    }
}

#[test]
fn one_turn_can_decide_two_blocks_and_keeps_both_decisions() {
    let mut ranks = Ranks::new(2);
    ranks.vote_on(BlockId(0), 0, Vote::yes(0));
    ranks.vote_on(BlockId(1), 0, Vote::yes(0));
    ranks.die(1);
    // The first reports the death, so that it is known when the second is decided.
    assert!(ranks.decisions(BlockId(0))[0].as_ref().is_some_and(|decision| !decision.committed));
    assert!(ranks.decisions(BlockId(1))[0].as_ref().is_some_and(|decision| decision.committed));
}

#[test]
fn a_death_is_known_only_when_everybody_has_been_told() {
    let (outer, inner) = (BlockId(0), BlockId(1));
    let mut ranks = Ranks::new(3);
    ranks.vote_on(inner, 0, Vote::yes(0));
    ranks.vote_on(inner, 1, Vote::yes(0));
    ranks.die(2);
    ranks.deliver_to(0);
    // Rank 0 has reported the death in the inner block; rank 1 has not heard of that decision.
    assert!(ranks.machines[0].decision(inner).is_some_and(|decision| decision.dead.len() == 1));
    ranks.vote_on(outer, 1, Vote::yes(0));
    ranks.vote_on(outer, 0, Vote::yes(0));
    ranks.deliver_to(0);
    // If rank 0 died now, a commit would have left out a rank of whose death no living rank knows.
    assert!(ranks.machines[0].decision(outer).is_some_and(|decision| !decision.committed));
    ranks.deliver_all();
    assert_eq!(ranks.decisions(outer)[0], ranks.decisions(outer)[1]);
}

#[test]
fn an_outer_block_stays_open_while_thousands_of_inner_ones_end() {
    let mut ranks = Ranks::new(3);
    for block in (1..8192).chain([0]).map(BlockId) {
        for rank in 0..3 {
            ranks.vote_on(block, rank, Vote::yes(0));
        }
        ranks.deliver_all();
        let decisions = ranks.decisions(block);
        assert!(decisions.iter().all(|d| d.as_ref().is_some_and(|d| d.committed)), "{block:?}");
    }
}

#[test]
fn a_vote_on_a_block_that_is_far_ahead_is_kept() {
    let mut ranks = Ranks::new(3);
    let far = BlockId(100_000);
    ranks.vote_on(far, 0, Vote::yes(0));
    ranks.deliver_all();
    for rank in [1, 2] {
        ranks.vote_on(far, rank, Vote::yes(0));
    }
    ranks.deliver_all();
    assert!(ranks.decisions(far).iter().all(|d| d.as_ref().is_some_and(|d| d.committed)));
}

#[test]
fn attempts_in_different_contexts_are_never_committed() {
    let mut ranks = Ranks::new(2);
    ranks.vote(0, Vote::yes(0));
    ranks.vote(1, Vote::yes(3));
    ranks.deliver_all();
    for decision in ranks.decisions(FIRST) {
        let decision = decision.expect("decided");
        assert!(!decision.committed);
        assert_eq!(decision.next_context, 4);
    }
}

/// Numbers whose sum depends on the grouping.
fn brought_by(rank: u32) -> Values {
    let number = [1e16, 1.0, -1e16, 3.5, 1e-3][rank as usize % 5] / f64::from(rank + 1);
    Values::new(ReduceOp::Sum, &[number, f64::from(rank)]).expect("defined")
}

#[test]
fn fused_values_have_the_same_bits_on_both_paths_and_on_all_ranks() {
    for size in 1..20_u32 {
        let all: Vec<Values> = (0..size).map(brought_by).collect();
        let expected = combined(all.clone());
        for slow in [false, true] {
            let mut ranks = Ranks::new(size);
            for rank in 0..size {
                if slow {
                    ranks.turn(rank, |machine, out| {
                        machine.blocks.reach(FIRST);
                        machine.enter_slow_path(FIRST, out);
                    });
                }
                ranks.vote_with(rank, &all[rank as usize]);
            }
            ranks.deliver_all();
            for (machine, decision) in ranks.machines.iter().zip(ranks.decisions(FIRST)) {
                let decision = decision.expect("decided");
                assert!(decision.committed);
                assert_eq!(decision.values.as_deref(), expected.as_ref(), "{size} {slow}");
                assert_eq!(machine.values(FIRST).copied(), expected);
            }
        }
    }
}

#[test]
fn values_that_come_early_wait_for_their_round() {
    // The last rank votes first and the messages of the later rounds arrive before the others.
    for size in [4, 5, 8, 11] {
        let all: Vec<Values> = (0..size).map(brought_by).collect();
        let mut ranks = Ranks::new(size);
        for rank in (0..size).rev() {
            ranks.vote_with(rank, &all[rank as usize]);
            for to in (0..size).rev().filter(|to| to % 2 == rank % 2) {
                ranks.deliver_to(to);
            }
        }
        ranks.deliver_all();
        for decision in ranks.decisions(FIRST) {
            let decision = decision.expect("decided");
            assert_eq!(decision.values.as_deref(), combined(all.clone()).as_ref(), "{size}");
        }
    }
}

#[test]
fn who_decided_with_values_and_died_does_not_change_them() {
    let all: Vec<Values> = (0..4).map(brought_by).collect();
    let mut ranks = Ranks::new(4);
    (0..4).for_each(|rank| ranks.vote_with(rank, &all[rank as usize]));
    // Ranks 0 and 3 hear everything, 1 and 2 nothing of the second round.
    while let Some(at) = ranks.links.iter().position(|(_, to, message)| {
        let Message::Fused(fused) = message else { return true };
        fused.yes.step < 2 || [0, 3].contains(&to.number())
    }) {
        let (from, to, message) = ranks.links.remove(at);
        ranks.turn(to.number(), |m, out| m.handle_message(from, message, out));
    }
    assert!(ranks.machines[0].values(FIRST).is_some() && ranks.machines[1].values(FIRST).is_none());
    ranks.die(3);
    ranks.deliver_all();
    for decision in ranks.decisions(FIRST) {
        assert_eq!(decision.expect("decided").values.as_deref(), combined(all.clone()).as_ref());
    }
}

#[test]
fn values_of_different_shapes_are_a_fault_of_those_that_brought_them() {
    let other = Values::new(ReduceOp::Max, &[1.0, 2.0]).expect("defined");
    for size in 2..7_u32 {
        for plain in [false, true] {
            let mut ranks = Ranks::new(size);
            (1..size).for_each(|rank| ranks.vote_with(rank, &brought_by(rank)));
            if plain {
                ranks.vote(0, Vote::yes(0));
            } else {
                ranks.vote_with(0, &other);
            }
            ranks.deliver_all();
            for decision in ranks.decisions(FIRST) {
                let decision = decision.expect("decided");
                assert!(!decision.committed && decision.values.is_none());
                let blamed = decision.faults.iter().map(|fault| fault.rank.number());
                assert_eq!(
                    blamed.collect::<Vec<_>>(),
                    (u32::from(plain)..size).collect::<Vec<_>>()
                );
                assert!(decision.faults.iter().all(|it| it.code == FaultCode::Mismatched));
            }
        }
    }
}

#[test]
fn values_that_come_twice_or_under_a_number_that_no_step_has_change_nothing() {
    for size in [2, 4, 5, 8] {
        let all: Vec<Values> = (0..size).map(brought_by).collect();
        let mut ranks = Ranks::new(size);
        (0..size).for_each(|rank| ranks.vote_with(rank, &all[rank as usize]));
        while !ranks.links.is_empty() {
            let (from, to, message) = ranks.links.remove(0);
            let Message::Fused(fused) = &message else { panic!("all have values: {message:?}") };
            let mut astray = *fused;
            astray.yes.step += 64;
            for message in [Message::Fused(astray), message.clone(), message] {
                ranks.turn(to.number(), |m, out| m.handle_message(from, message, out));
            }
        }
        for decision in ranks.decisions(FIRST) {
            let decision = decision.expect("decided");
            assert_eq!(decision.values.as_deref(), combined(all.clone()).as_ref(), "{size}");
        }
    }
}

#[test]
fn no_result_of_a_faulty_block() {
    let mut ranks = Ranks::new(5);
    (0..4).for_each(|rank| ranks.vote_with(rank, &brought_by(rank)));
    ranks.turn(4, |m, out| m.handle_fused_vote(FIRST, no(4), &brought_by(4), out));
    ranks.deliver_all();
    for (machine, decision) in ranks.machines.iter().zip(ranks.decisions(FIRST)) {
        let decision = decision.expect("decided");
        assert_eq!((decision.committed, decision.faults), (false, no(4).faults));
        assert_eq!((machine.values(FIRST), decision.values), (None, None));
    }
}

#[test]
fn a_block_without_values_stays_small() {
    assert!(size_of::<Block>() <= 120, "{}", size_of::<Block>());
}

#[test]
fn a_death_that_a_step_has_found_is_in_the_report_of_the_blocks_around_it_and_after() {
    // Block 0 is open when rank 1 dies, block 1 finds it and is a step, block 2 comes after both.
    let steps = |first: bool| {
        let mut ranks = Ranks::new(4);
        ranks.die(1);
        let step = BlockId(1);
        let vote = |ranks: &mut Ranks, block| {
            for rank in [0, 2, 3] {
                if block == step {
                    ranks.machines[rank as usize].begin_step(step);
                }
                ranks.vote_on(block, rank, Vote::yes(0));
            }
            ranks.deliver_all();
            ranks.decisions(block)
        };
        let order = if first { [step, FIRST] } else { [FIRST, step] };
        let mut decisions = order.map(|block| vote(&mut ranks, block).remove(0)).to_vec();
        decisions.extend(vote(&mut ranks, BlockId(2)));
        let known = ranks.machines[0].reported_dead().clone();
        assert_eq!((known, ranks.machines[0].agreed_dead().len()), (ranks.dead, 1));
        decisions.into_iter().map(|it| it.expect("decided")).collect::<Vec<_>>()
    };
    let dead = |decision: &Decision| decision.dead.iter().map(Rank::number).collect::<Vec<_>>();
    for first in [true, false] {
        let [one, other, next @ ..] = &steps(first)[..] else { panic!("three blocks") };
        assert_eq!(dead(one), [1], "whichever comes first, the step or the block");
        // A step goes on without those whom a block has reported, and not the other way round.
        assert_eq!(
            (dead(other), other.committed),
            if first { (vec![1], false) } else { (vec![], true) }
        );
        assert!(next.iter().all(|it| it.committed && it.dead.is_empty()), "{next:?}");
    }
}
