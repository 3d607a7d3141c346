//! Communicators that are made inside of blocks.

use std::time::Duration;

use fampi::{
    Codes, Error, FaultCode, Formed, Forming, Level, Rank, Tag, Timeout, World,
    sim::{Crash, Simulation},
};
use fampi_kit::programs::forming::{Place, Round, What, form};

use crate::faults::wait;

const SIZE: u32 = 4;
/// The rank that dies.
const BAD: u32 = 1;

fn program(world: World, case: (What, Place)) -> Vec<Round> {
    let beside = world.idup().expect("one at a time").wait_local(Timeout::Never);
    // Where the death comes so early all ranks go on without it.
    let beside = beside.ok().and_then(Formed::into_comm).unwrap_or_else(|| world.comm());
    let rounds = form(&world, &beside, case);
    drop(beside);
    world.finalize();
    rounds
}

#[test]
fn a_communicator_made_in_a_block_ends_alike_for_all_whoever_dies_at_any_moment() {
    let places = [Place::Block, Place::Nested, Place::Beside];
    for case in [What::Shrink, What::Split].into_iter().flat_map(|it| places.map(|at| (it, at))) {
        let (mut disturbed, mut made_anew, mut failed) = (0, 0, 0);
        for seed in 0..12 {
            for effect in (8..90).step_by(if seed < 4 { 1 } else { 5 }) {
                let crash = Crash::before_effect(BAD, effect);
                let simulation = Simulation::new(SIZE).seed(seed).crash(crash);
                let report = simulation.run_world(move |world| program(world, case));
                let ends = report.expect_orderly();
                let first = ends.first().expect("somebody lives");
                assert!(
                    ends.iter().all(|end| end == first),
                    "{case:?}, {seed}, {effect}: {ends:?}"
                );
                disturbed += usize::from(first.iter().any(|(committed, ..)| !committed));
                made_anew += usize::from(first.iter().any(|round| round.2 == Some(SIZE - 1)));
                failed += usize::from(first.iter().any(|round| !round.0 && round.2.is_none()));
            }
        }
        assert!(disturbed > 20, "{case:?}: the death comes in the middle");
        assert!(if case.0 == What::Shrink { made_anew > 20 } else { failed > 20 }, "{case:?}");
    }
}

/// A rank that leaves the block never makes the communicator, or makes it later.
fn left_alone(world: World, limit: Timeout) {
    let mut block = world.start(Level::Global).expect("in use");
    let left = world.rank() == Rank::new(BAD);
    if left && limit == Timeout::Never {
        drop(block.leave(&Error::Raised(3)));
    } else if left {
        assert!(!wait(block, Timeout::Never).is_committed());
    } else {
        block.irecv(vec![0_u8], world.rank(), Tag(1)).expect("a rank");
        let request = block.form(world.ishrink().expect("one at a time"));
        assert_eq!(block.wait_local(request, Timeout::Poll), Err(Error::WaitTimedOut));
        let finished = wait(block, limit);
        // The rank may have come meanwhile.
        let code =
            if limit == Timeout::Never { FaultCode::Interrupted } else { FaultCode::TimedOut };
        let failed = finished.fault(request);
        assert!(failed.is_none_or(|it| it == code), "{failed:?}");
        let indices: &[usize] = if failed.is_some() { &[0, 1] } else { &[0] };
        assert_eq!(finished.failed_requests(Codes::Of(&[code])), indices);
        // Where it has not, this goes on.
        let mut formed = finished.formed(request, &world).expect("no process dies");
        while let Formed::TimedOut(forming) = formed {
            formed = forming.wait_local(Timeout::Never).expect("all have come");
        }
        assert_eq!(formed.into_comm().expect("with all ranks").size(), SIZE);
        return world.finalize();
    }
    assert_eq!(world.shrink().expect("the others wait").size(), SIZE);
    world.finalize();
}

#[test]
fn a_communicator_that_a_rank_does_not_make_holds_no_block_up_and_can_be_made_afterwards() {
    for limit in [Timeout::Never, Timeout::After(Duration::from_millis(1))] {
        for seed in 0..20 {
            let simulation = Simulation::new(SIZE).seed(seed);
            simulation.run_world(move |world| left_alone(world, limit)).expect_orderly();
        }
    }
}

#[test]
fn a_communicator_that_is_not_taken_is_given_up_with_its_block() {
    let remembered = |inside: bool| {
        let report = Simulation::new(SIZE).run_world(move |world| {
            for _ in 0..50 {
                let mut block = world.start(Level::Global).expect("in use");
                let forming = world.ishrink().expect("one at a time");
                let mut apart = None;
                if inside {
                    block.form(forming);
                } else {
                    apart = forming.wait_local(Timeout::Never).ok();
                }
                assert!(wait(block, Timeout::Never).is_committed());
                assert_eq!(apart.is_none(), inside);
            }
            let remembered = world.remembered();
            world.finalize();
            (remembered.communicators, remembered.universes, remembered.listening)
        });
        report.expect_orderly()
    };
    assert_eq!(remembered(true), remembered(false), "as one that is made apart and dropped");
}

/// Waits for a communicator again and again; how often the time was over.
fn wait_in_turns(mut forming: Forming) -> usize {
    for turn in 0.. {
        match forming.wait_local(Timeout::After(Duration::from_millis(500))) {
            Ok(Formed::TimedOut(again)) => forming = again,
            Ok(Formed::Comm(_)) => return turn,
            other => panic!("{other:?}"),
        }
    }
    unreachable!("it is made")
}

/// While one rank does something else, the others must not wait in a call of MPI, which knows no
/// limit.
#[test]
fn a_split_is_waited_for_no_longer_than_the_limit_when_a_rank_comes_late() {
    for seed in 0..20 {
        let simulation = Simulation::new(SIZE).seed(seed).time_limit(Duration::from_secs(60));
        let report = simulation.run_world(move |world| {
            let forming = world.idup().expect("one at a time");
            if world.rank() == Rank::new(BAD) {
                // It goes on with blocks, and answers.
                let mut block = world.start(Level::Local).expect("in use");
                let never = block.irecv(vec![0_u8], Rank::new(0), Tag(1)).expect("a rank");
                let waited = block.wait_local(never, Timeout::After(Duration::from_secs(3)));
                assert_eq!(waited, Err(Error::WaitTimedOut));
                drop(block);
            }
            let turns = wait_in_turns(forming);
            world.finalize();
            turns
        });
        for (rank, turns) in report.expect_orderly().into_iter().enumerate() {
            assert_eq!(turns, if rank == BAD as usize { 0 } else { 6 }, "rank {rank}, seed {seed}");
        }
    }
}
