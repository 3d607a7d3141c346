//! Recovery inside of blocks: what it finds is in the blocks' reports.

use std::time::Duration;

use fampi::{
    Codes, Comm, Error, FaultCode, FaultReport, Finished, Level, Outcome, Rank, Tag, Timeout,
    World,
    sim::{self, Crash, Simulation},
};

use crate::faults::wait;

const SIZE: u32 = 4;
/// The rank that dies.
const BAD: u32 = 1;

/// Where the survivors are when they make a communicator without the dead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Where {
    /// In a block of the communicator that they shrink.
    Block,
    /// In one inside of another.
    Nested,
    /// In a block of another communicator.
    Beside,
    /// In none: the next block tells of the death.
    After,
}

fn dup(comm: &Comm) -> Comm {
    let formed = comm.idup().expect("one at a time").wait_local(Timeout::Never);
    formed.expect("all live").into_comm().expect("all are in it")
}

fn shrink(world: World, place: Where) {
    let other = dup(&world);
    let outer = (place != Where::After).then(|| world.start(Level::Global).expect("in use"));
    let inner = match place {
        Where::Nested => Some(world.start(Level::Global).expect("in use")),
        Where::Beside => Some(other.start(Level::Global).expect("in use")),
        Where::Block | Where::After => None,
    };
    if world.rank() == Rank::new(BAD) {
        return sim::crash();
    }
    let smaller = world.shrink().expect("the others live");
    assert_eq!(smaller.size(), SIZE - 1);
    let pending = inner.map(|inner| inner.finish(Timeout::Never));
    let outer = outer.unwrap_or_else(|| world.start(Level::Global).expect("in use"));
    let outer = wait(outer, Timeout::Never);
    let names_the_dead = |finished: &Finished, comm: &Comm| {
        let dead = finished.failed_group(Codes::Of(&[FaultCode::ProcessFailed]), comm);
        assert!(!finished.is_committed(), "{place:?}");
        assert_eq!(dead, [Rank::new(BAD)].into_iter().collect(), "{place:?}");
    };
    names_the_dead(&outer, &world);
    if let Some(pending) = pending {
        let inner = match pending.wait_local(Timeout::Never).expect("nothing is open") {
            Outcome::Committed(finished) | Outcome::Faulty(finished) => finished,
            Outcome::TimedOut(_) => unreachable!("it never times out"),
        };
        names_the_dead(&inner, if place == Where::Nested { &world } else { &other });
    }
    assert_eq!(world.known_failed(), [Rank::new(BAD)].into_iter().collect());
    for comm in [&*world, &smaller] {
        let next = comm.start(Level::Global).expect("in use");
        assert!(wait(next, Timeout::Never).is_committed(), "{place:?}: all know by now");
    }
    world.finalize();
}

#[test]
fn a_death_that_a_shrink_finds_is_in_the_report_of_the_block_around_it() {
    for place in [Where::Block, Where::Nested, Where::Beside, Where::After] {
        for seed in 0..20 {
            let simulation = Simulation::new(SIZE).seed(seed);
            simulation.run_world(move |world| shrink(world, place)).expect_orderly();
        }
    }
}

/// What a rank knows of a communicator that was shrunk while an earlier block was pending: how many
/// ranks there are, and the ends of blocks up to one that commits.
fn shrink_beside(world: World) -> Result<(u32, Vec<(bool, FaultReport)>), Error> {
    let mut block = world.start(Level::Global)?;
    if world.rank() == Rank::new(2) {
        block.irecv(vec![0_u8], Rank::new(3), Tag(1))?;
    }
    let pending = block.finish(Timeout::After(Duration::from_micros(150)));
    let smaller = world.shrink()?;
    drop(pending.wait_local(Timeout::Never)?);
    let mut ends = Vec::new();
    while ends.last().is_none_or(|(committed, _)| !committed) {
        let finished = wait(smaller.start(Level::Global)?, Timeout::Never);
        ends.push((finished.is_committed(), finished.report()));
    }
    let size = smaller.size();
    world.finalize();
    Ok((size, ends))
}

#[test]
fn a_shrunken_communicator_has_the_same_ranks_everywhere_whatever_a_block_tells_meanwhile() {
    for seed in 0..40 {
        for effect in 8..40 {
            let crash = Crash::before_effect(BAD - 1, effect);
            let simulation = Simulation::new(SIZE).seed(seed).crash(crash);
            let report = simulation.run_world(shrink_beside);
            let ends = report.expect_orderly();
            let first = ends.first().expect("somebody lives");
            assert!(first.is_ok() && ends.iter().all(|end| end == first), "{seed}: {ends:?}");
        }
    }
}

#[test]
fn of_equal_limits_that_of_the_wait_comes_before_that_of_finish() {
    let millisecond = Duration::from_millis(1);
    for limit in
        [Timeout::Poll, Timeout::After(Duration::from_nanos(1)), Timeout::After(millisecond)]
    {
        for late in [Duration::ZERO, Duration::from_nanos(700), 3 * millisecond] {
            for patience in [1, 32] {
                let simulation = Simulation::new(2).patience(patience);
                simulation
                    .run_world(move |world| wait_as_long(world, limit, late))
                    .expect_orderly();
            }
        }
    }
}

/// A request of rank 0 is late.
fn wait_as_long(world: World, limit: Timeout, late: Duration) {
    let mut block = world.start(Level::Global).expect("in use");
    let listens = world.rank() == Rank::new(0);
    if listens {
        block.irecv(vec![0_u8], Rank::new(1), Tag(1)).expect("a rank");
    }
    let mut pending = block.finish(limit);
    for again in [false, false, true] {
        if again {
            pending.finish(limit);
        }
        // However long it takes from one call to the other.
        sim::compute(late);
        if listens {
            let outcome = pending.wait_local(limit).expect("no other block is open");
            let Outcome::TimedOut(left) = outcome else {
                panic!("the request is a fault in a wait that is no longer: {limit:?}, {late:?}")
            };
            pending = left;
        }
    }
    // In a wait that goes on it is a fault.
    let Ok(Outcome::Faulty(finished)) = pending.wait_local(Timeout::Never) else {
        panic!("a late request is a fault")
    };
    assert_eq!(
        finished.failed_requests(Codes::Of(&[FaultCode::TimedOut])).len(),
        usize::from(listens)
    );
    drop(finished);
    world.finalize();
}

#[test]
fn a_rank_that_is_late_but_alive_is_asked_again_until_it_comes() {
    for again in [false, true] {
        for looks in [false, true] {
            for seed in 0..10 {
                let simulation = Simulation::new(4).seed(seed);
                simulation.run_world(move |world| ask_again(world, again, looks)).expect_orderly();
            }
        }
    }
}

/// One rank computes for longer than the limits; the others finish and wait again, or only wait.
fn ask_again(world: World, again: bool, looks: bool) {
    let limit = Timeout::After(Duration::from_millis(3));
    let (me, size) = (world.rank().number(), world.size());
    let mut block = world.start(Level::Global).expect("in use");
    if me == 1 {
        sim::compute(Duration::from_millis(10));
    }
    block.isend(vec![me], Rank::new((me + 1) % size), Tag(1)).expect("a rank");
    let left = (me + size - 1) % size;
    let received = block.irecv(vec![0_u32], Rank::new(left), Tag(1)).expect("a rank");
    let mut pending = block.finish(limit);
    let mut times = 0;
    let finished = loop {
        match pending.wait_local(limit).expect("no other block is open") {
            Outcome::Committed(finished) => break finished,
            Outcome::Faulty(finished) => panic!("it came at last: {}", finished.report()),
            Outcome::TimedOut(left) => pending = left,
        }
        times += 1;
        if looks {
            // What is past the limit is not late as nothing waits beyond it.
            pending = match pending.test().expect("no other block is open") {
                Outcome::Committed(finished) => break finished,
                Outcome::Faulty(finished) => panic!("it came at last: {}", finished.report()),
                Outcome::TimedOut(left) => left,
            };
        }
        if again {
            pending.finish(limit);
        }
    };
    assert!(me == 1 || times >= 2, "rank {me} has asked {times} times");
    assert_eq!(finished.take(received), Ok(vec![left]));
    drop(finished);
    world.finalize();
}
