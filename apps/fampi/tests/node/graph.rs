//! Jobs whose nodes are not all linked with each other: here more than two.

use std::process::Output;

use crate::network::{Job, What, has_name_spaces};
use crate::{application, said, text};

/// A sort on one rank of each of so many nodes, which any one of them ends with the same result.
fn sort(nodes: u32, rounds: u32) -> Job {
    let program = application("hyperquicksort");
    let rounds = format!("repeat={rounds}");
    let words = [program.to_str().expect("a path"), "n=200000", &rounds, "progress"];
    let options = ["--timeout", "150"];
    Job::start_with(nodes, nodes, &[("FAMPI_MESH_NODES", "2")], &options, &words)
}

fn digest(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    let all = text(&output.stdout);
    let digest = all.lines().last().and_then(|line| line.rsplit_once("digest="));
    digest.unwrap_or_else(|| panic!("no digest: {}", said(output))).1.to_owned()
}

#[test]
fn nodes_of_a_graph_are_lost_side_by_side_and_one_by_one_and_no_digit_changes() {
    if !has_name_spaces() {
        return;
    }
    let whole = digest(&sort(9, 1).finish());
    let mut job = sort(9, 250);
    job.read_until("round 2");
    // The first one, and two of those that its neighbours are linked with in its place.
    for node in [0, 1, 2] {
        job.lose(node, What::Everything);
    }
    for _ in 0..3 {
        job.wait_for_loss();
    }
    for node in [5, 8, 3] {
        job.lose(node, What::Everything);
        job.wait_for_loss();
    }
    let output = job.finish();
    assert_eq!(digest(&output), whole, "{}", said(&output));
}

#[test]
fn minife_loses_nodes_of_a_graph_and_new_processes_take_the_ranks() {
    if !has_name_spaces() {
        return;
    }
    let program = application("minife");
    let program = program.to_str().expect("a path");
    let digits = |output: &Output| {
        assert!(output.status.success(), "{}", said(output));
        text(&output.stdout).lines().last().map(str::to_owned)
    };
    let start = |stops: &[&str]| {
        let words = [&[program, "nx=30", "yaml=none"], stops].concat();
        Job::start_with(6, 6, &[("FAMPI_MESH_NODES", "2")], &[], &words)
    };
    let whole = digits(&start(&[]).finish());
    let job = start(&["kill=0@iteration:20:stop", "kill=3@iteration:50:stop"]);
    for node in [0, 3] {
        job.wait_for_stop(node);
        job.lose(node, What::Everything);
    }
    let output = job.finish();
    assert_eq!(digits(&output), whole, "{}", said(&output));
    assert!(text(&output.stderr).contains("-3 is lost, with 1 processes"), "{}", said(&output));
}

#[test]
#[ignore = "silence is borne for most of a minute where not all are linked"]
fn the_larger_part_of_a_graph_that_is_cut_goes_on_and_the_other_one_stops_itself() {
    if !has_name_spaces() {
        return;
    }
    let whole = digest(&sort(9, 1).finish());
    let mut job = sort(9, 200);
    job.read_until("round 2");
    for node in [2, 3, 4, 7] {
        job.cut_off(node);
    }
    for node in [2, 3, 4, 7] {
        job.wait_until_empty(node);
    }
    for _ in 0..4 {
        job.wait_for_loss();
    }
    let output = job.finish();
    assert_eq!(digest(&output), whole, "{}", said(&output));
}
