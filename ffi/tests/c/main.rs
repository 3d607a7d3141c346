//! The C interface on real ranks: programs in C, C++ and Fortran are built, launched and killed.

mod build;
mod checkpoints;
mod examples;
mod fortran;
mod grids;
mod handles;
mod limits;
mod papers;
mod pending;
mod porting;
mod recoveries;
mod slow;
mod storm;
mod ulfm;
mod valgrind;
mod watch;

use std::time::Duration;

use build::{Link, compiles, program};
use fampi_kit::launch::{Launch, Run};

/// Launches a program and makes sure that so many ranks said the word.
#[track_caller]
fn expect(launch: &Launch, ranks: usize, word: &str) -> Run {
    expect_of(launch.run(), ranks, word)
}

/// Makes sure that so many ranks of a run have printed a line with this word.
#[track_caller]
fn expect_of(run: Run, ranks: usize, word: &str) -> Run {
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
fn a_rank_that_has_left_a_block_says_nothing_in_it_any_more() {
    let left = program(&["tests/programs/left.c"], Link::Shared, &[]);
    for how in ["leave", "raise"] {
        expect(&Launch::new(&left, 2).words([how]), 2, ": passed").expect_orderly(2);
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
fn a_rank_that_waits_in_mpi_tells_others_how_a_block_has_ended() {
    let asked = program(&["tests/programs/asked.c"], Link::Shared, &[]);
    expect(&Launch::new(&asked, 10), 10, ": passed").expect_orderly(10);
}

#[test]
fn a_receive_from_any_source_is_whole_or_named_when_a_rank_dies() {
    let wildcards = program(&["tests/programs/wildcards.c"], Link::Shared, &[]);
    for how in ["own", "mpi"] {
        expect(&Launch::new(&wildcards, 6).words([how]), 2, ": passed").expect_orderly(2);
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
    for (what, living) in [("death", 4), ("used", 5)] {
        expect(&Launch::new(&told, 6).words([what]), living, ": told");
    }
}

#[test]
fn all_ranks_of_a_block_are_told_what_was_raised_inside_of_it() {
    let told = program(&["tests/programs/told.c"], Link::Shared, &[]);
    expect(&Launch::new(&told, 6).words(["raise"]), 5, ": told");
}

#[test]
fn messages_between_the_living_go_on_whatever_dies_and_whatever_was_aborted() {
    let patient = program(&["tests/programs/patient.c"], Link::Shared, &[]);
    for (what, living) in [
        ("plain", 5),
        ("late", 4),
        ("local", 4),
        ("prompt", 4),
        ("vain", 4),
        ("ever", 2),
        ("any", 2),
        ("stale", 5),
    ] {
        expect(&Launch::new(&patient, 5).words([what]), living, ": passed");
    }
}

#[test]
fn a_wait_inside_of_a_patient_block_ends_when_it_is_for_the_dead() {
    let patient = program(&["tests/programs/patient.c"], Link::Shared, &[]);
    expect(&Launch::new(&patient, 5).words(["inside"]), 4, ": passed");
}

#[test]
fn no_strangers_death_ends_a_receive_of_a_local_block() {
    let patient = program(&["tests/programs/patient.c"], Link::Shared, &[]);
    expect(&Launch::new(&patient, 5).words(["strangers"]), 4, ": passed");
}

#[test]
fn collectives_go_on_over_the_living_whatever_dies_and_whatever_was_aborted() {
    let through = program(&["tests/programs/through.c"], Link::Shared, &[]);
    for (what, living) in [("plain", 5), ("kinds", 4), ("deaths", 1), ("soft", 1)] {
        expect(&Launch::new(&through, 5).words([what]), living, ": passed");
    }
}

#[test]
fn the_last_small_collective_of_a_block_rides_on_its_commit() {
    // Its own function of MPI goes before that of the library.
    let riders = program(&["tests/programs/riders.c"], Link::Shared, &["-Wl,--export-dynamic"]);
    for ranks in [2, 4, 5] {
        let launch = Launch::new(&riders, ranks).words(["plain"]);
        expect(&launch, ranks as usize, ": passed").expect_orderly(ranks as usize);
        expect(&launch.variable("FAMPI_MAILBOX", &"off"), ranks as usize, ": passed");
    }
    for when in ["before", "in", "waiting", "after"] {
        expect(&Launch::new(&riders, 5).words([when]), 4, ": passed");
    }
}

#[test]
fn a_death_that_mpi_is_not_told_of_keeps_nobody_in_the_end_of_mpi() {
    let ends = program(&["tests/programs/ends.c"], Link::Shared, &[]);
    for place in ["init", "block", "late", "finished", "last", "finalize", "self"] {
        expect(&Launch::new(&ends, 5).words([place]).ignoring_statuses(), 4, ": over");
    }
}

#[test]
fn a_death_before_the_first_call_keeps_nobody_in_the_end_of_mpi() {
    let ends = program(&["tests/programs/ends.c"], Link::Shared, &[]);
    expect(&Launch::new(&ends, 5).words(["unknown"]).ignoring_statuses(), 4, ": over");
}

#[test]
fn a_rank_leaves_the_end_of_mpi_that_does_not_return_after_a_death() {
    let ends = program(&["tests/programs/ends.c"], Link::Shared, &[]);
    let launch = Launch::new(&ends, 4).words(["block", "held"]).ignoring_statuses();
    let run = launch.variable("FAMPI_STUCK_SECONDS", &1.5).run();
    let said = "MPI_Finalize does not return after a death; this process leaves";
    assert_eq!(run.errors.matches(said).count(), 3, "{run}");
    run.expect_orderly(3);
}

#[test]
fn a_communicator_is_in_use_on_all_living_ranks_or_on_none() {
    // Its own functions of MPI go before those of the library.
    let entry = program(&["tests/programs/entry.c"], Link::Shared, &["-Wl,--export-dynamic"]);
    expect(&Launch::new(&entry, 5).words(["errors"]), 5, ": passed").expect_orderly(5);
    for (when, how) in
        [("before", "kill"), ("after", "kill"), ("before", "exit"), ("after", "exit")]
    {
        let launch = Launch::new(&entry, 12).words([when, how]).ignoring_statuses();
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
fn a_new_process_that_dies_before_it_has_started_is_missed_at_once() {
    let spawns = program(&["tests/programs/spawns.c"], Link::Shared, &[]);
    let run = expect(&Launch::new(&spawns, 4).words(["new"]), 4, ": complete again");
    // A call of MPI may last for ten seconds. A rank that is held up longer counts as failed.
    assert!(run.took < Duration::from_secs(8), "{run}");
    assert!(!run.errors.contains("did not return"), "{run}");
}

#[test]
fn a_death_at_each_step_of_the_link_of_old_and_new_processes_holds_up_nobody() {
    let spawns = program(&["tests/programs/spawns.c"], Link::Shared, &[]);
    let steps = |who, number| (1..=number).map(move |step| format!("{who}{step}"));
    let looks = steps("new", 6).chain(steps("root", 5)).chain(steps("other", 4));
    let links = steps("newlink", 3).chain(steps("rootlink", 3)).chain(steps("otherlink", 2));
    for who in looks.chain(links) {
        let run = expect(&Launch::new(&spawns, 4).words([&who]), 4, ": complete again");
        // The watchdog ends a rank after ten seconds in one call of MPI.
        assert!(run.took < Duration::from_secs(8), "{who}: {run}");
        assert!(!run.errors.contains("did not return"), "{who}: {run}");
    }
}

#[test]
fn a_rank_that_is_refused_a_communicator_that_the_others_get_holds_up_nobody() {
    let spawns = program(&["tests/programs/spawns.c"], Link::Shared, &[]);
    let run = expect(&Launch::new(&spawns, 4).words(["refused"]), 4, ": complete again");
    assert!(!run.errors.contains("did not return"), "{run}");
}

#[test]
fn a_thread_makes_communicators_while_another_makes_progress() {
    let threads = program(&["tests/programs/threads.c"], Link::Shared, &["-pthread"]);
    expect(&Launch::new(&threads, 4), 4, ": passed");
}

#[test]
fn a_message_of_a_freed_communicator_reaches_no_later_one() {
    let numbers = program(&["tests/programs/numbers.c"], Link::Shared, &[]);
    expect(&Launch::new(&numbers, 3), 3, ": passed").expect_orderly(3);
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
fn a_variable_that_makes_no_sense_is_refused_on_all_ranks_by_a_line_each() {
    let waves = program(&["examples/waves.c"], Link::Shared, &[]);
    for (name, value) in [
        ("FAMPI_STUCK_SECONDS", "abc"),
        ("FAMPI_STUCK_SECONDS", "-5"),
        ("FAMPI_STUCK_SECONDS", "nan"),
        ("FAMPI_SPARES", "two"),
        ("FAMPI_MAILBOX", "of"),
    ] {
        let run = Launch::new(&waves, 4).ignoring_statuses().variable(name, &value).run();
        let sentence = format!("fampi: {name} is '{value}'; set it to ");
        let refused = run.errors.lines().filter(|line| line.starts_with(&sentence)).count();
        assert_eq!((refused, run.output.as_str()), (4, ""), "{run}");
    }
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
fn the_benchmark_runs() {
    let commit = program(&["benches/commit.c"], Link::Shared, &["-O2", "-DBATCHES=3"]);
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
