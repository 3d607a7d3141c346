//! Algorithms 1 to 3 of the paper, and a program with partner copies, through deaths: by the
//! functions of the library, and by algorithm 1 as it is printed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fampi_kit::launch::{Launch, Run};

use crate::{
    build::{Link, program},
    expect,
};

/// A program with the recovery of the library, and with algorithm 1 in its place.
fn both(source: &str) -> [PathBuf; 2] {
    let printed = [
        "-DFAMPI_World_init=algorithm1_init",
        "-DFAMPI_World_recover=algorithm1_recover",
        "-DFAMPI_World_free=algorithm1_free",
    ];
    let sources = [source, "examples/algorithm1.cpp"];
    [program(&[source], Link::Shared, &[]), program(&sources, Link::Shared, &printed)]
}

/// How a program recovers, with so many spares, and who dies when.
struct Plan(&'static str, u32, &'static str);

impl Plan {
    fn run(&self, program: &PathBuf, ranks: u32) -> Run {
        let Self(how, spares, kills) = self;
        Launch::new(program, ranks).spares(*spares).words([*how]).variable("KILL_PLAN", kills).run()
    }

    /// How many processes leave in order: ranks, and spares that were not needed.
    fn orderly(&self, ranks: u32) -> usize {
        let dead = self.2.split_whitespace().count();
        (ranks as usize).max((ranks + self.1) as usize - dead)
    }
}

/// Makes sure that a program ends with the same lines whichever rank dies.
#[track_caller]
fn expect_same(program: &PathBuf, ranks: u32, plans: &[Plan]) {
    let undisturbed = Plan("rebuild", 0, "").run(program, ranks);
    undisturbed.expect_orderly(ranks as usize);
    assert_eq!(undisturbed.output.lines().count(), ranks as usize, "{undisturbed}");
    for plan in plans {
        let recovered = plan.run(program, ranks);
        let same = recovered.sorted_lines() == undisturbed.sorted_lines();
        let Plan(how, spares, kills) = plan;
        let what = format!("{how}, {spares} spares, {kills}: {recovered}");
        assert!(same, "{what}\n--- undisturbed\n{}", undisturbed.output);
        assert_eq!(recovered.status, 0, "all that live leave in order: {what}");
        recovered.expect_orderly(plan.orderly(ranks));
    }
}

#[test]
fn algorithm_2_gets_the_same_digits_whoever_dies() {
    let four = [
        Plan("rebuild", 0, "30:2"),
        Plan("rebuild", 0, "0:0"),
        Plan("rebuild", 0, "20:1 40:3"),
        Plan("rebuild", 0, "30:1 30:3"),
        Plan("merge", 0, "30:2"),
        Plan("merge", 0, "20:0 40:3"),
    ];
    let eight = [
        Plan("rebuild", 0, "30:5"),
        Plan("rebuild", 0, "30:1 30:3"),
        Plan("merge", 0, "20:0 40:7"),
    ];
    let spared = [Plan("rebuild", 2, "20:0 40:3"), Plan("merge", 1, "20:0 40:3")];
    let [library, printed] = both("examples/cg.c");
    expect_same(&library, 4, &four);
    expect_same(&library, 8, &eight);
    // As the paper prints it: each of its ways once.
    expect_same(&printed, 4, &four[2..5]);
    expect_same(&printed, 8, &eight[2..]);
    expect_same(&library, 4, &spared);
    expect_same(&library, 8, &[Plan("rebuild", 2, "20:0 40:7")]);
}

fn waves() -> PathBuf {
    program(&["examples/waves.c"], Link::Shared, &[])
}

#[test]
fn protected_states_come_back_with_the_same_digits() {
    let plan = |kills| Plan("rebuild", 0, kills);
    let four =
        ["10:2", "7:1 14:3", "9:1 9:2", "19:0 19:1", "7:1 7:2 12:0", "10:2 -1:1", "3:3 -1:0"];
    for (ranks, plans) in [(1, &[][..]), (2, &[]), (4, &four), (8, &["7:1 7:6", "3:0 12:7"])] {
        let plans: Vec<Plan> = plans.iter().map(|kills| plan(kills)).collect();
        expect_same(&waves(), ranks, &plans);
    }
    // Before the first commit, and with its partner.
    for (kills, why) in [("0:0", "no commit has protected"), ("9:1 9:3", "with the one that kept")]
    {
        let again = plan(kills).run(&waves(), 4);
        let said = again.output.lines().filter(|line| line.contains(why)).count();
        assert_eq!((said, again.output.lines().count()), (4, 8), "{again}");
    }
}

#[test]
fn states_in_codes_over_groups_come_back_with_the_same_digits() {
    let run = |ranks: u32, spares: u32, code: [&'static str; 2], kills: &str| {
        let launch = Launch::new(waves(), ranks).spares(spares);
        launch.words(["rebuild"]).words(code).variable("KILL_PLAN", &kills).run()
    };
    let (xor, solomon) = (["3", "1"], ["6", "2"]);
    for (ranks, spares, code, kills) in [
        (4, 0, xor, "10:2"),
        (6, 1, xor, "7:1 7:2 12:0"),
        (6, 2, solomon, "7:1 7:4 12:0 12:3"),
        (6, 0, solomon, "9:5 -1:0"),
    ] {
        let undisturbed = run(ranks, 0, code, "");
        let recovered = run(ranks, spares, code, kills);
        assert_eq!(recovered.sorted_lines(), undisturbed.sorted_lines(), "{kills}: {recovered}");
        assert_eq!(recovered.status, 0, "{recovered}");
    }
    // Ranks 0, 2 and 4 are a group.
    let again = run(6, 3, xor, "9:2 9:4");
    let said = again.output.lines().filter(|line| line.contains("than a state was kept for"));
    assert_eq!(said.count(), 6, "{again}");
}

#[test]
fn spares_of_the_launch_take_the_places_of_the_dead() {
    let four = [
        Plan("rebuild", 1, "10:2"),
        Plan("rebuild", 2, "7:1 14:3"),
        Plan("rebuild", 2, "9:1 9:2"),
        Plan("rebuild", 2, "10:2 -1:1"),
        Plan("rebuild", 2, ""),
    ];
    expect_same(&waves(), 4, &four);
    expect_same(&waves(), 8, &[Plan("rebuild", 2, "3:0 12:7"), Plan("rebuild", 3, "7:1 7:6")]);
}

#[test]
fn new_processes_come_when_no_spare_is_left() {
    let plans = [Plan("rebuild", 1, "7:1 14:3"), Plan("rebuild", 1, "9:1 9:2")];
    expect_same(&waves(), 4, &plans);
}

#[test]
fn algorithm_3_counts_each_exchange_once() {
    let [library, printed] = both("examples/cycles.c");
    for cycles in [&library, &printed] {
        algorithm_3(cycles);
    }
}

fn algorithm_3(cycles: &PathBuf) {
    for (ranks, how, kills) in [
        (4, "rebuild", ""),
        (4, "rebuild", "5:1"),
        (4, "merge", "3:0 7:2"),
        (8, "rebuild", "5:1 5:4"),
    ] {
        let launch = Launch::new(cycles, ranks).words([how]).variable("KILL_PLAN", &kills);
        // Each of four cells begins with 1, 2, … on the ranks, and what one gives another gets.
        let sum = 2 * ranks * (ranks + 1);
        expect(&launch, 1, &format!("{ranks} ranks, 20 cycles: the sum is {sum}.000000000"));
    }
    // After a shrink all is there but what the dead had.
    for (ranks, dead) in [(4, &[1][..]), (8, &[1, 4])] {
        let kills = dead.iter().map(|rank| format!("5:{rank}")).collect::<Vec<_>>().join(" ");
        let launch = Launch::new(cycles, ranks).words(["shrink"]).variable("KILL_PLAN", &kills);
        let mut cells: Vec<f64> = (1..=ranks).map(f64::from).collect();
        for _ in 0..5 {
            let before = cells.clone();
            for (rank, cell) in cells.iter_mut().enumerate() {
                let left = before[(rank + before.len() - 1) % before.len()];
                *cell += (left - before[rank]) / 10.0;
            }
        }
        let lost: f64 = dead.iter().map(|rank| cells[*rank]).sum();
        let (living, sum) = (ranks as usize - dead.len(), cells.iter().sum::<f64>() - lost);
        let said = format!("{living} ranks, 20 cycles: the sum is {:.9}", 4.0 * sum);
        expect(&launch, 1, &said);
    }
}

/// A program in which processes die in the calls of a recovery, in a folder of its own.
fn worlds(words: [&str; 4]) -> Launch {
    // Its own functions of MPI go before those of the library.
    let flags = ["-Wl,--export-dynamic"];
    let worlds = program(&["tests/programs/worlds.c"], Link::Shared, &flags);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("worlds-{}", words.join("-")));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    Launch::new(&worlds, 4).words(words).inside(&folder).limit(120)
}

#[test]
fn parts_that_were_never_in_use_are_not_rebuilt_and_nobody_waits_for_them() {
    let parts = program(&["tests/programs/idle_parts.c"], Link::Shared, &[]);
    expect(&Launch::new(&parts, 4), 4, ": passed");
}

#[test]
fn nothing_counts_as_protected_after_a_merge_that_has_changed_ranks() {
    let moved = program(&["tests/programs/moved.c"], Link::Shared, &[]);
    for words in [["0", "0"], ["1", "0"], ["2", "1"], ["3", "0"]] {
        expect(&Launch::new(&moved, 4).words(words), 4, ": passed");
    }
}

#[test]
fn who_takes_the_place_of_a_rank_that_died_before_there_was_a_world_lacks_no_data() {
    let first = program(&["tests/programs/first.c"], Link::Shared, &["-Wl,--export-dynamic"]);
    expect(&Launch::new(&first, 4), 4, ": passed");
    expect(&Launch::new(&first, 4).spares(1), 4, ": passed");
}

#[test]
fn a_world_is_complete_again_whoever_dies_in_whichever_call_of_its_recovery() {
    for words in [
        ["survivor", "rebuild", "1", "9"],
        ["survivor", "merge", "5", "9"],
        ["new", "rebuild", "3", "9"],
        ["new", "merge", "7", "9"],
    ] {
        expect(&worlds(words), 4, ": complete after call ");
    }
}

#[test]
fn a_spare_that_dies_is_one_spare_less_and_before_the_world_there_is_none_for_all() {
    let mut ends = [0, 0];
    for call in (3..48).step_by(5) {
        let launch = worlds(["spare", "rebuild", "1", "1"]).spares(3);
        let run = launch.variable("WORLDS_CALL", &call).run();
        let said = |what| run.output.lines().filter(|line| line.contains(what)).count();
        let [complete, none] = [said(": complete after call "), said(": no world")];
        assert!([(4, 0), (0, 6)].contains(&(complete, none)), "call {call}: {run}");
        ends[usize::from(none > 0)] += 1;
    }
    assert!(ends[0] > 1 && ends[1] > 1, "in the recovery, and before it: {ends:?}");
}

#[test]
fn too_few_spares_are_the_same_error_on_all_ranks_where_nothing_is_to_be_started() {
    let worlds = program(&["tests/programs/lacking.c"], Link::Shared, &[]);
    let run = expect(&Launch::new(&worlds, 4).spares(1), 2, ": no recovery");
    run.expect_orderly(2);
}
