//! Handles, timeouts and codes as programs of the papers use them.

use fampi_kit::launch::Launch;

use crate::{
    build::{Link, program},
    expect,
};

#[test]
fn copies_of_handles_live_until_they_are_freed() {
    for (link, ranks) in [(Link::Shared, 2), (Link::Shared, 4), (Link::Static, 3)] {
        let handles = program(&["tests/programs/handles.c"], link, &[]);
        expect(&Launch::new(&handles, ranks), ranks as usize, ": passed")
            .expect_orderly(ranks as usize);
    }
}

#[test]
fn ten_thousand_blocks_leave_nothing_however_handles_are_given_back() {
    let handles = program(&["tests/programs/handles.c"], Link::Shared, &[]);
    expect(&Launch::new(&handles, 2).words(["many"]), 2, ": passed").expect_orderly(2);
}

#[test]
fn copies_of_handles_outlive_a_death() {
    let bereaved = program(&["tests/programs/bereaved.c"], Link::Shared, &[]);
    for (ranks, how) in [(5, "early"), (5, "late"), (8, "late"), (4, "none")] {
        let left = if how == "none" { ranks } else { ranks - 1 };
        expect(&Launch::new(&bereaved, ranks).words([how]), left as usize, ": passed")
            .expect_orderly(left as usize);
    }
}

#[test]
fn copies_of_handles_touch_no_memory_that_was_given_back() {
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"];
    let handles = program(&["tests/programs/handles.c"], Link::Shared, &flags);
    let launch = Launch::new(&handles, 2).variable("ASAN_OPTIONS", &"detect_leaks=0");
    expect(&launch, 2, ": passed").expect_orderly(2);
    let bereaved = program(&["tests/programs/bereaved.c"], Link::Shared, &flags);
    let launch = Launch::new(&bereaved, 5).words(["late"]);
    expect(&launch.variable("ASAN_OPTIONS", &"detect_leaks=0"), 4, ": passed");
}

#[test]
fn a_rank_that_is_late_but_alive_makes_the_others_ask_again() {
    let late = program(&["tests/programs/late.c"], Link::Shared, &[]);
    for ranks in [4, 8] {
        expect(&Launch::new(&late, ranks), ranks as usize, ": passed")
            .expect_orderly(ranks as usize);
    }
}

#[test]
fn an_error_that_is_raised_in_a_message_names_it_and_codes_have_words() {
    let raised = program(&["tests/programs/raised.c"], Link::Shared, &[]);
    for link in [Link::Shared, Link::Static] {
        let raised = program(&["tests/programs/raised.c"], link, &[]);
        expect(&Launch::new(&raised, 4), 4, ": passed").expect_orderly(4);
    }
    expect(&Launch::new(&raised, 5).words(["death"]), 4, ": passed").expect_orderly(4);
}
