//! Ranks that make no progress, and ranks that only seem so.
//!
//! A rank of these tests beats as it is told. What is to happen is waited for; what is not to is
//! given several limits of time.

use std::{thread, time::Duration};

use fampi_detector::protocol::{
    Cause, Incarnation, Process, Timing, board::Entry, registration::Rejection,
};
use rustix::process::Signal;

use crate::{
    job::{CALM, Job, host, launched, until},
    nodes::dead,
    rank::Member,
};

const LIMIT: Duration = Duration::from_millis(400);
const WATCHFUL: Timing = Timing { hung: Some(LIMIT), ..CALM };

fn hung(rank: u32) -> Entry {
    dead(0, rank, Cause::Hung)
}

/// What the process itself is told.
fn told_to_stop(rank: u32) -> Entry {
    dead(0, rank, Cause::Declared)
}

/// Long enough for several verdicts.
fn for_several_limits() {
    thread::sleep(5 * LIMIT);
}

#[track_caller]
fn nobody_is_hung(witness: &Member) {
    for_several_limits();
    assert_eq!(witness.entries(), []);
}

#[test]
fn a_stopped_rank_is_hung_on_all_boards_and_killed_and_its_end_is_no_news() {
    let job = Job::new(&[3, 1], WATCHFUL);
    let _observers = [job.observer(0), job.observer(1)];
    let witnesses = [job.member(0, 0), job.member(1, 3)];
    let (mut stopped, mut other) = (job.process(0, 1), job.process(0, 2));
    stopped.order("page 10");
    other.order("page 10");
    nobody_is_hung(&witnesses[0]);
    stopped.signal(Signal::STOP);
    until("both boards say so", || witnesses.iter().all(|it| !it.entries().is_empty()));
    assert_eq!(witnesses[1].entries(), [hung(1)]);
    assert_eq!(stopped.end(), Cause::Signal(9));
    until("it is not watched", || witnesses[0].head().registered == 2);
    for_several_limits();
    assert_eq!(witnesses[0].entries(), [hung(1), told_to_stop(1)]);
    assert_eq!(witnesses[1].entries(), [hung(1)]);
    drop(job.life(0, Process { incarnation: Incarnation(1), ..launched(1) }));
    until("its replacement is one like others", || witnesses[1].entries().len() == 2);
}

#[test]
fn a_rank_that_computes_for_ever_is_hung() {
    let job = Job::new(&[2], WATCHFUL);
    let _observer = job.observer(0);
    let witness = job.member(0, 0);
    let mut spinning = job.process(0, 1);
    spinning.order("page spin");
    until("it is hung", || witness.entries() == [hung(1), told_to_stop(1)]);
    assert_eq!(spinning.end(), Cause::Signal(9));
}

#[test]
fn a_rank_that_goes_on_after_the_verdict_is_killed_all_the_same() {
    let job = Job::new(&[2], Timing { grace: Duration::from_secs(1), ..WATCHFUL });
    let _observer = job.observer(0);
    let witness = job.member(0, 0);
    let mut late = job.process(0, 1);
    late.order("page 10");
    late.signal(Signal::STOP);
    until("it is hung", || !witness.entries().is_empty());
    late.signal(Signal::CONT);
    assert_eq!(late.end(), Cause::Signal(9));
    for_several_limits();
    assert_eq!(witness.entries(), [hung(1), told_to_stop(1)]);
}

#[test]
fn of_ranks_that_are_stopped_at_once_each_is_told() {
    let job = Job::new(&[4], WATCHFUL);
    let _observer = job.observer(0);
    let witness = job.member(0, 0);
    let mut stopped = [1, 2, 3].map(|rank| job.process(0, rank));
    for rank in &mut stopped {
        rank.order("page 10");
    }
    thread::sleep(LIMIT);
    for rank in &stopped {
        rank.signal(Signal::STOP);
    }
    until("all", || witness.entries().len() == 6);
    assert!((1..4).all(|rank| witness.entries().contains(&hung(rank))));
}

#[test]
fn who_rests_or_leaves_is_not_hung() {
    let job = Job::new(&[4], WATCHFUL);
    let _observer = job.observer(0);
    let witness = job.member(0, 0);
    // Before the first step, in a call that may last, and at the end.
    let fresh = job.process(0, 1);
    let (mut resting, mut leaving) = (job.process(0, 2), job.process(0, 3));
    for (rank, last) in [(&mut resting, "page rest"), (&mut leaving, "page leave")] {
        rank.order("page beat");
        rank.order(last);
    }
    nobody_is_hung(&witness);
    // Nothing bounds its rest while it is stopped; who leaves is waited for by nobody.
    leaving.signal(Signal::STOP);
    nobody_is_hung(&witness);
    resting.signal(Signal::STOP);
    until("it is hung", || witness.entries() == [hung(2), told_to_stop(2)]);
    fresh.signal(Signal::STOP);
    until("so is this", || witness.entries().contains(&hung(1)));
    assert!(!witness.entries().contains(&hung(3)));
}

#[test]
fn a_rank_that_sleeps_in_its_first_block_is_hung_and_before_it_is_not() {
    let job = Job::new(&[3], WATCHFUL);
    let _observer = job.observer(0);
    let witness = job.member(0, 0);
    let (mut waits_and_begins, mut begins) = (job.process(0, 1), job.process(0, 2));
    waits_and_begins.order("page beat");
    nobody_is_hung(&witness);
    waits_and_begins.order("page begin");
    until("it is hung", || witness.entries() == [hung(1), told_to_stop(1)]);
    begins.order("page begin");
    until("so is who never beats", || witness.entries().contains(&hung(2)));
}

/// As when the whole machine is suspended, and the observer is the first to run again.
#[test]
fn time_in_which_the_observer_did_not_look_does_not_count() {
    let limit = Duration::from_secs(2);
    let job = Job::new(&[2], Timing { hung: Some(limit), ..WATCHFUL });
    let observer = job.observer(0);
    let witness = job.member(0, 0);
    let mut rank = job.process(0, 1);
    rank.order("page 10");
    for _ in 0..2 {
        thread::sleep(limit / 4);
        rank.signal(Signal::STOP);
        observer.signal(Signal::STOP);
        thread::sleep(limit + limit / 2);
        observer.signal(Signal::CONT);
        thread::sleep(limit / 16);
        rank.signal(Signal::CONT);
    }
    thread::sleep(limit / 2);
    assert_eq!(witness.entries(), []);
}

#[test]
fn who_hands_over_no_page_or_a_wrong_one_is_watched_and_never_hung() {
    let wrong =
        ["none", "short", "long", "shrinking", "unsealed", "pipe", "file", "null", "folder"];
    let job = Job::new(&[2 + wrong.len() as u32], WATCHFUL);
    let _observer = job.observer(0);
    let witness = job.member(0, 0);
    let showing = |(rank, page): (u32, &str)| job.showing(0, launched(rank), page);
    let mut ranks: Vec<_> = (1..).zip(wrong).map(showing).collect();
    let mut many = showing((1 + wrong.len() as u32, "several"));
    many.order("page 10");
    nobody_is_hung(&witness);
    assert_eq!(witness.head().clients.count(Rejection::Malformed), 0);
    assert_eq!(witness.head().registered, 2 + wrong.len() as u64);
    for rank in &mut ranks {
        rank.order("exit 3");
    }
    until("all deaths", || witness.entries().len() == wrong.len());
    assert!(witness.entries().iter().all(|entry| entry.cause == Cause::Exit(3)));
    many.signal(Signal::STOP);
    until("the first of its pages counts", || {
        witness.entries().contains(&hung(1 + wrong.len() as u32))
    });
    assert!(witness.entries().iter().all(|entry| entry.host == host(0)));
}
