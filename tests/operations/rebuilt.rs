//! Any communicator can be rebuilt: the world, a shrunken one, and what was derived from either.

use std::time::Duration;

use fampi::{
    BlockOptions, Color, Comm, Error, Formed, Level, Outcome, Placement, Rank, Timeout, Tried,
    World,
    sim::{self, Crash, Simulation},
};
use fampi_kit::programs::rebuilt::{Moment, Plan, alone, run};

const ROUNDS: u64 = 4;
const ALWAYS: BlockOptions = BlockOptions::global(Timeout::Never);

/// The application, with these deaths beside the planned one: all end with the right values.
fn survives(size: u32, seed: u64, spares: u32, shrunken: bool, crashes: &[Crash]) {
    let placement = [Placement::SameRanks, Placement::Append][seed as usize % 2];
    let plan = Plan { rounds: ROUNDS, shrunken, placement };
    let job = Simulation::new(size).seed(seed).spares(spares);
    let job = job.crashes(crashes.iter().copied()).time_limit(Duration::from_secs(20));
    let report = job.run_world(move |world| {
        let last = move |moment, place| {
            if (moment, place) == (Moment::Shrink, size - 1) {
                sim::crash();
            }
        };
        let (world, ended) = run(world, plan, last)?;
        world.finalize();
        Ok(ended)
    });
    let what = format!("seed {seed}, {size} ranks, {spares} spares, {plan:?}, {crashes:?}");
    let mut places = Vec::new();
    let mut sizes = Vec::new();
    for process in &report.processes {
        match &process.ending {
            sim::Ending::Finished(Ok([size, place, value])) => {
                let expected = alone(*size as u32, ROUNDS).expect("it is a grid");
                assert_eq!(*value, expected[*place as usize], "{what}");
                places.push(*place);
                sizes.push(*size);
            }
            sim::Ending::Finished(Err(Error::StateLost { .. })) if crashes.len() > 1 => return,
            sim::Ending::Finished(Err(error)) => panic!("{what}: {error}\n{report}"),
            sim::Ending::Panicked(why) | sim::Ending::Stuck(why) => {
                panic!("{what}: {why}\n{report}")
            }
            _ => {}
        }
    }
    sizes.dedup();
    let least = size as usize - usize::from(shrunken) - crashes.len();
    assert!(sizes.len() == 1 && sizes[0] as usize >= least, "{what}: {sizes:?}");
    // Who dies at the very end is not replaced.
    places.sort_unstable();
    places.dedup();
    assert!(places.len() + crashes.len() >= sizes[0] as usize, "{what}: {places:?}");
}

#[test]
fn any_communicator_is_rebuilt_whichever_rank_dies_at_any_moment() {
    for (size, shrunken) in [(4, false), (5, true), (7, true)] {
        for dead in 0..size - u32::from(shrunken) {
            for effect in (4 + u64::from(dead)..400).step_by(17) {
                let crash = Crash::before_effect(dead, effect);
                survives(size, effect, effect as u32 / 2 % 3, shrunken, &[crash]);
            }
        }
    }
}

#[test]
fn any_communicator_is_rebuilt_after_one_death_after_the_other() {
    for seed in 0..150 {
        let (size, shrunken) = [(4, false), (5, true), (7, true)][seed as usize % 3];
        let first = Crash::before_effect(seed as u32 % (size - 1), 60 + seed % 150);
        let others = [seed as u32 / 7 % size, size, size + 1];
        let moment = Duration::from_micros(2000 + seed * 97 % 40_000);
        let second = Crash::at_time(others[seed as usize / 3 % 3], moment);
        survives(size, seed, seed as u32 / 2 % 3, shrunken, &[first, second]);
    }
}

/// A block that finds the death of a rank.
fn find_death(comm: &Comm) {
    let pending = comm.start(Level::Global).expect("in use").finish(Timeout::Never);
    let Ok(Outcome::Faulty(_)) = pending.wait_local(Timeout::Never) else {
        panic!("a rank has died");
    };
}

fn split(comm: &Comm, color: u32) -> Comm {
    let made = comm.isplit(Color::Of(color), 0).expect("one").wait_local(Timeout::Never);
    made.map(Formed::into_comm).expect("nobody dies").expect("each has a colour")
}

/// Six ranks, of which the last two die one after the other; each time the others shrink.
fn twice_shrunken(world: &World) -> [Comm; 2] {
    let mut comms = vec![world.comm()];
    for dying in [5, 4] {
        if world.rank() == Rank::new(dying) {
            sim::crash();
        }
        find_death(&comms[comms.len() - 1]);
        comms.push(comms[comms.len() - 1].shrink().expect("nobody else dies"));
    }
    [comms.remove(1), comms.remove(1)]
}

#[test]
fn a_rebuild_takes_along_what_was_derived_from_the_shrunken_one_and_ends_the_rest() {
    for (seed, rebuilds) in (0..30).map(|seed| (seed, seed % 3)) {
        let job = Simulation::new(6).seed(seed).spares(seed as u32 % 2).run_world(move |world| {
            if world.is_replacement() {
                world.finalize();
                return 0;
            }
            let [first, second] = twice_shrunken(&world);
            let parity = world.rank().number() % 2;
            let (of_world, of_first) = (world.derived(), first.derived());
            assert!(of_world.is_empty() && of_first.is_empty(), "a shrunken one is no part");
            let half = split(&second, parity);
            let own = split(&half, 0);
            // What a rank has dropped is given up, and not made again.
            drop(split(&half, 0));
            let all = world.comm();
            let rebuilt = [&own, &first, &all][rebuilds as usize];
            let next = rebuilt.rebuild(Placement::SameRanks).expect("nobody else dies");
            assert_eq!(next.size(), [4, 5, 6][rebuilds as usize]);
            assert_eq!(next.origin(), next.rank().number());
            let sizes = [&all, &first, &second, &half, &own].map(|old| {
                assert_eq!(old.start(Level::Global).err(), Some(Error::Abandoned));
                next.in_place_of(old).map(|new| new.size())
            });
            let expected = [
                [None, None, Some(4), Some(2), Some(2)],
                [None, Some(5), None, None, None],
                [Some(6), None, None, None, None],
            ];
            assert_eq!(sizes, expected[rebuilds as usize]);
            if rebuilds == 0 {
                let half = next.in_place_of(&half).expect("as above");
                assert_eq!((next.children().len(), half.derived().len()), (1, 1));
            }
            next.finalize();
            1
        });
        assert_eq!(job.results().filter(|result| **result == 1).count(), 4, "{job}");
        assert_eq!(job.results().count(), [4, 5, 6][rebuilds as usize], "{job}");
    }
}

fn protect(comm: &Comm, slot: u32, state: u64) {
    let tried = comm.try_block(ALWAYS, |block| block.protect(slot, &[state]));
    assert!(matches!(tried, Ok(Tried::Committed(..))));
}

#[test]
fn states_come_back_that_were_protected_on_the_shrunken_one_and_no_others() {
    for seed in 0..20 {
        let job = Simulation::new(5).seed(seed).run_world(|world| {
            let mine = u64::from(world.rank().number());
            let next = if world.is_replacement() {
                world
            } else {
                protect(&world, 0, 100 + mine);
                if mine == 4 {
                    sim::crash();
                }
                find_death(&world);
                let living = world.shrink().expect("nobody else dies");
                protect(&living, 1, mine);
                if mine == 1 {
                    sim::crash();
                }
                find_death(&living);
                living.rebuild(Placement::SameRanks).expect("nobody else dies")
            };
            let restored = |slot| next.try_block(ALWAYS, |block| block.restore::<u64>(slot));
            let Ok(Tried::Committed(state, _)) = restored(1) else { panic!("it is kept") };
            assert_eq!(state, [u64::from(next.rank().number())]);
            // Its places are those of another world.
            let other = restored(0);
            assert!(matches!(other, Ok(Tried::Faulty(_, Some(Error::NothingProtected)))));
            drop(other);
            next.finalize();
        });
        assert_eq!(job.results().count(), 4, "{job}");
    }
}

#[test]
fn what_no_rebuild_knows_of_is_refused_at_once() {
    for seed in 0..20 {
        let job = Simulation::new(5).seed(seed).run_world(|world| {
            if world.is_replacement() {
                return world.finalize();
            }
            let half = split(&world, world.rank().number() % 2);
            if world.rank() == Rank::new(4) {
                sim::crash();
            }
            find_death(&world);
            // The other half lives, and no rebuild can leave it out.
            let living = half.shrink().expect("nobody else dies");
            let refused = living.irebuild(Placement::SameRanks).map(|_| ());
            assert_eq!(refused, Err(Error::NoPlace));
            // What goes with the communicator that it was derived from.
            let shrunken = world.shrink().expect("nobody else dies");
            let part = split(&shrunken, 0);
            drop(shrunken);
            let refused = part.irebuild(Placement::SameRanks).map(|_| ());
            assert_eq!(refused, Err(Error::NoPlace));
            // Neither has cost the world anything.
            let next = half.rebuild(Placement::SameRanks).expect("nobody else dies");
            let again = next.in_place_of(&half).expect("it is a part of the world");
            assert_eq!((next.size(), again.rank(), again.size()), (5, half.rank(), half.size()));
            assert!(next.in_place_of(&living).is_none() && next.in_place_of(&part).is_none());
            next.finalize();
        });
        assert_eq!(job.results().count(), 5, "{job}");
    }
}
