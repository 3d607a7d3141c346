//! Nodes are lost in the middle of a solve, and no digit changes.

use std::fs;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use crate::network::{self, Job, What, has_name_spaces};
use crate::{application, fampi, in_c, said, text};

/// The last line, with the digits of the result, of a run that ended in order.
#[track_caller]
fn digits(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    let all = text(&output.stdout);
    all.lines().last().unwrap_or_else(|| panic!("no result: {}", said(output))).to_owned()
}

/// `MiniFE` on so many ranks, perhaps with one that stops itself at a moment.
fn minife(nodes: u32, ranks: u32, stop: Option<&str>) -> Job {
    let program = application("minife");
    let stop = stop.map(|at| format!("kill={at}:stop"));
    let mut words = vec![program.to_str().expect("a path"), "nx=30", "yaml=none"];
    words.extend(stop.as_deref());
    Job::start(nodes, ranks, &[], &words)
}

/// `MiniFE` on two ranks of each of three nodes, of which one rank of this node has stopped itself.
fn minife_stopped(node: u32) -> Job {
    let job = minife(3, 6, Some(&format!("{}@iteration:20", 2 * node)));
    job.wait_for_stop(node);
    job
}

fn of_six() -> &'static str {
    static DIGITS: OnceLock<String> = OnceLock::new();
    DIGITS.get_or_init(|| digits(&minife(3, 6, None).finish()))
}

fn of_four() -> &'static str {
    static DIGITS: OnceLock<String> = OnceLock::new();
    DIGITS.get_or_init(|| digits(&minife(4, 4, None).finish()))
}

#[test]
fn each_of_three_nodes_is_lost_the_first_included_and_no_digit_changes() {
    if !has_name_spaces() {
        return;
    }
    for node in 0..3 {
        let job = minife_stopped(node);
        job.lose(node, What::Everything);
        let output = job.finish();
        assert_eq!(digits(&output), of_six(), "node {node}");
        assert!(text(&output.stdout).contains("After 1 recovery"), "{}", said(&output));
        let told = text(&output.stderr);
        assert!(told.contains(&format!("-{node} is lost, with 2 processes")), "{told}");
        // A process that has stopped itself counts as one of a plan.
        assert!(told.contains("2 processes died (1 without a --kill), and the others"), "{told}");
    }
}

#[test]
fn a_daemon_alone_or_all_ranks_of_a_node_alone_are_lost_and_no_digit_changes() {
    if !has_name_spaces() {
        return;
    }
    for (what, is_node) in [(What::Daemon, true), (What::Ranks, false)] {
        let job = minife_stopped(0);
        job.lose(0, what);
        let output = job.finish();
        assert_eq!(digits(&output), of_six(), "{what:?}");
        let told = text(&output.stderr);
        assert_eq!(told.contains("is lost, with"), is_node, "{told}");
    }
}

#[test]
fn a_daemon_that_was_stopped_for_too_long_ends_itself_and_no_digit_changes() {
    if !has_name_spaces() {
        return;
    }
    let mut job = minife_stopped(1);
    job.signal_daemon(1, "-STOP");
    job.read_until("minife: ranks=6");
    // The others have ended without it; it is still there, and learns that it was lost.
    job.signal_daemon(1, "-CONT");
    let output = job.finish();
    assert!(output.status.success(), "{}", said(&output));
    assert!(text(&output.stderr).contains("-1 is lost, with 2 processes"), "{}", said(&output));
}

#[test]
#[ignore = "under load nodes that live are taken for lost now and then"]
fn a_second_node_is_lost_while_the_first_loss_is_mended() {
    if !has_name_spaces() {
        return;
    }
    for later in [5, 30, 90] {
        let job = minife(4, 4, Some("0@iteration:20"));
        job.wait_for_stop(0);
        job.lose(0, What::Everything);
        thread::sleep(Duration::from_millis(later));
        job.lose(1, What::Everything);
        assert_eq!(digits(&job.finish()), of_four(), "{later} ms later");
    }
}

#[test]
fn a_node_that_is_lost_while_all_end_mpi_changes_nothing() {
    if !has_name_spaces() {
        return;
    }
    for later in [0, 20] {
        let mut job = minife(4, 4, None);
        // Results are printed in the end.
        job.read_until("minife: ranks=4");
        thread::sleep(Duration::from_millis(later));
        job.lose(1, What::Everything);
        let output = job.finish();
        assert!(output.status.success(), "{later} ms later: {}", said(&output));
    }
}

#[test]
fn a_node_is_lost_with_those_who_were_started_there_for_another_one_and_no_digit_changes() {
    if !has_name_spaces() {
        return;
    }
    // The ranks of the first node go on beside those that have kept their copies, or whose they
    // have kept: ranks that are half of all apart.
    let program = application("minife");
    let stops = ["kill=0@iteration:20:stop", "kill=2@iteration:60:stop"];
    let words = [&[program.to_str().expect("a path"), "nx=30", "yaml=none"], &stops[..]].concat();
    let job = Job::start(3, 6, &[], &words);
    for node in [0, 1] {
        job.wait_for_stop(node);
        job.lose(node, What::Everything);
    }
    let output = job.finish();
    assert_eq!(digits(&output), of_six(), "{}", said(&output));
    let told = text(&output.stderr);
    assert!(told.contains("-1 is lost, with 3 processes"), "{told}");
}

#[test]
fn lulesh_loses_a_node_and_no_digit_changes() {
    if !has_name_spaces() {
        return;
    }
    let program = application("lulesh");
    let words = [program.to_str().expect("a path"), "s=8", "i=300", "p"];
    let digest = |output: &Output| {
        assert!(output.status.success(), "{}", said(output));
        let all = text(&output.stdout);
        let word = all.split_whitespace().find(|word| word.starts_with("digest="));
        word.expect("a digest").to_owned()
    };
    let alone = digest(&Job::start(4, 8, &[], &words).finish());
    let mut job = Job::start(4, 8, &[], &words);
    job.read_until("cycle = 100,");
    job.lose(1, What::Everything);
    let output = job.finish();
    assert_eq!(digest(&output), alone);
    assert!(text(&output.stderr).contains("-1 is lost, with 2 processes"), "{}", said(&output));
}

#[test]
fn a_node_that_is_lost_while_the_job_starts_ends_it_with_a_sentence_or_is_survived() {
    if !has_name_spaces() {
        return;
    }
    for later in [0, 40, 80, 160] {
        let job = minife(3, 6, None);
        job.wait_for_daemon(1);
        thread::sleep(Duration::from_millis(later));
        job.lose(1, What::Everything);
        let output = job.finish();
        let told = text(&output.stderr);
        // The launcher says it, or, in MPI already, each rank.
        let sentences = ["the job did not start", "a process died while the job started"];
        let is_told = sentences.iter().any(|sentence| told.contains(sentence));
        let is_fine = output.status.success() && digits(&output) == of_six();
        assert!(is_fine || (!output.status.success() && is_told), "{later} ms: {}", said(&output));
    }
}

#[test]
fn a_rank_that_leaves_by_exit_with_a_status_is_told_to_mpi() {
    let output = fampi(&["-n", "4", "--"]).arg(in_c("told")).output().expect("the tool starts");
    let line = text(&output.stdout);
    // `MPIX_ERR_PROC_FAILED`.
    assert!(line.contains("class 75 after"), "{}", said(&output));
    println!("{}", line.trim());
}

#[test]
#[ignore = "it builds what is measured as it is measured, in minutes"]
fn lost_nodes_are_measured_and_each_phase_has_its_row() {
    if !has_name_spaces() {
        return;
    }
    let _alone = network::alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let csv = folder.path().join("nodes.csv");
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(["bench", "nodes", "--nodes", "3", "-n", "3", "--trials", "3", "--csv"]).arg(&csv);
    let output = tool.output().expect("the tool starts");
    assert!(output.status.success(), "{}", said(&output));
    let rows = fs::read_to_string(&csv).expect("written");
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split(',').collect()).collect();
    let phases: Vec<[&str; 2]> = rows.iter().skip(1).map(|row| [row[3], row[2]]).collect();
    let shrunk = ["report", "ishrink", "total"].map(|phase| ["shrink", phase]);
    let rebuilt = |way| ["report", "irebuild", "restore", "total"].map(|phase| [way, phase]);
    let all = [&shrunk[..], &rebuilt("spares"), &rebuilt("spawn")].concat();
    assert_eq!(phases, all, "{}", said(&output));
    for row in &rows[1..] {
        let [median, most] = [4, 5].map(|at: usize| row[at].parse::<f64>().expect("a number"));
        assert!(row[..2] == ["3", "3"] && 0.0 < median && median <= most, "{row:?}");
    }
}
