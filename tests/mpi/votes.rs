//! How votes travel: by memory within a node, by messages between nodes.

use serial_test::serial;

use super::{A_RANK, Launch, PROGRAM, all_say, example, program};

/// Votes of ranks of one node go by memory; between nodes they go by MPI, as they do here. In
/// the last launch some ranks have a mailbox and some have none.
#[test]
#[serial]
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
