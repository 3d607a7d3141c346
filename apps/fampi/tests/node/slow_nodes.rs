//! A node that stops for a moment is slow, not lost: it gets no work from the next census on, and
//! gets it back when the other nodes have seen it well.

use std::thread;
use std::time::{Duration, Instant};

use crate::network::{Board, Job, has_name_spaces};
use crate::{application, said, text};

/// The numbers in a line of the report.
fn numbers(output: &str, begin: &str) -> Vec<u32> {
    let line = output.lines().find_map(|line| line.strip_prefix(begin));
    let numbers = line.unwrap_or_default().split(", ");
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Tests are 50 ms apart, and five in a row are enough; all processes of node 2 stop for 800 ms,
/// twice. The others wait for its votes, and find it slow as soon as it goes on. An answer is
/// late when it takes eight times as long as usual, as all nodes share the processors.
#[test]
fn a_node_that_stops_for_a_moment_is_benched_by_the_others_and_comes_back() {
    if !has_name_spaces() {
        return;
    }
    let program = application("hyperquicksort");
    let observer = application("fampi-observer");
    assert!(observer.is_file(), "this test needs `cargo build --package fampi-detector` before it");
    // As `--diagnosis` says it to ranks, which would have the tool build an observer.
    let observer = format!("FAMPI_OBSERVER={}", observer.display());
    let before = ["/usr/bin/env", &observer, "FAMPI_DIAGNOSIS=50ms:8:5"];
    let words = ["n=100000", "repeat=800", "membership=tests"];
    let words: Vec<&str> = before.into_iter().chain(program.to_str()).chain(words).collect();
    let job = Job::start(4, 8, &[], &words);
    job.wait_for_daemon(2);
    thread::sleep(Duration::from_millis(700));
    for _ in 0..2 {
        thread::sleep(Duration::from_millis(800));
        job.pause(2, Duration::from_millis(800));
    }
    let output = job.finish();
    let all = text(&output.stdout);
    let last = all.lines().last().unwrap_or_default();
    assert!(
        output.status.success() && last.contains("digest=ef5386b1985cbcee"),
        "{}",
        said(&output)
    );
    let benched = numbers(&all, "nodes benched: ");
    let is_other = |(node, times): (usize, &u32)| node != 2 && *times > 0;
    assert!(benched.len() == 4 && benched[2] > 0, "{}", said(&output));
    assert!(!benched.iter().enumerate().any(is_other), "nobody else: {}", said(&output));
    let is_back = numbers(&all, "nodes at work at the end: ").contains(&2);
    assert!(is_back || benched[2] > 1, "{}", said(&output));
}

/// `MiniFE` on four nodes, one solve after the other. No process stops, so every rank and every
/// observer answers in time. The first three seconds of a job do not count: processes that still
/// start keep others from running.
#[test]
#[ignore = "ten minutes of an idle machine"]
fn in_ten_minutes_of_minife_no_node_and_no_rank_fails_a_test() {
    if !has_name_spaces() {
        return;
    }
    let program = application("minife");
    let observer = format!("FAMPI_OBSERVER={}", application("fampi-observer").display());
    let before = ["/usr/bin/env", &observer, "FAMPI_DIAGNOSIS=50ms:2.5:5"];
    let words: Vec<&str> = before.into_iter().chain(program.to_str()).chain(["nx=100"]).collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(600) {
        let job = Job::start(4, 8, &[], &words);
        (0..4).for_each(|node| job.wait_for_daemon(node));
        thread::sleep(Duration::from_secs(3));
        // Nothing looks at the processes meanwhile, which would keep them from running.
        let boards = [0, 1, 2, 3].map(|node| job.board(node));
        let failed = || boards.each_ref().map(Board::failed_tests);
        let at_first = failed();
        let output = job.finish();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(failed(), at_first, "{}", said(&output));
    }
}
