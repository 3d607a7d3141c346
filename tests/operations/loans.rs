//! Windows whose memory the application reads, while others use them.

use fampi::{FaultCode, Outcome, Rank, ReduceOp, Tag, Timeout, sim::Simulation};

use crate::{faults::wait, windows::start};

#[test]
fn what_is_committed_during_a_loan_is_there_after_it() {
    for seed in 0..20 {
        let report = Simulation::new(2).seed(seed).run_world(|world| {
            let (zero, one) = (Rank::new(0), Rank::new(1));
            let window = world.window(0, vec![1_u32; 2]).expect("new");
            let mut block = start(&world);
            if world.rank() == one {
                let sum = block.raccumulate(&window, zero, 1, vec![5], ReduceOp::Sum);
                block.wait_local(sum.expect("right"), Timeout::Never).expect("nobody dies");
                block.isend(vec![0_u8], zero, Tag(0)).expect("right");
            } else {
                // What was asked before is served.
                let served = block.irecv(vec![0_u8], one, Tag(0)).expect("right");
                block.wait_local(served, Timeout::Never).expect("nobody dies");
            }
            let before = window.read(|memory| {
                let outcome = block.finish(Timeout::Never).wait_local(Timeout::Never);
                assert!(matches!(outcome, Ok(Outcome::Committed(_))));
                memory.to_vec()
            });
            let after = window.into_vec();
            world.finalize();
            [before, after]
        });
        let found = report.expect_orderly();
        assert_eq!(found, [[[1, 1], [1, 6]], [[1, 1], [1, 1]]].map(|it| it.map(Vec::from)));
    }
}

/// What was put is committed, and not written yet: a get would bring what was there before.
#[test]
fn nobody_gets_what_is_out_of_date_while_memory_is_lent() {
    let report = Simulation::new(2).run_world(|world| {
        let zero = Rank::new(0);
        let window = world.window(0, vec![1_u32]).expect("new");
        let put = |value| {
            let mut block = start(&world);
            if world.rank() != zero {
                block.rput(&window, zero, 0, vec![value]).expect("right");
            }
            assert!(wait(block, Timeout::Never).is_committed());
        };
        let get = || {
            let mut block = start(&world);
            let got = block.rget(&window, zero, 0, vec![0]).expect("right");
            let finished = wait(block, Timeout::Never);
            (finished.fault(got), finished.take(got).expect("it comes back"))
        };
        put(5);
        let lent = |what: &dyn Fn() -> (Option<FaultCode>, Vec<u32>)| window.read(|_| what());
        let early = lent(&get);
        let late = lent(&|| {
            put(7);
            get()
        });
        let then = get();
        world.finalize();
        [early, late, then]
    });
    let right = |value| (None, vec![value]);
    for [early, late, then] in report.expect_orderly() {
        assert_eq!(([early, then], late.0), ([right(5), right(7)], Some(FaultCode::Mpi(47))));
    }
}
