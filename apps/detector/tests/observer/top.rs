//! What a person is shown of observers at work.

use std::{
    process::{Command, Output},
    time::Duration,
};

use fampi_detector::protocol::{Incarnation, Process, Timing};
use rustix::process::Signal;

use crate::{
    job::{CALM, Job, launched, until},
    nodes::job_of,
};

fn top(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fampi-observer"));
    command.args(arguments).output().expect("it starts")
}

/// What is shown of the observer with this number; others may be at work.
pub(crate) fn shown(observer: u32) -> Vec<String> {
    let output = top(&["top", "--once"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("a table");
    let begin = format!("observer {observer} on ");
    let ours = text.split_inclusive('\n').skip_while(|line| !line.starts_with(&begin));
    let ours: String = ours.collect();
    // The next table begins in the same way.
    let end = ours[1..].find("observer ").map_or(ours.len(), |at| 1 + at);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    ours[..end].lines().map(words).collect()
}

#[test]
fn nodes_ranks_and_their_lives_are_shown() {
    let (job, mut observers, _witnesses) = job_of(3);
    let mut old = job.process(1, 3);
    let shows = |observer: u32, line: &str| shown(observer).iter().any(|it| it == line);
    let first = observers[0].pid();
    let own = std::process::id();
    assert_eq!(
        shown(first)[..2],
        [
            format!("observer {first} on cabinet0node0: watched: 1, nodes: 3, ranks: 6"),
            "heartbeats every 50ms, lost after 2s; strangers refused: 0".to_owned(),
        ]
    );
    assert!(shows(first, &format!("0 0 0 - - process {own}")) && shows(first, "3 0 1 - - alive"));
    until("a heartbeat", || {
        let heard = |line: &String| line.contains("alive") && line.contains(" ms ago");
        shown(first).iter().any(heard)
    });
    old.order("_exit 4");
    until("its end", || shows(first, "3 0 1 - - ended with status 4"));
    let second = Process { incarnation: Incarnation(2), ..launched(3) };
    let _new = job.life(2, second);
    until("its replacement", || shows(first, "3 2 2 - - alive"));
    observers.pop().expect("the last").kill();
    until("the loss", || shows(first, "3 2 2 - - lost with its node"));
    let lost = |line: &String| line.starts_with("2 0 cabinet0node2 lost ");
    let asked = |line: &&String| !line.ends_with(" 0");
    let rows: Vec<String> = observers.iter().flat_map(|it| shown(it.pid())).collect();
    assert_eq!(rows.iter().filter(|it| lost(it)).count(), 2, "{rows:?}");
    assert!(rows.iter().filter(|it| lost(it)).any(|it| asked(&it)), "{rows:?}");
}

#[test]
fn commits_of_the_ranks_of_this_node_are_counted_and_who_stands_still_is_suspected() {
    let watchful = Timing { hung: Some(Duration::from_secs(40)), ..CALM };
    let job = Job::new(&[3], watchful);
    let observer = job.observer(0);
    let (mut commits, _silent) = (job.process(0, 1), job.showing(0, launched(2), "none"));
    let row = |rank: u32| {
        let begin = format!("{rank} 0 0 ");
        shown(observer.pid()).into_iter().find(|line| line.starts_with(&begin)).expect("a row")
    };
    assert!(row(1).starts_with("1 0 0 0 0 process "), "{}", row(1));
    assert!(row(2).starts_with("2 0 0 - - process "), "{}", row(2));
    commits.order("page commit 10");
    let rate = |row: &str| row.split(' ').nth(4).and_then(|rate| rate.parse::<f64>().ok());
    until("it is seen", || rate(&row(1)).is_some_and(|rate| rate > 0.0 && rate < 150.0));
    commits.signal(Signal::STOP);
    until("it is suspected", || row(1).contains("no progress in "));
}

#[test]
fn who_looks_is_not_noticed() {
    let job = Job::new(&[1], CALM);
    let observer = job.observer(0);
    let member = job.member(0, 0);
    for _ in 0..20 {
        let head = shown(observer.pid()).swap_remove(0);
        assert!(head.ends_with("watched: 1, nodes: 1, ranks: 1"), "{head}");
    }
    assert_eq!((member.head().clients.total(), member.head().packets.total()), (0, 0));
}

#[test]
fn a_plan_or_a_look_is_asked_for_and_not_both() {
    for words in [&[][..], &["--once"], &["--plan", "x", "top"], &["top", "--foreground"]] {
        assert_eq!(top(words).status.code(), Some(2), "{words:?}");
    }
}
