//! Blocks of level `WithCollective`: what they promise, and what becomes of those that do not keep
//! it. Blocks of level `Local`: what they leave to others, and others to them.

use std::time::Duration;

use fampi::{
    BlockOptions, Codes, Error, FaultCode, FaultReport, Level, Rank, RankSet, ReduceOp, Reduced,
    Tag, Timeout, Tried, TryBlock, World,
    sim::{self, Counters, Crash, Simulation},
};

use crate::faults::{same, wait};

const SIZE: u32 = 4;
/// The rank that forgets the collective, or dies.
const BAD: u32 = 1;
const FOREVER: BlockOptions = BlockOptions::with_collective(Timeout::Never);

/// The last operation of a block of level `WithCollective`.
#[derive(Clone, Copy, Debug)]
enum Last {
    Nothing,
    Empty,
    Broadcast,
    Unposted,
    Barrier,
    Sum,
}

/// What the ranks are told when some of them have no synchronising collective in their block.
fn with_collective(world: World, last: Last) -> FaultReport {
    let me = world.rank();
    let mut block = world.start(Level::WithCollective).expect("in use");
    let (left, right) = (Rank::new((me.number() + SIZE - 1) % SIZE), (me.number() + 1) % SIZE);
    let received = block.irecv(vec![0], left, Tag(1)).expect("a rank");
    block.isend(vec![me.number()], Rank::new(right), Tag(1)).expect("a rank");
    match last {
        Last::Nothing => {}
        Last::Empty => drop(block.iallreduce(Vec::<u8>::new(), ReduceOp::Sum)),
        Last::Broadcast => drop(block.ibcast(vec![1_u8], Rank::new(0))),
        Last::Barrier => drop(block.ibarrier()),
        Last::Unposted if me == Rank::new(BAD) => {}
        Last::Sum | Last::Unposted => {
            let sum = block.iallreduce(vec![1_u8], ReduceOp::Sum).expect("a sum");
            // Those who wait for it are not held up by one that forgets it.
            let _ = block.wait_local(sum, Timeout::Never);
        }
    }
    let finished = wait(block, Timeout::Never);
    if finished.is_committed() {
        assert_eq!(finished.take(received).expect("complete"), [left.number()]);
    }
    let report = finished.report();
    drop(finished);
    assert!(wait(world.start(Level::Global).expect("in use"), Timeout::Never).is_committed());
    world.finalize();
    report
}

#[test]
fn a_block_with_collective_commits_as_a_global_one_and_is_refused_without_one() {
    for last in
        [Last::Nothing, Last::Empty, Last::Broadcast, Last::Unposted, Last::Barrier, Last::Sum]
    {
        for seed in 0..8 {
            let report = Simulation::new(SIZE)
                .seed(seed)
                .run_world(move |world| with_collective(world, last));
            let report = same(&report, &format!("{last:?}, seed {seed}"));
            let lacking = report.faults().iter().filter(|it| it.code == FaultCode::NoCollective);
            let lacking: Vec<Rank> = lacking.map(|fault| fault.rank).collect();
            match last {
                Last::Barrier | Last::Sum => assert!(report.is_empty(), "{report}"),
                Last::Unposted => assert_eq!(lacking, [Rank::new(BAD)], "{report}"),
                _ => assert!(!lacking.is_empty(), "{report}"),
            }
        }
    }
}

#[test]
fn a_death_around_the_collective_is_known_to_all() {
    let mut died = false;
    for effect in 1..40 {
        let simulation = Simulation::new(SIZE).seed(effect);
        let crash = Crash::before_effect(BAD, effect);
        let report = simulation.crash(crash).run_world(|world| {
            let mut codes = Vec::new();
            for _ in 0..3 {
                let tried = world.try_block(FOREVER, |block| {
                    let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum)?;
                    block.wait_local(sum, Timeout::Never)?;
                    block.take(sum)
                });
                match tried.expect("a living communicator") {
                    Tried::Committed(sum, _) => assert_eq!(sum, [SIZE]),
                    Tried::Faulty(finished, _) => {
                        codes.push(finished.failed_group(Codes::PROCESS_FAILURES, &world));
                        break;
                    }
                }
            }
            world.finalize();
            codes
        });
        let survivors = report.processes.iter().enumerate().filter(|(at, _)| *at != BAD as usize);
        let told: Vec<_> = survivors.map(|(_, process)| process.ending.finished()).collect();
        let same = told.iter().all(|mine| mine.is_some() && *mine == told[0]);
        assert!(same, "effect {effect}: {report}");
        died |=
            told[0].is_some_and(|groups| groups.iter().any(|dead| dead.contains(Rank::new(BAD))));
    }
    assert!(died, "somewhere on the way");
}

/// What some blocks cost that end in this way.
fn cost(size: u32, blocks: u32, end: fn(&World)) -> Counters {
    let report = Simulation::new(size).run_world(move |world| {
        (0..blocks).for_each(|_| end(&world));
        world.finalize();
    });
    let counters = report.counters;
    report.expect_orderly();
    counters
}

fn sum_at_the_end(world: &World) {
    let block = world.start(Level::WithCollective).expect("in use");
    let one = [1_u32; 8];
    let sum = block.finish_allreduce(one, ReduceOp::Sum, Timeout::Never).expect("a sum");
    let Ok(Reduced::Committed(sum, _)) = sum.wait_local(Timeout::Never) else { panic!("faulty") };
    assert_eq!(sum, [world.size(); 8]);
}

/// A sum of so many numbers, posted last; some ranks wait for it before the end of the block.
fn sum_inside(world: &World, numbers: usize, waits: impl Fn(u32) -> bool) {
    let mut block = world.start(Level::WithCollective).expect("in use");
    let sum = block.iallreduce(vec![1_u32; numbers], ReduceOp::Sum).expect("a sum");
    if waits(world.rank().number()) {
        block.wait_local(sum, Timeout::Never).expect("nobody dies");
    }
    let finished = wait(block, Timeout::Never);
    assert!(finished.is_committed());
    assert_eq!(finished.take(sum).expect("complete"), vec![world.size(); numbers]);
}

fn barrier_inside(world: &World) {
    let mut block = world.start(Level::WithCollective).expect("in use");
    block.ibarrier();
    assert!(wait(block, Timeout::Never).is_committed());
}

fn nothing(world: &World) {
    assert!(wait(world.start(Level::Global).expect("in use"), Timeout::Never).is_committed());
}

#[test]
fn a_death_around_a_reduction_that_the_commit_rides_on_is_known_to_all() {
    let mut died = false;
    for effect in 1..40 {
        let crash = Crash::before_effect(BAD, effect);
        let report = Simulation::new(SIZE).seed(effect).crash(crash).run_world(|world| {
            let mut told = Vec::new();
            for _ in 0..3 {
                let block = world.start(Level::WithCollective).expect("in use");
                let sum = block.finish_allreduce([1_u32], ReduceOp::Sum, Timeout::Never);
                match sum.expect("a sum").wait_local(Timeout::Never).expect("no outer block") {
                    Reduced::Committed(sum, _) => told.push((sum, None)),
                    Reduced::Faulty(finished) => {
                        let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
                        told.push(([0], Some(dead)));
                    }
                    Reduced::TimedOut(_) => unreachable!("it never times out"),
                }
            }
            world.finalize();
            told
        });
        let survivors = report.processes.iter().enumerate().filter(|(at, _)| *at != BAD as usize);
        let told: Vec<_> = survivors.map(|(_, process)| process.ending.finished()).collect();
        let same = told.iter().all(|mine| mine.is_some() && *mine == told[0]);
        assert!(same, "effect {effect}: {report}");
        // The dead are in a sum until a report has named them.
        let mut members = SIZE;
        for (sum, dead) in told[0].into_iter().flatten() {
            match dead {
                None => assert_eq!(*sum, [members], "effect {effect}: {report}"),
                Some(dead) if dead.contains(Rank::new(BAD)) => (members, died) = (SIZE - 1, true),
                Some(_) => {}
            }
        }
    }
    assert!(died, "somewhere on the way");
}

#[test]
fn a_commit_that_rides_on_the_collective_of_its_block_sends_no_message_of_its_own() {
    for size in [2, 3, 4, 8, 9, 16, 31] {
        let messages = |counters: Counters| {
            let Counters { fast_frames, other_frames, data_messages, collectives, .. } = counters;
            [fast_frames, other_frames, data_messages, collectives]
        };
        // Of ten blocks, without what comes before and after them.
        let of = |end: fn(&World)| {
            let [less, more] = [5, 15].map(|blocks| messages(cost(size, blocks, end)));
            std::array::from_fn::<_, 4, _>(|at| more[at] - less[at])
        };
        // Recursive multiplying: groups of eight at first, then pairs; who is left over is told.
        let core = if size <= 8 { size } else { 1 << size.ilog2() };
        let rounds = if size <= 8 { 0 } else { core.ilog2() - 3 };
        let each = core * (core.min(8) - 1 + rounds) + 2 * (size - core);
        let votes = 10 * u64::from(each);
        assert_eq!(of(sum_at_the_end), [votes, 0, 0, 0], "{size} ranks");
        assert_eq!(of(nothing), [votes, 0, 0, 0], "{size} ranks");
        // Those that are posted ride as well, if they are small enough and no rank waits for them.
        assert_eq!(of(|it| sum_inside(it, 8, |_| false)), [votes, 0, 0, 0], "{size} ranks");
        assert_eq!(of(barrier_inside), [votes, 0, 0, 0], "{size} ranks");
        // With a collective of its own there are its messages, too.
        let [votes_beside, _, _, collectives] = of(|it| sum_inside(it, 9, |_| false));
        assert_eq!((votes_beside, collectives), (votes, 10 * u64::from(size)), "{size} ranks");
        // What a rank waits for takes as many messages as a commit, and one for who folds in; of
        // which some may be left out where the verdict is there before.
        for (all, waits) in [(true, (|_| true) as fn(u32) -> bool), (false, |rank| rank == 1)] {
            let of = [5, 15].map(|blocks| {
                let report = Simulation::new(size).run_world(move |world| {
                    (0..blocks).for_each(|_| sum_inside(&world, 8, waits));
                    world.finalize();
                });
                messages(report.counters)
            });
            let [fast, other, _, collectives] = std::array::from_fn(|at| of[1][at] - of[0][at]);
            let ahead = votes + 10 * u64::from(size - core);
            assert_eq!((fast, collectives), (votes, 0), "{size} ranks");
            assert!(
                if all { other == ahead } else { (1..=ahead).contains(&other) },
                "{size} ranks"
            );
        }
    }
}

#[test]
fn a_local_block_and_the_agreed_one_around_it_or_after_it_do_not_take_each_others_messages() {
    for inside in [false, true] {
        let report = Simulation::new(2).run_world(move |world| {
            let (other, tag) = (Rank::new(1 - world.rank().number()), Tag(1));
            let start = |level| world.start(level).expect("in use");
            // Both ranks post the same operations, in an order of their own.
            let mut agreed = inside.then(|| start(Level::Global));
            let mut local = start(Level::Local);
            let post = |block: &mut TryBlock, value: u8| {
                let received = block.irecv(vec![0_u8], other, tag).expect("a rank");
                block.isend(vec![value], other, tag).expect("a rank");
                received
            };
            let (mut of_agreed, mut of_local) = (None, None);
            let first = usize::from(world.rank().number() == 1);
            for turn in [first, 1 - first] {
                if turn == 0 {
                    of_local = Some(post(&mut local, 3));
                } else {
                    of_agreed = Some(post(agreed.get_or_insert_with(|| start(Level::Global)), 4));
                }
            }
            for (block, received, value) in [(Some(local), of_local, 3), (agreed, of_agreed, 4)] {
                let finished = wait(block.expect("started"), Timeout::Never);
                assert!(finished.is_committed(), "{finished:?}");
                assert_eq!(finished.take(received.expect("posted")), Ok(vec![value]));
            }
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn a_code_raised_in_a_local_block_stays_there() {
    let report = Simulation::new(2).run_world(|world| {
        let mut local = world.start(Level::Local).expect("in use");
        assert_eq!(local.protect(0, &[1_u8]), Err(Error::NotGlobal));
        local.raise_error(7);
        assert!(!wait(local, Timeout::Never).is_committed());
        let other = Rank::new(1 - world.rank().number());
        let mut block = world.start(Level::Global).expect("in use");
        let received = block.irecv(vec![0_u8], other, Tag(1)).expect("a rank");
        block.isend(vec![3_u8], other, Tag(1)).expect("a rank");
        let finished = wait(block, Timeout::Never);
        assert!(finished.is_committed(), "{finished:?}");
        assert_eq!(finished.take(received), Ok(vec![3]));
        world.finalize();
    });
    report.expect_orderly();
}

#[test]
fn a_local_block_that_is_retried_with_success_leaves_nothing_for_the_block_around_it() {
    for seed in 0..10 {
        let report = Simulation::new(3).seed(seed).run_world(|world| {
            let me = world.rank().number();
            let mut outer = world.start(Level::Global).expect("in use");
            if me == 0 {
                // Rank 1 is late, so that the first attempt fails, and the second does not.
                let mut first = world.start(Level::Local).expect("in use");
                let late = first.irecv(vec![0_u8], Rank::new(1), Tag(1)).expect("a rank");
                let limit = Timeout::After(Duration::from_micros(300));
                let finished = wait(first, limit);
                assert!(!finished.is_committed() && finished.fault(late).is_some());
            }
            if me == 1 {
                sim::compute(Duration::from_millis(2));
            }
            if me < 2 {
                let other = Rank::new(1 - me);
                let mut again = world.start(Level::Local).expect("in use");
                let received = again.irecv(vec![0_u8], other, Tag(1)).expect("a rank");
                again.isend(vec![9_u8], other, Tag(1)).expect("a rank");
                let finished = wait(again, Timeout::Never);
                assert!(finished.is_committed(), "{finished:?}");
                assert_eq!(finished.take(received), Ok(vec![9]));
            }
            let next = Rank::new((me + 1) % 3);
            let before = Rank::new((me + 2) % 3);
            let received = outer.irecv(vec![0_u8], before, Tag(1)).expect("a rank");
            outer.isend(vec![me as u8], next, Tag(1)).expect("a rank");
            let finished = wait(outer, Timeout::Never);
            assert!(finished.is_committed(), "{finished:?}");
            assert_eq!(finished.take(received), Ok(vec![before.number() as u8]));
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn a_collective_of_a_local_block_that_failed_is_the_cause_why_the_block_around_it_fails() {
    for seed in 0..10 {
        let report = Simulation::new(3).seed(seed).run_world(|world| {
            let mut outer = world.start(Level::Global).expect("in use");
            if world.rank() == Rank::new(2) {
                sim::compute(Duration::from_millis(2));
            } else {
                // The next collective of this rank would meet the one that rank 2 never came to.
                let mut local = world.start(Level::Local).expect("in use");
                local.ibarrier();
                let limit = Timeout::After(Duration::from_micros(300));
                assert!(!wait(local, limit).is_committed());
            }
            outer.ibarrier();
            let late = wait(outer, Timeout::Never);
            assert!(!late.is_committed());
            let faults = late.report().faults().to_vec();
            let mut next = world.start(Level::Global).expect("in use");
            next.ibarrier();
            assert!(wait(next, Timeout::Never).is_committed());
            world.finalize();
            faults.iter().map(|fault| (fault.rank.number(), fault.code)).collect::<Vec<_>>()
        });
        for faults in report.expect_orderly() {
            // The one who is later may hear of it while it still waits.
            assert!(faults.iter().any(|(rank, code)| *rank < 2 && *code == FaultCode::TimedOut));
        }
    }
}

#[test]
fn no_death_of_another_rank_ends_a_local_block() {
    for seed in 0..10 {
        let report = Simulation::new(3).seed(seed).run_world(|world| {
            let me = world.rank().number();
            if me == 2 {
                sim::crash();
            }
            let other = Rank::new(1 - me);
            let mut local = world.start(Level::Local).expect("in use");
            if me == 0 {
                // Long after the death is known.
                sim::compute(Duration::from_secs(3));
            }
            let received = local.irecv(vec![0_u8], other, Tag(1)).expect("a rank");
            local.isend(vec![9_u8], other, Tag(1)).expect("a rank");
            let finished = wait(local, Timeout::Never);
            assert!(finished.is_committed(), "{finished:?}");
            assert_eq!(finished.take(received), Ok(vec![9]));
            let global = wait(world.start(Level::Global).expect("in use"), Timeout::Never);
            assert_eq!(numbers(&global.failed_group(Codes::PROCESS_FAILURES, &world)), [2]);
            world.finalize();
        });
        assert_eq!(report.results().count(), 2, "{report}");
    }
}

fn numbers(ranks: &RankSet) -> Vec<u32> {
    ranks.iter().map(Rank::number).collect()
}
