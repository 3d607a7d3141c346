//! Communicators made on simulated ranks, with deaths in the middle.

use super::*;
use crate::error::Error;

/// What a member of a regrouped universe checks: its control channel and its data.
fn use_universe(platform: &mut SimPlatform, universe: UniverseId, me: u32, size: u32) -> u64 {
    let members: Vec<Rank> = (0..size).map(rank).collect();
    let data = platform.gather(universe, &members).expect("alive").expect("a member");
    let left = (me + size - 1) % size;
    platform.send(universe, rank((me + 1) % size), &plain(u64::from(me)));
    let barrier = post(platform, data, barrier(), Vec::<u8>::new());
    assert!(matches!(wait(platform, barrier), Progress::Complete(_)));
    loop {
        match platform.poll(None) {
            Some(Incoming::Frame(of, from, frame)) => {
                assert_eq!((of, from), (universe, rank(left)));
                return number(&frame);
            }
            Some(Incoming::Yes(..) | Incoming::Fused(..)) => {
                unreachable!("the simulator decodes nothing")
            }
            Some(Incoming::Failure(of, _)) => assert_ne!(of, universe),
            None => platform.idle(None, Idle::Busy),
        }
    }
}

#[test]
fn a_split_gives_everybody_the_table_and_its_part() {
    let report = Simulation::new(5).run(|mut platform| {
        let data = gather_all(&mut platform, 5);
        let me = my_rank(&platform);
        let color = (me != 4).then_some(me % 2);
        let derived = platform.split(data, color, 10 - me).expect("nobody dies");
        assert_eq!(derived.table.len(), 5);
        assert_eq!((derived.table[4], derived.table[1]), ((None, 6), (Some(1), 9)));
        let Some(part) = derived.data else { return Vec::new() };
        // Ordered by key: the higher rank of the parent comes first.
        let mut parts = vec![0_u32; 2];
        parts[usize::from(me < 2)] = me;
        let all = post(&mut platform, part, allgather(), parts);
        assert!(matches!(wait(&mut platform, all), Progress::Complete(_)));
        content::<u32>(platform.take(all))
    });
    let results = report.expect_orderly();
    assert_eq!(results, [vec![2, 0], vec![3, 1], vec![2, 0], vec![3, 1], vec![]]);
}

#[test]
fn a_shrink_fails_unless_exactly_the_dead_are_named() {
    for (dead, succeeds) in [(set(&[1]), true), (set(&[]), false), (set(&[0, 1]), false)] {
        let named = dead.clone();
        let simulation = Simulation::new(4).crash(Crash::at_time(1, millis(1)));
        let report = simulation.run(move |mut platform| {
            let data = gather_all(&mut platform, 4);
            platform.idle(Some(millis(5)), Idle::Busy);
            assert!(next_number(&mut platform, None).is_none());
            if named.contains(rank(my_rank(&platform))) {
                return None;
            }
            let request = Request::Shrink { parent: data, dead: named.clone() };
            let shrunk = platform.make(request).map(Made::comm);
            if let Ok(Derived { data: Some(shrunk), .. }) = shrunk {
                let barrier = post(&mut platform, shrunk, barrier(), Vec::<u8>::new());
                assert!(matches!(wait(&mut platform, barrier), Progress::Complete(_)));
            }
            Some(shrunk.is_ok())
        });
        let expected = |result: &Option<bool>| result.is_none_or(|made| made == succeeds);
        assert!(report.expect_orderly().iter().all(expected), "{dead}");
    }
}

#[test]
fn a_shrink_that_meets_a_death_ends_when_all_the_living_have_come_and_a_meeting_brings_them() {
    for meets in [false, true] {
        let simulation = Simulation::new(3).crash(Crash::at_time(1, millis(1)));
        let report = simulation.run(move |mut platform| {
            let data = gather_all(&mut platform, 3);
            if my_rank(&platform) == 2 {
                platform.compute(millis(20));
            }
            while meets && !platform.meet(Place::Data(data), &set(&[])) {
                platform.idle(None, Idle::Busy);
            }
            let came = platform.now();
            let made = platform.make(Request::Shrink { parent: data, dead: set(&[]) });
            (came, platform.now(), made.is_ok())
        });
        for (came, ended, made) in report.expect_orderly() {
            assert!(!made && ended >= millis(20));
            assert!(!meets || came >= millis(20), "all came, and rank 1 is dead");
        }
    }
}

/// Rank 2 dies, the others replace it and then go round the new universe.
fn rebuild(platform: &mut SimPlatform) -> u64 {
    let (universe, me, roster) = match platform.setup().origin {
        Origin::Launched { .. } => {
            while next_number(platform, None).is_some() {}
            let mine = my_rank(platform);
            let brought = ["", "ros", "", "ter"][mine as usize].as_bytes();
            let made = platform.regroup(&[2], 1, brought).expect("one death");
            (made.0, made.1.number(), made.2)
        }
        Origin::Spawned => {
            let (universe, me, roster) =
                platform.make(Request::Join).map(Made::universe).expect("needed");
            assert_eq!((universe, me), (UniverseId(0), rank(3)));
            (universe, me.number(), roster)
        }
    };
    assert_eq!(roster, b"roster");
    use_universe(platform, universe, me, 4)
}

#[test]
fn a_regroup_spawns_replacements_which_join() {
    let simulation = Simulation::new(4).crash(Crash::at_time(2, millis(1)));
    let report = simulation.run(|mut platform| rebuild(&mut platform));
    assert!(report.processes[4].spawned);
    assert!(report.end > millis(5), "a spawn takes its time");
    assert_eq!(report.expect_orderly(), [3, 0, 1, 2]);
}

/// One attempt to rebuild after the death of rank 2; never waits for anything afterwards.
fn attempt(platform: &mut SimPlatform) -> bool {
    if platform.setup().origin == Origin::Spawned {
        return match platform.make(Request::Join).map(Made::universe) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error, Error::NotNeeded);
                false
            }
        };
    }
    while next_number(platform, None).is_some() {}
    let made = platform.regroup(&[2], 2, &[]);
    let made = made.map(|_| true);
    platform.compute(millis(1));
    made.unwrap_or(false)
}

#[test]
fn a_death_inside_a_regroup_fails_it_for_some_or_all_but_holds_nobody() {
    let (mut all, mut none, mut some) = (0, 0, 0);
    // Process 0 is a survivor, process 4 a replacement; effect 1 is the call, 2 its end.
    for (process, effect) in [(0, 1), (0, 2), (4, 1), (4, 2)] {
        for seed in 0..40 {
            let simulation = Simulation::new(4).seed(seed);
            let simulation = simulation.crash(Crash::at_time(2, millis(1)));
            let report = simulation
                .crash(Crash::before_effect(process, effect))
                .run(|mut platform| attempt(&mut platform));
            let made: Vec<bool> = report.expect_orderly();
            let successes = made.iter().filter(|made| **made).count();
            assert!(successes == 0 || effect == 2, "nothing is made without everybody");
            match successes {
                0 => none += 1,
                n if n == made.len() => all += 1,
                _ => some += 1,
            }
        }
    }
    assert!(all > 0 && none > 0 && some > 0, "{all} {none} {some}");
}

#[test]
fn a_death_at_any_time_inside_a_regroup_holds_nobody() {
    for seed in 0..200_u64 {
        let simulation = Simulation::new(4).seed(seed);
        let simulation = simulation.crash(Crash::at_time(2, millis(1)));
        let victim = [0, 1, 3, 4, 5][seed as usize % 5];
        let time = Duration::from_micros(1100 + 100 * seed);
        let report = simulation
            .crash(Crash::at_time(victim, time))
            .run(|mut platform| attempt(&mut platform));
        report.expect_orderly();
    }
}

#[test]
fn a_late_caller_is_told_that_the_call_has_failed() {
    let simulation = Simulation::new(3).crash(Crash::at_time(0, millis(1)));
    let report = simulation.run(|mut platform| {
        let data = gather_all(&mut platform, 3);
        if my_rank(&platform) == 2 {
            platform.compute(millis(20));
        }
        let first = platform.split(data, Some(0), 0).is_ok();
        let second = platform.make(Request::Shrink { parent: data, dead: set(&[0]) }).is_ok();
        (first, second)
    });
    assert_eq!(report.expect_orderly(), [(false, true); 2]);
}

#[test]
fn a_universe_made_later_tells_of_deaths_too() {
    let simulation = Simulation::new(3).crash(Crash::at_time(1, millis(5)));
    let report = simulation.run(|mut platform| {
        let (universe, ..) = platform.regroup(&[], 0, &[]).expect("alive");
        let mut told = Vec::new();
        platform.idle(Some(millis(10)), Idle::Busy);
        while let Some(Incoming::Failure(of, who)) = platform.poll(None) {
            told.push((of, who));
        }
        assert_eq!(told, [(LAUNCH, rank(1)), (universe, rank(1))]);
        platform.discard(Unneeded::Universe(universe));
        platform.send(universe, rank(0), &plain(0));
    });
    assert_eq!(report.expect_orderly().len(), 2);
}

#[test]
fn a_run_with_deaths_and_spawns_repeats_exactly() {
    let run = |seed| {
        let simulation = Simulation::new(4).seed(seed).trace(true);
        let simulation = simulation.crash(Crash::at_time(2, millis(1)));
        let simulation = simulation.crash(Crash::before_effect(4, 1 + seed % 2));
        let report = simulation.run(|mut platform| attempt(&mut platform));
        (report.fingerprint, report.end, report.to_string())
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
}
