//! Every operation on simulated ranks: what it does, and what becomes of it when somebody dies,
//! forgets it, or leaves.

mod agreed;
mod agreements;
mod bereaved;
mod causes;
mod changes;
mod channels;
mod checkpoints;
mod coded;
mod critical_path;
mod duplicates;
mod epochs;
mod farewells;
mod faults;
mod files;
mod forming;
mod fused;
mod grids;
mod growing;
mod guests;
mod inside;
mod keepers;
mod levels;
mod loans;
mod many;
mod orphans;
mod parts;
mod patience;
mod rebuilt;
mod recommended;
mod requests;
mod riders;
mod runs;
mod sections;
mod through;
mod told;
mod transactions;
mod whole;
mod windows;

use fampi::{Error, Exchange, Level, Outcome, Rank, ReduceOp, Timeout, World, sim::Simulation};
use fampi_kit::programs::every::post_all;

/// All operations at once, whose results are compared with what was said without them.
fn all_at_once(world: &World, root: usize, seed: u64, longest: u64) -> Result<(), String> {
    let (me, size) = (world.rank().index(), world.size() as usize);
    let mut block = world.start(Level::Global).expect("a living communicator");
    let posted = post_all(&mut block, (me, size), root, seed, longest).expect("right shapes");
    let pending = block.finish(Timeout::Never);
    let Ok(Outcome::Committed(finished)) = pending.wait_local(Timeout::Never) else {
        return Err(format!("a block of rank {me} does not commit"));
    };
    posted.into_iter().try_for_each(|(call, request)| {
        call.verify(me, &finished.take(request).expect("it is complete"))
    })
}

#[test]
fn every_operation_does_the_same_as_its_description_with_every_root() {
    for size in 1..=9 {
        for seed in 0..6 {
            let longest = [4, 1, 900][seed as usize % 3];
            let simulation = Simulation::new(size).seed(seed);
            let report = simulation.run_world(move |world| {
                let result = (0..size as usize)
                    .try_for_each(|root| all_at_once(&world, root, seed + 100, longest));
                world.finalize();
                result
            });
            for result in report.expect_orderly() {
                assert_eq!(result, Ok(()), "{size} ranks, seed {seed}");
            }
        }
    }
}

#[test]
fn wrong_shapes_are_errors_at_once() {
    let report = Simulation::new(3).run_world(|world| {
        let mut block = world.start(Level::Global).expect("a living communicator");
        let (zero, nobody) = (Rank::new(0), Rank::new(3));
        let uneven = Error::UnevenParts { elements: 4, size: 3 };
        let counts = Error::WrongCounts { counts: 2, size: 3 };
        let length = Error::WrongLength { expected: 6, elements: 4 };
        let four = || vec![0_i32; 4];
        let missing = Err(Error::NoSuchRank { rank: nobody, size: 3 });
        let over = [usize::MAX, 2, 0];
        let checks = [
            (block.ibcast(four(), nobody), missing.clone()),
            (block.ireduce(four(), ReduceOp::Sum, nobody), missing.clone()),
            (block.igather(four(), nobody), missing.clone()),
            (block.igatherv(four(), &[], nobody), missing.clone()),
            (block.iscatter(four(), nobody), missing.clone()),
            (block.iscatterv(four(), &[], nobody), missing),
            (block.iallgather(four()), Err(uneven.clone())),
            (block.ialltoall(four()), Err(uneven.clone())),
            (block.ireduce_scatter_block(four(), ReduceOp::Sum), Err(uneven)),
            (block.iallgatherv(four(), &[1, 2]), Err(counts.clone())),
            (block.ireduce_scatter(four(), &[2, 2], ReduceOp::Sum), Err(counts.clone())),
            (block.iallgatherv(four(), &[1, 2, 3]), Err(length.clone())),
            (block.ireduce_scatter(four(), &[2, 2, 2], ReduceOp::Max), Err(length.clone())),
            (
                block.ialltoallv(four(), Exchange { sent: &[1, 1, 1], received: &[1, 1, 1] }),
                Err(length),
            ),
            (
                block.ialltoallv(four(), Exchange { sent: &[1, 1, 2], received: &[0, 0] }),
                Err(counts),
            ),
            (
                block.iallgatherv(four(), &over),
                Err(Error::WrongLength { expected: usize::MAX, elements: 4 }),
            ),
        ];
        for (found, expected) in checks {
            let found: Result<(), Error> = found.map(|_| ());
            assert_eq!(found, expected);
        }
        if world.rank() == zero {
            assert!(matches!(block.igather(four(), zero), Err(Error::UnevenParts { .. })));
            assert!(matches!(block.iscatterv(four(), &[4], zero), Err(Error::WrongCounts { .. })));
        }
        let no_bits = block.iallreduce(vec![0.5], ReduceOp::And).map(|_| ());
        assert_eq!(no_bits, Err(Error::NoSuchReduction));
        let outcome = block.finish(Timeout::Never).wait_local(Timeout::Never);
        assert!(matches!(outcome, Ok(Outcome::Committed(_))), "nothing was started");
        world.finalize();
    });
    report.expect_orderly();
}

#[test]
fn ranks_that_disagree_about_lengths_get_a_fault_and_the_next_block_works() {
    let report = Simulation::new(3).run_world(|world| {
        let me = world.rank().index();
        let mut block = world.start(Level::Global).expect("a living communicator");
        block.iallgather(vec![1_u64; if me == 1 { 6 } else { 3 }]).expect("right for itself");
        let outcome = block.finish(Timeout::Never).wait_local(Timeout::Never);
        assert!(matches!(outcome, Ok(Outcome::Faulty(_))));
        let result = all_at_once(&world, 1, 5, 4);
        world.finalize();
        result
    });
    assert!(report.expect_orderly().iter().all(Result::is_ok));
}
