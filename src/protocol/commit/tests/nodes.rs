//! Commits where ranks share nodes.

use super::*;

/// By node, by slot, uneven with one rank alone, and more than the slots of a message.
const PLACEMENTS: [&[u32]; 5] = [
    &[0, 0, 0, 0, 1, 1, 1, 1],
    &[0, 1, 0, 1, 0, 1, 0, 1],
    &[5, 5, 5, 2, 5, 7, 7],
    &[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1],
    &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0],
];

#[test]
fn all_yes_is_committed_by_the_fast_path_alone_whoever_votes_first() {
    for nodes in PLACEMENTS {
        for first in 0..nodes.len() as u32 {
            let mut ranks = Ranks::on_nodes(nodes);
            for at in 0..nodes.len() as u32 {
                ranks.vote((first + 3 * at) % nodes.len() as u32, Vote::yes(0));
                if at % 2 == 0 {
                    ranks.deliver_to((first + at) % nodes.len() as u32);
                }
            }
            assert!(ranks.links.iter().all(|(_, _, message)| matches!(message, Message::Yes(_))));
            ranks.deliver_all();
            let decisions = ranks.decisions(FIRST);
            assert!(decisions.iter().all(|it| it.as_ref().is_some_and(|it| it.committed)));
        }
    }
}

#[test]
fn fused_numbers_have_the_bits_that_they_have_anywhere() {
    for nodes in PLACEMENTS {
        let size = nodes.len() as u32;
        for count in [1, 2, 5] {
            let brought = |rank: u32| {
                let numbers = [1.0e16, 1.0, -1.0e16, 0.1, 0.7].map(|it| it / f64::from(rank + 3));
                Values::new(ReduceOp::Sum, &numbers[..count]).expect("defined")
            };
            let all: Vec<Values> = (0..size).map(brought).collect();
            let mut ranks = Ranks::on_nodes(nodes);
            (0..size).for_each(|rank| {
                ranks.vote_with(size - 1 - rank, &all[(size - 1 - rank) as usize]);
            });
            ranks.deliver_all();
            for decision in ranks.decisions(FIRST) {
                let decision = decision.expect("decided");
                let result = decision.values.as_deref();
                assert_eq!(result, combined(all.clone()).as_ref(), "{nodes:?} {count}");
            }
        }
    }
}

#[test]
fn the_next_rank_of_a_node_is_its_head_when_the_first_is_dead() {
    for nodes in PLACEMENTS {
        let size = nodes.len() as u32;
        for dead in 0..size {
            let mut ranks = Ranks::on_nodes(nodes);
            ranks.die(dead);
            for block in 0..2 {
                let living = (0..size).filter(|rank| *rank != dead);
                living
                    .for_each(|rank| ranks.vote_on(BlockId(block), rank, Vote::yes(block as u32)));
                ranks.deliver_all();
                for decision in ranks.decisions(BlockId(block)) {
                    assert_eq!(decision.expect("decided").committed, block == 1);
                }
            }
        }
    }
}

#[test]
fn a_head_that_dies_after_it_told_one_of_its_node_leaves_one_verdict() {
    // Rank 0 is the head of 1 and 2; it decides, and tells 1 alone.
    let mut ranks = Ranks::on_nodes(&[0, 0, 0, 3, 3, 3]);
    (0..6).for_each(|rank| ranks.vote(rank, Vote::yes(0)));
    ranks.deliver_to(0);
    ranks.deliver_to(3);
    ranks.deliver_to(0);
    assert!(ranks.machines[0].is_committed(FIRST) == Some(true));
    ranks.links.retain(|(from, to, _)| from.number() != 0 || to.number() == 1);
    ranks.deliver_to(1);
    ranks.die(0);
    ranks.deliver_all();
    let decisions = ranks.decisions(FIRST);
    assert!(decisions.iter().all(|it| it.as_ref().is_some_and(|it| it.committed)), "{decisions:?}");
}
