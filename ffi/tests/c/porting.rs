//! What the guide to porting says, tried.

use fampi_kit::launch::Launch;

use crate::{
    build::{Link, program},
    expect,
};

#[test]
fn a_ported_program_has_its_result_whoever_dies_in_whichever_of_its_blocks() {
    let ported = program(&["examples/ported.c"], Link::Shared, &[]);
    let run = |spares: u32, kills: &str| {
        Launch::new(&ported, 4).spares(spares).variable("KILL_PLAN", &kills).run()
    };
    let undisturbed = run(0, "");
    undisturbed.expect_orderly(4);
    assert!(undisturbed.output.starts_with("4 ranks, 20 steps: the sum is 0x"), "{undisturbed}");
    let in_set_up = ["-2:1", "-2:0 -2:2", "5:3 -2:1", "5:3 -1:1"];
    let in_steps = ["0:0", "10:2", "3:1 3:3", "7:1 7:2 12:0"];
    let at_the_end = ["1000:0", "2000:1", "2000:0"];
    let plans = in_set_up.iter().chain(&in_steps).chain(&at_the_end);
    for (spares, kills) in plans.map(|kills| (0, *kills)).chain([(1, "10:2"), (2, "-2:1 10:2")]) {
        let recovered = run(spares, kills);
        assert_eq!(recovered.output, undisturbed.output, "{spares} spares, {kills}: {recovered}");
        assert_eq!(recovered.status, 0, "{spares} spares, {kills}: {recovered}");
    }
}

#[test]
fn a_failed_request_makes_its_block_faulty_only_if_it_is_in_the_list() {
    let porting = program(&["tests/programs/porting.c"], Link::Shared, &[]);
    expect(&Launch::new(&porting, 4).words(["list"]), 4, ": passed").expect_orderly(4);
}

#[test]
fn what_was_cut_short_comes_to_its_end_and_deep_code_is_left() {
    let porting = program(&["tests/programs/porting.c"], Link::Shared, &[]);
    for (what, living) in [("buffers", 3), ("leave", 3), ("own", 4), ("send", 3), ("after", 3)] {
        let launch = Launch::new(&porting, 4).words([what]);
        expect(&launch, living, ": passed").expect_orderly(living);
    }
}
