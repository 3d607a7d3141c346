//! Sentences of the FA-MPI paper that no other test here holds.

use std::path::Path;

use fampi_kit::launch::Launch;

use crate::{
    build::{Link, program},
    expect,
};

fn papers(ranks: u32, what: &str) -> Launch {
    let papers = program(&["tests/programs/papers.c"], Link::Shared, &[]);
    Launch::new(papers, ranks).words([what]).inside(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

#[test]
fn all_levels_and_kinds_of_requests_of_the_paper_are_decided() {
    for ranks in [2, 4] {
        expect(&papers(ranks, "levels"), ranks as usize, ": passed").expect_orderly(ranks as usize);
    }
}

#[test]
fn a_shrink_is_a_request_of_a_block_and_leaves_the_old_communicator() {
    expect(&papers(4, "deaths"), 3, ": passed").expect_orderly(3);
}

#[test]
fn a_replacement_may_be_a_process_that_was_there_before() {
    for (where_it_is, ranks) in [("aside", 5), ("beside", 6)] {
        let living = ranks as usize - 1;
        expect(&papers(ranks, where_it_is), living, ": passed").expect_orderly(living);
    }
}
