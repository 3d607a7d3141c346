//! Real ranks that really die.
//!
//! A test launches either an example, or this very program once more under the launcher, told by
//! a variable which of the programs in [`programs`] to be. Each launch has a time limit, and is
//! judged by what its ranks print and by how they end. As many tests run at once as there are
//! processors; of those that wait for limits of time to pass (`#[serial]`), one at a time.

mod adopted;
mod attempts;
mod examples;
mod farewells;
mod files;
mod forming;
mod hung;
mod interruption;
mod limits;
mod observer;
mod operations;
mod parts;
mod programs;
mod rebuilt;
mod requests;
mod sections;
mod starts;
mod votes;
mod wildcards;
mod windows;

use std::path::PathBuf;

use fampi_kit::launch::{Launch, Run};

const PROGRAM: &str = "FAMPI_TEST_PROGRAM";
/// What makes this program be a rank.
const A_RANK: [&str; 5] =
    ["--exact", "a_rank_of_a_program", "--nocapture", "--test-threads=1", "--quiet"];

#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

fn example(name: &str, ranks: u32) -> Launch {
    Launch::new(built(name), ranks)
}

/// The program of an example.
fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    let built = own.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
    let program = built.join("examples").join(name);
    assert!(program.is_file(), "`cargo test --test mpi` needs `cargo build --examples` before it");
    program
}

fn program(name: &str, ranks: u32) -> Launch {
    let own: PathBuf = std::env::current_exe().expect("this program has a path");
    Launch::new(own, ranks).words(A_RANK).variable(PROGRAM, &name)
}

/// What ranks said, without the words of the test harness that they run in.
fn said(run: &Run) -> Vec<&str> {
    let mut lines: Vec<&str> = run
        .output
        .lines()
        .filter_map(|line| line.find("rank ").map(|start| &line[start..]))
        .collect();
    lines.sort_unstable();
    lines
}

/// Runs a program on ranks and makes sure that each of them says this at its end.
#[track_caller]
fn all_say(launch: &Launch, ranks: u32, what: &str) {
    let run = launch.run();
    let expected: Vec<String> = (0..ranks).map(|rank| format!("rank {rank}: {what}")).collect();
    assert_eq!(said(&run), expected, "{run}");
}

/// Not a test of its own: what a launched copy of this program does.
#[test]
fn a_rank_of_a_program() {
    if let Ok(name) = std::env::var(PROGRAM) {
        if std::env::var_os("FAMPI_TEST_LOG").is_some() {
            let level = tracing_subscriber::filter::LevelFilter::DEBUG;
            let log = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
            log.with_writer(std::io::stderr).init();
        }
        programs::run(&name).expect("the program ends well");
    }
}

#[test]
fn the_first_block_commits_on_any_number_of_ranks() {
    for ranks in [1, 2, 3, 5, 8] {
        let run = example("hello_block", ranks).run();
        let sum = ranks * (ranks - 1) / 2;
        let expected: Vec<String> = (0..ranks)
            .map(|rank| {
                let left = (rank + ranks - 1) % ranks;
                format!("rank {rank} of {ranks}: greeted by rank {left}, the sum is {sum}")
            })
            .collect();
        assert_eq!(run.expect_orderly(ranks as usize).sorted_lines(), expected, "{run}");
    }
}

#[test]
fn a_vote_of_one_rank_is_the_verdict_of_all() {
    // What MPI says of a collective that was ended is a race, which one launch may win.
    for _ in 0..4 {
        let run = example("vote", 4).run();
        let lines = run.expect_orderly(4).sorted_lines();
        let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        assert_eq!(count("committed, the sum is 6"), 4, "{run}");
        // Of the others, whose sum is cut short, the report says nothing.
        let faulty = "attempt 1 is faulty: rank 2: the application raised code 17 (here: ";
        assert_eq!(count(faulty), 4, "{run}");
    }
}

#[test]
fn survivors_shrink_and_go_on() {
    let run = example("shrink", 4).run();
    let lines = run.expect_orderly(3).sorted_lines();
    for line in ["rank 0 of 3 was rank 0", "rank 1 of 3 was rank 2", "rank 2 of 3 was rank 3"] {
        assert!(lines.contains(&line), "{run}");
    }
    assert!(lines.contains(&"step 6: 3 ranks"), "{run}");
}

#[test]
fn a_replacement_takes_the_rank_and_the_state_of_the_dead() {
    for spares in [0, 2] {
        let run = example("rebuild", 4).spares(spares).run();
        let parked = spares.saturating_sub(1) as usize;
        let lines = run.expect_orderly(4 + parked).sorted_lines();
        for rank in 0..4 {
            let value = 24 * (rank + 1);
            let said = |line: &&str| {
                line.starts_with(&format!("rank {rank}: "))
                    && line.ends_with(&format!("value {value} (undisturbed {value})"))
            };
            assert!(lines.iter().any(said), "{run}");
        }
        assert_eq!(lines.iter().filter(|line| line.contains("replacement")).count(), 1, "{run}");
    }
}

#[test]
fn the_example_of_the_readme_counts_to_its_end() {
    let run = example("count", 2).limit(240).run();
    assert_eq!(run.expect_orderly(2).sorted_lines().len(), 2, "{run}");
}

#[test]
fn a_fault_of_half_of_the_ranks_is_theirs_until_they_hand_it_on() {
    let run = example("nested", 4).run();
    let lines = run.expect_orderly(4).sorted_lines();
    for rank in 0..4 {
        let sum = 2 + 2 * (rank % 2);
        assert!(lines.contains(&&*format!("rank {rank}: my half's sum is {sum}")), "{run}");
        let handed = format!("rank {rank}: the half of ranks 1, 3 handed its fault on");
        assert!(lines.contains(&&*handed), "{run}");
    }
}

#[test]
fn a_late_message_is_a_fault_and_comes_with_the_retry() {
    let run = example("timeout", 4).run();
    let lines = run.expect_orderly(4).sorted_lines();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert!(count("attempt 1: rank 1 waited in vain") >= 4, "{run}");
    assert_eq!(count("came in the end"), 4, "{run}");
}

#[test]
fn a_code_that_one_rank_raises_is_known_to_all() {
    let run = example("raise", 4).run();
    let expected: Vec<String> = (0..4)
        .flat_map(|rank| ["the data of rank 2 are bad", "the sum is 4"].map(|it| (rank, it)))
        .map(|(rank, what)| format!("rank {rank}: {what}"))
        .collect();
    assert_eq!(run.expect_orderly(4).sorted_lines(), expected, "{run}");
}

#[test]
fn what_arrived_in_a_faulty_block_can_be_accepted() {
    let run = example("partial", 4).run();
    assert_eq!(run.expect_orderly(4).sorted_lines(), ["rank 0: [11, 23, 31]"], "{run}");
}

#[test]
fn a_death_ends_the_waits_of_all_and_large_messages_go_on_after_it() {
    let run = example("interrupt", 4).run();
    let lines = run.expect_orderly(3).sorted_lines();
    for rank in 0..3 {
        let last = format!("rank {rank}: rank 3 died, and we go on");
        assert!(lines.contains(&&*last), "{run}");
    }
    assert_eq!(lines.len(), 6, "{run}");
}

#[test]
fn rows_and_columns_of_a_grid_survive_a_death() {
    let run = example("grid", 6).run();
    let lines = run.expect_orderly(6).sorted_lines();
    let right = |line: &&&str| {
        let values = line.split_once(": ").and_then(|(_, rest)| rest.split_once(" (undisturbed "));
        values.is_some_and(|(value, rest)| rest == format!("{value}), generation 1"))
    };
    assert_eq!(lines.iter().filter(right).count(), 6, "{run}");
}

#[test]
fn survivors_inherit_the_work_of_the_dead() {
    let run = example("policy", 4).run();
    let expected = [(0, 10), (2, 10), (3, 20)].map(|(rank, items)| {
        format!("rank {rank}: {items} items, 3 ranks, total 300 (undisturbed 300)")
    });
    assert_eq!(run.expect_orderly(3).sorted_lines(), expected, "{run}");
}

#[test]
fn a_spare_comes_first_and_a_new_process_second() {
    let run = example("spares", 4).spares(1).run();
    let lines = run.expect_orderly(4).sorted_lines();
    let roles = ["from the launch", "replacement in generation 1", "replacement in generation 2"];
    for (rank, role) in [0, 1, 2, 0].map(|role| roles[role]).into_iter().enumerate() {
        let last = format!("rank {rank}: {role}, sum 54, 0 parked");
        assert!(lines.contains(&&*last), "{run}");
    }
    for what in ["step 2: generation 0, 1 parked", "step 8: generation 2, 0 parked"] {
        assert!(lines.contains(&what), "{run}");
    }
}

#[test]
fn an_own_policy_uses_its_spares_and_then_shrinks() {
    let run = example("own_policy", 4).spares(1).run();
    let expected = [(0, 0), (1, 1), (3, 2)]
        .map(|(rank, after)| format!("rank {rank}: rank {after} of 3, 9 steps"));
    assert_eq!(run.expect_orderly(3).sorted_lines(), expected, "{run}");
}

#[test]
fn parked_spares_are_dismissed() {
    example("hello_block", 2).spares(2).run().expect_orderly(4);
}

#[test]
fn without_a_launcher_a_program_is_one_rank_or_says_why_not() {
    let run = example("hello_block", 1).without_launcher().run();
    let alone = run.output == "rank 0 of 1: greeted by rank 0, the sum is 0\n";
    assert!((run.status == 0 && alone) || (run.status != 0 && run.output.is_empty()), "{run}");
}

#[test]
fn without_the_flags_of_fault_tolerance_init_says_so() {
    let run = example("hello_block", 2).without_fault_tolerance().run();
    assert!(run.status != 0 && run.output.is_empty(), "{run}");
    assert!(run.errors.contains("fault tolerance"), "{run}");
}

#[test]
fn two_hundred_rounds_with_soft_faults_isolate_their_messages() {
    all_say(&program("rounds", 4), 4, "200 rounds");
}

#[test]
fn fifty_deaths_at_random_moments_are_replaced_by_new_processes() {
    all_say(&program("deaths", 4).variable("DEATHS", &50).limit(120), 4, "all counted");
}

#[test]
fn a_policy_brings_a_run_through_deaths_at_random_moments() {
    all_say(&program("driven", 4).spares(3).variable("DEATHS", &20).limit(90), 4, "all counted");
}

#[test]
fn what_has_changed_in_a_state_comes_back_through_deaths_at_random_moments() {
    let launch = program("changed", 4).spares(2).variable("DEATHS", &10).limit(90);
    all_say(&launch, 4, "all as it was");
}

#[test]
fn a_run_that_shrinks_keeps_all_work_through_deaths_at_random_moments() {
    let run = program("shrinking", 5).run();
    let lines = said(&run);
    assert!(lines.len() >= 3 && lines.iter().all(|line| line.ends_with(": all work")), "{run}");
}

#[test]
fn deaths_are_replaced_by_spares_first() {
    all_say(&program("deaths", 4).spares(6).variable("DEATHS", &8), 4, "all counted");
}

#[test]
fn an_exit_without_finalize_is_a_death() {
    for way in ["exit", "exit(1)", "panic"] {
        all_say(&program("exits", 4).variable("WAY", &way), 4, "complete again");
    }
}

#[test]
fn a_death_by_any_signal_is_seen_with_the_node_watcher_and_without() {
    for way in ["SIGKILL", "SIGSEGV", "SIGABRT"] {
        for watcher in ["on", "off"] {
            let launch = program("exits", 4).variable("FAMPI_NODE_WATCHER", &watcher);
            all_say(&launch.variable("WAY", &way), 4, "complete again");
        }
    }
}

#[test]
fn an_end_that_mpi_never_reports_is_a_death() {
    for (ranks, spares) in [(4, 0), (4, 1), (8, 0), (8, 2)] {
        let launch = program("exits", ranks).spares(spares).variable("WAY", &"_exit(1)");
        all_say(&launch, ranks, "complete again");
    }
}

#[test]
fn deaths_that_mpi_never_reports_are_survived_at_random_moments() {
    for (ranks, spares, deaths) in [(4, 0, 40), (4, 20, 30), (8, 0, 20), (8, 16, 20)] {
        let launch = program("deaths", ranks).spares(spares).ignoring_statuses().limit(120);
        let launch = launch.variable("DEATHS", &deaths).variable("WAY", &"_exit(1)");
        all_say(&launch, ranks, "all counted");
    }
}

#[test]
fn derived_communicators_are_derived_again() {
    all_say(&program("rows", 6), 6, "my row has 3 ranks");
}

#[test]
fn communicators_are_made_of_groups() {
    all_say(&program("groups", 6), 6, "my group has 3 ranks");
}

#[test]
fn a_duplicate_exists_if_and_only_if_its_block_committed() {
    for spares in [0, 6] {
        all_say(&program("idup", 4).spares(spares), 4, "all duplicates work");
    }
}

#[test]
fn a_death_while_a_communicator_of_rsmpi_is_made_is_an_error_and_no_hang() {
    for spares in [0, 1] {
        all_say(&program("duplicates", 4).spares(spares), 4, "a duplicate of 4");
    }
}

#[test]
fn partners_that_die_together_are_named_to_all() {
    let run = program("partners", 4).run();
    let sentence = "the state of rank 1 is lost: it and its partner, rank 3, both failed";
    let saying = said(&run).iter().filter(|line| line.ends_with(sentence)).count();
    assert!(saying >= 2, "{run}");
}

#[test]
fn ten_thousand_blocks_on_a_broken_communicator_commit() {
    let run = program("broken", 4).run();
    let committed = said(&run).iter().filter(|line| line.ends_with("10000 committed")).count();
    assert_eq!(committed, 3, "{run}");
}

#[test]
fn a_commit_without_faults_allocates_nothing() {
    all_say(&program("allocations", 2), 2, "0 allocations");
}

#[test]
fn blocks_that_promise_a_collective_agree_with_it_without_it_and_after_a_death() {
    let run = program("with collective", 5).run();
    assert_eq!(said(&run), [1, 2, 3, 4].map(|rank| format!("rank {rank}: all agreed")), "{run}");
}

#[test]
fn a_rank_that_is_stopped_for_a_while_is_not_declared_dead() {
    for watcher in ["on", "off"] {
        let launch = program("stopped", 4).variable("FAMPI_NODE_WATCHER", &watcher);
        all_say(&launch, 4, "nobody died");
    }
}

/// Two ranks that die within 120 ms of each other: how many of the runs come to their end.
fn second_deaths(spares: u32, trials: usize) -> usize {
    let launch = program("deaths", 6).spares(spares).limit(90);
    let launch = launch.variable("DEATHS", &1).variable("TWICE", &1);
    let complete = |_: &usize| {
        let run = launch.run_to_limit();
        // The second may come when all is done.
        let complete = said(&run).iter().filter(|it| it.ends_with("all counted")).count() >= 5;
        if !complete {
            println!("{run}");
        }
        complete
    };
    (0..trials).filter(complete).count()
}

#[test]
fn a_second_death_during_a_recovery_is_survived_by_spares() {
    assert_eq!(second_deaths(6, 10), 10);
}

#[test]
#[ignore = "a soak: new processes are not promised to survive a second death, so it counts"]
fn second_deaths_are_counted() {
    let trials = std::env::var("FAMPI_TRIALS").ok().and_then(|text| text.parse().ok());
    let trials = trials.unwrap_or(40);
    for spares in [0, 6] {
        println!("{spares} spares: {} of {trials} complete", second_deaths(spares, trials));
    }
}

#[test]
fn heat_spreads_over_faces_that_nobody_packs() {
    for ranks in [1, 4] {
        let run = example("faces", ranks).run();
        let each = format!("{:.6} degrees", 100.0 / f64::from(ranks));
        let expected: Vec<String> = (0..ranks).map(|rank| format!("rank {rank}: {each}")).collect();
        assert_eq!(run.expect_orderly(ranks as usize).sorted_lines(), expected, "{run}");
    }
}

#[test]
fn every_operation_does_the_same_as_its_description() {
    for ranks in 1..=5 {
        all_say(&program("operations", ranks), ranks, "all operations are right");
    }
}

#[test]
fn a_death_in_any_operation_is_reported_and_repaired() {
    all_say(&program("operations with deaths", 4), 4, "all operations survived");
}

#[test]
fn an_operation_that_a_rank_forgets_or_leaves_ends_and_the_next_works() {
    let launch = program("operations with deserters", 4);
    all_say(&launch, 4, "all operations ended and worked again");
}

#[test]
fn requests_are_waited_for_cancelled_and_probed_in_every_way() {
    for ranks in [2, 5] {
        all_say(&program("requests", ranks), ranks, "all requests are right");
    }
}

#[test]
fn a_probe_ends_when_the_sender_dies() {
    all_say(&program("requests with deaths", 6), 3, "all probes ended");
}

#[test]
fn two_thousand_requests_in_a_block_cost_no_more_each_than_two_hundred() {
    all_say(&program("many requests", 2), 2, "a request costs the same in any number");
}
