//! Communicators of parts of parts: made again by every rebuild, on replacements, too.
//!
//! [`planes`] is an application on planes, and on rows, columns and groups of each plane. The other
//! tests look at what is known to whom.

use std::time::Duration;

use fampi::{
    BlockOptions, Codes, Color, Comm, Error, FaultCode, Flow, Level, Placement, Rank, ReduceOp,
    Step, Timeout, Tried, World, policy,
    sim::{self, Crash, Simulation},
};

use fampi_kit::programs::planes;

const STEPS: u64 = 4;
const ALWAYS: BlockOptions = BlockOptions::global(Timeout::Never);

fn survives(seed: u64, spares: u32, placement: Placement, crashes: &[Crash]) {
    let job = Simulation::new(planes::SIZE).seed(seed).spares(spares);
    let job = job.crashes(crashes.iter().copied()).time_limit(Duration::from_secs(20));
    let report = job.run_world(move |mut world| {
        let last = |step: &Step<'_>| step.number() + 1 == STEPS;
        let value = planes::run(&mut world, placement, last);
        let place = world.origin();
        if value.is_ok() {
            world.finalize();
        }
        value.map(|value| (place, value))
    });
    let expected = planes::alone(STEPS);
    let what = format!("seed {seed}, {spares} spares, {placement:?}, {crashes:?}");
    let mut ended = 0;
    for process in &report.processes {
        match &process.ending {
            sim::Ending::Finished(Ok((place, value))) => {
                assert_eq!(*value, expected[*place as usize], "{what}, place {place}");
                ended += 1;
            }
            sim::Ending::Finished(Err(Error::StateLost { .. })) if crashes.len() > 1 => return,
            sim::Ending::Finished(Err(error)) => panic!("{what}: {error}"),
            sim::Ending::Panicked(why) | sim::Ending::Stuck(why) => {
                panic!("{what}: {why}\n{report}")
            }
            _ => {}
        }
    }
    // Who dies at the very end is not replaced.
    assert!(ended + crashes.len() >= planes::SIZE as usize, "{what}: {ended}");
}

#[test]
fn parts_of_parts_survive_the_death_of_each_rank_at_any_moment() {
    for dead in 0..planes::SIZE {
        for effect in (3 + u64::from(dead)..700).step_by(23) {
            let placement = [Placement::SameRanks, Placement::Append][effect as usize % 2];
            let spares = u32::from(effect % 5 == 0);
            survives(effect, spares, placement, &[Crash::before_effect(dead, effect)]);
        }
    }
}

#[test]
fn parts_of_parts_survive_one_death_after_the_other() {
    for seed in 0..100 {
        let placement = [Placement::SameRanks, Placement::Append][seed as usize % 2];
        let first = Crash::before_effect(seed as u32 % planes::SIZE, 100 + seed % 200);
        let others = [seed as u32 / 7 % planes::SIZE, planes::SIZE, planes::SIZE + 1];
        let moment = Duration::from_micros(3000 + seed * 97 % 60_000);
        let second = Crash::at_time(others[seed as usize % 3], moment);
        survives(seed, 0, placement, &[first, second]);
    }
}

/// The halves of the world, and the halves of each of them.
fn quarter(world: &World) -> Result<[Comm; 2], Error> {
    let halve = |comm: &Comm| {
        let color = Color::Of(comm.rank().number() * 2 / comm.size());
        let half = comm.isplit(color, 0)?.wait_local(Timeout::Never)?;
        half.into_comm().ok_or(Error::CreationFailed)
    };
    let half = match world.children().first() {
        Some(half) => half.clone().expect("everybody is in a half"),
        None => halve(world)?,
    };
    let quarter = match half.derived().first() {
        Some(quarter) => quarter.clone().expect("everybody is in a quarter"),
        None => halve(&half)?,
    };
    Ok([half, quarter])
}

/// The sum over a communicator of the processes' numbers in the launch.
fn sum(comm: &Comm, mine: u32) -> Result<Tried<u32>, Error> {
    comm.try_block(ALWAYS, |block| {
        let sum = block.iallreduce(vec![mine], ReduceOp::Sum)?;
        block.wait_local(sum, Timeout::Never)?;
        Ok(block.take(sum)?[0])
    })
}

#[test]
fn what_is_derived_after_a_rebuild_is_there_after_the_next_one() {
    // One plane makes something, dies in part, makes more, and dies in part again.
    for seed in 0..20 {
        let report = Simulation::new(8).seed(seed).spares(2).run_world(|mut world| {
            let mut generation = world.generation();
            loop {
                let [half, quarter] = quarter(&world).expect("nobody dies in it");
                // Only the upper half goes on to derive: the others never hear of it in between.
                if world.origin() >= 4 && half.derived().len() <= 1 + generation as usize {
                    let reversed = Color::Of(generation);
                    let made = half.isplit(reversed, 9 - half.rank().number()).expect("one");
                    let made = made.wait_local(Timeout::Never).expect("nobody dies in it");
                    assert!(made.into_comm().is_some());
                }
                let upper = world.origin() >= 4;
                let expected = if upper { 2 + generation as usize } else { 1 };
                assert_eq!(half.derived().len(), expected, "in generation {generation}");
                for made in half.derived().iter().skip(1).flatten() {
                    let there = half.size() - 1 - half.rank().number();
                    assert_eq!(made.rank(), Rank::new(there));
                    let Ok(Tried::Committed(22, _)) = sum(made, world.origin()) else {
                        panic!("a sum of the upper half");
                    };
                }
                let first = world.origin() / 2 * 2;
                let Ok(Tried::Committed(found, _)) = sum(&quarter, world.origin()) else {
                    panic!("a sum of a quarter");
                };
                assert_eq!(found, 2 * first + 1);
                if generation == 2 {
                    break;
                }
                let finished = world.try_block(ALWAYS, |_| Ok(())).expect("no outer block");
                assert!(matches!(finished, Tried::Committed(..)));
                if world.origin() == [5, 4][generation as usize] {
                    sim::crash();
                }
                let finished = world.try_block(ALWAYS, |_| Ok(())).expect("no outer block");
                assert!(matches!(finished, Tried::Faulty(..)));
                drop((half, quarter));
                world = world.rebuild(Placement::SameRanks).expect("nobody else dies");
                generation = world.generation();
            }
            world.finalize();
        });
        assert_eq!(report.results().count(), 8, "{report}");
    }
}

#[test]
fn a_part_whose_members_all_died_begins_anew_and_the_others_do_not() {
    let report = Simulation::new(8).spares(4).run_world(|mut world| {
        if !world.is_replacement() {
            let [half, _] = quarter(&world).expect("nobody dies in it");
            assert_eq!(half.derived().len(), 1);
            if world.rank().number() < 4 {
                sim::crash();
            }
            let finished = world.try_block(ALWAYS, |_| Ok(())).expect("no outer block");
            assert!(matches!(finished, Tried::Faulty(..)));
            world = world.rebuild(Placement::SameRanks).expect("nobody else dies");
        }
        let half = world.children()[0].clone().expect("everybody is in a half");
        assert_eq!(half.derived().len(), usize::from(world.rank().number() >= 4));
        let [_, quarter] = quarter(&world).expect("nobody dies in it");
        let first = world.rank().number() / 2 * 2;
        let found = sum(&quarter, world.rank().number());
        assert!(matches!(found, Ok(Tried::Committed(sum, _)) if sum == 2 * first + 1));
        world.finalize();
    });
    assert_eq!(report.results().count(), 8, "{report}");
}

#[test]
fn a_duplicate_of_a_part_that_a_death_prevented_is_made_by_the_rebuild() {
    for seed in 0..20 {
        let report = Simulation::new(4).seed(seed).spares(1).run_world(|mut world| {
            if !world.is_replacement() {
                let color = Color::Of(world.rank().number() / 2);
                let half = world.isplit(color, 0).expect("one").wait_local(Timeout::Never);
                let half = half.expect("nobody dies").into_comm().expect("everybody has one");
                let mut block = half.start(Level::Global).expect("in use");
                let asked = block.idup().expect("a global block");
                let ended = block.finish(Timeout::Never).wait_local(Timeout::Never);
                let Ok(fampi::Outcome::Committed(finished)) = ended else { panic!("it commits") };
                if world.rank() == Rank::new(1) {
                    sim::crash();
                }
                let made = finished.duplicate(asked, &half).expect("committed");
                let made = made.wait_local(Timeout::Never);
                assert_eq!(made.is_err(), world.rank().number() < 2);
                let finished = world.try_block(ALWAYS, |_| Ok(())).expect("no outer block");
                assert!(matches!(finished, Tried::Faulty(..)));
                world = world.rebuild(Placement::SameRanks).expect("nobody else dies");
            }
            let half = world.children()[0].clone().expect("everybody is in a half");
            let duplicates = half.derived();
            let [Some(duplicate)] = duplicates.as_slice() else { panic!("one was committed") };
            let found = sum(duplicate, 1);
            assert!(matches!(found, Ok(Tried::Committed(2, _))));
            world.finalize();
        });
        assert_eq!(report.results().count(), 4, "{report}");
    }
}

#[test]
fn an_inner_fault_stays_inside_or_names_its_communicator_outside() {
    for (seed, handled) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
        let report = Simulation::new(8).seed(seed).run_world(move |mut world| {
            let [half, quarter] = quarter(&world).expect("nobody dies in it");
            let mut value = vec![0_u32];
            let mut first = true;
            let ended = world.run(&policy::Escalate, &mut value, |step, value| {
                let bad = std::mem::take(&mut first) && step.comm().rank() == Rank::new(5);
                let tried = quarter.try_block(ALWAYS, |inner| {
                    let _ = inner;
                    if bad { Err(Error::Raised(7)) } else { Ok(()) }
                })?;
                if let Tried::Faulty(inner, _) = &tried {
                    assert_eq!(step.comm().rank().number() / 2, 2, "only their quarter");
                    if !handled {
                        step.escalate(inner);
                    }
                }
                let mut middle = half.start(Level::Global)?;
                middle.nest(quarter.start(Level::Global)?.finish(Timeout::Never));
                step.nest(middle.finish(Timeout::Never));
                value[0] += 1;
                Ok(Flow::Done)
            });
            let ended = ended.expect("the policy gives it back");
            let inner = Codes::Of(&[FaultCode::InnerBlock]);
            match ended {
                fampi::Ended::Done(_) => assert!(handled),
                fampi::Ended::Escalated { report, .. } => {
                    assert!(!handled);
                    let [failed] = report.failed_communicators(inner)[..] else { panic!("one") };
                    assert_eq!(failed == quarter.id(), world.rank().number() / 2 == 2);
                }
            }
            drop((half, quarter));
            world.finalize();
        });
        report.expect_orderly();
    }
}
