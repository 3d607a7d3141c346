//! What an abort, or a communicator that is given up, leaves behind, and what comes before one is
//! made: each case written out.
//!
//! The tests plant the bug of each case, which must not pass then.

use std::{ops::RangeInclusive, time::Duration};

use fampi::{
    Color, Comm, Error, Level, Outcome, Pending, Rank, ReduceOp, Redundancy, Tag, Timeout,
    TryBlock, World,
    sim::{self, Crash, Ending, Report, Simulation},
};
use fampi_kit::programs::{
    aftermath::Receive,
    bereaved::bereaved,
    changed::{self, First},
};

use crate::bugs::Bug;

/// A case, and the bug that it must catch.
pub type Case = (Bug, fn() -> Result<(), String>);

/// All of them.
pub const CASES: [Case; 10] = [
    (Bug::ForgetTheOvertaken, aborts_that_overtake_each_other),
    (Bug::DrainTheGivenUp, blocks_that_all_give_up),
    (Bug::CommitInTheTainted, a_block_after_one_that_a_rank_has_left),
    (Bug::StartInTheTainted, a_block_after_one_that_another_rank_is_in),
    (Bug::LoseEarlyMessages, votes_before_a_communicator_is_made),
    (Bug::WrapTheTags, messages_of_blocks_with_the_same_tags),
    (Bug::RunOutOfContexts, a_communicator_that_lost_a_rank),
    (Bug::LeaveOutAPage, copies_of_blocks_in_a_row),
    (Bug::ChangeThePending, copies_of_blocks_in_a_row),
    (Bug::CountTheOlder, copies_of_two_blocks),
];

/// What every message takes.
const MICROSECONDS: RangeInclusive<Duration> = Duration::from_micros(5)..=Duration::from_micros(5);
const LIMIT: Duration = Duration::from_secs(50);

fn start(comm: &Comm) -> TryBlock {
    comm.start(Level::Global).expect("in use")
}

fn is_faulty(pending: Pending) -> bool {
    matches!(pending.wait_local(Timeout::Never), Ok(Outcome::Faulty(_)))
}

/// All but those who were to die have ended, and with what.
fn ended<T>(report: &Report<T>, deaths: usize, what: &str) -> Result<(), String> {
    let ended = |ending: &Ending<T>| matches!(ending, Ending::Finished(_) | Ending::Crashed);
    let died = report.processes.iter().filter(|it| matches!(it.ending, Ending::Crashed)).count();
    let all = died <= deaths && report.processes.iter().all(|it| ended(&it.ending));
    if all { Ok(()) } else { Err(format!("{what}: {report}")) }
}

/// Two blocks are aborted. Rank 0 decides the later one first and dies when it has told rank 1,
/// which goes on to the earlier one. Rank 2 dies before it passes anything on, so that rank 3 asks
/// for both, and hears of them in the other order. Between the two it begins a block on a part, in
/// an epoch of that part that rank 1, its only partner there, was never in.
///
/// ```text
/// rank 0   later ✗ ─▶ 1, dies
/// rank 1   later ✗ ─▶ 2, earlier ✗ ─▶ 3, later ✗ ─▶ 3      the part's epoch: the later abort's
/// rank 2   dies
/// rank 3   earlier ✗, a block on the part …, later ✗      … which rank 1 has to vote no on
/// ```
fn aborts_that_overtake_each_other() -> Result<(), String> {
    let mut reached = 0;
    for (first, second) in (22..32).flat_map(|first| (34..46).map(move |second| (first, second))) {
        let simulation = Simulation::new(4).latency(MICROSECONDS).time_limit(LIMIT);
        let simulation = simulation.crash(Crash::before_effect(0, first));
        let simulation = simulation.crash(Crash::before_effect(2, second));
        let report = simulation.run_world(overlapping);
        ended(&report, 2, &format!("ranks 0 and 2 die before their effects {first} and {second}"))?;
        let order: Vec<Order> = report.results().copied().collect();
        reached += usize::from(order == [Order::LaterFirst, Order::EarlierFirst]);
    }
    if reached > 0 { Ok(()) } else { Err("the aborts come in the same order everywhere".into()) }
}

/// In which order a rank has heard of two verdicts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Order {
    Neither,
    EarlierFirst,
    LaterFirst,
}

fn overlapping(world: World) -> Order {
    let me = world.rank().number();
    // What is derived from a shrunk one is not made again, so its last handle counts.
    let Ok(formed) = world.shrink() else { return leave(world, Order::Neither) };
    let part = formed.isplit(Color::Of(me % 2), 0).and_then(|it| it.wait_local(Timeout::Never));
    let Ok(part) = part else { return leave(world, Order::Neither) };
    let part = part.into_comm().expect("everybody has a colour");
    let (earlier, later) = (start(&formed), start(&formed));
    let mut order = Order::Neither;
    match me {
        0 => {
            let earlier = earlier.finish(Timeout::Never);
            let _ = (later.leave(&Error::Raised(1)).wait_local(Timeout::Never), earlier);
        }
        1 => {
            let _ = later.finish(Timeout::Never).wait_local(Timeout::Never);
            order = Order::LaterFirst;
            let _ = earlier.leave(&Error::Raised(2)).wait_local(Timeout::Never);
        }
        _ => {
            let pending = (earlier.finish(Timeout::Never), later.finish(Timeout::Never));
            let _ = pending.0.wait_local(Timeout::Never);
            let inside = (me == 3).then(|| start(&part).finish(Timeout::Never));
            let mut later = pending.1.wait_local(Timeout::Poll);
            if let Ok(Outcome::TimedOut(_)) = later {
                order = Order::EarlierFirst;
            }
            assert!(inside.is_none_or(is_faulty), "nobody else has started it");
            if let Ok(Outcome::TimedOut(pending)) = later {
                later = pending.wait_local(Timeout::Never);
            }
            let _ = later;
        }
    }
    drop(part);
    leave(world, order)
}

fn leave(world: World, order: Order) -> Order {
    world.finalize();
    order
}

/// Blocks with requests that nobody answers, on a communicator that all ranks give up then: nobody
/// speaks of them any more.
fn blocks_that_all_give_up() -> Result<(), String> {
    for seed in 0..20 {
        let report = Simulation::new(3).seed(seed).time_limit(LIMIT).run_world(|world| {
            // A shrunk one is not made again, so its last handle counts.
            let comm = world.shrink().expect("nobody dies");
            let mut block = start(&comm);
            // Nobody sends it.
            let right = Rank::new((comm.rank().number() + 1) % comm.size());
            block.irecv(vec![0_u8], right, Tag(1)).expect("a rank");
            let pending = block.finish(Timeout::Never);
            drop(comm);
            assert!(is_faulty(pending), "nobody waits for it");
            world.finalize();
        });
        ended(&report, 0, &format!("seed {seed}"))?;
    }
    Ok(())
}

/// Rank 1 broadcasts in two blocks, and needs nobody for that. Rank 0 receives in the second one
/// before it leaves the first one, in which it has not received: what came is of the first.
fn a_block_after_one_that_a_rank_has_left() -> Result<(), String> {
    for seed in 0..20 {
        let report = Simulation::new(2).seed(seed).time_limit(LIMIT).run_world(|world| {
            let (mut first, mut second) = (start(&world), start(&world));
            let root = Rank::new(1);
            let (first, found) = if world.rank() == root {
                for (block, word) in [(&mut first, 1_u8), (&mut second, 2)] {
                    block.ibcast(vec![word], root).expect("a rank");
                }
                (first.finish(Timeout::Never), vec![2])
            } else {
                let word = second.ibcast(vec![0_u8], root).expect("a rank");
                second.wait_local(word, Timeout::Never).expect("nobody has left");
                (first.leave(&Error::Raised(1)), second.take(word).expect("it is complete"))
            };
            let second = second.finish(Timeout::Never).wait_local(Timeout::Never);
            if let Ok(Outcome::Committed(_)) = second {
                assert_eq!(found, [2], "what a committed block has received");
            }
            assert!(is_faulty(first));
            world.finalize();
        });
        ended(&report, 0, &format!("seed {seed}"))?;
    }
    Ok(())
}

/// Rank 1 has a fault in a block, and goes on to the next one before it knows the verdict. Rank 0
/// is in the first one, and its collective there must not meet that of the next.
fn a_block_after_one_that_another_rank_is_in() -> Result<(), String> {
    for seed in 0..20 {
        let report = Simulation::new(2).seed(seed).time_limit(LIMIT).run_world(|world| {
            let (mut block, mut left) = (start(&world), None);
            let limit = Timeout::After(Duration::from_millis(1));
            if world.rank() == Rank::new(1) {
                block.raise_error(1);
                left = Some(block.finish(Timeout::Never));
                block = start(&world);
            }
            let found = block.iallreduce(vec![1_u32], ReduceOp::Sum).expect("the same on all");
            assert!(block.wait_local(found, limit).is_err(), "a sum of two blocks");
            assert!(is_faulty(block.finish(limit)));
            match left {
                Some(left) => assert!(is_faulty(left)),
                // Of the block that rank 1 has started.
                None => assert!(is_faulty(start(&world).finish(Timeout::Never))),
            }
            world.finalize();
        });
        ended(&report, 0, &format!("seed {seed}"))?;
    }
    Ok(())
}

/// Who has a communicator first votes on many blocks there, while others have yet to make it: each
/// vote is said once, and none may be lost.
fn votes_before_a_communicator_is_made() -> Result<(), String> {
    for seed in 0..20 {
        let latency = Duration::from_micros(1)..=Duration::from_millis(40);
        let simulation = Simulation::new(8).seed(seed).latency(latency).time_limit(LIMIT);
        let report = simulation.run_world(|world| {
            let made = world.idup().expect("one at a time").wait_local(Timeout::Never);
            let comm = made.expect("nobody dies").into_comm().expect("everybody has one");
            let pending: Vec<_> = (0..40).map(|_| start(&comm).finish(Timeout::Never)).collect();
            for block in pending {
                assert!(!is_faulty(block), "nothing is wrong in it");
            }
            drop(comm);
            world.finalize();
        });
        ended(&report, 0, &format!("seed {seed}"))?;
    }
    Ok(())
}

/// Many aborts after a death: each is followed by a block that commits at once.
#[allow(clippy::unnecessary_wraps)]
fn a_communicator_that_lost_a_rank() -> Result<(), String> {
    bereaved(Receive::Exact, &[0, 1, 2], 1, |_| None);
    Ok(())
}

/// So many blocks in a row have tags of their own in the simulated world.
const TOLD_APART: usize = 1 << 7;

/// Of many open blocks rank 0 sends in the first, then in the last; rank 1 posts the receives the
/// other way round.
fn messages_of_blocks_with_the_same_tags() -> Result<(), String> {
    let report = Simulation::new(2).run_world(|world| {
        let (sends, peer) = (world.rank() == Rank::new(0), Rank::new(1 - world.rank().number()));
        let mut blocks: Vec<TryBlock> = (0..=TOLD_APART).map(|_| start(&world)).collect();
        let mut posted = Vec::new();
        for at in if sends { [0, TOLD_APART] } else { [TOLD_APART, 0] } {
            let buffer = vec![if sends { at as u64 } else { u64::MAX }];
            let request = if sends {
                blocks[at].isend(buffer, peer, Tag(1))
            } else {
                blocks[at].irecv(buffer, peer, Tag(1))
            };
            posted.extend(request.ok().map(|request| (at, request)));
        }
        for (at, block) in blocks.into_iter().enumerate() {
            let ended = block.finish(Timeout::Never).wait_local(Timeout::Never);
            let Ok(Outcome::Committed(finished)) = ended else { panic!("nobody dies") };
            for (_, request) in posted.iter().filter(|(block, _)| *block == at) {
                let received = finished.take(*request).expect("it is over");
                assert_eq!(received, [at as u64], "received in block {at}");
            }
        }
        world.finalize();
    });
    ended(&report, 0, "messages of blocks with the same tags")
}

/// Several blocks carry what has changed in a state, while those before are not decided everywhere.
fn copies_of_blocks_in_a_row() -> Result<(), String> {
    right_states(|world| changed::in_a_row(world, NUMBERS, Redundancy::Partner, die))
}

/// Two blocks carry a state, of which the newer one is decided first.
fn copies_of_two_blocks() -> Result<(), String> {
    let state = (NUMBERS, Redundancy::Partner);
    let first = (First::Newer, false);
    right_states(move |it| changed::two_at_once(it, first, state, Timeout::Never, die))
}

/// A page of the states of these cases holds two of them.
const NUMBERS: u64 = 40;

fn die(me: u32) {
    if me == 1 {
        sim::crash();
    }
}

/// An error unless all ranks have the right state at the end.
fn right_states(
    program: impl Fn(World) -> Result<World, Error> + Clone + Send + Sync + 'static,
) -> Result<(), String> {
    let simulation = Simulation::new(3).latency(MICROSECONDS).time_limit(LIMIT).page_bytes(16);
    let report = simulation.run_world(move |world| program(world).map(World::finalize));
    let is_wrong = |ending: &Ending<_>| matches!(ending, Ending::Finished(Err::<(), Error>(_)));
    let wrong = report.processes.iter().filter(|it| is_wrong(&it.ending)).count();
    if wrong > 0 {
        return Err(format!("{wrong} ranks have another state: {report}"));
    }
    ended(&report, 1, "copies")
}
