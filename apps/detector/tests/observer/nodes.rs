//! Several nodes: news travel, silent nodes are lost, and who is lost and lives is stopped.

use std::{thread, time::Duration};

use fampi_detector::protocol::{
    Cause, Incarnation, Process, board::Entry, registration::Rejection,
};
use rustix::process::Signal;

use crate::{
    job::{CALM, Job, Observer, host, launched, until},
    rank::Member,
};

/// A job of so many nodes with two ranks each, the first of which is this process.
pub(crate) fn job_of(nodes: u32) -> (Job, Vec<Observer>, Vec<Member>) {
    let job = Job::new(&vec![2; nodes as usize], CALM);
    let observers = (0..nodes).map(|node| job.observer(node)).collect();
    let witnesses = (0..nodes).map(|node| job.member(node, 2 * node)).collect();
    (job, observers, witnesses)
}

/// What is on a board, by rank.
pub(crate) fn sorted(member: &Member) -> Vec<Entry> {
    let mut entries = member.entries();
    entries.sort_by_key(|entry| entry.process);
    entries
}

pub(crate) fn dead(node: u32, rank: u32, cause: Cause) -> Entry {
    Entry { process: launched(rank), host: host(node), cause }
}

#[test]
fn a_death_is_news_on_all_nodes_with_its_status() {
    let (job, _observers, witnesses) = job_of(4);
    let mut actor = job.process(2, 5);
    actor.order("_exit 1");
    for witness in &witnesses {
        until("the news", || !witness.entries().is_empty());
        assert_eq!(witness.entries(), [dead(2, 5, Cause::Exit(1))]);
    }
}

#[test]
fn a_lost_node_is_one_hard_report_with_all_its_ranks() {
    let (job, mut observers, witnesses) = job_of(3);
    let actor = job.process(1, 3);
    thread::sleep(3 * CALM.period);
    observers.remove(1).kill();
    actor.signal(Signal::KILL);
    let lost = [dead(1, 2, Cause::NodeLost), dead(1, 3, Cause::NodeLost)];
    for witness in [&witnesses[0], &witnesses[2]] {
        until("the loss", || witness.head().entries > 0);
        assert_eq!(sorted(witness), lost, "all at once");
    }
    assert!(lost.iter().all(Entry::is_hard));
    assert!(witnesses[1].entries().is_empty(), "what was told last");
}

#[test]
fn neighbours_that_are_lost_at_once_are_all_found() {
    let (_job, mut observers, witnesses) = job_of(5);
    thread::sleep(3 * CALM.period);
    observers.drain(1..4).for_each(Observer::kill);
    for witness in [&witnesses[0], &witnesses[4]] {
        until("three nodes", || witness.head().entries == 6);
        let lost = (2..8).map(|rank| dead(rank / 2, rank, Cause::NodeLost));
        assert_eq!(sorted(witness), lost.collect::<Vec<_>>());
    }
}

#[test]
fn a_replacement_ends_the_life_that_it_replaces_which_is_heard_of_no_more() {
    let (job, _observers, witnesses) = job_of(3);
    let mut old = job.process(0, 1);
    let second = Process { incarnation: Incarnation(1), ..launched(1) };
    let mut new = job.life(1, second);
    for witness in &witnesses {
        until("it is announced", || !witness.entries().is_empty());
        let Entry { process, cause, .. } = witness.entries()[0];
        assert_eq!((process, cause), (launched(1), Cause::Replaced));
    }
    assert_eq!(old.end(), Cause::Signal(9), "its own observer has stopped it");
    assert!(Member::register(&job.plan(0), launched(1)).is_err(), "it cannot come back");
    assert!(Member::register(&job.plan(0), second).is_err(), "nor hold the same life twice");
    until("it is counted", || witnesses[0].head().clients.count(Rejection::Refused) == 2);
    new.order("_exit 3");
    let end = Entry { process: second, host: host(1), cause: Cause::Exit(3) };
    for witness in &witnesses {
        until("its end", || witness.entries().last() == Some(&end));
    }
    // The first node was told that the old life is to stop, too.
    let told = witnesses.iter().map(|witness| witness.entries().len());
    assert_eq!(told.collect::<Vec<_>>(), [3, 2, 2], "and nothing else");
}

#[test]
fn a_node_that_was_silent_for_too_long_is_stopped_when_it_comes_back() {
    let job = Job::new(&[1, 2, 1], CALM);
    let mut observers: Vec<Observer> = (0..3).map(|node| job.observer(node)).collect();
    let witnesses = [job.member(0, 0), job.member(2, 3)];
    let mut actors = [job.process(1, 1), job.process(1, 2)];
    thread::sleep(3 * CALM.period);
    observers[1].signal(Signal::STOP);
    let lost = [dead(1, 1, Cause::NodeLost), dead(1, 2, Cause::NodeLost)];
    for witness in &witnesses {
        until("the loss", || witness.head().entries > 0);
        assert_eq!(sorted(witness), lost);
    }
    observers[1].signal(Signal::CONT);
    // They do not look at their board, so they do not stop by themselves.
    for actor in &mut actors {
        assert_eq!(actor.end(), Cause::Signal(9));
    }
    observers[1].leaves();
    assert!(witnesses.iter().all(|witness| sorted(witness) == lost), "nobody else was told more");
    until("it was answered", || witnesses.iter().any(|witness| witness.head().ghosts > 0));
}

#[test]
fn without_deaths_nothing_is_told() {
    let (_job, mut observers, witnesses) = job_of(4);
    thread::sleep(Duration::from_secs(3));
    assert!(observers.iter_mut().all(Observer::lives));
    for witness in &witnesses {
        let head = witness.head();
        assert_eq!((head.entries, head.registered, head.ghosts), (0, 1, 0));
        assert_eq!((head.packets.total(), head.clients.total()), (0, 0));
    }
}
