//! Programs about single requests on real ranks: statuses, the next of many, cancels, probes.

use std::time::{Duration, Instant};

use fampi::{
    Codes, Comm, Error, FaultCode, FileMode, Finished, Level, Rank, Request, Source, Tag,
    TagSelector, Timeout, TryBlock, World,
};

use stats_alloc::Region;

use crate::{
    all_say, program,
    programs::{Ended, die, say, wait},
    said,
};

/// What a receiver does with the messages of the others.
type Way = fn(&mut TryBlock, u32, usize) -> Result<usize, Error>;

const WAYS: [Way; 4] = [one_by_one, some_at_a_time, probed, half_of_them];

/// Lengths for messages that go without their receiver, and for such that do not.
const LENGTHS: [usize; 3] = [1, 700, 300_000];

/// Everybody sends to rank 0, which takes the messages in every way.
pub(crate) fn all(world: World) -> Ended {
    let (me, size) = (world.rank().number(), world.size());
    for round in 0..48 {
        let length = LENGTHS[round % 3];
        let mut block = world.start(Level::Global)?;
        if me == 0 {
            let received = WAYS[round % 4](&mut block, size, length)?;
            assert!(received > 0, "round {round}");
            cancelled(&mut block)?;
        } else {
            block.isend(vec![me; length - 1 + me as usize % 2], Rank::new(0), Tag(7))?;
        }
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(finished.is_committed(), "round {round}: {finished:?}");
    }
    say(world, "all requests are right")
}

fn receives(block: &mut TryBlock, size: u32, length: usize) -> Result<Vec<Request<u32>>, Error> {
    (1..size).map(|from| block.irecv(vec![0; length], Rank::new(from), Tag(7))).collect()
}

fn check(block: &mut TryBlock, request: Request<u32>) -> Result<(), Error> {
    let status = block.wait_local(request, Timeout::Poll)?;
    let from = status.source.expect("a receive has a sender").number();
    let found = block.take(request)?;
    assert_eq!(status.elements, found.len() - 1 + from as usize % 2);
    assert!(status.tag == Tag(7) && !status.cancelled);
    assert!(found[..status.elements].iter().all(|it| *it == from));
    Ok(())
}

fn one_by_one(block: &mut TryBlock, size: u32, length: usize) -> Result<usize, Error> {
    let mut open = receives(block, size, length)?;
    let mut received = 0;
    while let Some((request, _)) = block.waitany_local(&mut open, Timeout::Never)? {
        check(block, request)?;
        received += 1;
    }
    assert_eq!(received, size as usize - 1);
    Ok(received)
}

fn some_at_a_time(block: &mut TryBlock, size: u32, length: usize) -> Result<usize, Error> {
    let mut open = receives(block, size, length)?;
    while !open.is_empty() {
        for (request, _) in block.waitsome_local(&mut open, Timeout::Never)? {
            check(block, request)?;
        }
    }
    Ok(size as usize - 1)
}

fn probed(block: &mut TryBlock, size: u32, _: usize) -> Result<usize, Error> {
    for _ in 1..size {
        let message = block.mprobe_local::<u32>(Source::Any, TagSelector::Any, Timeout::Never)?;
        let (elements, status) = (message.elements(), message.status());
        let received = block.imrecv(vec![0; elements], message)?;
        assert_eq!(block.wait_local(received, Timeout::Never)?, status);
        let from = status.source.expect("it was sent").number();
        assert!(block.take(received)?.iter().all(|it| *it == from));
    }
    assert!(block.improbe::<u32>(Source::Any, Tag(7))?.is_none());
    Ok(size as usize - 1)
}

/// Every other message is matched and left to the block's end.
fn half_of_them(block: &mut TryBlock, size: u32, _: usize) -> Result<usize, Error> {
    for from in 1..size {
        let from = Rank::new(from);
        let message = block.mprobe_local::<u32>(from, Tag(7), Timeout::Never)?;
        if from.number().is_multiple_of(2) {
            block.imrecv(vec![0; message.elements()], message)?;
        }
    }
    Ok(size as usize - 1)
}

fn cancelled(block: &mut TryBlock) -> Result<(), Error> {
    let unsent = block.irecv(vec![3_u8; 10], Source::Any, Tag(9))?;
    assert!(block.cancel(unsent)?);
    assert!(block.wait_local(unsent, Timeout::Poll)?.cancelled);
    assert_eq!(block.take(unsent)?, [3; 10]);
    Ok(())
}

/// Probes of a rank that is dead, dies, or leaves; each followed by a shrink.
pub(crate) fn with_deaths(world: World) -> Ended {
    let mut comm: Comm = Comm::clone(&world);
    for way in 0..3 {
        let (me, size) = (comm.rank(), comm.size());
        let last = Rank::new(size - 1);
        let mut block = comm.start(Level::Global)?;
        let from = if way == 0 { Source::Any } else { Source::Rank(last) };
        let pending = match (me == last, way) {
            (true, 0 | 1) => die(),
            (true, _) => {
                block.isend(vec![1_u32; 300_000], Rank::new(0), Tag(7))?;
                // Rank 0 has matched it.
                let _ = block.mprobe_local::<u8>(Rank::new(0), Tag(8), Timeout::Never)?;
                die()
            }
            (_, 2) if me == Rank::new(0) => {
                let message = block.mprobe_local::<u32>(last, Tag(7), Timeout::Never)?;
                let go = block.isend(vec![0_u8], last, Tag(8))?;
                block.wait_local(go, Timeout::Never)?;
                let received = block.imrecv(vec![0; message.elements()], message)?;
                // Its data may have been on its way.
                let _ = block.wait_local(received, Timeout::Never);
                block.finish(Timeout::Never)
            }
            (_, 2) => block.finish(Timeout::Never),
            _ => {
                let probe = block.mprobe_local::<u32>(from, Tag(7), Timeout::Never);
                let Err(Error::Request(code)) = probe else { panic!("{probe:?}") };
                assert!(code.is_process_failure() || code == FaultCode::Interrupted, "{code}");
                block.leave(&Error::Request(code))
            }
        };
        let finished = wait(pending)?;
        let dead = finished.failed_group(Codes::PROCESS_FAILURES, &comm);
        assert!(!finished.is_committed() && dead.as_slice() == [last], "{way}: {finished:?}");
        drop(finished);
        comm = comm.shrink()?;
    }
    drop(comm);
    say(world, "all probes ended")
}

/// The neighbours on a ring.
fn neighbours(world: &World) -> (Rank, Rank) {
    let (me, size) = (world.rank().number(), world.size());
    (Rank::new((me + size - 1) % size), Rank::new((me + 1) % size))
}

/// A block with this many receives and sends around a ring; the buffers come back. Tags stand in
/// the order of the receives, or MPI itself would search.
fn ring(world: &World, messages: u32, mut buffers: Vec<Vec<u32>>) -> Result<Vec<Vec<u32>>, Error> {
    let (left, right) = neighbours(world);
    let mut block = world.start(Level::Global)?;
    let mut posted = Vec::with_capacity(2 * messages as usize);
    let mut next = || buffers.pop().unwrap_or_else(|| vec![0; 16]);
    for number in 0..messages {
        posted.push(block.irecv(next(), left, Tag(number + 1))?);
    }
    for number in 0..messages {
        posted.push(block.isend(next(), right, Tag(number + 1))?);
    }
    let finished = wait(block.finish(Timeout::Never))?;
    assert!(finished.is_committed());
    posted.into_iter().map(|request| finished.take(request)).collect()
}

/// Messages, each with its peer and its tag.
type Messages = Vec<(Vec<u32>, Rank, Tag)>;

/// An exchange with one call for all that are received, and one for all that are sent.
fn ring_at_once(world: &World, [received, sent]: [&mut Messages; 2]) -> Result<(), Error> {
    let mut block = world.start(Level::Global)?;
    let coming = block.irecv_all(received)?;
    let going = block.isend_all(sent)?;
    let finished = wait(block.finish(Timeout::Never))?;
    assert!(finished.is_committed());
    finished.take_all(coming, received)?;
    finished.take_all(going, sent)
}

/// 2,000 requests cost a request what 200 do, and none allocates: only the lists here do.
pub(crate) fn many(world: World) -> Ended {
    let mut buffers = Vec::new();
    let mut best = [f64::INFINITY; 2];
    for _ in 0..30 {
        for (place, messages) in [100, 1000].into_iter().enumerate() {
            let begin = Instant::now();
            buffers = ring(&world, messages, buffers)?;
            best[place] = best[place].min(begin.elapsed().as_secs_f64() / f64::from(messages));
        }
    }
    let region = Region::new(crate::ALLOCATOR);
    buffers = ring(&world, 1000, buffers)?;
    let allocations = region.change().allocations;
    drop(buffers);
    assert!(allocations < 10, "{allocations} allocations for 2,000 requests");
    assert!(best[1] < 4.0 * best[0], "a request costs {best:?} s in blocks of 200 and 2,000");
    let (left, right) = neighbours(&world);
    let all = |content, peer| (0..1000).map(move |tag| (vec![content; 16], peer, Tag(tag)));
    let mut received: Messages = all(0, left).collect();
    let mut sent: Messages = all(world.rank().number(), right).collect();
    ring_at_once(&world, [&mut received, &mut sent])?;
    let region = Region::new(crate::ALLOCATOR);
    ring_at_once(&world, [&mut received, &mut sent])?;
    let allocations = region.change().allocations;
    assert!(allocations < 10, "{allocations} allocations for 2,000 requests at once");
    assert!(received.iter().all(|(content, from, _)| *content == vec![from.number(); 16]));
    say(world, "a request costs the same in any number")
}

/// Every rank leaves while messages that nobody answers are under way: those of a block that gave
/// them up and is still held, and those of one that was never finished. One rank dies before.
pub(crate) fn left_over(world: World) -> Ended {
    let (left, right) = neighbours(&world);
    let long = |content| vec![content; 1_000_000];
    let mut given_up = world.start(Level::Local)?;
    let mut lists: [Messages; 2] =
        [left, right].map(|peer| (0..40).map(|tag| (vec![0; 3], peer, Tag(tag))).collect());
    let coming = given_up.irecv_all(&mut lists[0])?;
    let going = given_up.isend(long(1), right, Tag(50))?;
    let finished = wait(given_up.finish(Timeout::After(Duration::from_millis(5))))?;
    assert_eq!(finished.failed_requests(Codes::Any).len(), 41);
    let mut open = world.start(Level::Local)?;
    open.irecv_all(&mut lists[1])?;
    open.issend(long(2), left, Tag(51))?;
    if world.rank() == Rank::new(2) {
        die();
    }
    // Of the 41 receives and sends of the block that is over, MPI has the send still, unless it has
    // heard already that the receiver died.
    let given_up = finished.take(going);
    assert!(matches!(given_up, Err(Error::Quarantined)) || right == Rank::new(2), "{given_up:?}");
    assert!(finished.take_all(coming, &mut lists[0]).is_ok(), "cancelled receives are let go");
    let rank = world.rank();
    world.finalize();
    assert_eq!(finished.take(going), Err(Error::NoSuchRequest), "it was given up with the rest");
    let late = open.isend(vec![1_u8], right, Tag(52))?;
    assert!(open.fault(late).is_some(), "MPI is over");
    drop((finished, open));
    println!("rank {rank}: left");
    Ok(())
}

/// Messages from each rank to each other one, in [`mixed_with_deaths`].
const MESSAGES: u32 = 40;

/// Elements of a message: some go only when their receiver comes, or are fetched while it dies.
fn length(number: u32) -> usize {
    if number % 8 == 5 { 100_000 } else { 3 }
}

fn stamps(from: Rank, number: u32) -> Vec<u32> {
    vec![from.number() * 1000 + number; length(number)]
}

/// Hundreds of messages in a block, of which a rank sends half before it dies: what came is right,
/// nothing of the living is lost or blamed, and what the dead did not send has the error of that.
pub(crate) fn mixed_with_deaths(world: World) -> Ended {
    let own = std::env::current_exe().expect("this program has a path");
    let file = world.open_file::<u8>(own, FileMode::Read)?;
    let mut comm: Comm = Comm::clone(&world);
    for (level, at_once) in [(Level::Local, false), (Level::Global, false), (Level::Local, true)] {
        let (me, size) = (comm.rank(), comm.size());
        let last = Rank::new(size - 1);
        let others: Vec<Rank> = (0..size).map(Rank::new).filter(|rank| *rank != me).collect();
        let mut block = comm.start(level)?;
        let halves = [0..MESSAGES / 2, MESSAGES / 2..MESSAGES].map(|numbers| {
            let each = numbers.flat_map(|it| others.iter().map(move |other| (*other, it)));
            each.collect::<Vec<(Rank, u32)>>()
        });
        let mut receives = Vec::new();
        for half in &halves {
            let room = |(from, it): &(Rank, u32)| (vec![0; length(*it)], *from, Tag(*it));
            let messages = half.iter().map(room).collect();
            receives.extend(post(&mut block, Post::Receive, at_once, messages)?);
            if receives.len() == half.len() && level == Level::Global {
                block.irecv(vec![0_u8], Source::Any, Tag(MESSAGES))?;
            }
        }
        let read = block.iread_at(&file, 1, vec![0; 3]);
        let mut sends = Vec::new();
        for half in &halves {
            if me == last && !sends.is_empty() {
                die();
            }
            let message = |(to, it): &(Rank, u32)| (stamps(me, *it), *to, Tag(*it));
            let messages = half.iter().map(message).collect();
            sends.extend(post(&mut block, Post::Send, at_once, messages)?);
        }
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(!finished.is_committed(), "{finished:?}");
        assert_eq!(finished.take(read)?, *b"ELF");
        for ((from, number), request) in halves.iter().flatten().copied().zip(receives) {
            let expected = Expected {
                what: format!("message {number} of rank {from}"),
                source: Some(from),
                tag: Tag(number),
                content: stamps(from, number),
                needs_the_dead: from == last,
            };
            check_mixed(&finished, level, request, &expected)?;
        }
        for ((to, number), request) in halves.iter().flatten().copied().zip(sends) {
            let expected = Expected {
                what: format!("message {number} to rank {to}"),
                source: None,
                tag: Tag(number),
                content: stamps(me, number),
                needs_the_dead: to == last,
            };
            check_mixed(&finished, level, request, &expected)?;
        }
        drop(finished);
        // All ranks know who died.
        let _ = wait(comm.start(Level::Global)?.finish(Timeout::Never))?;
        assert_eq!(comm.known_failed().as_slice(), [last]);
        comm = comm.shrink()?;
    }
    drop((comm, file));
    say(world, "each message had its own end")
}

#[derive(Clone, Copy)]
enum Post {
    Send,
    Receive,
}

/// Posts these messages, at once or one after the other.
fn post(
    block: &mut TryBlock,
    how: Post,
    at_once: bool,
    mut messages: Messages,
) -> Result<Vec<Request<u32>>, Error> {
    match (how, at_once) {
        (Post::Send, true) => Ok(block.isend_all(&mut messages)?.iter().collect()),
        (Post::Receive, true) => Ok(block.irecv_all(&mut messages)?.iter().collect()),
        (Post::Send, false) => {
            messages.into_iter().map(|(buffer, to, tag)| block.isend(buffer, to, tag)).collect()
        }
        (Post::Receive, false) => {
            messages.into_iter().map(|(buffer, from, tag)| block.irecv(buffer, from, tag)).collect()
        }
    }
}

/// What a message of [`mixed_with_deaths`] is if it arrives.
struct Expected {
    what: String,
    /// Of a receive.
    source: Option<Rank>,
    tag: Tag,
    content: Vec<u32>,
    needs_the_dead: bool,
}

/// A message is whole or fails; only what needs the dead fails, but in a global block, which is
/// interrupted.
fn check_mixed(
    finished: &Finished,
    level: Level,
    request: Request<u32>,
    expected: &Expected,
) -> Result<(), Error> {
    let Expected { what, source, tag, content, needs_the_dead } = expected;
    if let Some(status) = finished.status(request) {
        assert_eq!((status.source, status.elements), (*source, content.len()), "{level:?}, {what}");
        assert!(source.is_none() || status.tag == *tag, "{level:?}, {what}");
        assert!(finished.take(request)? == *content, "{level:?}, {what}");
        return Ok(());
    }
    let code = finished.fault(request).expect("it is over");
    let of_the_dead = *needs_the_dead && code.is_process_failure();
    let cut_short = level == Level::Global && code == FaultCode::Interrupted;
    assert!(of_the_dead || cut_short, "{level:?}, {what}: {code}");
    let taken = finished.take(request);
    assert!(taken.is_ok() || taken == Err(Error::Quarantined), "{level:?}, {what}: {taken:?}");
    Ok(())
}

#[test]
fn a_rank_that_ends_with_messages_under_way_ends_in_order() {
    let run = program("requests left over", 4).run();
    assert_eq!(said(&run), ["rank 0: left", "rank 1: left", "rank 3: left"], "{run}");
}

#[test]
fn of_hundreds_of_messages_none_is_lost_or_blamed_but_those_of_the_dead() {
    all_say(&program("mixed requests with deaths", 6), 3, "each message had its own end");
}
