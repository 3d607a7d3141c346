//! Reductions that ride on commits: what they give, and what is refused.

use std::time::Duration;

use fampi::{
    Codes, Error, FaultCode, Fusible, Level, Outcome, Rank, ReduceOp, Reduced, Reducing, Tag,
    Timeout, World,
    sim::{Crash, Simulation},
};

fn begin<T: Fusible, const N: usize>(world: &World, mine: [T; N], op: ReduceOp) -> Reducing<T, N> {
    let block = world.start(Level::Global).expect("in use");
    block.finish_allreduce(mine, op, Timeout::Never).expect("defined")
}

fn reduce<T: Fusible, const N: usize>(world: &World, mine: [T; N], op: ReduceOp) -> [T; N] {
    match begin(world, mine, op).wait_local(Timeout::Never) {
        Ok(Reduced::Committed(numbers, finished)) if finished.is_committed() => numbers,
        _ => panic!("nobody fails"),
    }
}

#[test]
fn all_types_and_operations_reduce_over_all_ranks() {
    for size in 1..=9_u32 {
        let report = Simulation::new(size).run_world(move |world| {
            let (me, last) = (world.rank().number(), size - 1);
            let sum = size * last / 2;
            assert_eq!(reduce(&world, [me, 1], ReduceOp::Sum), [sum, size]);
            assert_eq!(reduce(&world, [me as i8, -1], ReduceOp::Min), [0, -1]);
            assert_eq!(reduce(&world, [f64::from(me)], ReduceOp::Max), [f64::from(last)]);
            assert_eq!(
                reduce(&world, [0.5_f32; 3], ReduceOp::Product),
                [0.5_f32.powi(size as i32); 3]
            );
            assert_eq!(reduce(&world, [1_u64 << me; 8], ReduceOp::Or), [(1 << size) - 1; 8]);
            assert_eq!(reduce(&world, [!(1_i16 << me)], ReduceOp::And), [!((1 << size) - 1)]);
            assert_eq!(reduce(&world, [f64::NAN, -0.0], ReduceOp::Min)[1].to_bits(), 1 << 63);
            world.finalize();
        });
        assert_eq!(report.results().count(), size as usize, "{report}");
    }
}

#[test]
fn another_reduction_or_none_is_a_fault_of_those_that_brought_one() {
    let report = Simulation::new(4).run_world(|world| {
        let odd = world.rank().number() == 2;
        let group = |faulty: Result<Reduced<u8, 1>, Error>| match faulty {
            Ok(Reduced::Faulty(finished)) => {
                let codes = Codes::Of(&[FaultCode::Mismatched]);
                finished.failed_group(codes, &world).len()
            }
            _ => panic!("not all brought the same"),
        };
        let op = if odd { ReduceOp::Max } else { ReduceOp::Min };
        assert_eq!(group(begin(&world, [1_u8], op).wait_local(Timeout::Never)), 4);
        if odd {
            let block = world.start(Level::Global).expect("in use");
            let end = block.finish(Timeout::Never).wait_local(Timeout::Never);
            assert!(matches!(end, Ok(Outcome::Faulty(_))));
        } else {
            assert_eq!(group(begin(&world, [1_u8], ReduceOp::Or).wait_local(Timeout::Never)), 3);
        }
        assert_eq!(reduce(&world, [1_u8], ReduceOp::Sum), [4], "the next one is good again");
        world.finalize();
    });
    assert_eq!(report.results().count(), 4, "{report}");
}

#[test]
fn what_makes_no_sense_is_an_error_and_a_no() {
    let report = Simulation::new(2).run_world(|world| {
        let block = world.start(Level::Local).expect("in use");
        let refused = block.finish_allreduce([1], ReduceOp::Sum, Timeout::Never);
        assert_eq!(refused.err(), Some(Error::NotGlobal));
        if world.rank() == Rank::new(0) {
            let block = world.start(Level::Global).expect("in use");
            let refused = block.finish_allreduce([1.5], ReduceOp::And, Timeout::Never);
            assert_eq!(refused.err(), Some(Error::NoSuchReduction));
        } else {
            let end = begin(&world, [1.5], ReduceOp::Sum).wait_local(Timeout::Never);
            let Ok(Reduced::Faulty(finished)) = end else { panic!("rank 0 left") };
            assert_eq!(finished.report().faults()[0].code, FaultCode::LeftBlock);
        }
        world.finalize();
    });
    assert_eq!(report.results().count(), 2, "{report}");
}

#[test]
fn a_late_message_is_waited_for_and_then_there_is_no_result() {
    let report = Simulation::new(3).run_world(|world| {
        let mut block = world.start(Level::Global).expect("in use");
        if world.rank() == Rank::new(1) {
            block.irecv(vec![0_u8], Rank::new(0), Tag(1)).expect("rank 0 is there");
        }
        let limit = Timeout::After(Duration::from_millis(5));
        let mut reducing = block.finish_allreduce([1], ReduceOp::Sum, limit).expect("defined");
        let finished = loop {
            reducing = match reducing.wait_local(Timeout::After(Duration::from_millis(1))) {
                Ok(Reduced::TimedOut(reducing)) => reducing,
                Ok(Reduced::Faulty(finished)) => break finished,
                _ => panic!("nobody sends"),
            };
        };
        assert_eq!(finished.report().faults()[0].code, FaultCode::TimedOut);
        drop(finished);
        world.finalize();
    });
    assert_eq!(report.results().count(), 3, "{report}");
}

#[test]
fn survivors_have_a_result_of_the_survivors() {
    for seed in 0..200 {
        let simulation = Simulation::new(5).seed(seed);
        let crash = Crash::before_effect(seed as u32 % 5, 2 + seed / 5 % 12);
        let report = simulation.crashes([crash]).run_world(|world| {
            let brings = |rank: u32| 1.0 / f64::from(rank + 3);
            let mut sums = Vec::new();
            for _ in 0..4 {
                let mine = [brings(world.rank().number())];
                match begin(&world, mine, ReduceOp::Sum).wait_local(Timeout::Never) {
                    Ok(Reduced::Committed([sum], _)) => sums.push(Some(sum.to_bits())),
                    Ok(Reduced::Faulty(_)) => sums.push(None),
                    _ => panic!("not a nested block"),
                }
            }
            let faulty = sums.iter().filter(|sum| sum.is_none()).count();
            assert!(faulty <= 1, "a death is reported once");
            world.finalize();
            sums
        });
        let mut all = report.results();
        let first = all.next().expect("most survive");
        assert!(all.all(|sums| sums == first), "seed {seed}: {report}");
    }
}
