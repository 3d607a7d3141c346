//! What the tool answers to command lines that cannot be meant. None of this needs an MPI.

use std::process::{Command, Output};

fn fampi(arguments: &[&str]) -> Output {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(arguments).output().expect("the tool starts")
}

/// Status 2, nothing on standard output, and the words on standard error.
fn refused(arguments: &[&str], words: &str) {
    let output = fampi(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert!(said.contains(words), "{arguments:?}: {said}");
}

#[test]
fn a_rank_that_is_not_launched_cannot_be_killed() {
    let expected = "rank 4 cannot be killed, as 4 processes are launched: choose one from 0 to 3";
    refused(&["run", "-n", "4", "--kill", "4@1s", "--", "true"], expected);
    refused(&["run", "-n", "4", "--spares", "2", "--kill", "6@1s", "--", "true"], "0 to 5");
    refused(&["run", "-n", "4", "--spares", "2", "--kill", "4@iteration:1", "--", "x"], "0 to 3");
}

#[test]
fn a_time_of_death_that_cannot_be_read_is_explained() {
    for plan in ["2", "2@", "2@7", "2@soon", "2@iteration:x", "x@1s"] {
        refused(&["run", "-n", "4", "--kill", plan, "--", "true"], "RANK@iteration:40");
    }
}

#[test]
fn a_run_needs_ranks_and_a_program() {
    refused(&["run", "-n", "0", "--", "true"], "0 is not in 1..");
    refused(&["run", "-n", "4"], "PROGRAM");
    refused(&["run", "--", "true"], "--ranks");
    refused(&["run", "-n", "2", "--timeout=-3", "--", "true"], "number of seconds");
    refused(&["run", "-n", "2", "--timeout", "0", "--", "true"], "number of seconds");
}

#[test]
fn the_demo_and_the_benchmarks_refuse_what_they_cannot_do() {
    refused(&["demo", "--kill", "1@2s"], "kills in an iteration");
    refused(&["demo", "--kill", "4@iteration:9"], "0 to 3");
    refused(&["bench", "commit", "--ranks", "2,zero"], "zero");
    refused(&["no-such-command"], "no-such-command");
}

#[test]
fn every_command_explains_itself() {
    for command in ["setup", "doctor", "run", "demo", "test", "bench"] {
        let output = fampi(&[command, "--help"]);
        assert!(output.status.success(), "{command}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: cargo fampi"));
    }
}
