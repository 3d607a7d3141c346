//! How votes travel: by memory within a node, by messages between nodes.

use super::{A_RANK, Launch, PROGRAM, all_say, example, program};

/// Votes of ranks of one node go by memory; between nodes they go by MPI, as they do here. In
/// the last launch some ranks have a mailbox and some have none.
#[test]
fn votes_by_messages_are_as_good_as_votes_by_memory() {
    let off = |launch: Launch| launch.variable("FAMPI_MAILBOX", &"off");
    for ranks in [2, 5, 8] {
        let run = off(example("hello_block", ranks)).run();
        assert_eq!(
            run.expect_orderly(ranks as usize).sorted_lines().len(),
            ranks as usize,
            "{run}"
        );
    }
    all_say(&off(program("deaths", 4).variable("DEATHS", &10)), 4, "all counted");
    all_say(&off(program("deaths", 8).spares(8)).variable("DEATHS", &8), 8, "all counted");
    let own = std::env::current_exe().expect("this program has a path");
    let odd = "test $((OMPI_COMM_WORLD_RANK % 2)) = 1 && export FAMPI_MAILBOX=off; exec \"$@\"";
    let words = ["-c", odd, "odd ranks", &own.to_string_lossy()];
    let mixed = Launch::new("/bin/sh", 8).words(words).words(A_RANK).variable(PROGRAM, &"deaths");
    all_say(&mixed.spares(8).variable("DEATHS", &8), 8, "all counted");
}

/// Sums in the commit have the bits of the reference, by memory, by messages, and with both.
#[test]
fn fused_sums_have_the_same_bits_on_all_ranks_through_deaths_at_random_moments() {
    for (ranks, spares, deaths) in [(2, 4, 4), (5, 0, 12), (6, 14, 14)] {
        for mailbox in ["on", "off"] {
            let launch = program("fused", ranks).spares(spares).variable("DEATHS", &deaths);
            let launch = launch.variable("FAMPI_MAILBOX", &mailbox).limit(120);
            all_say(&launch, ranks, "all sums are right");
        }
    }
}

#[test]
fn a_time_step_is_agreed_with_the_commit_and_does_not_know_the_dead() {
    let run = example("time_step", 4).run();
    let lines = run.expect_orderly(3).sorted_lines();
    for line in [
        "step 3: time 0.1875, next 0.0625, slowest 0.5",
        "step 4: time 0.25, next 0.125, slowest 0.5",
        "rank 0: time 0.5",
        "rank 2: time 0.5",
    ] {
        assert!(lines.contains(&line), "{run}");
    }
}
