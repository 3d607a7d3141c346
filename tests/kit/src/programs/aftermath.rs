//! A program that goes on with a communicator that has lost a member: any number of aborts among
//! the living, each followed by a block in which nothing of the aborted one is met.

use std::time::Duration;

use fampi::{
    Comm, Error, Finished, Level, Outcome, Rank, Request, Source, Tag, TagSelector, Timeout,
    TryBlock, World,
};

/// More aborts than the tags of messages can tell apart.
const ROUNDS: u32 = 40;
/// Longer than messages that go without their receiver.
const LONG: usize = 3000;
/// What is received in good blocks, and sent in bad ones, too.
const SMALL: Tag = Tag(5);
const LARGE: Tag = Tag(6);

/// How receives of good blocks name their messages.
#[derive(Clone, Copy, Debug)]
pub enum Receive {
    Exact,
    AnySource,
    AnyTag,
    Probed,
}

pub fn end(block: TryBlock) -> Finished {
    match block.finish(Timeout::Never).wait_local(Timeout::Never).expect("no outer block") {
        Outcome::Committed(finished) | Outcome::Faulty(finished) => finished,
        Outcome::TimedOut(_) => unreachable!("it waits for ever"),
    }
}

/// The living ranks before and after this one.
fn neighbours(comm: &Comm, living: &[u32]) -> (Rank, Rank) {
    let me = comm.rank().number();
    let at = living.iter().position(|rank| *rank == me).expect("alive");
    let of = |at: usize| Rank::new(living[at % living.len()]);
    (of(at + living.len() - 1), of(at + 1))
}

/// A block that one of the living leaves or raises a code in, after all have sent what nobody
/// receives.
fn abort(comm: &Comm, living: &[u32], round: u32) {
    let (before, next) = neighbours(comm, living);
    let mut block = comm.start(Level::Global).expect("in use");
    let _ = block.isend(vec![u64::MAX], next, SMALL).expect("a rank");
    if round.is_multiple_of(3) {
        let _ = block.isend(vec![u64::MAX; LONG], next, LARGE).expect("a rank");
    }
    let bad = living[round as usize % living.len()] == comm.rank().number();
    let outcome = if bad && round.is_multiple_of(2) {
        block.leave(&Error::Raised(7)).wait_local(Timeout::Never)
    } else {
        if bad {
            block.raise_error(7);
        }
        if round.is_multiple_of(2) {
            // Nobody sends it: the one that leaves ends the wait.
            let _ = block.irecv(vec![0_u64], before, Tag(9)).expect("a rank");
            block.finish(Timeout::Never).wait_local(Timeout::Never)
        } else {
            block.finish(Timeout::After(Duration::from_millis(3))).wait_local(Timeout::Never)
        }
    };
    assert!(matches!(outcome, Ok(Outcome::Faulty(_))));
}

/// A message to the next rank and one from the rank before: the verdict, and what came.
fn exchange(comm: &Comm, living: &[u32], way: Receive, mine: u64) -> (bool, Option<u64>) {
    let (before, next) = neighbours(comm, living);
    let (tag, elements) = if mine.is_multiple_of(3) { (LARGE, LONG) } else { (SMALL, 1) };
    let mut block = comm.start(Level::Global).expect("in use");
    let _ = block.isend(vec![mine; elements], next, tag).expect("a rank");
    let room = vec![0_u64; elements];
    let received: Option<Request<u64>> = match way {
        Receive::Exact => block.irecv(room, before, tag).ok(),
        Receive::AnySource => block.irecv(room, Source::Any, tag).ok(),
        Receive::AnyTag => block.irecv(room, before, TagSelector::Any).ok(),
        Receive::Probed => {
            let found = block.mprobe_local::<u64>(before, TagSelector::Any, Timeout::Never);
            found.ok().and_then(|message| block.imrecv(room, message).ok())
        }
    };
    let finished = end(block);
    let came = received.and_then(|received| finished.take(received).ok());
    (finished.is_committed(), came.map(|came| came[elements - 1]))
}

/// Rounds of an aborted block and of good ones until one commits; how many it took at most.
pub fn go_on(world: &World, comm: &Comm, living: &[u32], way: Receive) -> u32 {
    let mut most = 0;
    for round in 0..ROUNDS {
        abort(comm, living, round);
        if world.id() != comm.id() && round % 4 == 1 {
            abort(world, &[0, 1, 2], round);
        }
        for attempt in 1.. {
            assert!(attempt < 30, "no block commits any more");
            let (committed, came) = exchange(comm, living, way, u64::from(round));
            if committed {
                assert_eq!(came, Some(u64::from(round)), "of this attempt");
                most = most.max(attempt);
                break;
            }
        }
    }
    most
}
