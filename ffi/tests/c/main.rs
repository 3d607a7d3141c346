//! The C interface on real ranks: programs in C and C++ are built, launched and killed.

mod build;
mod handles;
mod papers;
mod valgrind;
mod watch;

use build::{Link, compiles, program};
use fampi_kit::launch::{Launch, Run};

/// Algorithm 1 of the paper, with its spares.
const FTLIB: [&str; 2] = ["examples/ftlib.cpp", "examples/spares.cpp"];

/// Launches a program and makes sure that so many ranks said the word.
#[track_caller]
fn expect(launch: &Launch, ranks: usize, word: &str) -> Run {
    let run = launch.run();
    let said = run.output.lines().filter(|line| line.contains(word)).count();
    assert_eq!(said, ranks, "ranks that said `{word}`: {run}");
    run
}

#[test]
fn a_block_of_each_kind_is_decided() {
    let blocks = program(&["tests/programs/blocks.c"], Link::Shared, &[]);
    for ranks in [2, 4] {
        expect(&Launch::new(&blocks, ranks), ranks as usize, ": passed")
            .expect_orderly(ranks as usize);
    }
}

#[test]
fn blocks_take_no_memory_in_the_long_run() {
    let allocations = program(&["tests/programs/allocations.c"], Link::Shared, &[]);
    for ranks in [1, 2] {
        expect(&Launch::new(&allocations, ranks), ranks as usize, ": passed");
    }
}

#[test]
fn survivors_agree_wherever_a_rank_dies() {
    let deaths = program(&["tests/programs/deaths.c"], Link::Shared, &[]);
    for place in ["halo", "start", "collective", "silent", "wildcard", "after"] {
        expect(&Launch::new(&deaths, 5).words([place]), 3, ": survived").expect_orderly(3);
    }
}

#[test]
fn a_rank_that_ends_mpi_is_in_no_block_of_those_who_go_on() {
    let leave = program(&["tests/programs/leave.c"], Link::Shared, &[]);
    for late in ["0", "1500", "-300"] {
        expect(&Launch::new(&leave, 4).words([late]), 4, ": passed").expect_orderly(4);
    }
}

#[test]
fn a_death_that_a_recovery_finds_inside_of_a_block_is_in_the_report_of_that_block() {
    let reports = program(&["tests/programs/reports.c"], Link::Shared, &[]);
    for place in ["block", "nested", "beside", "after"] {
        expect(&Launch::new(&reports, 4).words([place]), 3, ": survived").expect_orderly(3);
    }
}

#[test]
fn all_ranks_of_a_block_are_told_what_was_wrong_inside_of_it_and_who_is_missing() {
    let told = program(&["tests/programs/told.c"], Link::Shared, &[]);
    for (what, living) in [("death", 4), ("raise", 5)] {
        expect(&Launch::new(&told, 6).words([what]), living, ": told");
    }
}

#[test]
fn a_death_that_mpi_is_not_told_of_keeps_nobody_in_the_end_of_mpi() {
    let ends = program(&["tests/programs/ends.c"], Link::Shared, &[]);
    for place in ["unknown", "init", "block", "late", "finished", "last", "finalize"] {
        expect(&Launch::new(&ends, 5).words([place]).ignoring_statuses(), 4, ": over");
    }
}

#[test]
fn a_communicator_is_in_use_on_all_living_ranks_or_on_none() {
    // Its own functions of MPI go before those of the library.
    let entry = program(&["tests/programs/entry.c"], Link::Shared, &["-Wl,--export-dynamic"]);
    expect(&Launch::new(&entry, 5).words(["errors"]), 5, ": passed").expect_orderly(5);
    for (when, how) in
        [("before", "kill"), ("after", "kill"), ("before", "exit"), ("after", "exit")]
    {
        let launch = Launch::new(&entry, 9).words([when, how]).ignoring_statuses();
        expect(&launch, 2, ": passed");
    }
}

#[test]
fn a_death_while_a_replacement_starts_leaves_no_orphan_and_the_next_attempt_works() {
    let sources = ["tests/programs/spawns.c"];
    for link in [Link::Shared, Link::Static] {
        let spawns = program(&sources, link, &[]);
        for who in ["nobody", "root", "other", "new"] {
            // The job is not over before the last of its processes.
            let launch = Launch::new(&spawns, 4).words([who]).variable("FAMPI_STUCK_SECONDS", &4);
            expect(&launch, 4, ": complete again");
        }
    }
}

#[test]
fn a_program_can_have_the_library_in_it() {
    let hello = program(&["examples/hello_block.c"], Link::Static, &[]);
    expect(&Launch::new(&hello, 4), 4, ": done, got").expect_orderly(4);
}

#[test]
fn misuse_returns_the_code_of_the_table() {
    let misuse = program(&["tests/programs/misuse.c"], Link::Shared, &[]);
    expect(&Launch::new(&misuse, 2), 2, ": passed").expect_orderly(2);
}

#[test]
fn nothing_happens_before_mpi_after_it_and_in_another_thread() {
    let outside = program(&["tests/programs/outside.c"], Link::Shared, &["-pthread"]);
    let run = expect(&Launch::new(&outside, 2), 2, ": passed");
    run.expect_orderly(2);
    assert!(run.errors.contains("fampi: call MPI_Init before fampi"), "{run}");
}

#[test]
fn headers_can_be_included_twice_alone_and_by_cpp() {
    let text = "#include <fampi_names.h>\n#include <fampi.h>\n#include <fampi_names.h>\n\
                int (*start)(MPI_Comm, int, MPI_Request *) = MPI_TryBlock_start;\n";
    compiles("twice.c", text);
    compiles("twice.cpp", text);
    let alone = "#include <fampi.h>\nint code = FAMPI_ERR_TIMEOUT;\n";
    compiles("alone.c", alone);
    compiles("alone.cpp", alone);
}

#[test]
fn code_that_was_written_for_the_papers_compiles() {
    let source = "tests/programs/signatures.c";
    let own = program(&[source], Link::Shared, &[]);
    assert!(std::process::Command::new(own).status().expect("it starts").success());
    let text = std::fs::read_to_string(build::here().join(source)).expect("a source");
    compiles("signatures.cpp", &text);
}

#[test]
fn algorithm_2_gets_the_same_digits_whoever_dies() {
    let solver = program(&["examples/cg.c", FTLIB[0], FTLIB[1]], Link::Shared, &[]);
    let four = [
        ("rebuild", "30:2"),
        ("rebuild", "0:0"),
        ("rebuild", "20:1 40:3"),
        ("rebuild", "30:1 30:3"),
        ("merge", "30:2"),
        ("merge", "20:0 40:3"),
        ("spares", "20:0 40:3"),
    ];
    let eight = [
        ("rebuild", "30:5"),
        ("rebuild", "30:1 30:3"),
        ("merge", "20:0 40:7"),
        ("spares", "20:0 40:7"),
    ];
    for (ranks, plans) in [(4, &four[..]), (8, &eight)] {
        let run = |how: &str, kills: &str| {
            let spares = if how == "spares" { 2 } else { 0 };
            let launch = Launch::new(&solver, ranks).spares(spares).words([how]);
            launch.variable("FTLIB_KILL", &kills).run()
        };
        let undisturbed = run("rebuild", "");
        undisturbed.expect_orderly(ranks as usize);
        assert_eq!(undisturbed.output.lines().count(), ranks as usize, "{undisturbed}");
        for (how, kills) in plans {
            let recovered = run(how, kills);
            let same = recovered.sorted_lines() == undisturbed.sorted_lines();
            assert!(same, "{kills}: {recovered}\n--- undisturbed\n{}", undisturbed.output);
            assert_eq!(recovered.status, 0, "all that live leave in order: {recovered}");
        }
    }
}

#[test]
fn protected_states_come_back_with_the_same_digits() {
    let waves = program(&["examples/waves.c", FTLIB[0], FTLIB[1]], Link::Shared, &[]);
    let run =
        |ranks: u32, kills: &str| Launch::new(&waves, ranks).variable("FTLIB_KILL", &kills).run();
    let four =
        ["10:2", "7:1 14:3", "9:1 9:2", "19:0 19:1", "7:1 7:2 12:0", "10:2 -1:1", "3:3 -1:0"];
    for (ranks, plans) in [(1, &[][..]), (2, &[]), (4, &four), (8, &["7:1 7:6", "3:0 12:7"])] {
        let undisturbed = run(ranks, "");
        assert_eq!(undisturbed.output.lines().count(), ranks as usize, "{undisturbed}");
        for kills in plans {
            let recovered = run(ranks, kills);
            let same = recovered.sorted_lines() == undisturbed.sorted_lines();
            assert!(same, "{kills}: {recovered}\n--- undisturbed\n{}", undisturbed.output);
            assert_eq!(recovered.status, 0, "all that live leave in order: {recovered}");
        }
    }
    // Before the first commit, and with its partner.
    for (kills, why) in [("0:0", "no commit has protected"), ("9:1 9:3", "with the one that kept")]
    {
        let again = run(4, kills);
        let said = again.output.lines().filter(|line| line.contains(why)).count();
        assert_eq!((said, again.output.lines().count()), (4, 8), "{again}");
    }
}

#[test]
fn spares_of_the_launch_take_the_places_of_the_dead() {
    let sources = ["examples/waves.c", FTLIB[0], FTLIB[1]];
    let waves = program(&sources, Link::Shared, &[]);
    let launch = |ranks, spares, kills: &str| {
        let launch = Launch::new(&waves, ranks).spares(spares).words(["spares"]);
        launch.variable("FTLIB_KILL", &kills).run()
    };
    for (ranks, plans) in [
        (4, &[(1, "10:2"), (2, "7:1 14:3"), (2, "9:1 9:2"), (2, "10:2 -1:1")][..]),
        (8, &[(2, "3:0 12:7"), (3, "7:1 7:6")]),
    ] {
        let undisturbed = launch(ranks, 1, "");
        undisturbed.expect_orderly(ranks as usize + 1);
        assert_eq!(undisturbed.output.lines().count(), ranks as usize, "{undisturbed}");
        for (spares, kills) in plans {
            let recovered = launch(ranks, *spares, kills);
            let same = recovered.sorted_lines() == undisturbed.sorted_lines();
            assert!(same, "{kills}: {recovered}\n--- undisturbed\n{}", undisturbed.output);
            let dead = kills.split_whitespace().count();
            recovered.expect_orderly(ranks as usize + *spares as usize - dead);
        }
    }
    let lacking = launch(4, 1, "7:1 14:3");
    let told = "ftlib: no spare: a process died while a communicator was made";
    assert!(lacking.errors.contains(told), "{lacking}");
}

#[test]
fn algorithm_3_counts_each_exchange_once() {
    let cycles = program(&["examples/cycles.c", FTLIB[0], FTLIB[1]], Link::Shared, &[]);
    for (ranks, how, kills) in [
        (4, "rebuild", ""),
        (4, "rebuild", "5:1"),
        (4, "merge", "3:0 7:2"),
        (8, "rebuild", "5:1 5:4"),
    ] {
        let launch = Launch::new(&cycles, ranks).words([how]).variable("FTLIB_KILL", &kills);
        // Each of four cells begins with 1, 2, … on the ranks, and what one gives another gets.
        let sum = 2 * ranks * (ranks + 1);
        expect(&launch, 1, &format!("{ranks} ranks, 20 cycles: the sum is {sum}.000000000"));
    }
    // After a shrink all is there but what the dead had.
    for (ranks, dead) in [(4, &[1][..]), (8, &[1, 4])] {
        let kills = dead.iter().map(|rank| format!("5:{rank}")).collect::<Vec<_>>().join(" ");
        let launch = Launch::new(&cycles, ranks).words(["shrink"]).variable("FTLIB_KILL", &kills);
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

#[test]
fn the_examples_do_what_they_say() {
    let halo = program(&["examples/halo.c"], Link::Shared, &[]);
    expect(&Launch::new(&halo, 4), 3, ": done, 1.5000").expect_orderly(3);
    let steps = program(&["examples/fused.c"], Link::Shared, &[]);
    let run = expect(&Launch::new(&steps, 4), 3, ": done at ");
    run.expect_orderly(3);
    let mut ends = run.output.lines().filter_map(|line| line.split_once(": done at "));
    let (_, first) = ends.next().expect("three of them");
    assert!(ends.all(|(_, end)| end == first), "the same steps on all ranks: {run}");
    let object = program(&["examples/raii.cpp"], Link::Shared, &[]);
    expect(&Launch::new(&object, 4), 3, "committed 3 of 5").expect_orderly(3);
}

#[test]
fn the_benchmark_runs() {
    let commit = program(&["benches/commit.c"], Link::Shared, &["-O2"]);
    expect(&Launch::new(&commit, 2), 1, "2,commit,").expect_orderly(2);
}

#[test]
fn programs_of_ours_touch_no_memory_that_is_not_theirs() {
    // MPI itself never gives back all that it takes.
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"];
    for source in ["tests/programs/misuse.c", "tests/programs/blocks.c"] {
        let program = program(&[source], Link::Shared, &flags);
        let launch = Launch::new(&program, 2).variable("ASAN_OPTIONS", &"detect_leaks=0");
        expect(&launch, 2, ": passed").expect_orderly(2);
    }
    let deaths = program(&["tests/programs/deaths.c"], Link::Shared, &flags);
    let launch = Launch::new(&deaths, 5).words(["halo"]);
    expect(&launch.variable("ASAN_OPTIONS", &"detect_leaks=0"), 3, ": survived");
}
