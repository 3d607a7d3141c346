//! What becomes of every operation when something goes wrong in its block: the block is faulty on
//! all living ranks with one report, buffers come back or are in quarantine, and the next block
//! works, on the same communicator where nobody died.

use std::time::Duration;

use fampi::{
    Array, Channel, Codes, Comm, Error, FaultCode, FaultReport, Finished, Level, Outcome, Rank,
    ReduceOp, Request, RequestId, Tag, Timeout, TryBlock, Window, World,
    sim::{self, Crash, Ending, Report, Simulation},
};

use fampi_kit::programs::every::{Call, KINDS, Kind};

const SIZE: u32 = 4;
/// The rank that dies, forgets or leaves.
const BAD: u32 = 1;
const SEEDS: u64 = 8;
/// Messages of [`Tested::Many`].
const MANY: usize = 40;
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
    /// The ring with many messages at once, more than are started together.
    Many {
        elements: usize,
    },
    /// Each rank sends two columns of an array to its neighbours, and receives two others.
    Faces {
        rows: usize,
    },
    /// The ring once more, with channels.
    Channels {
        synchronous: bool,
        elements: usize,
    },
    /// Each rank puts into the window of the next one, gets from it, and accumulates in that of
    /// the one before.
    Accesses {
        elements: usize,
    },
}

/// Requests that own their buffers, and such that use an array.
#[derive(Default)]
struct Posted {
    owners: Vec<Request<u64>>,
    faces: Option<(Array<u64, 2>, Vec<RequestId>)>,
    channels: Vec<(Channel<u64>, RequestId)>,
    window: Option<Window<u64>>,
}

impl Posted {
    fn ids(&self) -> Vec<RequestId> {
        let owners = self.owners.iter().map(Request::id);
        let faces = self.faces.iter().flat_map(|(_, ids)| ids.clone());
        owners.chain(faces).chain(self.channels.iter().map(|(_, id)| *id)).collect()
    }
}

fn tested() -> Vec<Tested> {
    let ring = |synchronous, elements| Tested::Ring { synchronous, elements };
    let rings = [ring(false, 3), ring(true, 3), ring(false, LONG), ring(true, LONG)];
    let many = [Tested::Many { elements: 1 }, Tested::Many { elements: LONG }];
    let faces = [Tested::Faces { rows: 3 }, Tested::Faces { rows: LONG }];
    let channel = |synchronous, elements| Tested::Channels { synchronous, elements };
    let channels = [channel(false, 3), channel(true, 3), channel(false, LONG)];
    let accesses = [Tested::Accesses { elements: 3 }, Tested::Accesses { elements: LONG }];
    let messages = rings.into_iter().chain(many).chain(faces).chain(channels).chain(accesses);
    KINDS.into_iter().map(Tested::All).chain(messages).collect()
}

impl Tested {
    /// With a root for which it matters what the bad rank does.
    fn call(kind: Kind, size: u32, seed: u64) -> Call {
        let gives = matches!(kind, Kind::Bcast | Kind::Scatter | Kind::Scatterv | Kind::Barrier);
        let root = if gives { BAD } else { 0 } as usize;
        let longest = if seed.is_multiple_of(2) { 4 } else { LONG as u64 };
        Call {
            kind,
            size: size as usize,
            root: root.min(size as usize - 1),
            left_out: 0,
            seed,
            longest,
        }
    }

    fn post(self, comm: &Comm, block: &mut TryBlock, seed: u64) -> Result<Posted, Error> {
        let (me, size) = (comm.rank().number(), comm.size());
        let (left, right) = (Rank::new((me + size - 1) % size), Rank::new((me + 1) % size));
        let owners = |owners| Posted { owners, ..Posted::default() };
        match self {
            Self::All(kind) => {
                Ok(owners(vec![Self::call(kind, size, seed).post(block, me as usize)?]))
            }
            Self::Ring { synchronous, elements } => {
                let received = block.irecv(vec![0; elements], left, Tag(3))?;
                let content = vec![seed * 100 + u64::from(me); elements];
                let sent = if synchronous {
                    block.issend(content, right, Tag(3))?
                } else {
                    block.isend(content, right, Tag(3))?
                };
                Ok(owners(vec![received, sent]))
            }
            Self::Many { elements } => {
                let all = |content: u64, peer| {
                    (0..MANY as u32).map(move |tag| (vec![content; elements], peer, Tag(tag)))
                };
                let mut received: Vec<_> = all(0, left).collect();
                let mut sent: Vec<_> = all(seed * 100 + u64::from(me), right).collect();
                let coming = block.irecv_all(&mut received)?;
                let going = block.isend_all(&mut sent)?;
                Ok(owners(coming.iter().chain(going.iter()).collect()))
            }
            Self::Faces { rows } => {
                let field = Array::new([rows, 6], vec![seed * 100 + u64::from(me); 6 * rows])?;
                let column = |at: usize| [0..rows, at..at + 1];
                let ids = vec![
                    block.irecv_section(&field, column(0), left, Tag(4))?,
                    block.irecv_section(&field, column(5), right, Tag(5))?,
                    block.isend_section(&field, column(1), left, Tag(5))?,
                    block.isend_section(&field, column(4), right, Tag(4))?,
                ];
                Ok(Posted { faces: Some((field, ids)), ..Posted::default() })
            }
            Self::Channels { synchronous, elements } => {
                let content = vec![seed * 100 + u64::from(me); elements];
                let sent = if synchronous { Channel::ssend_init } else { Channel::send_init };
                let received = Channel::recv_init(vec![0; elements], left, Tag(3));
                let mut channels = Vec::new();
                for mut channel in [received, sent(content, right, Tag(3))] {
                    let id = block.start(&mut channel)?;
                    channels.push((channel, id));
                }
                Ok(Posted { channels, ..Posted::default() })
            }
            Self::Accesses { elements } => {
                let window = comm.window(9, vec![seed * 100 + u64::from(me); 2 * elements])?;
                let content = || vec![u64::from(me); elements];
                let owners = vec![
                    block.rget(&window, right, elements, vec![0; elements])?,
                    block.rput(&window, right, 0, content())?,
                    block.raccumulate(&window, left, elements, content(), ReduceOp::Sum)?,
                ];
                Ok(Posted { owners, window: Some(window), ..Posted::default() })
            }
        }
    }

    /// Makes sure that the window has what the others have put if the block counts, and only then.
    fn verify_window(comm: &Comm, finished: &Finished, window: &Window<u64>, seed: u64) {
        let (me, size) = (u64::from(comm.rank().number()), u64::from(comm.size()));
        let own = seed * 100 + me;
        let [put, sum] = if finished.is_committed() {
            [(me + size - 1) % size, own + (me + 1) % size]
        } else {
            [own, own]
        };
        window.read(|memory| {
            let (first, second) = memory.split_at(memory.len() / 2);
            let right = first.iter().all(|it| *it == put) && second.iter().all(|it| *it == sum);
            assert!(right, "{memory:?} for {put}, {sum} after {finished:?}");
        });
    }

    /// Makes sure that ghosts are the neighbours', if they have come, and all else is as it was.
    fn verify_faces(
        comm: &Comm,
        finished: &Finished,
        (field, ids): &mut (Array<u64, 2>, Vec<RequestId>),
        seed: u64,
    ) {
        let (me, size) = (comm.rank().number(), comm.size());
        let complete: Vec<bool> = ids.iter().map(|id| finished.status(*id).is_some()).collect();
        let Ok(elements) = field.elements_mut() else {
            assert!(complete.contains(&false), "a request that is over has let go");
            return;
        };
        let value = |rank: u32| seed * 100 + u64::from(rank % size);
        for row in elements.chunks(6) {
            for (at, found) in row.iter().enumerate() {
                match at {
                    0 if complete[0] => assert_eq!(*found, value(me + size - 1)),
                    5 if complete[1] => assert_eq!(*found, value(me + 1)),
                    0 | 5 => {}
                    _ => assert_eq!(*found, value(me)),
                }
            }
        }
    }

    /// Makes sure that what is complete is right, and that nothing pending is handed out.
    fn verify(self, comm: &Comm, finished: &Finished, posted: &mut Posted, seed: u64) {
        let (me, size) = (comm.rank().number(), comm.size());
        for id in posted.ids() {
            let failed = finished.failed_requests(Codes::Any).contains(&id.index());
            assert_ne!(finished.status(id).is_some(), failed, "over, one way or the other");
        }
        if let Some(faces) = &mut posted.faces {
            Self::verify_faces(comm, finished, faces, seed);
        }
        if let Some(window) = &posted.window {
            Self::verify_window(comm, finished, window, seed);
        }
        for (position, (channel, id)) in posted.channels.iter_mut().enumerate() {
            let complete = finished.status(*id).is_some();
            let from = if position == 0 { (me + size - 1) % size } else { me };
            match channel.elements_mut() {
                Ok(found) if complete => {
                    assert!(found.iter().all(|it| *it == seed * 100 + u64::from(from)));
                }
                Ok(_) => {}
                Err(error) => assert!(!complete && error == Error::ArrayInUse, "{error}"),
            }
        }
        for (position, request) in posted.owners.iter().enumerate() {
            let complete = finished.status(*request).is_some();
            match (finished.take(*request), self) {
                (Ok(found), Self::All(kind)) if complete => {
                    let call = Self::call(kind, size, seed);
                    assert_eq!(call.verify(me as usize, &found), Ok(()));
                }
                (Ok(found), Self::Ring { elements, .. }) if complete => {
                    let from = if position == 0 { (me + size - 1) % size } else { me };
                    assert_eq!(found, vec![seed * 100 + u64::from(from); elements]);
                }
                (Ok(found), Self::Many { elements }) if complete => {
                    let from = if position < MANY { (me + size - 1) % size } else { me };
                    assert_eq!(found, vec![seed * 100 + u64::from(from); elements]);
                }
                (Ok(found), Self::Accesses { elements }) if complete => {
                    let gotten = seed * 100 + u64::from((me + 1) % size);
                    let value = if position == 0 { gotten } else { u64::from(me) };
                    assert_eq!(found, vec![value; elements]);
                }
                (Ok(_), _) => assert!(!complete),
                (Err(error), _) => assert!(!complete && error == Error::Quarantined, "{error}"),
            }
        }
    }

    /// The operation in a block of its own, which must commit.
    fn works(self, comm: &Comm, seed: u64) {
        let mut block = comm.start(Level::Global).expect("in use");
        let mut posted = self.post(comm, &mut block, seed).expect("right shapes");
        let finished = wait(block, Timeout::Never);
        assert!(finished.is_committed(), "{self:?} afterwards: {finished:?}");
        self.verify(comm, &finished, &mut posted, seed);
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
        let mut posted = tested.post(world, &mut block, seed).expect("right shapes");
        let finished = wait(block, timeout);
        tested.verify(world, &finished, &mut posted, seed);
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
                let mut posted = tested.post(&world, &mut block, seed).expect("right shapes");
                let finished = wait(block, Timeout::Never);
                tested.verify(&world, &finished, &mut posted, seed);
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
                    let mut posted = tested.post(&comm, &mut block, round).expect("right shapes");
                    let finished = wait(block, Timeout::Never);
                    tested.verify(&comm, &finished, &mut posted, round);
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
        let mut requests = tested.post(&world, &mut block, seed).expect("right shapes");
        // Some wait inside the block, for ever if nobody ends it.
        if world.rank() == Rank::new(2) {
            let _ = block.waitall_local(requests.ids(), Timeout::Never);
        }
        let finished = wait(block, Timeout::Never);
        tested.verify(&world, &finished, &mut requests, seed);
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
