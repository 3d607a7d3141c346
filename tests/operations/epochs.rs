//! Communicators that start afresh after aborts of outer blocks, and what is remembered of them.

use std::{
    panic::{self, AssertUnwindSafe},
    time::Duration,
};

use fampi::{
    BlockOptions, Codes, Color, Comm, Error, FaultCode, Level, Outcome, Placement, Rank, ReduceOp,
    Tag, Timeout, Tried, World,
    sim::{self, Crash, Ending, Report, Simulation},
};

const ALWAYS: BlockOptions = BlockOptions::global(Timeout::Never);

/// The part of a communicator that has its ranks with the same quotient.
fn part(comm: &Comm, ranks: u32) -> Comm {
    let color = Color::Of(comm.rank().number() / ranks);
    let made = comm.isplit(color, 0).expect("one at a time").wait_local(Timeout::Never);
    made.expect("nobody dies").into_comm().expect("everybody has a colour")
}

fn expect_all(report: &Report<()>, ranks: usize, what: &str) {
    let ended = report.processes.iter().filter(|it| matches!(it.ending, Ending::Finished(())));
    assert_eq!(ended.count(), ranks, "{what}: {report}");
}

/// A sum over a part, in a block of its own inside of an outer one.
fn sum(comm: &Comm) -> Result<Tried<u32>, Error> {
    comm.try_block(ALWAYS, |inner| {
        let sum = inner.iallreduce(vec![1], ReduceOp::Sum)?;
        inner.wait_local(sum, Timeout::Never)?;
        Ok(inner.take(sum)?[0])
    })
}

#[test]
fn a_thousand_aborts_leave_nothing_behind() {
    let report = Simulation::new(4).time_limit(Duration::from_secs(1000)).run_world(|world| {
        let half = part(&world, 2);
        let duplicate = world.idup().expect("one").wait_local(Timeout::Never).expect("alive");
        let duplicate = duplicate.into_comm().expect("everybody has one");
        let mut most = 0;
        for round in 0..1000 {
            let bad = world.rank().number() == round % 4;
            let tried = world.try_block(ALWAYS, |_| {
                // Whoever leaves the outer block may end this one, too.
                let _ = sum(if round % 3 == 0 { &duplicate } else { &half })?;
                if bad { Err(Error::Raised(3)) } else { Ok(()) }
            });
            assert!(matches!(tried, Ok(Tried::Faulty(..))));
            if round == 20 {
                most = world.remembered().communicators;
            }
        }
        assert!(world.remembered().communicators <= most, "{:?}", world.remembered());
        assert!(most < 16, "{most}");
        world.finalize();
    });
    report.expect_orderly();
}

#[test]
fn blocks_on_three_levels_are_aborted_in_any_order_and_go_on() {
    for seed in 0..60_u64 {
        let limit = Duration::from_secs(50);
        let report = Simulation::new(8).seed(seed).time_limit(limit).run_world(move |world| {
            let half = part(&world, 4);
            let quarter = part(&half, 2);
            let me = u64::from(world.rank().number());
            // Some rank leaves one of the blocks, or none; nobody waits for the others there.
            let left = |level: u64, round: u64| {
                let draw = (seed * 31 + round * 7 + level * 3) % 11;
                if draw == me { Err(Error::Raised(level as i32)) } else { Ok(()) }
            };
            for round in 0..25 {
                let tried = world.try_block(ALWAYS, |_| {
                    left(0, round)?;
                    let tried = half.try_block(ALWAYS, |_| {
                        left(1, round)?;
                        for _ in 0..2 {
                            let tried = quarter.try_block(ALWAYS, |inner| {
                                left(2, round)?;
                                let sum = inner.iallreduce(vec![1_u32], ReduceOp::Sum)?;
                                inner.wait_local(sum, Timeout::Never)?;
                                Ok(inner.take(sum)?[0])
                            })?;
                            let Tried::Committed(sum, _) = tried else { continue };
                            assert_eq!(sum, 2);
                        }
                        Ok(())
                    })?;
                    if let (Tried::Faulty(inner, _), 0) = (tried, round % 2) {
                        drop(inner);
                        return Err(Error::Raised(9));
                    }
                    Ok(())
                });
                assert!(tried.is_ok(), "it is in no other block");
            }
            let tried = world.try_block(ALWAYS, |_| {
                let quarters = sum(&quarter)?;
                assert!(matches!(quarters, Tried::Committed(2, _)));
                let halves = sum(&half)?;
                assert!(matches!(halves, Tried::Committed(4, _)));
                Ok(())
            });
            assert!(matches!(tried, Ok(Tried::Committed(..))), "all go on as if nothing had been");
            let remembered = world.remembered();
            assert!(remembered.communicators < 24, "seed {seed}: {remembered:?}");
            drop((half, quarter));
            world.finalize();
        });
        expect_all(&report, 8, &format!("seed {seed}"));
    }
}

#[test]
fn a_rank_that_dropped_a_communicator_votes_no_in_its_next_age() {
    let report = Simulation::new(4).run_world(|world| {
        // A shrunk one is not made again, so its last handle counts.
        let formed = world.shrink().expect("nobody dies");
        let half = part(&formed, 2);
        let bad = |error| if world.rank() == Rank::new(3) { Err(error) } else { Ok(()) };
        let half = if world.rank() == Rank::new(0) {
            drop(half);
            None
        } else {
            Some(half)
        };
        let tried = formed.try_block(ALWAYS, |_| bad(Error::Raised(1)));
        assert!(matches!(tried, Ok(Tried::Faulty(..))));
        if let Some(half) = half {
            let Ok(tried) = half.try_block(ALWAYS, |_| Ok(())) else { panic!("in no block") };
            match tried {
                Tried::Committed(..) => assert!(world.rank().number() > 1),
                Tried::Faulty(finished, _) => {
                    assert_eq!(world.rank(), Rank::new(1));
                    let gone = finished.failed_group(Codes::Of(&[FaultCode::Abandoned]), &half);
                    assert_eq!(gone.as_slice(), [Rank::new(0)]);
                }
            }
        }
        drop(formed);
        world.finalize();
    });
    report.expect_orderly();
}

/// The world after the death of a rank, and its half.
fn rebuilt(world: &World, dead: Rank) -> World {
    if world.rank() == dead {
        sim::crash();
    }
    let finished = world.try_block(ALWAYS, |_| Ok(())).expect("in no block");
    assert!(matches!(finished, Tried::Faulty(..)));
    world.rebuild(Placement::SameRanks).expect("nobody else dies")
}

#[test]
fn worlds_before_a_rebuild_are_looked_at_and_kept_no_more() {
    const REBUILDS: u32 = 30;
    let simulation = Simulation::new(4).spares(REBUILDS).time_limit(Duration::from_secs(100));
    let report = simulation.run_world(|mut world| {
        if !world.is_replacement() {
            let half = part(&world, 2);
            drop(half);
        }
        let mut entered = world.is_replacement();
        loop {
            if !std::mem::take(&mut entered) {
                let dead = Rank::new(world.generation() % 4);
                world = rebuilt(&world, dead);
            }
            let half = world.children()[0].clone().expect("everybody has one");
            assert!(matches!(sum(&half), Ok(Tried::Committed(2, _))));
            let remembered = world.remembered();
            assert_eq!((remembered.universes, remembered.listening), (1, 1), "{remembered:?}");
            assert!(remembered.communicators <= 4, "{remembered:?}");
            if world.generation() == REBUILDS {
                break;
            }
        }
        world.finalize();
    });
    assert_eq!(report.results().count(), 4, "{report}");
}

#[test]
fn who_waits_for_a_block_of_an_old_world_is_answered_and_then_it_is_over() {
    for seed in 0..40 {
        let limit = Duration::from_secs(50);
        let simulation = Simulation::new(4).seed(seed).spares(2).time_limit(limit);
        let report = simulation.run_world(|mut world| {
            if !world.is_replacement() {
                let half = part(&world, 2);
                // Two ranks have a block to wait for; the others of their halves never start it.
                let waits = world.rank().number() % 2 == 0;
                let start = || half.start(Level::Global).expect("in use").finish(Timeout::Never);
                let pending = waits.then(start);
                world = rebuilt(&world, Rank::new(1));
                let listening = world.remembered().listening;
                sim::compute(Duration::from_millis(u64::from(world.rank().number()) * 5));
                if let Some(pending) = pending {
                    assert_eq!(listening, 2, "of this rank's block somebody has to hear");
                    assert!(matches!(pending.wait_local(Timeout::Never), Ok(Outcome::Faulty(_))));
                }
            }
            if world.generation() == 1 {
                world = rebuilt(&world, Rank::new(3));
            }
            assert_eq!(world.remembered().listening, 1, "{:?}", world.remembered());
            world.finalize();
        });
        assert_eq!(report.results().count(), 4, "seed {seed}: {report}");
    }
}

#[test]
fn the_past_of_a_part_hears_of_the_death_that_ended_it() {
    for seed in 0..20 {
        let limit = Duration::from_secs(50);
        let report = Simulation::new(2).seed(seed).time_limit(limit).run_world(|world| {
            let twin = world.idup().expect("one").wait_local(Timeout::Never).expect("alive");
            let twin = twin.into_comm().expect("everybody has one");
            let start = |comm: &Comm| comm.start(Level::Global).expect("in use");
            let (outer, inner) = (start(&world), start(&twin));
            if world.rank() == Rank::new(1) {
                sim::crash();
            }
            // Both wait for the dead. The end of the first begins a new epoch of the other's
            // communicator before that one is told of the death.
            for pending in [outer, inner].map(|block| block.finish(Timeout::Never)) {
                assert!(matches!(pending.wait_local(Timeout::Never), Ok(Outcome::Faulty(_))));
            }
            world.finalize();
        });
        expect_all(&report, 1, &format!("seed {seed}"));
    }
}

#[test]
fn a_block_that_others_decide_while_its_requests_are_pending_is_over() {
    for seed in 0..20 {
        let limit = Duration::from_secs(50);
        let report = Simulation::new(2).seed(seed).time_limit(limit).run_world(|world| {
            // A shrunk one is not made again, so its last handle counts.
            let comm = world.shrink().expect("nobody dies");
            let mut block = comm.start(Level::Global).expect("in use");
            let waits = world.rank() == Rank::new(0);
            if waits {
                block.irecv(vec![0_u8], Rank::new(1), Tag(1)).expect("a rank");
            }
            let pending = block.finish(Timeout::Never);
            drop(comm);
            let Ok(Outcome::Faulty(finished)) = pending.wait_local(Timeout::Never) else {
                panic!("its communicator is gone");
            };
            drop(finished);
            for _ in 0..3 {
                assert!(matches!(world.try_block(ALWAYS, |_| Ok(())), Ok(Tried::Committed(..))));
            }
            world.finalize();
        });
        expect_all(&report, 2, &format!("seed {seed}"));
    }
}

#[test]
fn an_inner_block_that_the_outer_one_does_not_wait_for_is_forgotten() {
    let report = Simulation::new(4).time_limit(Duration::from_secs(100)).run_world(|world| {
        let half = part(&world, 2);
        let options = BlockOptions::global(Timeout::After(Duration::from_millis(1)));
        let partner = Rank::new(1 - half.rank().number());
        for _ in 0..40 {
            let tried = world.try_block(options, |outer| {
                let mut inner = half.start(Level::Global)?;
                inner.irecv(vec![0_u8], partner, Tag(1))?;
                outer.nest(inner.finish(Timeout::Never));
                Ok(())
            });
            assert!(matches!(tried, Ok(Tried::Faulty(..))));
        }
        let remembered = world.remembered();
        assert!(remembered.communicators < 16, "{remembered:?}");
        assert!(matches!(sum(&half), Ok(Tried::Committed(2, _))));
        world.finalize();
    });
    report.expect_orderly();
}

/// Blocks open on three communicators, one of which a rank gives up; then a panic that is caught.
fn left_in_many_ways(world: World) {
    let formed = world.idup().expect("one").wait_local(Timeout::Never);
    let (Ok(formed), Ok(given_up)) = (formed, world.shrink()) else {
        return world.finalize();
    };
    let twin = formed.into_comm().expect("everybody has one");
    let start = |comm: &Comm| comm.start(Level::Global).expect("in use");
    let mut blocks = [start(&world), start(&twin), start(&given_up)];
    if given_up.rank() == Rank::new(0) {
        // Nobody sends it.
        blocks[2].irecv(vec![0_u8], Rank::new(1), Tag(1)).expect("a rank");
    }
    let blocks = blocks.map(|block| block.finish(Timeout::Never));
    drop(given_up);
    for pending in blocks {
        let ended = pending.wait_local(Timeout::Never);
        assert!(matches!(ended, Ok(Outcome::Committed(_) | Outcome::Faulty(_))));
    }
    let tried = panic::catch_unwind(AssertUnwindSafe(|| {
        world.try_block(ALWAYS, |_| {
            if world.rank() == Rank::new(2) {
                panic::resume_unwind(Box::new(BUG));
            }
            Ok(())
        })
    }));
    if let Err(what) = tried
        && what.downcast_ref() != Some(&BUG)
    {
        // A death of the simulation, which nobody survives.
        panic::resume_unwind(what);
    }
    for _ in 0..3 {
        assert!(world.try_block(ALWAYS, |_| Ok(())).is_ok(), "it is in no other block");
    }
    world.finalize();
}

/// What some rank panics with.
const BUG: &str = "a bug of the application";

#[test]
fn whoever_dies_in_the_middle_of_giving_up_is_waited_for_by_nobody() {
    for (victim, effect) in (0..4).flat_map(|victim| (1..90).map(move |effect| (victim, effect))) {
        for seed in 0..6 {
            let simulation = Simulation::new(4).seed(seed).time_limit(Duration::from_secs(50));
            let simulation = simulation.crash(Crash::before_effect(victim, effect));
            let report = simulation.run_world(left_in_many_ways);
            let what = format!("rank {victim} before its effect {effect}, seed {seed}");
            // One that dies while the job starts is replaced.
            let crashed = matches!(report.processes[victim as usize].ending, Ending::Crashed);
            expect_all(&report, report.processes.len() - usize::from(crashed), &what);
        }
    }
}
