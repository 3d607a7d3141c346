//! One node: its processes end, its observer ends.

use std::{
    fs,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use fampi_detector::protocol::{Cause, Timing, board::Entry, registration::Rejection};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::OFlags,
    net::sockopt,
    process::{Pid, PidfdFlags, Signal},
};

use crate::{
    job::{CALM, Job, host, launched, until},
    rank::Member,
};

fn soft(rank: u32, cause: Cause) -> Entry {
    Entry { process: launched(rank), host: host(0), cause }
}

#[test]
fn every_way_to_end_is_on_the_board_with_its_status() {
    let job = Job::new(&[8], CALM);
    let _observer = job.observer(0);
    let witness = job.member(0, 0);
    assert!(witness.can_only_read());
    let orders = [
        ("exit 1", Cause::Exit(1)),
        ("_exit 3", Cause::Exit(3)),
        ("exit 0", Cause::Ended),
        ("leave", Cause::Exit(0)),
    ];
    let signals = [("signal 11", Cause::Signal(11)), ("signal 6", Cause::Signal(6))];
    let mut expected = Vec::new();
    // Not asked how they ended, so the system still knows.
    let mut actors = Vec::new();
    for ((order, cause), rank) in orders.into_iter().chain(signals).zip(1..) {
        let mut actor = job.process(0, rank);
        assert_eq!(witness.entries(), expected, "before it ends");
        actor.order(order);
        expected.push(soft(rank, cause));
        until(order, || witness.entries() == expected);
        actors.push(actor);
    }
    let actor = job.process(0, 7);
    until("it is registered", || witness.head().registered == 2);
    actor.signal(Signal::KILL);
    expected.push(soft(7, Cause::Signal(9)));
    until("SIGKILL", || witness.entries() == expected);
    until("it is not registered", || witness.head().registered == 1);
    assert!(witness.entries().iter().all(|entry| !entry.is_hard()));
}

#[test]
fn a_stopped_process_is_not_dead_and_the_end_of_a_stranger_is_no_news() {
    let job = Job::new(&[3], CALM);
    let _observer = job.observer(0);
    let witness = job.member(0, 0);
    let (stopped, mut other) = (job.process(0, 1), job.process(0, 2));
    stopped.signal(Signal::STOP);
    other.order("exit 5");
    until("the other one", || !witness.entries().is_empty());
    assert_eq!(witness.entries(), [soft(2, Cause::Exit(5))]);
    drop(stopped);
    until("it was killed", || witness.entries().len() == 2);
}

#[test]
fn a_process_whose_status_was_taken_has_ended_all_the_same() {
    let job = Job::new(&[12], CALM);
    let _observer = job.observer(0);
    let witness = job.member(0, 0);
    for rank in 1..12 {
        let mut actor = job.process(0, rank);
        actor.order("exit 9");
        assert_eq!(actor.end(), Cause::Exit(9));
    }
    until("all", || witness.entries().len() == 11);
    let right = |entry: &Entry| [Cause::Ended, Cause::Exit(9)].contains(&entry.cause);
    assert!(witness.entries().iter().all(right), "{:?}", witness.entries());
}

/// It has ended when all its memory is given back.
#[test]
fn a_dying_process_is_on_the_board_before_it_has_ended() {
    let threads = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());
    if rustix::process::pidfd_open(rustix::process::getpid(), threads).is_err() {
        println!("skipped: this system does not tell of the end of threads (Linux 6.9)");
        return;
    }
    let is_early = |_| {
        let job = Job::new(&[2], CALM);
        let _observer = job.observer(0);
        let (witness, mut actor) = (job.member(0, 0), job.process(0, 1));
        let ended = rustix::process::pidfd_open(actor.pid(), PidfdFlags::empty()).expect("a child");
        actor.order("fat 256");
        until("its end", || witness.head().entries == 1);
        let mut ends = [PollFd::new(&ended, PollFlags::IN)];
        let is_over = rustix::event::poll(&mut ends, Some(&Timespec::default())).expect("a look");
        assert_eq!(witness.entries(), [soft(1, Cause::Signal(9))]);
        assert_eq!(actor.end(), Cause::Signal(9));
        is_over == 0
    };
    assert!((0..10).any(is_early), "never before it had ended");
}

#[test]
fn a_thread_that_ends_for_itself_is_no_death() {
    let job = Job::new(&[2], CALM);
    let _observer = job.observer(0);
    let (witness, mut actor) = (job.member(0, 0), job.process(0, 1));
    actor.order("shed");
    actor.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(witness.entries(), []);
    actor.signal(Signal::CONT);
    actor.order("exit 5");
    until("its end", || witness.head().entries > 0);
    assert_eq!(witness.entries(), [soft(1, Cause::Exit(5))]);
}

#[test]
fn a_place_is_held_by_one_process() {
    let job = Job::new(&[2, 1], CALM);
    let _observer = job.observer(0);
    let witness = job.member(0, 0);
    let plan = job.plan(0);
    assert!(Member::register(&plan, launched(0)).is_err(), "it is held");
    let mut actor = job.process(0, 1);
    actor.order("exit 0");
    until("it has ended", || witness.entries().len() == 1);
    assert!(Member::register(&plan, launched(1)).is_err(), "it is dead");
    assert!(Member::register(&plan, launched(2)).is_err(), "it is on another node");
    until("all are counted", || witness.head().clients.count(Rejection::Refused) == 3);
    assert_eq!(witness.head().clients.total(), 3);
}

#[test]
fn an_observer_leaves_with_its_processes_and_takes_its_socket_along() {
    let job = Job::new(&[2], CALM);
    let mut observer = job.observer(0);
    let (one, other) = (job.process(0, 0), job.process(0, 1));
    drop(one);
    assert!(observer.lives());
    drop(other);
    observer.leaves();
    assert!(!fs::exists(job.plan(0).socket).expect("our folder"));
    assert!(!fs::exists(job.folder.path().join("0.plan")).expect("our folder"), "it has a secret");
}

#[test]
fn an_observer_to_whom_nobody_comes_leaves() {
    let job = Job::new(&[1], Timing { start: Duration::from_millis(200), ..CALM });
    job.observer(0).leaves();
}

#[test]
fn an_observer_costs_no_core() {
    let job = Job::new(&[1, 1], CALM);
    let observers = [job.observer(0), job.observer(1)];
    let _witnesses = [job.member(0, 0), job.member(1, 1)];
    let ticks = || -> u64 { observers.iter().map(|it| ticks_of(it.pid())).sum() };
    let (before, began) = (ticks(), Instant::now());
    thread::sleep(Duration::from_secs(2));
    // A tick is a hundredth of a second.
    let allowed = began.elapsed().as_millis() as u64 / 10 / 10;
    assert!(ticks() - before <= allowed, "{} of {allowed} ticks", ticks() - before);
}

/// The time that a process has used, in ticks.
fn ticks_of(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let rest = text.rsplit(')').next().expect("a name in parentheses");
    let words: Vec<&str> = rest.split_whitespace().collect();
    [words[11], words[12]].map(|it| it.parse::<u64>().expect("a number")).iter().sum()
}

#[test]
fn an_observer_that_is_left_behind_holds_nothing_and_another_takes_its_place() {
    let job = Job::new(&[2], CALM);
    let start = || {
        let output = job.command(0).stderr(Stdio::piped()).output().expect("an observer");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(start(), (true, String::new()));
    let mut member = job.member(0, 0);
    let pid = sockopt::socket_peercred(&member.connection).expect("a socket").pid;
    assert_eq!(rustix::process::getsid(Some(pid)).expect("it lives"), pid);
    for descriptor in 0..3 {
        let path = format!("/proc/{}/fd/{descriptor}", pid.as_raw_nonzero());
        assert_eq!(fs::read_link(path).expect("open"), std::path::Path::new("/dev/null"));
    }
    let (started, why) = start();
    assert!(!started && why.contains("an observer serves there already"), "{why}");
    kill(pid);
    until("it is gone", || member.is_alone());
    assert_eq!(member.entries(), [], "what it has told stays");
    assert_eq!(start(), (true, String::new()));
    let other = job.member(0, 1);
    kill(sockopt::socket_peercred(&other.connection).expect("a socket").pid);
}

/// Kills an observer that a test has left behind.
fn kill(pid: Pid) {
    rustix::process::kill_process(pid, Signal::KILL).expect("ours");
}
