//! States that are copied by what has changed in them. Whichever rank dies, and in whichever order
//! the blocks that carry a state are decided, each rank gets back what a run without deaths has.

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use fampi::{
    BlockOptions, Error, Flow, Redundancy, Step, Timeout, Tried, World,
    sim::{self, Crash, Ending, Report, Simulation},
};
use fampi_kit::programs::changed::{self, First};

/// The first effects of a process belong to the launch, which no run has begun in.
const LAUNCH_EFFECTS: u64 = 8;
/// A page holds two numbers.
const PAGE: usize = 16;
const NUMBERS: u64 = 40;
const STEPS: u64 = 9;
const GROUP: Redundancy = Redundancy::Group { ranks: 4, losses: 1 };

/// A run in which rank 1 objects once, in this step.
fn run(world: World, every: u32, mut objects: Option<u64>) -> Result<(), Error> {
    let world = changed::run(world, (NUMBERS, every), |step| {
        let (me, number) = (step.world().origin(), step.number());
        if me == 1 && objects.take_if(|it| *it == number).is_some() {
            return Err(Error::Raised(3));
        }
        Ok(if number + 1 < STEPS { Flow::Continue } else { Flow::Done })
    })?;
    world.finalize();
    Ok(())
}

#[track_caller]
fn all_went_well(report: Report<Result<(), Error>>, what: &str) {
    let text = format!("{what}: {report}");
    let results = report.expect_orderly();
    assert!(results.iter().all(|it| *it == Ok(())), "{results:?} {text}");
}

#[test]
fn whoever_dies_at_whichever_effect_gets_back_what_had_changed() {
    let mut deaths = 0;
    for ranks in 2..6 {
        for every in 1..4 {
            let job = Simulation::new(ranks).page_bytes(PAGE);
            let calm = job.run_world(move |world| run(world, every, None));
            for seed in 0..calm.processes[0].effects - LAUNCH_EFFECTS {
                let victim = seed as u32 % ranks;
                let crash = Crash::before_effect(victim, LAUNCH_EFFECTS + seed);
                let objects = seed.is_multiple_of(3).then_some(seed % STEPS);
                let job = Simulation::new(ranks).page_bytes(PAGE).seed(seed).crash(crash);
                let report = job.run_world(move |world| run(world, every, objects));
                let died = matches!(report.processes[victim as usize].ending, Ending::Crashed);
                deaths += u32::from(died);
                all_went_well(report, &format!("{ranks} ranks, every {every}, seed {seed}"));
            }
        }
    }
    assert!(deaths > 500, "{deaths}");
}

#[test]
fn what_has_changed_is_all_that_is_sent() {
    let sent = |changed: usize| {
        let report = Simulation::new(2).page_bytes(PAGE).run_world(move |world| {
            let mut numbers = vec![0.5_f64; 4096];
            for time in 1..=5 {
                numbers[..changed].fill(f64::from(time));
                let block = BlockOptions::global(Timeout::Never);
                let tried = world.try_block(block, |block| block.protect(0, &numbers));
                assert!(matches!(tried, Ok(Tried::Committed(..))));
            }
            world.finalize();
        });
        report.counters.data_bytes
    };
    // The first copy of each rank has a length and the whole state, the others have 33 words first.
    let [none, few, quarter, more] = [0, 20, 1024, 1026].map(sent);
    let (whole, header) = (4096 * 8, 33 * 8);
    assert_eq!(none, 2 * (8 + whole + 4 * header));
    assert_eq!(few - none, 2 * 4 * 20 * 8);
    assert_eq!(quarter - none, 2 * 4 * 1024 * 8);
    assert_eq!(more - none, 2 * 4 * whole);
}

#[test]
fn of_blocks_that_carry_one_state_the_newest_counts_in_whichever_order_they_are_decided() {
    let apart = Timeout::After(Duration::from_micros(100));
    let kept = [(Redundancy::Partner, PAGE), (Redundancy::Partner, 4096), (GROUP, PAGE)];
    for (redundancy, page) in kept {
        for (first, third) in [First::Older, First::Newer, First::Either]
            .into_iter()
            .flat_map(|first| [(first, false), (first, true)])
        {
            for seed in 0..20 {
                let job = Simulation::new(4).page_bytes(page).seed(seed);
                let report = job.run_world(move |world| {
                    let state = (NUMBERS, redundancy);
                    let world =
                        changed::two_at_once(world, (first, third), state, apart, die_as(2))?;
                    world.finalize();
                    Ok(())
                });
                all_went_well(report, &format!("{redundancy:?} {page} {first:?} {third} {seed}"));
            }
        }
    }
}

#[test]
fn a_state_is_sent_alike_whether_a_rank_knows_the_copy_before_to_be_valid_or_not() {
    for redundancy in [Redundancy::Partner, GROUP] {
        for (ranks, seed) in (2..7).flat_map(|ranks| (0..80).map(move |seed| (ranks, seed))) {
            // Some ranks know a verdict long before others do.
            let latency =
                Duration::from_micros(1)..=Duration::from_micros([20, 400][seed as usize / 2 % 2]);
            let job = Simulation::new(ranks).page_bytes(PAGE).seed(seed).latency(latency);
            // With 30 numbers only some of the ranks have sixteen pages.
            let numbers = [NUMBERS, 30][seed as usize % 2];
            let report = job.run_world(move |world| {
                let world = changed::in_a_row(world, numbers, redundancy, die_as(1))?;
                world.finalize();
                Ok(())
            });
            all_went_well(report, &format!("{redundancy:?} {ranks} {seed}"));
        }
    }
}

#[test]
fn a_death_amid_blocks_that_carry_a_state_loses_none() {
    let mut steps = BTreeMap::new();
    let latency = Duration::from_micros(1)..=Duration::from_micros(400);
    for ranks in 2..5 {
        for effect in 5..50 {
            for seed in 0..20 {
                let job = Simulation::new(ranks).page_bytes(PAGE).seed(seed);
                let job = job.latency(latency.clone()).crash(Crash::before_effect(1, effect));
                let report = job.run_world(move |world| {
                    let state = (NUMBERS, seed % 2 == 1);
                    let (world, step) = changed::cut_short(world, state, Redundancy::Partner)?;
                    world.finalize();
                    Ok(step)
                });
                let text = format!("{ranks} {effect} {seed}: {report}");
                let results: Vec<Result<_, Error>> = report.expect_orderly();
                assert!(results.windows(2).all(|two| two[0] == two[1]), "{results:?} {text}");
                let step = results[0].clone().unwrap_or_else(|error| panic!("{error}: {text}"));
                *steps.entry(step).or_insert(0) += 1;
            }
        }
    }
    // None, and each step but one that changes nothing.
    assert_eq!(steps.len(), 7, "{steps:?}");
}

/// Two runs, between which a rank dies: it is replaced by one that never had a copy. How many steps
/// this process does in the second run, those included that did not count.
fn two_runs(mut world: World) -> Result<u64, Error> {
    let done = Cell::new(0);
    let mut until = |step: &Step<'_>| {
        done.set(done.get() + 1);
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    };
    if !world.is_replacement() {
        world = changed::run(world, (NUMBERS, 1), &mut until)?;
        if world.origin() == 1 {
            sim::crash();
        }
    }
    done.set(0);
    changed::run(world, (NUMBERS, 1), &mut until)?.finalize();
    Ok(done.get())
}

#[test]
fn ranks_that_begin_anew_beside_a_replacement_number_their_copies_as_it_does() {
    for (ranks, seed) in (2..6).flat_map(|ranks| (0..10).map(move |seed| (ranks, seed))) {
        let report = Simulation::new(ranks).page_bytes(PAGE).seed(seed).run_world(two_runs);
        let text = format!("{ranks} {seed}: {report}");
        let done: Vec<_> = report.expect_orderly();
        // If they did not, no rank would have the copy that the first change is of: an abort.
        assert!(done.iter().all(|done| *done == Ok(STEPS)), "{done:?} {text}");
    }
}

fn die_as(rank: u32) -> impl Fn(u32) {
    move |me| {
        if me == rank {
            sim::crash();
        }
    }
}
