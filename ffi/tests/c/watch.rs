//! The library that is loaded before a program and names its blocking calls inside of blocks.

use fampi_kit::launch::{Launch, Run};

use crate::build::{Link, program, watcher};

/// Two ranks of the program with the library before it.
fn watched(link: Link, wanted: &str) -> Run {
    let program = program(&["tests/programs/watch.c"], link, &["-rdynamic"]);
    let before = format!("LD_PRELOAD={}", watcher().display());
    let wanted = format!("FAMPI_WATCH={wanted}");
    let words = [before, wanted, program.to_string_lossy().into_owned()];
    let run = Launch::new("/usr/bin/env", 2).words(words).run();
    assert_eq!(run.output.lines().filter(|line| line.contains(": passed")).count(), 2, "{run}");
    run
}

/// What is said about a rank.
fn said(run: &Run, rank: u32) -> Vec<&str> {
    let mine = format!("fampi-watch: rank {rank}: ");
    run.errors.lines().filter_map(|line| line.strip_prefix(&*mine)).collect()
}

#[test]
fn blocking_calls_inside_of_blocks_are_named_where_they_are() {
    let run = watched(Link::Shared, "1");
    for rank in 0..2 {
        let lines = said(&run, rank);
        let expected = [
            ("MPI_Barrier at watch-", "(barrier+0x", "block 1 of the world, started 0."),
            ("MPI_Wait at watch-", "(main+0x", "block 2 of MPI_COMM_SELF, started 0."),
            ("MPI_Wait (FAMPI_Wait) at watch-", "(main+0x", "block 1 of the world, started 0."),
        ];
        assert_eq!(lines.len(), expected.len() + 1, "{run}");
        for (line, (call, place, block)) in lines.iter().zip(expected) {
            assert!(line.starts_with(call), "{line}: {run}");
            assert!(line.contains(place) && line.contains(block), "{line}: {run}");
        }
        assert_eq!(lines[3], "5 blocking calls inside of 3 blocks", "{run}");
    }
}

#[test]
fn each_call_is_named_when_all_are_wanted_and_none_when_nobody_asks() {
    let run = watched(Link::Shared, "all");
    assert_eq!(said(&run, 0).len(), 6, "{run}");
    let run = watched(Link::Shared, "");
    assert_eq!(said(&run, 0), Vec::<&str>::new(), "{run}");
}

#[test]
fn it_says_so_when_it_cannot_see_the_blocks() {
    let run = watched(Link::Static, "1");
    let expected = ["no block was seen: link the program with libfampi.so"];
    assert_eq!(said(&run, 0), expected, "{run}");
}
