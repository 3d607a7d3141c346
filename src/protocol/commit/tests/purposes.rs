//! Votes for what all have to say: farewells, and that a step is the last one.

use super::*;

fn farewell(rank: u32) -> Vote {
    let code = FaultCode::finalized(FIRST);
    Vote { faults: vec![Fault { comm: COMM, rank: Rank::new(rank), code }], context: 0 }
}

#[test]
fn a_farewell_of_all_is_committed_by_the_fast_path_alone() {
    for size in 1..12 {
        let mut ranks = Ranks::of(size, Shape::WIDE);
        (0..size).for_each(|rank| ranks.vote(rank, farewell(rank)));
        assert!(ranks.links.iter().all(|(_, _, message)| matches!(message, Message::Yes(_))));
        ranks.deliver_all();
        assert!(ranks.decisions(FIRST).iter().all(|d| d.as_ref().is_some_and(|d| d.committed)));
    }
}

#[test]
fn a_farewell_among_votes_is_a_fault_and_one_after_it_commits_with_those_of_all() {
    for (size, leaver) in (2..10).flat_map(|size| (0..size).map(move |rank| (size, rank))) {
        let mut ranks = Ranks::of(size, Shape::WIDE);
        ranks.vote(leaver, farewell(leaver));
        (0..size).filter(|rank| *rank != leaver).for_each(|rank| ranks.vote(rank, Vote::yes(0)));
        ranks.deliver_all();
        for decision in ranks.decisions(FIRST) {
            let decision = decision.expect("decided");
            assert!(!decision.committed && decision.dead.is_empty());
            assert_eq!(decision.faults, farewell(leaver).faults);
        }
        (0..size).for_each(|rank| {
            ranks.vote_on(BlockId(1), rank, Vote { context: 1, ..farewell(rank) });
        });
        ranks.deliver_all();
        assert!(
            ranks.decisions(BlockId(1)).iter().all(|d| d.as_ref().is_some_and(|d| d.committed))
        );
    }
}

#[test]
fn that_a_step_was_the_last_is_a_fault_unless_all_say_so_and_no_death_explains_it() {
    let code = FaultCode::NotAllDone;
    let last =
        |rank| Vote { faults: vec![Fault { comm: COMM, rank: Rank::new(rank), code }], context: 0 };
    for saying in 1..4 {
        let mut ranks = Ranks::new(3);
        for rank in 0..3 {
            ranks.vote(rank, if rank < saying { last(rank) } else { Vote::yes(0) });
        }
        ranks.deliver_all();
        for decision in ranks.decisions(FIRST) {
            let decision = decision.expect("decided");
            assert_eq!(decision.committed, saying == 3);
            assert_eq!(decision.faults.len(), if saying == 3 { 0 } else { saying as usize });
            assert!(decision.dead.is_empty());
        }
    }
    let mut ranks = Ranks::new(3);
    ranks.vote(0, last(0));
    ranks.vote(1, Vote::yes(0));
    ranks.die(2);
    ranks.deliver_all();
    let decision = ranks.decisions(FIRST).remove(0).expect("decided");
    assert_eq!((decision.faults, decision.dead.as_slice()), (vec![], &[Rank::new(2)][..]));
}
