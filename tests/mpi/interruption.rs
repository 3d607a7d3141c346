//! Programs in which ranks leave a block, or die, while the others wait for megabytes.
//!
//! A round is a block with some of the large operations below, drawn from its number, so that all
//! ranks draw the same. In a disturbed round somebody leaves or dies, and the waits of all others
//! have to end; the undisturbed round that follows it has the same operations on the same
//! communicator, with other data.

use std::{hint::black_box, thread, time::Duration};

use fampi::{
    Codes, Comm, Error, FaultCode, Finished, Level, Placement, Rank, ReduceOp, Request, Source,
    Tag, Timeout, TryBlock, World, mpi::Holdings, sim::Draw,
};
use fampi_kit::median::median;
use rustix::time::{ClockId, clock_gettime};

use crate::{
    all_say, program,
    programs::{Ended, die, say, wait},
    said,
};

/// Numbers in a buffer: 4 MiB.
pub(crate) const LENGTH: usize = 1 << 19;
const DISTURBED: u32 = 100;
/// Memory is compared with that after so many disturbed rounds.
const WARM: u32 = 25;
const DEATHS: u32 = 5;
const LATE_ROUNDS: u64 = 12;
/// Longer than this no wait goes on after a rank has left, however busy the machine is.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Large {
    Send,
    Receive,
    ReceiveFromAny,
    Allreduce,
    Bcast,
    Alltoall,
}

/// A block of large operations as all ranks know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    number: u32,
    disturbed: bool,
    /// Decides everything else; the same for the disturbed round and the one that follows.
    draw: u64,
}

/// What a rank remembers of the rounds.
#[derive(Default)]
pub(crate) struct Counts {
    /// Waits of mine that were ended.
    interrupted: u32,
    /// Buffers that came back from operations that did not complete, and that did not.
    returned: u32,
    quarantined: u32,
    /// Buffers that come back are kept, and looked at later. It takes memory.
    keeps: bool,
    /// Those that came back, until they are looked at again.
    back: Vec<Vec<u64>>,
    /// From the leave of another rank to the end of the last wait, for each disturbed round.
    delays: Vec<Duration>,
    undisturbed: Vec<Duration>,
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

impl Round {
    pub(crate) fn new(number: u32, disturbed: bool) -> Self {
        Self { number, disturbed, draw: Draw(number.into()).word() }
    }

    fn operations(self) -> Vec<Large> {
        let mut operations = Vec::new();
        if self.draw & 3 != 0 {
            let any = self.draw & 3 == 1;
            operations.push(if any { Large::ReceiveFromAny } else { Large::Receive });
            operations.push(Large::Send);
        }
        let collectives = [Large::Allreduce, Large::Bcast, Large::Alltoall];
        let chosen = 1 + (self.draw >> 2) % 7;
        operations.extend((0..3).filter(|it| chosen >> it & 1 == 1).map(|it| collectives[it]));
        operations
    }

    /// What a rank posts that is about to leave: the beginning, as all post their operations in one
    /// order.
    fn half(self) -> Vec<Large> {
        let mut operations = self.operations();
        operations.truncate(((self.draw >> 32) % operations.len() as u64) as usize);
        operations
    }

    /// Who leaves or dies; one more rank may do so, too.
    fn deserter(self, size: u32) -> Rank {
        Rank::new(((self.draw >> 8) % u64::from(size)) as u32)
    }

    fn deserts(self, me: Rank, size: u32) -> bool {
        let first = self.deserter(size);
        let second = Rank::new((first.number() + 1) % size);
        me == first || me == second && (self.draw >> 16).is_multiple_of(4)
    }

    fn root(self, size: u32) -> Rank {
        Rank::new(((self.draw >> 24) % u64::from(size)) as u32)
    }

    /// What a rank sends in this round and in no other.
    fn stamp(self, rank: Rank) -> u64 {
        u64::from(self.number) << 16 | u64::from(self.disturbed) << 15 | u64::from(rank.number())
    }

    fn post(
        self,
        block: &mut TryBlock,
        large: Large,
        (me, size): (Rank, u32),
    ) -> Result<Request<u64>, Error> {
        let (left, right) = neighbours(me, size);
        let own = || vec![self.stamp(me); LENGTH];
        match large {
            Large::Send => block.isend(own(), right, Tag(1)),
            Large::Receive => block.irecv(vec![0; LENGTH], left, Tag(1)),
            Large::ReceiveFromAny => block.irecv(vec![0; LENGTH], Source::Any, Tag(1)),
            Large::Allreduce => block.iallreduce(own(), ReduceOp::Sum),
            Large::Bcast => block.ibcast(own(), self.root(size)),
            Large::Alltoall => block.ialltoall(vec![self.stamp(me); whole(size)]),
        }
    }

    /// Makes sure that an operation has done what it should.
    fn check(self, large: Large, found: &[u64], (me, size): (Rank, u32)) {
        let (left, _) = neighbours(me, size);
        let all = (0..size).map(Rank::new);
        let expected = match large {
            Large::Send => self.stamp(me),
            Large::Receive | Large::ReceiveFromAny => self.stamp(left),
            Large::Allreduce => all.map(|rank| self.stamp(rank)).sum(),
            Large::Bcast => self.stamp(self.root(size)),
            Large::Alltoall => {
                for (part, from) in found.chunks(whole(size) / size as usize).zip(all) {
                    assert!(part.iter().all(|it| *it == self.stamp(from)), "{self:?}: {from}");
                }
                return;
            }
        };
        assert!(found.iter().all(|it| *it == expected), "{self:?}: {large:?}");
    }
}

fn neighbours(me: Rank, size: u32) -> (Rank, Rank) {
    let at = |offset| Rank::new((me.number() + offset) % size);
    (at(size - 1), at(1))
}

/// The length of a buffer that has a part for each rank.
fn whole(size: u32) -> usize {
    LENGTH / size as usize * size as usize
}

impl Counts {
    /// Nothing yet; buffers that come back are kept.
    pub(crate) fn keeping() -> Self {
        Self { keeps: true, ..Self::default() }
    }

    /// A buffer came back, with which MPI must have nothing more to do.
    pub(crate) fn keep(&mut self, buffer: Option<Vec<u64>>) {
        self.back.extend(buffer.map(|mut buffer| {
            scribble(&mut buffer);
            buffer
        }));
        if !self.keeps {
            self.back.clear();
        }
    }

    /// MPI has left the buffers alone that came back.
    fn expect_untouched(&mut self) {
        for buffer in self.back.drain(..) {
            assert!(buffer.iter().all(|it| *it == u64::MAX), "MPI wrote to a returned buffer");
        }
    }
}

/// Nobody may find this in a message.
fn scribble(buffer: &mut Vec<u64>) {
    buffer.fill(u64::MAX);
    // The buffer is about to be freed, but not before it was written to.
    black_box(buffer);
}

/// All operations in a block that nobody leaves.
pub(crate) fn undisturbed(comm: &Comm, round: Round, counts: &mut Counts) -> Ended {
    let place = (comm.rank(), comm.size());
    let begin = now();
    let mut block = comm.start(Level::Global)?;
    let mut posted = Vec::new();
    for large in round.operations() {
        posted.push((large, round.post(&mut block, large, place)?));
    }
    let finished = wait(block.finish(Timeout::Never))?;
    counts.undisturbed.push(Duration::from_nanos(now() - begin));
    assert!(finished.is_committed(), "{round:?}: {finished:?}");
    for (large, request) in posted {
        round.check(large, &finished.take(request)?, place);
    }
    counts.expect_untouched();
    Ok(())
}

/// This rank leaves, one way or another, after a moment in which the others begin to wait. Gives
/// the time at which it left.
fn desert(comm: &Comm, round: Round) -> Result<u64, Error> {
    let place = (comm.rank(), comm.size());
    let mut block = comm.start(Level::Global)?;
    let mut posted = Vec::new();
    for large in round.half() {
        posted.push(round.post(&mut block, large, place)?);
    }
    let moment = Duration::from_millis(2 + (round.draw >> 40) % 4);
    match posted.last() {
        Some(request) => drop(block.wait_local(*request, Timeout::After(moment))),
        None => thread::sleep(moment),
    }
    let left = now();
    if round.draw >> 33 & 1 == 1 {
        drop(block);
    } else {
        let finished = wait(block.leave(&Error::Raised(5)))?;
        assert!(!finished.is_committed(), "{round:?}");
    }
    Ok(left)
}

/// This rank stays and waits for every operation, as long as it takes. Gives the time at which it
/// waits no more.
fn stay(comm: &Comm, round: Round, counts: &mut Counts) -> Result<(u64, Finished), Error> {
    let place = (comm.rank(), comm.size());
    let mut block = comm.start(Level::Global)?;
    let mut posted = Vec::new();
    for large in round.operations() {
        posted.push((large, round.post(&mut block, large, place)?));
    }
    let mut ended = Ok(());
    for (_, request) in &posted {
        ended = ended.and(block.wait_local(*request, Timeout::Never).map(|_| ()));
    }
    let waited = now();
    // What did not complete is ours again, and nobody may read it any more.
    let mut back = vec![false; posted.len()];
    for ((_, request), back) in posted.iter().zip(&mut back) {
        if block.fault(*request).is_some() {
            let taken = block.take(*request);
            *back = taken.is_ok();
            counts.keep(taken.ok());
        }
    }
    let pending = match &ended {
        Err(error @ Error::Request(_)) if round.draw >> 34 & 1 == 1 => block.leave(error),
        Err(Error::Request(_)) | Ok(()) => block.finish(Timeout::Never),
        Err(other) => panic!("{round:?}: {other}"),
    };
    counts.interrupted += u32::from(ended.is_err());
    let finished = wait(pending)?;
    assert!(!finished.is_committed(), "{round:?}");
    for ((large, request), back) in posted.into_iter().zip(back) {
        match (finished.take(request), finished.fault(request)) {
            (Ok(found), None) => round.check(large, &found, place),
            (Err(Error::NoSuchRequest), Some(_)) if back => counts.returned += 1,
            (Ok(buffer), Some(_)) => {
                counts.returned += 1;
                counts.keep(Some(buffer));
            }
            (Err(Error::Quarantined), Some(FaultCode::Interrupted | FaultCode::ProcessFailed)) => {
                counts.quarantined += 1;
            }
            (taken, fault) => panic!("{round:?}, {large:?}: {:?}, {fault:?}", taken.map(|_| ())),
        }
    }
    Ok((waited, finished))
}

/// The greatest number of all ranks, and the smallest. A rank that dropped a block may start this
/// one before it knows the verdict, which then counts for this one, too.
fn extremes(comm: &Comm, mine: [u64; 2]) -> Result<[u64; 2], Error> {
    loop {
        let mut block = comm.start(Level::Global)?;
        let greatest = block.iallreduce(vec![mine[0]], ReduceOp::Max)?;
        let smallest = block.iallreduce(vec![mine[1]], ReduceOp::Min)?;
        let finished = wait(block.finish(Timeout::Never))?;
        if finished.is_committed() {
            return Ok([finished.take(greatest)?[0], finished.take(smallest)?[0]]);
        }
    }
}

/// The memory of this process in MiB: all of it, its own allocations, and what it holds in MPI.
#[derive(Debug)]
struct Memory {
    resident: f64,
    allocated: f64,
    holdings: Holdings,
}

impl Memory {
    /// After MPI had time to let go of what it can.
    fn settled(world: &World) -> Result<Self, Error> {
        for _ in 0..200 {
            let _ = extremes(world, [0; 2])?;
        }
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok());
        let resident = pages.expect("a number") * rustix::param::page_size() as f64;
        let heap = crate::ALLOCATOR.stats();
        let allocated = heap.bytes_allocated as f64 - heap.bytes_deallocated as f64;
        let holdings = world.holdings().expect("a real world");
        let mebibyte = f64::from(1 << 20);
        Ok(Self { resident: resident / mebibyte, allocated: allocated / mebibyte, holdings })
    }

    /// Less than one of the large buffers, and nothing in quarantine.
    fn expect_no_growth(&self, later: &Self) {
        let what = format!("{self:?} at first, {later:?} in the end");
        assert!(later.resident < self.resident + 3.0, "{what}");
        assert!(later.allocated < self.allocated + 1.0, "{what}");
        assert!(later.holdings.communicators <= self.holdings.communicators, "{what}");
        assert_eq!((later.holdings.operations, later.holdings.quarantined), (0, 0), "{what}");
    }
}

/// Ranks leave a hundred blocks of large operations.
pub(crate) fn by_leaves(world: World) -> Ended {
    let (me, size) = (world.rank(), world.size());
    let mut counts = Counts::default();
    let mut warm = None;
    for number in 0..DISTURBED {
        if number == WARM {
            warm = Some(Memory::settled(&world)?);
        }
        let round = Round::new(number, true);
        let times = if round.deserts(me, size) {
            [0, desert(&world, round)?]
        } else {
            [stay(&world, round, &mut counts)?.0, u64::MAX]
        };
        let [ended, left] = extremes(&world, times)?;
        counts.delays.push(Duration::from_nanos(ended.saturating_sub(left)));
        undisturbed(&world, Round::new(number, false), &mut counts)?;
    }
    warm.expect("there were enough").expect_no_growth(&Memory::settled(&world)?);
    assert!(counts.interrupted > DISTURBED / 4 && counts.returned > counts.quarantined);
    let (delay, undisturbed) = (median(&counts.delays), median(&counts.undisturbed));
    assert!(delay < 5 * undisturbed, "waits end {delay:?} after a leave, a block {undisturbed:?}");
    assert!(counts.delays.iter().all(|delay| *delay < LONGEST), "{:?}", counts.delays);
    say(world, "all interrupted")
}

/// A rank dies in a block of large operations, while the others wait.
fn with_a_death(world: &World, counts: &mut Counts) -> Ended {
    let round = Round::new(world.generation(), true);
    let (me, size) = (world.rank(), world.size());
    undisturbed(world, Round { disturbed: false, ..round }, counts)?;
    let dead = round.deserter(size);
    if me == dead {
        let mut block = world.start(Level::Global)?;
        for large in round.half() {
            round.post(&mut block, large, (me, size))?;
        }
        die();
    }
    let (_, finished) = stay(world, round, counts)?;
    assert_eq!(finished.failed_group(Codes::PROCESS_FAILURES, world).as_slice(), [dead]);
    Ok(())
}

/// Ranks die in blocks of large operations; the others go on with replacements, at last without.
pub(crate) fn by_deaths(mut world: World) -> Ended {
    let mut counts = Counts::keeping();
    while world.generation() < DEATHS {
        with_a_death(&world, &mut counts)?;
        world = world.rebuild(Placement::SameRanks)?;
    }
    counts.expect_untouched();
    let before = Memory::settled(&world)?;
    assert!(before.allocated < 1.0 && before.holdings.quarantined == 0, "{before:?}");
    with_a_death(&world, &mut counts)?;
    let rest = world.shrink()?;
    undisturbed(&rest, Round::new(DEATHS + 1, false), &mut counts)?;
    drop(rest);
    say(world, "all interrupted")
}

/// The receiver of a large message looks at it only long after another rank has left: the sender
/// does not wait that long, and what arrives is what was sent, even if the sender has its buffer
/// back before and changes it.
pub(crate) fn before_the_message_is_read(world: World) -> Ended {
    let me = world.rank().number();
    let mut early = 0;
    for round in 0..LATE_ROUNDS {
        let mut times = [0, u64::MAX];
        let mut block = world.start(Level::Global)?;
        let pending = match me {
            0 => {
                let sent = block.isend(vec![round + 1; LENGTH], Rank::new(1), Tag(1))?;
                let _ = block.wait_local(sent, Timeout::Never);
                times[0] = now();
                if let Ok(mut buffer) = block.take(sent) {
                    scribble(&mut buffer);
                }
                block.finish(Timeout::Never)
            }
            1 => {
                // The message is there before its receive, or after it.
                let late = Duration::from_millis(200);
                thread::sleep(if round % 2 == 0 { late } else { Duration::ZERO });
                let received = block.irecv(vec![0; LENGTH], Rank::new(0), Tag(1))?;
                thread::sleep(if round % 2 == 0 { Duration::ZERO } else { late });
                times[1] = now();
                if block.wait_local(received, Timeout::Never).is_ok() {
                    assert!(block.take(received)?.iter().all(|it| *it == round + 1));
                }
                block.finish(Timeout::Never)
            }
            2 => {
                thread::sleep(Duration::from_millis(5));
                block.leave(&Error::Raised(5))
            }
            _ => block.finish(Timeout::Never),
        };
        assert!(!wait(pending)?.is_committed());
        let [ended, looked] = extremes(&world, times)?;
        early += u32::from(ended < looked);
    }
    assert!(early > LATE_ROUNDS as u32 / 2, "{early} of {LATE_ROUNDS} waits ended at once");
    say(world, "nothing else than what was sent")
}

#[test]
fn a_hundred_leaves_end_the_large_operations_of_all_and_leak_nothing() {
    all_say(&program("interruption by leaves", 4).limit(120), 4, "all interrupted");
}

#[test]
fn deaths_end_the_large_operations_of_all() {
    for spares in [0, 6] {
        let run = program("interruption by deaths", 4).spares(spares).run();
        let done = said(&run).iter().filter(|line| line.ends_with(": all interrupted")).count();
        assert_eq!(done, 3, "{run}");
    }
}

#[test]
fn a_sender_is_interrupted_before_its_receiver_looks() {
    let launch = program("interruption before reading", 4);
    all_say(&launch, 4, "nothing else than what was sent");
}
