//! Ranks of a group that wait for each other's chunks and parities: in which order these come, and
//! who gives up.

use std::time::Duration;

use fampi::{
    BlockOptions, Error, Level, Patience, Placement, Redundancy, Timeout, Tried, World,
    sim::{self, Simulation},
};

use super::{REED_SOLOMON, XOR};

/// Protects a state twice in one block, of which the last counts, and loses as many ranks as may be
/// lost.
fn twice_in_a_block(mut world: World, redundancy: Redundancy, victims: u32) -> Vec<u64> {
    let me = u64::from(world.origin());
    if !world.is_replacement() {
        for round in 0..3 {
            let mut block = world.start(Level::Global).expect("in use");
            block.set_redundancy(redundancy);
            for time in 0..3 {
                block.protect(0, &[me, round, time]).expect("posted");
                block.protect(1, &[me * 7 + round + time]).expect("posted");
            }
            assert!(block.finish(Timeout::Never).wait().expect("in use").is_committed());
        }
        if me < u64::from(victims) {
            sim::crash();
        }
        let ended = world.start(Level::Global).expect("in use").finish(Timeout::Never);
        assert!(!ended.wait().expect("in use").is_committed());
        world = world.rebuild(Placement::SameRanks).expect("few enough");
    }
    loop {
        let restored = world.try_block(BlockOptions::global(Timeout::Never), |block| {
            Ok([block.restore::<u64>(0)?, block.restore(1)?].concat())
        });
        match restored.expect("in use") {
            Tried::Committed(state, _) => {
                world.finalize();
                return state;
            }
            Tried::Faulty(..) => world = world.rebuild(Placement::SameRanks).expect("few enough"),
        }
    }
}

#[test]
fn of_what_a_block_protects_twice_the_last_is_kept_in_codes_too() {
    for (redundancy, victims) in [(XOR, 1), (REED_SOLOMON, 2)] {
        for seed in 0..60 {
            let simulation = Simulation::new(5).seed(seed);
            let report =
                simulation.run_world(move |world| twice_in_a_block(world, redundancy, victims));
            let mut states = report.expect_orderly();
            states.sort();
            for (rank, state) in (0..).zip(states) {
                assert_eq!(state, [rank, 2, 2, rank * 7 + 4], "{redundancy:?}, seed {seed}");
            }
        }
    }
}

/// How a rank ends its part of a block.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Late,
    WithLimit,
    Patient,
}

/// A block in which one rank protects late, and one of the others does not wait for it so long.
fn wait_for_a_late_rank(world: &World, redundancy: Redundancy, seed: u64) -> bool {
    let (me, size) = (u64::from(world.rank().number()), u64::from(world.size()));
    let end = match (me + seed) % size {
        0 => End::Late,
        1 => End::WithLimit,
        _ => End::Patient,
    };
    let limit = Timeout::After(Duration::from_millis(100));
    // Lengths are known from here on.
    let tried = world.try_block(BlockOptions::global(Timeout::Never), |block| {
        block.set_redundancy(redundancy);
        block.protect(0, &vec![me; 3000])
    });
    assert!(matches!(tried, Ok(Tried::Committed(..))));
    let mut block = world.start(Level::Global).expect("in use");
    block.set_redundancy(redundancy);
    if end == End::Late {
        sim::compute(Duration::from_secs(3));
    }
    let _ = block.protect(0, &vec![me; 3000]);
    let timeout = if end == End::WithLimit { limit } else { Timeout::Never };
    block.finish(timeout).wait().expect("in use").is_committed()
}

#[test]
fn nobody_waits_for_parities_of_a_rank_whose_limit_has_passed() {
    for redundancy in [XOR, REED_SOLOMON] {
        for seed in 0..30 {
            let simulation = Simulation::new(5).seed(seed);
            let simulation = simulation.time_limit(Duration::from_secs(600));
            let report = simulation.run_world(move |world| {
                let committed = wait_for_a_late_rank(&world, redundancy, seed);
                world.finalize();
                committed
            });
            assert_eq!(report.expect_orderly(), [false; 5], "{redundancy:?}, seed {seed}");
        }
    }
}

/// States of lengths that change, in one block, with waits between.
fn protect_with_waits(mut world: World, redundancy: Redundancy) -> [usize; 2] {
    let me = world.origin() as usize;
    let state = |round: usize, time: usize| vec![me as u8; (me * 700 + round * 900 + time) % 4000];
    if !world.is_replacement() {
        for round in 0..3 {
            let mut block = world.start(Level::Global).expect("in use");
            block.set_redundancy(redundancy);
            for time in 0..3 {
                block.protect_any_length(0, &state(round, time)).expect("nobody dies");
                block.protect_any_length(1, &[7_u8]).expect("nobody dies");
            }
            assert!(block.finish(Timeout::Never).wait().expect("in use").is_committed());
        }
        if me == 1 {
            sim::crash();
        }
        let ended = world.start(Level::Global).expect("in use").finish(Timeout::Never);
        assert!(!ended.wait().expect("in use").is_committed());
        world = world.rebuild(Placement::SameRanks).expect("one death");
    }
    let restored = world.try_block(BlockOptions::global(Timeout::Never), |block| {
        Ok([block.restore::<u8>(0)?.len(), block.restore::<u8>(1)?.len()])
    });
    let Ok(Tried::Committed(lengths, _)) = restored else { panic!("{restored:?}") };
    assert_eq!(lengths, [state(2, 2).len(), 1]);
    world.finalize();
    lengths
}

#[test]
fn parities_that_come_late_are_not_taken_for_lengths() {
    for redundancy in [XOR, REED_SOLOMON] {
        for seed in 0..60 {
            let simulation = Simulation::new(5).seed(seed);
            let report = simulation.run_world(move |world| protect_with_waits(world, redundancy));
            assert_eq!(report.expect_orderly().len(), 5, "{redundancy:?}, seed {seed}");
        }
    }
}

/// Blocks in which ranks give up before they have protected anything, or between two states, and
/// the last of which one rank does not come to, as it has left the job. Where there has been a
/// death, of which all know, in one of two groups, blocks are patient. How often this rank gave up,
/// and how often it protected a state.
fn give_up(world: &World, redundancy: Redundancy, seed: u64, bereaved: bool) -> [u32; 2] {
    const ROUNDS: u64 = 8;
    let me = world.rank().number();
    if bereaved && me == world.size() - 1 {
        sim::crash();
    }
    let mut counts = [0; 2];
    for round in 0..ROUNDS {
        if round == ROUNDS - 1 && me == 1 {
            break;
        }
        let mut block = world.start(Level::Global).expect("in use");
        block.set_patience(if bereaved { Patience::Patient } else { Patience::Prompt });
        block.set_redundancy(redundancy);
        let gives_up = |at: u64| {
            let drawn = seed * 31 + round * 7 + at * 3 + u64::from(me) * 5;
            drawn.is_multiple_of(17)
        };
        let mut protect = |at: u32| {
            if gives_up(u64::from(at)) {
                counts[0] += 1;
                return Err(Error::WaitTimedOut);
            }
            block.protect(at, &[me; 40])?;
            counts[1] += 1;
            Ok(())
        };
        let posted = (0..3).try_for_each(&mut protect);
        let is_whole = posted.is_ok();
        let pending = match posted {
            Ok(()) => block.finish(Timeout::Never),
            Err(error) => block.leave(&error),
        };
        let committed = pending.wait().expect("in use").is_committed();
        let cannot = bereaved || round == ROUNDS - 1 || !is_whole;
        assert!(!(committed && cannot), "a rank has not protected all states");
    }
    counts
}

#[test]
fn nobody_waits_for_parities_of_a_rank_that_has_given_up() {
    for (redundancy, bereaved) in
        [(XOR, true), (XOR, false), (REED_SOLOMON, true), (REED_SOLOMON, false)]
    {
        let mut counts = [0; 2];
        for seed in 0..40 {
            let simulation = Simulation::new(11).seed(seed);
            let simulation = simulation.time_limit(Duration::from_secs(600));
            let report = simulation.run_world(move |world| {
                let counts = give_up(&world, redundancy, seed, bereaved);
                world.finalize();
                counts
            });
            for of_rank in report.expect_orderly() {
                counts = [0, 1].map(|of| counts[of] + of_rank[of]);
            }
        }
        assert!(counts.iter().all(|count| *count > 100), "{redundancy:?}: {counts:?}");
    }
}
