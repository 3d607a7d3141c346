//! Windows on simulated ranks: what accesses do, and in which order, what is refused, and that a
//! block which does not count leaves no trace.

use std::time::Duration;

use fampi::{
    Codes, Color, Comm, Error, FaultCode, Finished, Level, Outcome, Placement, Rank, ReduceOp,
    Request, Tag, Timeout, TryBlock, Window, World,
    sim::{self, Ending, Simulation},
};

use crate::faults::wait;

const SEEDS: u64 = 20;
/// Longer than messages that go without their receiver.
const LONG: usize = 3000;

pub(crate) fn start(world: &World) -> TryBlock {
    world.start(Level::Global).expect("in use")
}

fn copy<T: fampi::Element>(window: &Window<T>) -> Vec<T> {
    window.read(<[T]>::to_vec)
}

/// A block with these accesses, which commits.
fn commit(world: &World, body: impl FnOnce(&mut TryBlock)) -> Finished {
    let mut block = start(world);
    body(&mut block);
    let finished = wait(block, Timeout::Never);
    assert!(finished.is_committed(), "{finished:?}");
    finished
}

#[test]
fn all_ranks_put_get_and_accumulate_everywhere_and_read_it_in_the_next_block() {
    for (size, seed) in (1..=6).flat_map(|size| (0..SEEDS).map(move |seed| (size, seed))) {
        let report = Simulation::new(size).seed(seed).run_world(move |world| {
            let (me, ranks) = (world.rank().index(), size as usize);
            let length = if seed % 2 == 0 { 2 } else { LONG };
            // A part for what each rank puts, and one in which all accumulate.
            let value = |from: usize, to: usize| (10 * from + to + 1) as i64;
            let window = world.window(1, vec![-1_i64; length * (ranks + 1)]).expect("new");
            let finished = commit(&world, |block| {
                for to in 0..ranks {
                    let (rank, part) = (Rank::from(to), vec![value(me, to); length]);
                    block.rput(&window, rank, length * me, part.clone()).expect("right");
                    let sum = ReduceOp::Sum;
                    block.raccumulate(&window, rank, length * ranks, part, sum).expect("right");
                    // What the block puts is never seen in it.
                    let before = block.rget(&window, rank, 0, vec![0; length]).expect("right");
                    block.wait_local(before, Timeout::Never).expect("nobody dies");
                    assert_eq!(block.take(before), Ok(vec![-1; length]));
                }
            });
            drop(finished);
            let expected = |to: usize| -> Vec<i64> {
                let parts = (0..ranks).flat_map(|from| vec![value(from, to); length]);
                let sum = (0..ranks).map(|from| value(from, to)).sum::<i64>() - 1;
                parts.chain(vec![sum; length]).collect()
            };
            assert_eq!(copy(&window), expected(me));
            let mut gotten: Vec<Request<i64>> = Vec::new();
            let finished = commit(&world, |block| {
                gotten.extend((0..ranks).map(|to| {
                    let room = vec![0; length * (ranks + 1)];
                    block.rget(&window, Rank::from(to), 0, room).expect("right")
                }));
            });
            for (to, request) in gotten.into_iter().enumerate() {
                let status = finished.status(request).expect("complete");
                assert_eq!((status.elements, status.cancelled), (length * (ranks + 1), false));
                assert_eq!(finished.take(request), Ok(expected(to)));
            }
            assert_eq!(window.into_vec(), expected(me));
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn sums_of_floats_are_the_same_bits_in_whatever_order_messages_come() {
    let terms = |rank: u32, k: u32| f64::from(7 * rank + k + 1).sqrt() * 1e3_f64.powi(k as i32 - 2);
    let mut expected = vec![0.1, 0.2];
    for (rank, k) in (0..5).flat_map(|rank| (0..4).map(move |k| (rank, k))) {
        expected[0] += terms(rank, k);
        expected[1] = f64::from(rank * 10 + k);
    }
    for seed in 0..100 {
        let report = Simulation::new(5).seed(seed).run_world(move |world| {
            let me = world.rank().number();
            let window = world.window(0, vec![0.1, 0.2]).expect("new");
            let root = Rank::new(2);
            commit(&world, |block| {
                for k in 0..4 {
                    let (term, last) = (vec![terms(me, k)], vec![f64::from(me * 10 + k)]);
                    block.raccumulate(&window, root, 0, term, ReduceOp::Sum).expect("right");
                    block.rput(&window, root, 1, last).expect("right");
                }
            });
            let found = copy(&window);
            drop(window);
            world.finalize();
            found
        });
        assert_eq!(report.expect_orderly()[2], expected, "seed {seed}");
    }
}

#[test]
fn every_reduction_is_done_by_the_target() {
    let cases = [
        (ReduceOp::Sum, 11_u8),
        (ReduceOp::Product, 30),
        (ReduceOp::Min, 5),
        (ReduceOp::Max, 6),
        (ReduceOp::And, 4),
        (ReduceOp::Or, 7),
    ];
    let report = Simulation::new(2).run_world(move |world| {
        let window = world.window(0, vec![6_u8; cases.len()]).expect("new");
        commit(&world, |block| {
            if world.rank() == Rank::new(0) {
                for (at, (op, _)) in cases.into_iter().enumerate() {
                    block.raccumulate(&window, Rank::new(1), at, vec![5], op).expect("right");
                }
            }
        });
        let found = copy(&window);
        drop(window);
        world.finalize();
        found
    });
    let expected = cases.map(|(_, result)| result).to_vec();
    assert_eq!(report.expect_orderly(), [vec![6; cases.len()], expected]);
}

#[test]
fn several_blocks_are_open_at_once_and_end_in_any_order() {
    for seed in 0..SEEDS {
        let report = Simulation::new(4).seed(seed).run_world(move |world| {
            let me = world.rank().index();
            let to = Rank::from((me + 1) % 4);
            let window = world.window(0, vec![0_u32; 3]).expect("new");
            let mut blocks: Vec<TryBlock> = (0..3).map(|_| start(&world)).collect();
            for at in [2, 0, 1] {
                let sum = vec![at as u32 + 1];
                blocks[at].raccumulate(&window, to, at, sum, ReduceOp::Sum).expect("right");
            }
            let order = [[0, 1, 2], [2, 1, 0], [1, 2, 0]][(seed as usize + me) % 3];
            let mut open: Vec<_> = blocks.into_iter().map(Some).collect();
            let finish = |at: usize| open[at].take().expect("once").finish(Timeout::Never);
            let pending: Vec<_> = order.map(finish).into_iter().collect();
            for pending in pending {
                let outcome = pending.wait_local(Timeout::Never);
                assert!(matches!(outcome, Ok(Outcome::Committed(_))));
            }
            assert_eq!(copy(&window), [1, 2, 3]);
            drop(window);
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn what_cannot_be_is_refused_at_once() {
    let report = Simulation::new(3).run_world(|world| {
        let next = Rank::new((world.rank().number() + 1) % 3);
        let window = world.window(4, vec![0_u64; 3]).expect("new");
        let exists = world.window(4, vec![0_u8]).err();
        assert_eq!(exists, Some(Error::WindowExists { number: 4 }));
        let bits = world.window(5, vec![0.5]).expect("new");
        let half = world.idup().expect("one").wait_local(Timeout::Never).expect("alive");
        let other = half.into_comm().expect("everybody has one");
        let foreign = other.window(4, vec![0_u64; 3]).expect("another communicator");
        let mut block = start(&world);
        let nobody = Error::NoSuchRank { rank: Rank::new(3), size: 3 };
        assert_eq!(block.rput(&window, Rank::new(3), 0, vec![1]), Err(nobody));
        assert_eq!(block.rget(&foreign, next, 0, vec![1]), Err(Error::ForeignWindow));
        let no_bits = block.raccumulate(&bits, next, 0, vec![0.5], ReduceOp::Or);
        assert_eq!(no_bits, Err(Error::NoSuchReduction));
        let mut local = world.start(Level::Local).expect("in use");
        assert_eq!(local.rput(&window, next, 0, vec![1]), Err(Error::NotGlobal));
        assert!(wait(local, Timeout::Never).is_committed());
        assert!(wait(block, Timeout::Never).is_committed(), "nothing was started");
        drop((window, bits, foreign));
        // The number is free again.
        let window = world.window(4, vec![1_u8]).expect("dropped");
        commit(&world, |block| {
            block.rput(&window, next, 0, vec![9]).expect("right");
        });
        assert_eq!(copy(&window), [9]);
        drop(window);
        world.finalize();
    });
    report.expect_orderly();
}

/// What only the target knows: each is a fault of its request, and of no other.
#[test]
fn the_target_refuses_with_a_class_and_the_other_accesses_of_the_block_are_right() {
    for seed in 0..SEEDS {
        let report = Simulation::new(3).seed(seed).run_world(move |world| {
            let me = world.rank().number();
            let (zero, long) = (Rank::new(0), if seed % 2 == 0 { 3 } else { LONG });
            let window = world.window(0, vec![me; long]).expect("new");
            let only_here = (me > 0).then(|| world.window(1, vec![me; 5]).expect("new"));
            let typed = (me == 0).then(|| world.window(2, vec![0.5_f32; long]).expect("new"));
            let other = (me > 0).then(|| world.window(2, vec![7_u32; long]).expect("new"));
            let mut block = start(&world);
            if me > 0 {
                let (only_here, other) = (only_here.as_ref().unwrap(), other.as_ref().unwrap());
                let requests = [
                    (block.rget(&window, zero, 1, vec![9; long]), Some(68)),
                    (block.rget(&window, zero, 0, vec![9; long]), None),
                    (block.rput(&window, zero, usize::MAX, vec![8; long]), Some(68)),
                    (block.rput(&window, zero, 0, vec![8; long]), None),
                    (block.rget(only_here, zero, 0, vec![9; 5]), Some(53)),
                    (block.rput(other, zero, 0, vec![9; long]), Some(3)),
                    (block.raccumulate(other, zero, 0, vec![9; long], ReduceOp::Sum), Some(3)),
                    (block.rget(other, zero, 0, vec![9; long]), Some(3)),
                    (block.rget(&window, zero, long - 1, vec![9; 1]), None),
                    (block.rget(&window, zero, long, Vec::new()), None),
                ];
                let requests = requests.map(|(request, class)| (request.expect("legal"), class));
                let finished = wait(block, Timeout::Never);
                for (request, class) in requests {
                    let found = finished.fault(request);
                    assert_eq!(found, class.map(FaultCode::Mpi), "{}", request.index());
                    let buffer = finished.take(request).expect("it comes back in any case");
                    assert!(class.is_some() || !buffer.contains(&9), "{}", request.index());
                }
                assert!(!finished.is_committed());
            } else {
                assert!(!wait(block, Timeout::Never).is_committed());
            }
            assert_eq!(copy(&window), vec![me; long], "the block does not count");
            commit(&world, |block| {
                block.rput(&window, Rank::new((me + 1) % 3), 0, vec![me; long]).expect("right");
            });
            assert_eq!(copy(&window), vec![(me + 2) % 3; long]);
            drop((only_here, typed, other, window));
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn a_window_that_is_used_by_its_rank_or_dropped_refuses_and_holds_up_nobody() {
    let report = Simulation::new(2).run_world(|world| {
        let me = world.rank().number();
        let mut window = world.window(0, vec![me; 2]).expect("new");
        let mut class = None;
        let mut block = start(&world);
        if me == 0 {
            // This rank has no business here: a wait inside of a loan.
            let pending = block.finish(Timeout::Never);
            let outcome = window.change(|_| pending.wait_local(Timeout::Never));
            assert!(matches!(outcome, Ok(Outcome::Faulty(_))));
        } else {
            let request = block.rget(&window, Rank::new(0), 0, vec![9; 2]).expect("right");
            class = wait(block, Timeout::Never).fault(request);
        }
        let mut dropped = None;
        let mut block = start(&world);
        if me == 0 {
            drop(window);
            assert!(!wait(block, Timeout::Never).is_committed());
        } else {
            let request = block.rget(&window, Rank::new(0), 0, vec![9; 2]).expect("right");
            dropped = wait(block, Timeout::Never).fault(request);
            drop(window);
        }
        world.finalize();
        [class, dropped]
    });
    let classes = [Some(FaultCode::Mpi(47)), Some(FaultCode::Mpi(53))];
    assert_eq!(report.expect_orderly(), [[None; 2], classes]);
}

/// A block commits while a rank is inside its memory: what was put is there when it is out of it.
#[test]
fn a_block_that_is_left_raised_or_late_leaves_all_windows_as_they_were() {
    for (way, seed) in (0..3).flat_map(|way| (0..SEEDS).map(move |seed| (way, seed))) {
        let report = Simulation::new(4).seed(seed).run_world(move |world| {
            let me = world.rank().number();
            let window = world.window(0, vec![me; LONG]).expect("new");
            let next = Rank::new((me + 1) % 4);
            for _ in 0..3 {
                let mut block = start(&world);
                block.rput(&window, next, 0, vec![99; LONG]).expect("right");
                block.raccumulate(&window, next, 1, vec![99], ReduceOp::Max).expect("right");
                match (me, way) {
                    (1, 0) => {
                        let pending = block.leave(&Error::Raised(3));
                        let outcome = pending.wait_local(Timeout::Never);
                        assert!(matches!(outcome, Ok(Outcome::Faulty(_))));
                        continue;
                    }
                    (1, 1) => block.raise_error(3),
                    // It computes, and answers nobody in time.
                    (1, _) => sim::compute(Duration::from_millis(50)),
                    _ => {}
                }
                let finished = wait(block, Timeout::After(Duration::from_millis(5)));
                let late = finished.failed_group(Codes::Of(&[FaultCode::TimedOut]), &world);
                assert!(!finished.is_committed() && late.is_empty() == (way != 2));
            }
            assert_eq!(copy(&window), vec![me; LONG]);
            commit(&world, |block| {
                block.rput(&window, next, 7, vec![98]).expect("right");
            });
            assert_eq!(copy(&window)[6..9], [me, 98, me]);
            drop(window);
            world.finalize();
        });
        report.expect_orderly();
    }
}

/// A window stays with its communicator when that starts afresh after the abort of an outer block.
#[test]
fn a_window_of_a_part_outlives_aborts_of_the_whole() {
    for seed in 0..3 * SEEDS {
        let report = Simulation::new(4).seed(seed).run_world(move |world| {
            let me = world.rank().number();
            let color = Color::Of(me / 2);
            let half = world.isplit(color, 0).expect("one at a time").wait_local(Timeout::Never);
            let half = half.expect("alive").into_comm().expect("everybody has a colour");
            let window = half.window(0, vec![0_u32; 2]).expect("new");
            let other = Rank::new(1 - half.rank().number());
            let mut counted = 0;
            for round in 0..6 {
                let outer = start(&world);
                let mut inner = half.start(Level::Global).expect("in use");
                inner.raccumulate(&window, other, 0, vec![1], ReduceOp::Sum).expect("right");
                inner.rput(&window, other, 1, vec![round]).expect("right");
                let bad = round % 2 == 0 && (seed + u64::from(round)) % 4 == u64::from(me);
                let pending = inner.finish(Timeout::Never);
                if bad {
                    // It leaves before or after the inner block is decided.
                    if seed % 3 == 0 {
                        drop(pending.wait_local(Timeout::Never));
                    }
                    drop(outer.leave(&Error::Raised(1)).wait_local(Timeout::Never));
                    continue;
                }
                let inner = pending.wait_local(Timeout::Never);
                if let Ok(Outcome::Committed(_)) = inner {
                    counted += 1;
                }
                drop(inner);
                drop(outer.finish(Timeout::Never).wait_local(Timeout::Never));
            }
            let found = copy(&window);
            drop(window);
            world.finalize();
            (found, counted)
        });
        for (found, counted) in report.expect_orderly() {
            // Who left did not look at all verdicts, but no block of an even round is sure.
            assert!(found[1] == 5 && (3..=6).contains(&found[0]) && found[0] >= counted);
        }
    }
}

/// After a death survivors make their windows anew, of what they had, and a replacement its own.
#[test]
fn a_window_ends_with_its_communicator_and_is_made_anew_on_the_next_one() {
    for (shrinks, seed) in [false, true].into_iter().flat_map(|it| (0..SEEDS).map(move |k| (it, k)))
    {
        let job = Simulation::new(4).seed(seed).spares(1);
        let report = job.run_world(move |mut world| {
            let mut comm: Comm = Comm::clone(&world);
            let mut memory = vec![0_u32; 2];
            if world.is_replacement() {
                assert!(wait(start(&world), Timeout::Never).is_committed());
            } else {
                if world.rank() == Rank::new(1) {
                    sim::crash();
                }
                let window = comm.window(3, memory).expect("new");
                let mut block = start(&world);
                let dead = block.rput(&window, Rank::new(1), 0, vec![7]).expect("right");
                let finished = wait(block, Timeout::Never);
                let code = finished.fault(dead).expect("nobody answers");
                assert!(matches!(code, FaultCode::ProcessFailed | FaultCode::Interrupted));
                let lost = finished.failed_group(Codes::PROCESS_FAILURES, &world);
                assert_eq!(lost.as_slice(), [Rank::new(1)]);
                drop(finished);
                comm = if shrinks {
                    world.shrink().expect("nobody else dies")
                } else {
                    world = world.rebuild(Placement::SameRanks).expect("a spare");
                    let made = comm.window(4, vec![0_u8]);
                    assert_eq!(made.err(), Some(Error::Abandoned));
                    world.comm()
                };
                let mut block = comm.start(Level::Global).expect("in use");
                let foreign = block.rput(&window, Rank::new(0), 0, vec![7]);
                assert_eq!(foreign, Err(Error::ForeignWindow));
                assert!(wait(block, Timeout::Never).is_committed(), "nothing was started");
                memory = copy(&window);
                // The old one and the new one have the same number, on two communicators.
                let again = comm.window(3, vec![0_u32]);
                drop((again.expect("new here"), window));
            }
            let window = comm.window(3, memory).expect("dropped");
            let mut block = comm.start(Level::Global).expect("in use");
            for to in (0..comm.size()).map(Rank::new) {
                block.raccumulate(&window, to, 0, vec![1], ReduceOp::Sum).expect("right");
            }
            assert!(wait(block, Timeout::Never).is_committed());
            assert_eq!(copy(&window), [comm.size(), 0]);
            drop(window);
            world.finalize();
        });
        for process in &report.processes {
            let well =
                matches!(process.ending, Ending::Finished(()) | Ending::Crashed | Ending::Exited);
            assert!(well, "{report}");
        }
        let finished = report.results().count();
        assert_eq!(finished, if shrinks { 3 } else { 4 }, "{report}");
    }
}

#[test]
fn a_wait_ends_in_time_although_others_ask_without_end() {
    let timeout = Timeout::After(Duration::from_millis(1));
    // Nobody has so many turns in a row in which nothing happens.
    let simulation = Simulation::new(3).patience(4000).time_limit(Duration::from_secs(10));
    let report = simulation.run_world(move |world| {
        let window = world.window(1, vec![7_u8]).expect("new");
        let mut block = start(&world);
        let (target, silent) = (Rank::new(0), Rank::new(2));
        if world.rank() == target {
            let received = block.irecv(vec![0_u8], silent, Tag(1)).expect("a rank");
            assert_eq!(block.wait_local(received, timeout), Err(Error::WaitTimedOut));
            block.isend(vec![0_u8], Rank::new(1), Tag(2)).expect("a rank");
        } else if world.rank() == silent {
            let told = block.irecv(vec![0_u8], Rank::new(1), Tag(3)).expect("a rank");
            block.wait_local(told, Timeout::Never).expect("nobody dies");
            block.isend(vec![0_u8], target, Tag(1)).expect("a rank");
        } else {
            // It asks until the target has waited for long enough.
            let told = block.irecv(vec![0_u8], target, Tag(2)).expect("a rank");
            while block.wait_local(told, Timeout::Poll).is_err() {
                let got = block.rget(&window, target, 0, vec![0]).expect("right");
                block.wait_local(got, Timeout::Never).expect("nobody dies");
            }
            block.isend(vec![0_u8], silent, Tag(3)).expect("a rank");
        }
        assert!(wait(block, Timeout::Never).is_committed());
        world.finalize();
    });
    report.expect_orderly();
}
