//! Networks that are cut: no connection is closed, and each part takes the other one for silent.

use std::fs;
use std::process::Output;

use crate::network::{Job, has_name_spaces};
use crate::{application, said, text};

/// A sort on one rank of each of three nodes, which any one of them ends with the same result.
fn sort(options: &[&str]) -> Job {
    let program = application("hyperquicksort");
    let words = ["n=200000", "repeat=1000", "progress"];
    let words: Vec<&str> = program.to_str().into_iter().chain(words).collect();
    Job::start(3, 3, options, &words)
}

/// Some of these nodes are cut off from all others in the middle.
fn cut(job: &mut Job, nodes: &[u32]) {
    job.read_until("round 1");
    for node in nodes {
        job.cut_off(*node);
    }
}

fn digest(output: &Output) -> Option<String> {
    let all = text(&output.stdout);
    let (_, digest) = all.lines().last()?.rsplit_once("digest=")?;
    output.status.success().then(|| digest.to_owned())
}

#[test]
fn the_larger_part_of_a_cut_network_goes_on_and_the_other_one_stops_itself() {
    if !has_name_spaces() {
        return;
    }
    let whole = sort(&[]).finish();
    assert!(digest(&whole).is_some(), "{}", said(&whole));
    let mut job = sort(&[]);
    cut(&mut job, &[2]);
    job.wait_until_empty(2);
    job.wait_for_loss();
    let output = job.finish();
    assert_eq!(digest(&output), digest(&whole), "{}", said(&output));
}

/// A system that gives up connections early, as where sites want short failovers: that a connection
/// is lost was taken for the death of who was there, and both parts went on.
#[test]
fn a_connection_that_the_network_has_lost_proves_no_death() {
    if !has_name_spaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let end = folder.path().join("end");
    let script = format!("echo begun; until [ -e {} ]; do sleep 0.05; done", end.display());
    let mut job = Job::start(3, 3, &[], &["sh", "-c", &script]);
    job.read_until("begun");
    for node in 0..3 {
        job.set(node, "net.ipv4.tcp_retries2=1");
    }
    job.cut_off(2);
    job.wait_until_empty(2);
    fs::write(&end, "").expect("written");
    job.finish();
}

#[test]
#[ignore = "the console gives up silent hosts after 20 s each time"]
fn a_part_that_is_the_smaller_one_goes_on_only_if_it_was_told_to() {
    if !has_name_spaces() {
        return;
    }
    let whole = digest(&sort(&[]).finish());
    assert!(whole.is_some());
    let mut job = sort(&["--partition", "any"]);
    cut(&mut job, &[1, 2]);
    // The other parts go on, too, until the name spaces are removed.
    let alone = job.end();
    drop(job);
    let mut job = sort(&[]);
    cut(&mut job, &[1, 2]);
    let stopped = job.finish();
    assert!(digest(&alone) == whole && said(&alone).contains("is lost, with"), "{}", said(&alone));
    assert!(!stopped.status.success() && digest(&stopped).is_none(), "{}", said(&stopped));
}
