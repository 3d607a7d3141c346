//! Recoveries that are elements of a block's list while they are pending.

use fampi_kit::launch::Launch;

use crate::{
    build::{Link, program},
    expect, expect_of,
};

/// Microseconds after which one more rank dies: in the steps of a recovery, most of them.
const MOMENTS: [i32; 8] = [50, 200, 400, 700, 1_000, 1_500, 2_500, 5_000];

/// What the watchdog says of a process to which another one sent when it was killed between two
/// stores to the memory that they share: seen in one of a thousand launches like these.
const DEAF: &str = "hears nothing more";

fn pending(ranks: u32, what: &str, moment: i32) -> Launch {
    let pending = program(&["tests/programs/pending.c"], Link::Shared, &[]);
    Launch::new(pending, ranks).words([what, &moment.to_string()])
}

#[test]
fn a_block_waits_for_its_pending_shrink_by_all_ways_to_wait() {
    for what in ["shrink", "nested", "inside_mpi"] {
        expect(&pending(5, what, 0), 4, ": passed").expect_orderly(4);
    }
}

#[test]
fn a_block_with_a_pending_shrink_ends_alike_for_all_whenever_a_rank_dies() {
    let mut all_hear = true;
    for what in ["shrink", "nested", "inside_mpi"] {
        for moment in MOMENTS {
            let run = pending(5, what, moment).run();
            // One more process may be lost with that sentence, once.
            if all_hear && run.errors.contains(DEAF) {
                all_hear = false;
            } else {
                expect_of(run, 3, ": passed");
            }
        }
    }
}

#[test]
fn an_agreement_ends_where_the_answer_went_to_a_dead_process() {
    let lost = program(&["tests/programs/lost_answer.c"], Link::Shared, &[]);
    expect(&Launch::new(lost, 5), 3, ": passed");
}

#[test]
fn a_process_that_hears_nothing_more_counts_as_failed() {
    let deaf = program(&["tests/programs/deaf.c"], Link::Shared, &[]);
    let run = expect(&Launch::new(deaf, 4), 2, ": passed");
    assert_eq!(run.errors.matches(DEAF).count(), 1, "{run}");
    assert!(!run.errors.contains("did not return"), "{run}");
}

#[test]
fn a_rebuild_and_a_join_are_pending_in_blocks() {
    expect(&pending(6, "rebuild", 0), 5, ": whole").expect_orderly(5);
}

#[test]
fn the_failure_of_a_pending_rebuild_is_a_fault_of_its_block_on_all_ranks() {
    for moment in [-1, -2] {
        let run = expect(&pending(6, "rebuild", moment), 4, ": passed");
        assert_eq!(run.output.matches(": failed").count(), 4, "{run}");
    }
    // A death that comes when all are in the new communicator is that one's affair.
    expect(&pending(6, "rebuild", 300_000), 4, ": passed");
}
