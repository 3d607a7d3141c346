//! Who lives and is slow: ranks of this node and observers of others, suspected and well again.

use std::{thread, time::Duration};

use fampi_detector::protocol::{
    Timing,
    diagnosis::{Opinion, schedule::Schedule},
};
use rustix::process::Signal;

use crate::{
    job::{CALM, Job, until},
    rank::Member,
    top::shown,
};

const ZETA: u32 = 5;
const INTERVAL: Duration = Duration::from_millis(20);

/// Observers test each other every 20 ms, and take no process that stops for a moment for lost.
const TESTED: Timing = Timing {
    timeout: Duration::from_secs(50),
    diagnosis: Some(Schedule { interval: INTERVAL, kappa_percent: 250, zeta: ZETA }),
    ..CALM
};

fn until_well(witness: &Member, target: u32) {
    until("it has passed its tests", || witness.opinion(target).streak >= ZETA);
}

#[test]
fn a_rank_that_was_stopped_is_suspected_and_is_well_again_when_it_goes_on() {
    let job = Job::new(&[2], TESTED);
    let observer = job.observer(0);
    let (witness, slow) = (job.member(0, 0), job.process(0, 1));
    let row = || shown(observer.pid()).into_iter().find(|line| line.starts_with("1 0 0 "));
    let is_shown = || row().is_some_and(|line| line.contains(", slow: "));
    until_well(&witness, 1);
    let before = witness.opinion(1);
    slow.signal(Signal::STOP);
    until("it is suspected", || witness.opinion(1).fails > before.fails && is_shown());
    assert_eq!(witness.opinion(1).streak, 0, "it passes none");
    assert!(witness.entries().is_empty(), "slow is not dead");
    slow.signal(Signal::CONT);
    until_well(&witness, 1);
    until("it is shown as well", || row().is_some() && !is_shown());
    assert!(witness.opinion(1).fails > before.fails, "what was counted is not forgotten");
    assert!(witness.head().failed_tests > 0 && witness.entries().is_empty());
}

#[test]
fn a_rank_that_is_dead_is_not_slow() {
    let job = Job::new(&[2], TESTED);
    let observer = job.observer(0);
    let (witness, dead) = (job.member(0, 0), job.process(0, 1));
    until_well(&witness, 1);
    dead.signal(Signal::KILL);
    until("its death", || !witness.entries().is_empty());
    let then = witness.opinion(1);
    thread::sleep(10 * INTERVAL);
    assert_eq!(witness.opinion(1), then, "it is not tested any more");
    until_well(&witness, 0);
    let rows = shown(observer.pid());
    assert!(rows.iter().any(|line| line == "1 0 0 - - ended by signal 9"), "{rows:?}");
}

#[test]
fn a_rank_that_computes_is_not_slow() {
    let job = Job::new(&[2], TESTED);
    let _observer = job.observer(0);
    let (witness, mut busy) = (job.member(0, 0), job.process(0, 1));
    busy.order("page spin");
    thread::sleep(INTERVAL);
    let streak = witness.opinion(1).streak;
    until("it passes more tests", || witness.opinion(1).streak > streak + ZETA);
}

#[test]
fn an_observer_that_was_stopped_is_suspected_by_others_and_is_well_again_when_it_goes_on() {
    let job = Job::new(&[1, 1, 1], TESTED);
    let observers = [0, 1, 2].map(|node| job.observer(node));
    let members = [0, 1, 2].map(|node| job.member(node, node));
    let of_node = |node: u32| 3 + node;
    let witnesses = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)];
    for (tester, node) in witnesses {
        until_well(&members[tester], of_node(node));
    }
    let fails = |tester: usize| members[tester].opinion(of_node(1)).fails;
    let before = [fails(0), fails(2)];
    observers[1].signal(Signal::STOP);
    until("it is suspected", || fails(0) > before[0] && fails(2) > before[1]);
    observers[1].signal(Signal::CONT);
    for (tester, node) in witnesses {
        until_well(&members[tester], of_node(node));
        assert!(members[tester].entries().is_empty(), "slow is not dead");
    }
}

/// What comes late because the tester itself was stopped is no fault of those that it tests, be
/// they ranks of its node or observers of others; these see that it was slow. A busy machine may
/// have them fail a test by chance.
#[test]
fn a_tester_that_was_stopped_suspects_nobody() {
    let job = Job::new(&[2, 1], TESTED);
    let observers = [0, 1].map(|node| job.observer(node));
    let members = [(0, 0), (0, 1), (1, 2)].map(|(node, rank)| job.member(node, rank));
    // The ranks of its node, and the node of the other.
    let (tester, targets) = (&members[0], [0, 1, 4]);
    let until_all_are_well = || {
        for target in targets {
            until_well(tester, target);
        }
    };
    until_all_are_well();
    let suspects_nobody = |pause: u32| {
        let before = targets.map(|target| tester.opinion(target).fails);
        let (stalls, seen) = (tester.head().stalls, members[2].opinion(3).fails);
        observers[0].signal(Signal::STOP);
        thread::sleep(pause * INTERVAL);
        if pause >= 20 {
            until("the other one sees it", || members[2].opinion(3).fails > seen);
        }
        observers[0].signal(Signal::CONT);
        until("it knows of its pause", || tester.head().stalls > stalls);
        until_all_are_well();
        targets.map(|target| tester.opinion(target).fails) == before
    };
    for pause in [2, 7, 20, 60] {
        assert!((0..5).any(|_| suspects_nobody(pause)), "each pause of {pause} intervals");
    }
}

#[test]
fn nobody_is_tested_unless_the_user_asks_for_it() {
    let job = Job::new(&[1, 1], CALM);
    let _observers = [0, 1].map(|node| job.observer(node));
    let members = [0, 1].map(|node| job.member(node, node));
    thread::sleep(10 * INTERVAL);
    for (member, target) in members.iter().flat_map(|member| (0..4).map(move |it| (member, it))) {
        assert_eq!(member.opinion(target), Opinion::default());
        assert!(!member.is_tested());
    }
}
