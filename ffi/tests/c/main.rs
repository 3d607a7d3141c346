//! The C interface on real ranks: programs in C and C++ are built, launched and killed.

#[path = "../../../tests/mpi/launch.rs"]
#[allow(dead_code)]
mod launch;

mod build;

use build::{Link, compiles, program};
use launch::{Launch, Run};

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
    let blocks = program("tests/programs/blocks.c", Link::Shared, &[]);
    for ranks in [2, 4] {
        expect(&Launch::new(&blocks, ranks), ranks as usize, ": passed").expect_orderly(
            ranks as usize,
        );
    }
}

#[test]
fn survivors_agree_wherever_a_rank_dies() {
    let deaths = program("tests/programs/deaths.c", Link::Shared, &[]);
    for place in ["halo", "start", "collective", "silent", "wildcard", "after"] {
        expect(&Launch::new(&deaths, 5).words([place]), 3, ": survived").expect_orderly(3);
    }
}

#[test]
fn a_program_can_have_the_library_in_it() {
    let hello = program("examples/hello_block.c", Link::Static, &[]);
    expect(&Launch::new(&hello, 4), 4, ": done, got").expect_orderly(4);
}

#[test]
fn misuse_returns_the_code_of_the_table() {
    let misuse = program("tests/programs/misuse.c", Link::Shared, &[]);
    expect(&Launch::new(&misuse, 2), 2, ": passed").expect_orderly(2);
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
