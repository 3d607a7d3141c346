//! Frames, time and endings of the simulated world; the same seed gives the same run.

use super::*;

/// Each process sends numbered frames to all and returns what it got, in order.
fn chatter(platform: &mut SimPlatform, size: u32, rounds: u64) -> Vec<u64> {
    let me = my_rank(platform);
    let mut seen = Vec::new();
    for round in 0..rounds {
        for to in (0..size).filter(|to| *to != me) {
            platform.send(LAUNCH, rank(to), &plain(round * 100 + u64::from(me)));
        }
        for _ in 1..size {
            seen.extend(next_number(platform, None));
        }
    }
    seen
}

fn chatter_report(seed: u64) -> Report<Vec<u64>> {
    let simulation = Simulation::new(4).seed(seed).trace(true);
    simulation.run(|mut platform| chatter(&mut platform, 4, 10))
}

#[test]
fn a_ping_pong_takes_two_latencies_a_round() {
    let report = Simulation::new(2).run(|mut platform| {
        let me = my_rank(&platform);
        for round in 0..10 {
            if me == 0 {
                platform.send(LAUNCH, rank(1), &fast(round));
                assert_eq!(next_number(&mut platform, Some(1)), Some(round));
            } else {
                assert_eq!(next_number(&mut platform, Some(0)), Some(round));
                platform.send(LAUNCH, rank(0), &fast(round));
            }
        }
        platform.finalize(false);
    });
    assert_eq!(report.counters.fast_frames, 20);
    assert!(report.end > Duration::from_micros(20) && report.end < Duration::from_micros(440));
    assert!(report.processes.iter().all(|process| process.finalized && process.effects == 11));
    report.expect_orderly();
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let (one, again, other) = (chatter_report(7), chatter_report(7), chatter_report(8));
    assert_eq!(one.fingerprint, again.fingerprint);
    assert_eq!(one.trace, again.trace);
    assert_ne!(one.fingerprint, other.fingerprint);
    assert_ne!(one.trace, other.trace);
    assert!(one.trace.iter().any(|line| line.contains("p0 → p3")), "{one}");
    let orders: Vec<_> = (0..8).map(|seed| chatter_report(seed).expect_orderly()).collect();
    assert!(orders.iter().any(|order| *order != orders[0]), "the seed chooses the order");
}

#[test]
fn frames_of_a_pair_stay_in_order_and_kinds_overtake_each_other() {
    let run = |seed| {
        let report = Simulation::new(2).seed(seed).run(|mut platform| {
            if my_rank(&platform) == 0 {
                for number in 0..20 {
                    platform.send(LAUNCH, rank(1), &plain(number));
                    platform.send(LAUNCH, rank(1), &fast(100 + number));
                }
                return Vec::new();
            }
            (0..40).filter_map(|_| next_number(&mut platform, Some(0))).collect()
        });
        report.expect_orderly().remove(1)
    };
    let mut overtaken = false;
    for seed in 0..10 {
        let seen = run(seed);
        let (fast, plain): (Vec<u64>, Vec<u64>) = seen.iter().partition(|number| **number >= 100);
        assert_eq!(plain, (0..20).collect::<Vec<_>>());
        assert_eq!(fast, (100..120).collect::<Vec<_>>());
        overtaken |= seen.windows(2).any(|pair| pair[0] > 100 && pair[1] < pair[0] - 100);
    }
    assert!(overtaken);
}

#[test]
fn fast_frames_of_others_may_wait_until_they_are_awaited() {
    let early = |seed| {
        let report = Simulation::new(2).seed(seed).run(|mut platform| {
            if my_rank(&platform) == 0 {
                platform.send(LAUNCH, rank(1), &fast(1));
                return false;
            }
            platform.compute(millis(1));
            let early = platform.poll(None).is_some();
            assert!(early || platform.poll(Some((LAUNCH, rank(0)))).is_some());
            early
        });
        report.expect_orderly()[1]
    };
    let found: Vec<bool> = (0..20).map(early).collect();
    assert!(found.contains(&true) && found.contains(&false));
}

#[test]
fn a_deadlock_is_reported_with_what_everybody_waits_for() {
    let report = Simulation::new(3).run(|mut platform| {
        let data = gather_all(&mut platform, 3);
        match my_rank(&platform) {
            0 => drop(platform.split(data, Some(0), 0)),
            1 => drop(platform.make(Request::Shrink { parent: data, dead: set(&[]) })),
            _ => {
                let receive = post(&mut platform, data, receive(0, 5), vec![0_u8]);
                wait(&mut platform, receive);
            }
        }
    });
    let stuck = |at: usize| match &report.processes[at].ending {
        Ending::Stuck(what) => what.as_str(),
        other => panic!("{other:?}"),
    };
    assert_eq!(stuck(0), "split on c0, without p1, p2");
    assert_eq!(stuck(1), "shrink on c0, without p0, p2");
    assert_eq!(stuck(2), "idle; receive from 0, tag 5, in c0 context 0");
}

#[test]
fn a_busy_loop_ends_at_the_limit_of_virtual_time() {
    let report = Simulation::new(2).time_limit(millis(1)).run(|mut platform| {
        let me = my_rank(&platform);
        while me == 0 || platform.now() < Duration::from_micros(100) {
            platform.poll(None);
        }
    });
    assert_eq!(report.processes[0].ending, Ending::Stuck("busy".to_owned()));
    assert_eq!(report.processes[1].ending, Ending::Finished(()));
}

#[test]
fn a_panic_is_reported_and_is_a_death_to_the_others() {
    let report = Simulation::new(2).run(|mut platform| {
        assert!(my_rank(&platform) == 1, "rank zero gives up");
        matches!(next_news(&mut platform, None), Incoming::Failure(LAUNCH, who) if who == rank(0))
    });
    assert_eq!(report.processes[0].ending, Ending::Panicked("rank zero gives up".to_owned()));
    assert_eq!(report.processes[1].ending, Ending::Finished(true));
}

#[test]
fn exit_ends_a_process_in_order() {
    let report = Simulation::new(1).spares(1).run(|mut platform| {
        let origin = platform.setup().origin;
        assert!(matches!(origin, Origin::Launched { size: 2, spares: 1, .. }));
        platform.idle(Some(millis(1)), Idle::Parked);
        assert!(platform.now() >= millis(1));
        assert!(platform.poll(None).is_none());
        if my_rank(&platform) == 1 {
            platform.quit(Quit::Unneeded);
        }
        platform.idle(Some(millis(3)), Idle::Busy);
        platform.poll(None).is_none()
    });
    assert_eq!(report.processes[1].ending, Ending::Exited);
    assert_eq!(report.processes[0].ending, Ending::Finished(true), "an exit is no failure");
}

#[test]
fn calls_after_finalize_are_a_bug_of_the_program() {
    let report = Simulation::new(1).run(|mut platform| {
        platform.finalize(false);
        platform.send(LAUNCH, rank(0), &plain(0));
    });
    assert!(matches!(report.processes[0].ending, Ending::Panicked(_)));
}

#[test]
fn a_program_reaches_its_simulation_without_a_platform() {
    assert_eq!(crate::sim::process(), None);
    crate::sim::crash();
    let report = Simulation::new(2).trace(true).run(|platform| {
        crate::sim::compute(millis(3));
        crate::sim::note("three later");
        if crate::sim::process() == Some(1) {
            crate::sim::crash();
        }
        platform.now()
    });
    assert_eq!(report.processes[1].ending, Ending::Crashed);
    assert!(report.trace.iter().filter(|line| line.ends_with(": three later")).count() == 2);
    assert!(report.expect_orderly()[0] > millis(3));
}
