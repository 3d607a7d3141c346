//! Duplicates that exist if and only if their block commits.

use std::time::Duration;

use fampi::{
    Codes, Comm, Error, Finished, Formed, Level, Outcome, Placement, Rank, ReduceOp, Request,
    Timeout, TryBlock, World,
    sim::{self, Crash, Ending, Simulation},
};

const SIZE: u32 = 4;

fn wait(block: TryBlock, timeout: Timeout) -> Finished {
    match block.finish(timeout).wait_local(Timeout::Never) {
        Ok(Outcome::Committed(finished) | Outcome::Faulty(finished)) => finished,
        _ => panic!("it is waited for without a limit"),
    }
}

/// A block with an `idup` and nothing else.
fn asked(comm: &Comm, timeout: Timeout) -> (Finished, Request<Comm>) {
    let mut block = comm.start(Level::Global).expect("in use");
    let request = block.idup().expect("a global block");
    (wait(block, timeout), request)
}

fn made(finished: &Finished, request: Request<Comm>, comm: &Comm) -> Result<Comm, Error> {
    let formed: Formed = finished.duplicate(request, comm)?.wait_local(Timeout::Never)?;
    Ok(formed.into_comm().expect("everybody has one"))
}

/// Makes sure that a duplicate carries messages of its own, and blocks nested in its parent's.
fn works(duplicate: &Comm, parent: &Comm) {
    let sum = |comm: &Comm, mine: u32| {
        let mut block = comm.start(Level::Global).expect("in use");
        let sum = block.iallreduce(vec![mine], ReduceOp::Sum).expect("numbers");
        (block, sum)
    };
    let (outer, there) = sum(parent, 1);
    let (inner, here) = sum(duplicate, 10);
    let (inner, outer) = (wait(inner, Timeout::Never), wait(outer, Timeout::Never));
    assert!(inner.is_committed() && outer.is_committed(), "{inner:?}, {outer:?}");
    assert_eq!(inner.take(here), Ok(vec![10 * duplicate.size()]));
    assert_eq!(outer.take(there), Ok(vec![parent.size()]));
    assert_eq!((duplicate.rank(), duplicate.group()), (parent.rank(), parent.group()));
}

/// A block on all ranks, a bad one on rank 1; then all make a duplicate.
fn disturbed(timeout: Timeout, bad: fn(TryBlock) -> Finished) {
    for seed in 0..20 {
        let report = Simulation::new(SIZE).seed(seed).run_world(move |world: World| {
            if world.rank() == Rank::new(1) {
                drop(bad(world.start(Level::Global).expect("in use")));
            } else {
                let (finished, request) = asked(&world, timeout);
                assert!(!finished.is_committed());
                let none = finished.duplicate(request, &world).map(|_| ());
                assert_eq!(none, Err(Error::NotCommitted));
            }
            assert!(world.children().is_empty());
            let (finished, request) = asked(&world, Timeout::Never);
            works(&made(&finished, request, &world).expect("nobody dies"), &world);
            drop(finished);
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn a_duplicate_of_a_committed_block_is_made_once() {
    for seed in 0..20 {
        let report = Simulation::new(SIZE).seed(seed).run_world(|world| {
            let (finished, request) = asked(&world, Timeout::Never);
            assert!(finished.is_committed());
            let duplicate = made(&finished, request, &world).expect("nobody dies");
            works(&duplicate, &world);
            let again = |finished: &Finished, comm| finished.duplicate(request, comm).map(|_| ());
            assert_eq!(again(&finished, &world), Err(Error::NoSuchRequest));
            let (other, second) = asked(&duplicate, Timeout::Never);
            assert_eq!(again(&other, &duplicate), Err(Error::NoSuchRequest));
            let foreign = other.duplicate(second, &world).map(|_| ());
            assert_eq!(foreign, Err(Error::NoSuchRequest));
            works(&made(&other, second, &duplicate).expect("nobody dies"), &duplicate);
            let mut local = world.start(Level::Local).expect("in use");
            assert_eq!(local.idup(), Err(Error::NotGlobal));
            drop((local, finished, other));
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn an_aborted_block_makes_none_whoever_is_to_blame() {
    let limit = Timeout::After(Duration::from_millis(3));
    disturbed(limit, |block| wait(block, Timeout::After(Duration::from_millis(3))));
    disturbed(Timeout::Never, |mut block| {
        block.raise_error(5);
        block.idup().expect("a global block");
        wait(block, Timeout::Never)
    });
    disturbed(Timeout::Never, |block| {
        match block.leave(&Error::Raised(5)).wait_local(Timeout::Never) {
            Ok(Outcome::Faulty(finished)) => finished,
            _ => panic!("its own vote was no"),
        }
    });
}

#[test]
fn a_rank_that_is_dead_before_is_named_and_the_survivors_get_theirs() {
    for seed in 0..20 {
        let report = Simulation::new(SIZE).seed(seed).run_world(|world| {
            if world.rank() == Rank::new(1) {
                sim::crash();
            }
            let (finished, _) = asked(&world, Timeout::Never);
            let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
            assert_eq!(dead.as_slice(), [Rank::new(1)]);
            // It needs everybody, also when all know who is dead.
            assert!(!asked(&world, Timeout::Never).0.is_committed());
            let survivors = world.shrink().expect("nobody else dies");
            let (finished, request) = asked(&survivors, Timeout::Never);
            works(&made(&finished, request, &survivors).expect("nobody dies"), &survivors);
            drop(finished);
            world.finalize();
        });
        assert_eq!(report.results().count(), 3, "{report}");
    }
}

/// Whether the first block was committed, and whether its duplicate could be made at once.
fn with_a_death(mut world: World) -> Option<(bool, bool)> {
    let mut first = None;
    if !world.is_replacement() {
        let (finished, request) = asked(&world, Timeout::Never);
        let made = made(&finished, request, &world);
        first = Some((finished.is_committed(), made.is_ok()));
        drop((finished, made));
    }
    loop {
        let finished = wait(world.start(Level::Global).expect("in use"), Timeout::Never);
        if finished.is_committed() {
            break;
        }
        drop(finished);
        world = world.rebuild(Placement::SameRanks).expect("nobody else dies");
    }
    let children = world.children();
    if let Some((committed, _)) = first {
        assert_eq!(children.len(), usize::from(committed), "if and only if");
    }
    let there = children.first().and_then(Option::as_ref);
    if let Some(duplicate) = there.filter(|_| world.generation() > 0) {
        works(duplicate, &world);
    }
    world.finalize();
    first
}

#[test]
fn a_death_at_any_moment_leaves_a_duplicate_if_and_only_if_the_block_committed() {
    let mut seen = std::collections::BTreeSet::new();
    for effect in 4..120 {
        for seed in 0..4 {
            let crash = Crash::before_effect(seed as u32, effect);
            let simulation = Simulation::new(SIZE).seed(seed * 1000 + effect).crash(crash);
            let report = simulation.run_world(with_a_death);
            for process in &report.processes {
                let well = matches!(process.ending, Ending::Finished(_) | Ending::Crashed);
                assert!(well, "before effect {effect}: {report}");
            }
            let mut firsts = report.results().flatten();
            let first = firsts.next().expect("three live");
            assert!(firsts.all(|other| other == first), "before effect {effect}: {report}");
            seen.insert(*first);
        }
    }
    let all = [(false, false), (true, false), (true, true)];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all, "death before, between and after");
}
