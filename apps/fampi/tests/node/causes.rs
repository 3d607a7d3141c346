//! What all living ranks report of a death: whether its node was lost, or how the process ended.

use crate::network::{Job, What, has_name_spaces};
use crate::{application, fampi, said, text};

/// The lines in which ranks say how others have died, in order.
fn causes(output: &std::process::Output) -> Vec<String> {
    assert!(output.status.success(), "{}", said(output));
    let out = text(&output.stdout);
    let mut lines: Vec<String> =
        out.lines().filter(|line| line.contains(" died (")).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// What these ranks say, each of them of each of those dead.
fn told(living: &[u32], dead: &[(u32, &str)]) -> Vec<String> {
    let of = |rank: &u32| {
        let rank = *rank;
        dead.iter().map(move |(dead, how)| format!("rank {rank}: rank {dead} died {how}"))
    };
    let mut lines: Vec<String> = living.iter().flat_map(of).collect();
    lines.sort();
    lines
}

#[test]
fn all_ranks_report_alike_with_which_status_or_signal_others_have_ended() {
    let output = fampi(&["-n", "5", "--"]).arg(application("causes")).output();
    let output = output.expect("the tool starts");
    let dead = [(1, "(soft): it exited with status 3"), (2, "(soft): it was killed by signal 9")];
    assert_eq!(causes(&output), told(&[0, 3, 4], &dead), "{}", said(&output));
}

#[test]
fn a_lost_node_is_a_hard_failure_of_each_of_its_ranks_and_a_soft_one_while_it_lives() {
    if !has_name_spaces() {
        return;
    }
    let program = application("causes");
    let hard = "(hard): its node was lost";
    let soft = "(soft): it was killed by signal 9";
    for (node, what, how) in [(0, What::Everything, hard), (2, What::Ranks, soft)] {
        let mut job = Job::start(3, 6, &[], &[program.to_str().expect("a path"), "2"]);
        job.read_until("all are here");
        job.lose(node, what);
        let output = job.finish();
        let living: Vec<u32> = (0..6).filter(|rank| rank / 2 != node).collect();
        let dead = [(2 * node, how), (2 * node + 1, how)];
        assert_eq!(causes(&output), told(&living, &dead), "{what:?} {}", said(&output));
    }
}
