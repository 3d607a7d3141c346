//! Groups and grids: what they say, the communicators that are made of them, and what is left of
//! them after a rebuild.

use std::time::Duration;

use fampi::{
    Codes, Comm, Comparison, Edges, Error, Exchange, FaultCode, Finished, Grid, Level, Neighbours,
    Outcome, Placement, Rank, ReduceOp, Shift, Timeout, TryBlock, World,
    sim::{self, Crash, Simulation},
};

use fampi_kit::programs::lattice;

fn rank(number: u32) -> Rank {
    Rank::new(number)
}

fn wait(block: TryBlock, timeout: Timeout) -> Finished {
    match block.finish(timeout).wait_local(Timeout::Never) {
        Ok(Outcome::Committed(finished) | Outcome::Faulty(finished)) => finished,
        _ => panic!("it is waited for without a limit"),
    }
}

/// Runs the same on all ranks.
fn on_ranks(ranks: u32, program: fn(&World)) {
    for seed in 0..10 {
        let report = Simulation::new(ranks).seed(seed).run_world(move |world| {
            program(&world);
            world.finalize();
        });
        report.expect_orderly();
    }
}

/// The sum of the ranks' numbers in the world, over a communicator.
fn sum(comm: &Comm, mine: u32) -> u32 {
    let mut block = comm.start(Level::Global).expect("in use");
    let sum = block.iallreduce(vec![mine], ReduceOp::Sum).expect("numbers");
    let finished = wait(block, Timeout::Never);
    assert!(finished.is_committed(), "{finished:?}");
    finished.take(sum).expect("complete")[0]
}

#[test]
fn coordinates_ranks_and_shifts_fit_together() {
    on_ranks(12, |world| {
        for (dims, periodic) in [
            (vec![0, 0], vec![false, true]),
            (vec![2, 3, 2], vec![true, false, true]),
            (vec![1, 12], vec![true, true]),
            (vec![12], vec![false]),
        ] {
            let grid = world.grid(&dims, &periodic).expect("twelve places");
            assert_eq!(grid.coordinates_of(world.rank()), Ok(grid.coordinates()));
            for number in 0..12 {
                let at = grid.coordinates_of(rank(number)).expect("a rank");
                let at: Vec<i64> = at.into_iter().map(i64::from).collect();
                assert_eq!(grid.rank_at(&at), Ok(Some(rank(number))));
            }
            for (dimension, periodic) in periodic.into_iter().enumerate() {
                for by in [0, 1, -1, 5, -7, i64::MAX] {
                    let shift = grid.shift(dimension, by).expect("a dimension");
                    let back = grid.shift(dimension, by.saturating_neg()).expect("a dimension");
                    assert_eq!((shift.from, shift.to), (back.to, back.from));
                    assert!(shift.to.is_some() || !periodic);
                }
            }
        }
        let grid = world.grid(&[3, 4], &[false, true]).expect("twelve places");
        assert_eq!(grid.rank_at(&[2, -1]), Ok(Some(rank(11))));
        assert_eq!(grid.rank_at(&[3, 0]), Ok(None));
        // One place around takes as far as many of them.
        let around = [4, i64::MAX - i64::MAX % 4, i64::MIN].map(|by| grid.shift(1, by));
        let here = Some(world.rank());
        assert_eq!(around, [(); 3].map(|()| Ok(Shift { from: here, to: here })));
        let place = grid.coordinates();
        let shift = grid.shift(0, 1).expect("a dimension");
        let below = (place[0] > 0).then(|| rank(world.rank().number() - 4));
        let above = (place[0] < 2).then(|| rank(world.rank().number() + 4));
        assert_eq!(shift, Shift { from: below, to: above });
    });
}

#[test]
fn wrong_grids_and_groups_are_errors_at_once() {
    on_ranks(6, |world| {
        let wrong = Error::WrongDimensions { expected: 2, found: 1 };
        assert_eq!(world.grid(&[2, 3], &[true]).map(|_| ()), Err(wrong.clone()));
        let places = Error::WrongGrid { places: 4, size: 6 };
        assert_eq!(world.grid(&[2, 2], &[true, true]).map(|_| ()), Err(places));
        let grid = world.grid(&[2, 3], &[true, true]).expect("six places");
        assert_eq!(grid.rank_at(&[0]), Err(wrong.clone()));
        assert_eq!(grid.isub(&[true]).map(|_| ()), Err(wrong));
        let third = Error::WrongDimensions { expected: 2, found: 3 };
        assert_eq!(grid.shift(2, 1), Err(third));
        let missing = Error::NoSuchRank { rank: rank(6), size: 6 };
        assert_eq!(grid.coordinates_of(rank(6)), Err(missing.clone()));

        let mut block = world.start(Level::Global).expect("in use");
        let near = grid.neighbours();
        let some = || vec![0_u8; 6];
        let uneven = |elements, size| Error::UnevenParts { elements, size };
        let counts = Error::WrongCounts { counts: 1, size: 4 };
        let length = |expected| Error::WrongLength { expected, elements: 6 };
        let one = Exchange { sent: &[2; 4], received: &[1] };
        let long = Exchange { sent: &[1; 4], received: &[1; 4] };
        let nobody = Neighbours::new(Edges { sources: &[], destinations: &[rank(6)] });
        let results = [
            (block.ineighbor_allgather(some(), &near), uneven(6, 5)),
            (block.ineighbor_alltoall(some(), &near), uneven(6, 8)),
            (block.ineighbor_allgatherv(some(), &[1], &near), counts.clone()),
            (block.ineighbor_allgatherv(some(), &[2; 4], &near), length(8)),
            (block.ineighbor_alltoallv(some(), one, &near), counts),
            (block.ineighbor_alltoallv(some(), long, &near), length(8)),
            (block.ineighbor_allgather(some(), &nobody), missing),
        ];
        for (found, expected) in results {
            assert_eq!(found.map(|_| ()), Err(expected));
        }
        assert!(wait(block, Timeout::Never).is_committed(), "nothing was started");

        let half = grid.sub(&[false, true]).expect("nobody dies");
        let others = world.group().difference(&half.group());
        assert_eq!(half.icreate(&others).map(|_| ()), Err(Error::NotInCommunicator));
    });
}

#[test]
fn a_part_that_goes_one_way_comes_from_the_other_side() {
    // In a ring of one or two both sides are the same rank.
    for (dims, size) in [([1, 1], 1), ([2, 1], 2), ([2, 2], 4), ([3, 2], 6), ([3, 4], 12)] {
        for periodic in [[true, true], [true, false], [false, false]] {
            let report = Simulation::new(size).run_world(move |world| {
                let grid = world.grid(&dims, &periodic).expect("enough places");
                let near = grid.neighbours();
                let me = world.rank().number();
                let mut block = world.start(Level::Global).expect("in use");
                let sent: Vec<u32> = (0..4).flat_map(|way| [me, way]).collect();
                let buffer = [sent.clone(), vec![99; 8]].concat();
                let request = block.ineighbor_alltoall(buffer, &near).expect("eight parts");
                let none = Neighbours::new(Edges { sources: &[], destinations: &[] });
                let empty = block.ineighbor_alltoall(Vec::<u8>::new(), &none).expect("no parts");
                let finished = wait(block, Timeout::Never);
                assert!(finished.is_committed() && finished.status(empty).is_some());
                let found = finished.take(request).expect("complete");
                assert_eq!(found[..8], sent, "what is sent stays");
                for (way, from) in near.sources().iter().enumerate() {
                    // Towards below (even) comes from above (odd).
                    let expected = from.map_or([99, 99], |from| [from.number(), way as u32 ^ 1]);
                    assert_eq!(found[8 + 2 * way..][..2], expected, "{dims:?}, way {way}");
                }
                world.finalize();
            });
            report.expect_orderly();
        }
    }
}

#[test]
fn ranks_that_disagree_about_a_length_get_a_fault_and_their_buffer() {
    on_ranks(3, |world| {
        let near = world.grid(&[3], &[true]).expect("three places").neighbours();
        let mut block = world.start(Level::Global).expect("in use");
        let length = if world.rank() == rank(1) { 6 } else { 3 };
        let request = block.ineighbor_allgather(vec![1_u8; length], &near).expect("three parts");
        let finished = wait(block, Timeout::Never);
        assert!(!finished.is_committed());
        let truncated = finished.failed_group(Codes::Of(&[FaultCode::Mpi(15)]), world);
        assert!(!truncated.is_empty());
        assert_eq!(finished.take(request).expect("it comes back").len(), length);
    });
}

#[test]
fn whoever_is_no_neighbour_of_the_dead_completes() {
    for seed in 0..30 {
        let report = Simulation::new(7).seed(seed).run_world(|world| {
            let near = world.grid(&[7], &[true]).expect("seven places").neighbours();
            if world.rank() == rank(3) {
                sim::crash();
            }
            let mut block = world.start(Level::Local).expect("in use");
            let request = block.ineighbor_allgather(vec![1_u8; 3000], &near).expect("three parts");
            let finished = wait(block, Timeout::Never);
            let fault = finished.fault(request);
            if let Some(code) = fault {
                assert_eq!(code, FaultCode::ProcessFailed);
                let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
                assert_eq!(dead.as_slice(), [rank(3)], "the neighbour is named");
            }
            finished.take(request).expect("it comes back");
            let beside = [rank(2), rank(4)].contains(&world.rank());
            assert_eq!(fault.is_some(), beside, "rank {}", world.rank());
            drop(finished);
            world.finalize();
        });
        assert_eq!(report.results().count(), 6, "{report}");
    }
}

#[test]
fn lines_and_planes_have_their_ranks_and_are_made_once() {
    on_ranks(12, |world| {
        let me = world.rank().number();
        let grid = world.grid(&[2, 3, 2], &[false; 3]).expect("twelve places");
        let plane = grid.sub(&[false, true, true]).expect("nobody dies");
        let column = grid.sub(&[false, true, false]).expect("nobody dies");
        assert_eq!((plane.size(), column.size()), (6, 3));
        let first = me / 6 * 6;
        assert_eq!(sum(&plane, me), (first..first + 6).sum::<u32>());
        let first = me / 6 * 6 + me % 2;
        assert_eq!(sum(&column, me), (0..3).map(|k| first + 2 * k).sum::<u32>());
        assert_eq!(world.children().len(), 2);
        let again = world.grid(&[2, 3, 2], &[true; 3]).expect("twelve places");
        assert_eq!(again.sub(&[false, true, true]).map(|it| it.id()), Ok(plane.id()));
        assert_eq!(world.children().len(), 2, "it was found");
        // A duplicate has the same ranks as the whole grid, but belongs to somebody.
        let formed = world.idup().expect("one at a time").wait_local(Timeout::Never);
        let duplicate = formed.expect("nobody dies").into_comm().expect("everybody has one");
        assert_ne!(grid.sub(&[true; 3]).map(|it| it.id()), Ok(duplicate.id()));
        // Part of a part: known to its own ranks.
        let within = plane.grid(&[3, 2], &[false; 2]).expect("six places");
        let line = within.sub(&[true, false]).expect("nobody dies");
        assert_eq!((line.group(), sum(&line, me)), (column.group(), sum(&column, me)));
        assert_eq!(within.sub(&[true, false]).map(|it| it.id()), Ok(line.id()));
        let derived = plane.derived().into_iter().map(|it| it.map(|it| it.id()));
        assert_eq!(derived.collect::<Vec<_>>(), [Some(line.id())]);
        assert_eq!(world.children().len(), 4, "planes, columns, the duplicate, and the whole grid");
    });
}

#[test]
fn communicators_are_made_of_groups() {
    on_ranks(6, |world| {
        let (all, me) = (world.group(), world.rank().number());
        assert_eq!(world.rank_in(&all), Some(world.rank()));
        let reversed = all.incl(&[5, 4, 2].map(rank)).expect("they are there");
        let others = all.excl(&[5, 4, 2].map(rank)).expect("they are there");
        // Two groups at once, each rank with its own.
        let mine = if world.rank_in(&reversed).is_some() { &reversed } else { &others };
        let made = world.icreate(mine).expect("one at a time").wait_local(Timeout::Never);
        let made = made.expect("nobody dies").into_comm().expect("it is in its group");
        assert_eq!(made.group().compare(mine), Comparison::Identical);
        assert_eq!(sum(&made, me), if me == 5 || me == 4 || me == 2 { 11 } else { 4 });
        // One group, the others get nothing.
        let made = world.icreate(&reversed).expect("one at a time").wait_local(Timeout::Never);
        let made = made.expect("nobody dies").into_comm();
        assert_eq!(made.is_some(), mine == &reversed);
    });
}

#[test]
fn groups_of_two_generations_tell_who_died() {
    for (placement, spares) in [(Placement::SameRanks, 0), (Placement::Append, 1)] {
        let job = Simulation::new(4).spares(spares).run_world(move |mut world| {
            let before = world.group();
            if !world.is_replacement() {
                if world.rank() == rank(1) {
                    sim::crash();
                }
                let finished = wait(world.start(Level::Global).expect("in use"), Timeout::Never);
                assert!(!finished.is_committed());
                drop(finished);
                world = world.rebuild(placement).expect("nobody else dies");
                let dead = before.difference(&world.group());
                assert_eq!(dead, before.incl(&[rank(1)]).expect("it was there"));
                let new = world.group().difference(&before);
                let there = new.translate(&[rank(0)], &world.group()).expect("one");
                assert_eq!(there, [Some(world.standing_for(1))]);
                assert_eq!(world.rank_in(&before), Some(rank(world.origin())));
            }
            let finished = wait(world.start(Level::Global).expect("in use"), Timeout::Never);
            assert!(finished.is_committed());
            drop(finished);
            world.finalize();
        });
        assert_eq!(job.results().count(), 4, "{job}");
    }
}

const SIZE: u32 = 6;
const STEPS: u64 = 5;

/// The torus with these deaths: all end with the right values.
fn lattice_survives(seed: u64, spares: u32, placement: Placement, crashes: &[Crash]) {
    let simulation = Simulation::new(SIZE).seed(seed).spares(spares);
    let simulation = simulation.crashes(crashes.iter().copied());
    let report = simulation.time_limit(Duration::from_secs(20)).run_world(move |mut world| {
        let last = |step: &fampi::Step<'_>| step.number() + 1 == STEPS;
        let value = lattice::run(&mut world, placement, last);
        let place = world.origin();
        if value.is_ok() {
            world.finalize();
        }
        value.map(|value| (place, value))
    });
    let dims = Grid::balanced(SIZE, &[0, 0]).expect("it can");
    let expected = lattice::alone(&dims, STEPS);
    let what = format!("seed {seed}, {spares} spares, {placement:?}, {crashes:?}");
    let mut places = Vec::new();
    for process in &report.processes {
        match &process.ending {
            sim::Ending::Finished(Ok((place, value))) => {
                assert_eq!(*value, expected[*place as usize], "{what}");
                places.push(*place);
            }
            sim::Ending::Finished(Err(Error::StateLost { .. })) if crashes.len() > 1 => return,
            sim::Ending::Finished(Err(error)) => panic!("{what}: {error}"),
            sim::Ending::Panicked(why) | sim::Ending::Stuck(why) => {
                panic!("{what}: {why}\n{report}")
            }
            _ => {}
        }
    }
    places.sort_unstable();
    // Who dies at the very end is not replaced.
    places.dedup();
    assert!(places.len() + crashes.len() >= SIZE as usize, "{what}: {places:?}");
}

#[test]
fn rows_and_columns_survive_the_death_of_each_rank_at_any_moment() {
    for dead in 0..SIZE {
        for effect in (4 + u64::from(dead)..400).step_by(7) {
            let placement = [Placement::SameRanks, Placement::Append][effect as usize % 2];
            let spares = u32::from(effect % 5 == 0);
            let crash = Crash::before_effect(dead, effect);
            lattice_survives(effect, spares, placement, &[crash]);
        }
    }
}

#[test]
fn rows_and_columns_survive_one_death_after_the_other() {
    for seed in 0..150 {
        let placement = [Placement::SameRanks, Placement::Append][seed as usize % 2];
        let first = Crash::before_effect(seed as u32 % SIZE, 20 + seed % 150);
        // The replacements are the processes behind the ranks.
        let others = [seed as u32 / 7 % SIZE, SIZE, SIZE + 1];
        let moment = Duration::from_micros(2000 + seed * 97 % 40_000);
        let second = Crash::at_time(others[seed as usize % 3], moment);
        lattice_survives(seed, 0, placement, &[first, second]);
    }
}
