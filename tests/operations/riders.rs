//! Small collectives of blocks of level `WithCollective`: the last one rides on the commit, and a
//! rank that waits for one before has it all the same.

use std::time::Duration;

use fampi::{
    Codes, Error, FaultCode, Finished, Level, Patience, Rank, ReduceOp, Tag, Timeout, TryBlock,
    UserOp, World,
    sim::{self, Counters, Crash, Simulation},
};

use crate::faults::wait;

const SIZE: u32 = 5;
const BAD: u32 = 1;

fn start(world: &World) -> TryBlock {
    world.start(Level::WithCollective).expect("in use")
}

fn end(block: TryBlock) -> Finished {
    wait(block, Timeout::Never)
}

/// Something whose sum shows in which order it was added.
fn brings(rank: u32) -> f64 {
    [1e16, 1.0, -1e16, 3.0, 0.1][rank as usize % 5]
}

#[test]
fn the_result_has_the_same_bits_for_who_waits_and_who_does_not() {
    for (seed, waits) in (0..40).flat_map(|seed| [0, 1, 0b10110, 0b11111].map(|it| (seed, it))) {
        let report = Simulation::new(SIZE).seed(seed).run_world(move |world| {
            let me = world.rank().number();
            let mut block = start(&world);
            let sum = block.iallreduce(vec![brings(me); 2], ReduceOp::Sum).expect("a sum");
            let next = Rank::new((me + 1) % SIZE);
            let heard = block.irecv(vec![0_u8], Rank::new((me + SIZE - 1) % SIZE), Tag(1));
            let heard = heard.expect("a rank");
            if waits >> me & 1 == 1 {
                // The next rank hears of this one only after that.
                block.wait_local(sum, Timeout::Never).expect("nobody dies");
            }
            block.isend(vec![1_u8], next, Tag(1)).expect("a rank");
            block.wait_local(heard, Timeout::Never).expect("nobody dies");
            let finished = end(block);
            assert!(finished.is_committed(), "{finished:?}");
            let found = finished.take(sum).expect("complete");
            world.finalize();
            found.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        });
        let expected = ((brings(0) + brings(4)) + brings(1)) + (brings(2) + brings(3));
        for found in report.expect_orderly() {
            assert_eq!(*found, [expected.to_bits(); 2], "seed {seed}, {waits:b} wait");
        }
    }
}

#[test]
fn those_before_the_last_are_exchanged_when_the_next_is_posted() {
    for seed in 0..20 {
        let report = Simulation::new(SIZE).seed(seed).run_world(|world| {
            let mut block = start(&world);
            let least = block.iallreduce(vec![world.rank().number() as i8 - 3], ReduceOp::Min);
            let barrier = block.ibarrier();
            let all = block.iallgather(vec![world.rank().number(); SIZE as usize]);
            let bits = block.iallreduce(vec![1_u64 << world.rank().number(); 8], ReduceOp::Or);
            let (least, bits) = (least.expect("a type"), bits.expect("a type"));
            if world.rank().number() == 2 {
                block.wait_local(barrier, Timeout::Never).expect("nobody dies");
                assert_eq!(block.take(bits), Err(Error::NotComplete), "no rank has waited");
            }
            let finished = end(block);
            assert!(finished.is_committed(), "{finished:?}");
            assert_eq!(finished.take(least), Ok(vec![-3]));
            assert_eq!(finished.take(bits), Ok(vec![(1 << SIZE) - 1; 8]));
            assert_eq!(finished.take(all.expect("a rank")), Ok((0..SIZE).collect()));
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn a_reduction_at_the_end_goes_before_what_was_posted() {
    let report = Simulation::new(3).run_world(|world| {
        let mut block = start(&world);
        let sum = block.iallreduce(vec![1_u8], ReduceOp::Sum).expect("a sum");
        let least = block.finish_allreduce([world.rank().number()], ReduceOp::Max, Timeout::Never);
        let reduced = least.expect("defined").wait_local(Timeout::Never);
        let Ok(fampi::Reduced::Committed([most], finished)) = reduced else { panic!("faulty") };
        assert_eq!((most, finished.take(sum)), (2, Ok(vec![3])));
        world.finalize();
    });
    report.expect_orderly();
}

/// The first of two numbers.
#[derive(Clone, Copy, Debug)]
struct First;

impl UserOp for First {
    type Element = u32;
    const COMMUTES: bool = false;

    fn combine(left: &[u32], right: &mut [u32]) {
        right.copy_from_slice(left);
    }
}

#[test]
fn what_a_commit_cannot_carry_is_done_by_mpi() {
    let counters = |blocks: u32| -> Counters {
        let report = Simulation::new(3).run_world(move |world| {
            for _ in 0..blocks {
                let mut block = start(&world);
                let first = block.iallreduce(vec![world.rank().number() + 7], First).expect("ours");
                let finished = end(block);
                assert_eq!(finished.take(first), Ok(vec![7]));
                let mut block = world.start(Level::Global).expect("in use");
                let sum = block.iallreduce(vec![1_u8], ReduceOp::Sum).expect("a sum");
                assert_eq!(end(block).take(sum), Ok(vec![3]));
            }
            world.finalize();
        });
        report.counters
    };
    assert_eq!(counters(4).collectives - counters(2).collectives, 2 * 2 * 3);
}

#[test]
fn a_death_anywhere_around_it_is_known_to_all_and_no_sum_lacks_a_rank() {
    for waits in [0, 0b101, 0b11111] {
        let mut died = 0;
        for effect in 1..60 {
            let crash = Crash::before_effect(BAD, effect);
            let report = Simulation::new(SIZE).seed(effect).crash(crash).run_world(move |world| {
                let mut told = Vec::new();
                for _ in 0..3 {
                    let mut block = start(&world);
                    let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum);
                    let sum = sum.expect("a sum");
                    let early = waits >> world.rank().number() & 1 == 1
                        && block.wait_local(sum, Timeout::Never).is_ok();
                    let finished = end(block);
                    let fault = finished.fault(sum);
                    if finished.is_committed() {
                        assert_eq!(finished.take(sum), Ok(vec![SIZE]));
                        told.push(None);
                        continue;
                    }
                    let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
                    if dead.contains(Rank::new(BAD)) && !early {
                        assert_eq!(fault, Some(FaultCode::ProcessFailed), "{finished:?}");
                    }
                    told.push(Some(dead));
                    break;
                }
                world.finalize();
                told
            });
            let survivors = report.processes.iter().enumerate();
            let survivors = survivors.filter(|(at, _)| *at != BAD as usize);
            let told: Vec<_> = survivors.map(|(_, process)| process.ending.finished()).collect();
            let same = told.iter().all(|mine| mine.is_some() && *mine == told[0]);
            assert!(same, "effect {effect}: {report}");
            let dead = told[0].into_iter().flatten().flatten();
            died += dead.filter(|dead| dead.contains(Rank::new(BAD))).count();
        }
        assert!(died > 5, "{died} deaths in a block");
    }
}

#[test]
fn it_rides_over_the_living_where_blocks_run_through() {
    for seed in 0..20 {
        let report = Simulation::new(SIZE).seed(seed).run_world(|world| {
            world.set_run_through(true);
            if world.rank().number() == BAD {
                sim::crash();
            }
            let first = end(world.start(Level::Global).expect("in use"));
            assert!(!first.is_committed());
            for round in 0..6 {
                let mut block = start(&world);
                let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum).expect("a sum");
                if round % 3 == world.rank().number() {
                    block.wait_local(sum, Timeout::Never).expect("all others live");
                }
                let finished = end(block);
                assert!(finished.is_committed(), "{finished:?}");
                assert_eq!(finished.take(sum), Ok(vec![SIZE - 1]));
            }
            world.set_run_through(false);
            let mut block = start(&world);
            let refused = block.iallreduce(vec![1_u32], ReduceOp::Sum).expect("a sum");
            assert_eq!(end(block).fault(refused), Some(FaultCode::ProcessFailed));
            world.finalize();
        });
        assert_eq!(report.results().count(), SIZE as usize - 1, "{report}");
    }
}

#[test]
fn whoever_waits_for_a_rank_that_leaves_is_not_kept() {
    for (seed, patience) in (0..20).flat_map(|it| [(it, Patience::Prompt), (it, Patience::Patient)])
    {
        let report = Simulation::new(SIZE).seed(seed).run_world(move |world| {
            world.set_run_through(true);
            world.set_patience(patience);
            if world.rank().number() == BAD {
                sim::crash();
            }
            assert!(!end(world.start(Level::Global).expect("in use")).is_committed());
            let mut block = start(&world);
            if world.rank().number() == 3 {
                sim::compute(Duration::from_millis(5));
                let left = block.leave(&Error::Raised(7)).wait_local(Timeout::Never);
                assert!(matches!(left, Ok(fampi::Outcome::Faulty(_))));
            } else {
                let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum).expect("a sum");
                if world.rank().number() != 2 {
                    let waited = block.wait_local(sum, Timeout::Never);
                    assert_eq!(waited.err(), Some(Error::Request(FaultCode::Interrupted)));
                }
                let finished = end(block);
                let group = finished.failed_group(Codes::Of(&[FaultCode::Application(7)]), &world);
                assert_eq!(group.iter().collect::<Vec<_>>(), [Rank::new(3)], "{finished:?}");
            }
            let mut block = start(&world);
            let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum).expect("a sum");
            let finished = end(block);
            assert_eq!(finished.take(sum), Ok(vec![SIZE - 1]), "{finished:?}");
            world.finalize();
        });
        assert_eq!(report.results().count(), SIZE as usize - 1, "seed {seed}: {report}");
    }
}

#[test]
fn another_rider_or_none_is_a_fault() {
    let report = Simulation::new(3).run_world(|world| {
        let odd = world.rank().number() == 1;
        for waits in [false, true] {
            let mut block = start(&world);
            let op = if odd { ReduceOp::Max } else { ReduceOp::Sum };
            let sum = block.iallreduce(vec![1_u32], op).expect("a sum");
            if waits {
                let waited = block.wait_local(sum, Timeout::Never);
                assert!(matches!(waited, Err(Error::Request(_))), "{waited:?}");
            }
            let finished = end(block);
            let told = finished.failed_group(Codes::Of(&[FaultCode::Mismatched]), &world);
            assert!(!finished.is_committed() && !told.is_empty(), "{finished:?}");
        }
        world.finalize();
    });
    report.expect_orderly();
}

#[test]
fn a_late_rank_is_asked_for_again() {
    let report = Simulation::new(3).run_world(|world| {
        let mut block = start(&world);
        if world.rank().number() == 1 {
            sim::compute(Duration::from_millis(20));
        }
        let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum).expect("a sum");
        let mut waited = block.test(sum);
        let limit = Timeout::After(Duration::from_millis(2));
        let mut asked = 0;
        while let Ok(None) = waited {
            waited = match block.wait_local(sum, limit) {
                Err(Error::WaitTimedOut) => Ok(None),
                other => other.map(Some),
            };
            asked += 1;
        }
        assert_eq!(block.take(sum), Ok(vec![3]));
        assert!(end(block).is_committed());
        // One that rides is no late request: the verdict is.
        let mut block = start(&world);
        if world.rank().number() == 1 {
            sim::compute(Duration::from_millis(20));
        }
        let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum).expect("a sum");
        let mut pending = block.finish(limit);
        let finished = loop {
            pending = match pending.wait_local(Timeout::After(Duration::from_millis(5))) {
                Ok(fampi::Outcome::TimedOut(pending)) => pending,
                Ok(fampi::Outcome::Committed(finished)) => break finished,
                _ => panic!("faulty"),
            };
        };
        assert_eq!(finished.take(sum), Ok(vec![3]));
        drop(finished);
        world.finalize();
        asked
    });
    assert!(report.expect_orderly().iter().any(|asked| *asked > 5));
}
