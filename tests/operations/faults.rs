//! What becomes of every operation when something goes wrong in its block: the block is faulty on
//! all living ranks with one report, buffers come back or are in quarantine, and the next block
//! works, on the same communicator where nobody died.

use std::time::Duration;

use fampi::{
    Codes, Comm, Error, FaultCode, FaultReport, Finished, Level, Outcome, Rank, Request, Tag,
    Timeout, TryBlock, World,
    sim::{self, Crash, Ending, Report, Simulation},
};

use crate::every::{Call, KINDS, Kind};

const SIZE: u32 = 4;
/// The rank that dies, forgets or leaves.
const BAD: u32 = 1;
const SEEDS: u64 = 8;
/// Longer than messages that go without their receiver.
const LONG: usize = 3000;

/// An operation under test.
#[derive(Clone, Copy, Debug)]
enum Tested {
    All(Kind),
    /// Each rank sends to the next one and receives from the one before.
    Ring {
        synchronous: bool,
        elements: usize,
    },
}

fn tested() -> Vec<Tested> {
    let ring = |synchronous, elements| Tested::Ring { synchronous, elements };
    let rings = [ring(false, 3), ring(true, 3), ring(false, LONG), ring(true, LONG)];
    KINDS.into_iter().map(Tested::All).chain(rings).collect()
}

impl Tested {
    /// With a root for which it matters what the bad rank does.
    fn call(kind: Kind, size: u32, seed: u64) -> Call {
        let gives = matches!(kind, Kind::Bcast | Kind::Scatter | Kind::Scatterv | Kind::Barrier);
        let root = if gives { BAD } else { 0 } as usize;
        let longest = if seed.is_multiple_of(2) { 4 } else { LONG as u64 };
        Call { kind, size: size as usize, root: root.min(size as usize - 1), seed, longest }
    }

    fn post(
        self,
        comm: &Comm,
        block: &mut TryBlock,
        seed: u64,
    ) -> Result<Vec<Request<u64>>, Error> {
        let (me, size) = (comm.rank().number(), comm.size());
        match self {
            Self::All(kind) => Ok(vec![Self::call(kind, size, seed).post(block, me as usize)?]),
            Self::Ring { synchronous, elements } => {
                let left = Rank::new((me + size - 1) % size);
                let right = Rank::new((me + 1) % size);
                let received = block.irecv(vec![0; elements], left, Tag(3))?;
                let content = vec![seed * 100 + u64::from(me); elements];
                let sent = if synchronous {
                    block.issend(content, right, Tag(3))?
                } else {
                    block.isend(content, right, Tag(3))?
                };
                Ok(vec![received, sent])
            }
        }
    }

    /// Makes sure that what is complete is right, and that nothing pending is handed out.
    fn verify(self, comm: &Comm, finished: &Finished, requests: &[Request<u64>], seed: u64) {
        let (me, size) = (comm.rank().number(), comm.size());
        for (position, request) in requests.iter().enumerate() {
            let complete = finished.status(*request).is_some();
            let failed = finished.failed_requests(Codes::Any).contains(&request.index());
            assert_ne!(complete, failed, "over, one way or the other");
            match (finished.take(*request), self) {
                (Ok(found), Self::All(kind)) if complete => {
                    let call = Self::call(kind, size, seed);
                    assert_eq!(call.verify(me as usize, &found), Ok(()));
                }
                (Ok(found), Self::Ring { elements, .. }) if complete => {
                    let from = if position == 0 { (me + size - 1) % size } else { me };
                    assert_eq!(found, vec![seed * 100 + u64::from(from); elements]);
                }
                (Ok(_), _) => assert!(failed),
                (Err(error), _) => assert!(failed && error == Error::Quarantined, "{error}"),
            }
        }
    }

    /// The operation in a block of its own, which must commit.
    fn works(self, comm: &Comm, seed: u64) {
        let mut block = comm.start(Level::Global).expect("in use");
        let requests = self.post(comm, &mut block, seed).expect("right shapes");
        let finished = wait(block, Timeout::Never);
        assert!(finished.is_committed(), "{self:?} afterwards: {finished:?}");
        self.verify(comm, &finished, &requests, seed);
    }
}

pub(crate) fn wait(block: TryBlock, timeout: Timeout) -> Finished {
    match block.finish(timeout).wait_local(Timeout::Never) {
        Ok(Outcome::Committed(finished) | Outcome::Faulty(finished)) => finished,
        _ => panic!("it is waited for without a limit"),
    }
}

/// Makes sure that all living ranks tell the same, and gives it.
#[track_caller]
pub(crate) fn same<R: Clone + PartialEq + std::fmt::Debug>(report: &Report<R>, what: &str) -> R {
    for process in &report.processes {
        let well = matches!(process.ending, Ending::Finished(_) | Ending::Crashed);
        assert!(well, "{what}: {report}");
    }
    let mut results = report.results();
    let first = results.next().expect("somebody lives").clone();
    assert!(results.all(|result| *result == first), "{what}: {report}");
    first
}

/// The operation, with a bad rank that does something else before, in its place, or after it.
fn disturbed(
    world: &World,
    tested: Tested,
    seed: u64,
    timeout: Timeout,
    bad: impl FnOnce(TryBlock) -> Option<Finished>,
) -> FaultReport {
    let mut block = world.start(Level::Global).expect("in use");
    let finished = if world.rank() == Rank::new(BAD) {
        bad(block).expect("the dead do not come here")
    } else {
        let requests = tested.post(world, &mut block, seed).expect("right shapes");
        let finished = wait(block, timeout);
        tested.verify(world, &finished, &requests, seed);
        finished
    };
    assert!(!finished.is_committed(), "{tested:?}");
    finished.report()
}

#[test]
fn a_peer_that_is_dead_before_is_named_and_the_survivors_go_on() {
    for tested in tested() {
        for seed in 0..SEEDS {
            let report = Simulation::new(SIZE).seed(seed).run_world(move |world| {
                let report = disturbed(&world, tested, seed, Timeout::Never, |block| {
                    sim::crash();
                    drop(block);
                    None
                });
                let survivors = world.shrink().expect("nobody else dies");
                tested.works(&survivors, seed + 50);
                // Once more on the broken communicator: it is known who is dead.
                let mut block = world.start(Level::Global).expect("in use");
                let requests = tested.post(&world, &mut block, seed).expect("right shapes");
                let finished = wait(block, Timeout::Never);
                tested.verify(&world, &finished, &requests, seed);
                assert!(!finished.is_committed(), "it needs the dead");
                let empty = wait(world.start(Level::Global).expect("in use"), Timeout::Never);
                assert!(empty.is_committed());
                world.finalize();
                report
            });
            let what = format!("{tested:?}, seed {seed}");
            let dead = same(&report, &what).failed_group(Codes::PROCESS_FAILURES, id(&report));
            assert_eq!(dead.as_slice(), [Rank::new(BAD)], "{what}");
        }
    }
}

/// The world's identifier, which only the reports know.
fn id(report: &Report<FaultReport>) -> fampi::CommId {
    let first = report.results().next().expect("somebody lives");
    first.faults()[0].comm
}

#[test]
fn a_peer_that_dies_anywhere_in_an_operation_leaves_one_verdict_and_right_results() {
    for tested in tested() {
        let mut faulty = 0;
        for seed in 0..3 * SEEDS {
            // Not before the job has begun: nobody could answer.
            let crash = Crash::before_effect(BAD, 3 + seed);
            let simulation = Simulation::new(SIZE).seed(seed).crash(crash);
            let report = simulation.run_world(move |world| {
                let mut verdicts = Vec::new();
                let mut comm: Comm = Comm::clone(&world);
                for round in 0..3 {
                    let mut block = comm.start(Level::Global).expect("in use");
                    let requests = tested.post(&comm, &mut block, round).expect("right shapes");
                    let finished = wait(block, Timeout::Never);
                    tested.verify(&comm, &finished, &requests, round);
                    verdicts.push(finished.report());
                    if !finished.is_committed() {
                        comm = comm.shrink().expect("nobody else dies");
                        tested.works(&comm, round);
                    }
                }
                world.finalize();
                verdicts
            });
            let verdicts = same(&report, &format!("{tested:?}, seed {seed}"));
            faulty += verdicts.iter().filter(|report| !report.is_empty()).count();
        }
        assert!(faulty > 0, "{tested:?} was never disturbed");
    }
}

#[test]
fn an_operation_that_a_rank_forgets_ends_with_the_deadline_and_works_the_next_time() {
    for tested in tested() {
        for seed in 0..SEEDS {
            let report = Simulation::new(SIZE).seed(seed).run_world(move |world| {
                let limit = Timeout::After(Duration::from_millis(3));
                let report =
                    disturbed(&world, tested, seed, limit, |block| Some(wait(block, limit)));
                tested.works(&world, seed + 50);
                world.finalize();
                report
            });
            let report = same(&report, &format!("{tested:?}, seed {seed}"));
            let late = report.faults().iter().filter(|fault| fault.code == FaultCode::TimedOut);
            assert!(late.count() > 0, "{tested:?}, seed {seed}: {report}");
        }
    }
}

#[test]
fn a_rank_that_leaves_ends_the_operation_of_the_others_and_the_next_block_works() {
    for tested in tested() {
        for seed in 0..SEEDS {
            let report = Simulation::new(SIZE).seed(seed).run_world(move |world| {
                let report = disturbed(&world, tested, seed, Timeout::Never, |block| {
                    let pending = block.leave(&Error::Raised(41));
                    match pending.wait_local(Timeout::Never) {
                        Ok(Outcome::Faulty(finished)) => Some(finished),
                        _ => panic!("its own vote was no"),
                    }
                });
                tested.works(&world, seed + 50);
                assert!(world.try_block(FOREVER, |_| Ok(())).is_ok());
                world.finalize();
                report
            });
            let report = same(&report, &format!("{tested:?}, seed {seed}"));
            let told = |code| report.faults().iter().any(|fault| fault.code == code);
            assert!(told(FaultCode::Application(41)), "{tested:?}, seed {seed}: {report}");
        }
    }
}

const FOREVER: fampi::BlockOptions = fampi::BlockOptions::global(Timeout::Never);

/// One rank raises, leaves or drops the first block, and starts the second before it knows the
/// verdict, while the others wait for the verdict first, so that their second block is in another
/// context. Gives the number of blocks until one committed.
fn hurried(world: World, tested: Tested, way: u64) -> u64 {
    let seed = 40 + way;
    let mut block = world.start(Level::Global).expect("in use");
    let hurries = world.rank() == Rank::new(BAD);
    let guilty = if way == 3 { Rank::new(0) } else { Rank::new(BAD) };
    if world.rank() == guilty && way != 1 {
        block.raise_error(5);
    }
    let mut first = None;
    match (hurries, way) {
        (true, 0) => drop(block),
        (true, 1) => first = Some(block.leave(&Error::Raised(5))),
        (true, _) => first = Some(block.finish(Timeout::Never)),
        (false, _) => assert!(!wait(block, Timeout::Never).is_committed()),
    }
    for number in 1.. {
        let mut block = world.start(Level::Global).expect("in use");
        let requests = tested.post(&world, &mut block, seed).expect("right shapes");
        // Some wait inside the block, for ever if nobody ends it.
        if world.rank() == Rank::new(2) {
            let _ = block.waitall_local(requests.clone(), Timeout::Never);
        }
        let finished = wait(block, Timeout::Never);
        tested.verify(&world, &finished, &requests, seed);
        if finished.is_committed() {
            drop(first);
            world.finalize();
            return number;
        }
    }
    unreachable!("it commits some time");
}

#[test]
fn a_rank_that_starts_the_next_block_before_it_knows_the_verdict_holds_up_nobody() {
    for tested in tested() {
        for way in 0..4 {
            for seed in 0..SEEDS {
                let simulation = Simulation::new(SIZE).seed(seed);
                let report = simulation.run_world(move |world| hurried(world, tested, way));
                let what = format!("{tested:?}, way {way}, seed {seed}");
                assert!(same(&report, &what) <= 2, "{what}");
            }
        }
    }
}
