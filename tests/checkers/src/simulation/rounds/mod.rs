//! The program of a rank: rounds of blocks, each repeated until it commits.

mod accesses;
mod fused;
mod riders;

use std::time::Duration;

use fampi::{
    BlockOptions, Codes, Color, Comm, CommId, Error, Finished, Level, Outcome, Pending, Placement,
    Rank, ReduceOp, Source, Tag, TagSelector, Timeout, Tried, TryBlock, World,
    sim::{self, Draw},
};
use fampi_kit::programs::every::{Call, KINDS};

use crate::simulation::{
    job::{Answer, Job, Log, Work},
    oracle::End,
};

/// Where a round leads.
enum Next {
    Done,
    Again,
    Recover,
}

struct Run<'a> {
    job: &'a Job,
    log: Log,
    round: u64,
    attempt: u64,
    /// Blocks started on each communicator.
    started: Vec<(CommId, u64)>,
}

pub(super) fn run(world: World, job: &Job) -> Log {
    let mut run = Run { job, log: Log::default(), round: 0, attempt: 0, started: Vec::new() };
    run.log.replacement = world.is_replacement();
    let (world, result) = match job.answer {
        Answer::Shrink => {
            let result = run.with_shrink(&world);
            (world, result)
        }
        _ => run.with_rebuild(world),
    };
    run.log.rounds_done = run.round;
    run.log.gave_up = result.err();
    // Whoever leaves without a farewell counts as dead on real ranks; here nobody would notice.
    world.finalize();
    run.log
}

impl Run<'_> {
    /// The last world, and how it ended.
    fn with_rebuild(&mut self, mut world: World) -> (World, Result<(), Error>) {
        let placement = match self.job.answer {
            Answer::Merge => Placement::Append,
            _ => Placement::SameRanks,
        };
        let mut next = if world.is_replacement() { self.restore(&world) } else { Ok(Next::Again) };
        while self.round < self.job.work.len() as u64 {
            next = match next {
                Err(error) => return (world, Err(error)),
                Ok(Next::Recover) => {
                    self.log.recoveries += 1;
                    self.attempt = 0;
                    world = match world.rebuild(placement) {
                        Ok(world) => world,
                        Err(error) => return (world, Err(error)),
                    };
                    self.restore(&world)
                }
                Ok(Next::Done | Next::Again) => self.round_with_state(&world),
            };
        }
        (world, next.map(|_| ()))
    }

    fn with_shrink(&mut self, world: &Comm) -> Result<(), Error> {
        let mut comm = world.clone();
        while self.round < self.job.work.len() as u64 {
            match self.one_round(&comm, None)? {
                Next::Done => self.advance(),
                Next::Again => self.attempt += 1,
                Next::Recover => {
                    self.log.recoveries += 1;
                    comm = comm.shrink()?;
                }
            }
        }
        Ok(())
    }

    fn round_with_state(&mut self, world: &World) -> Result<Next, Error> {
        let row = match self.row_of(world) {
            Ok(row) => row,
            Err(Error::CreationFailed) => return Ok(Next::Recover),
            Err(error) => return Err(error),
        };
        let next = self.one_round(world, Some((world, row.as_ref())))?;
        match next {
            Next::Done => self.advance(),
            Next::Again => self.attempt += 1,
            Next::Recover => {}
        }
        Ok(next)
    }

    /// A communicator of the even, or of the odd, ranks; made once, rebuilt with the world.
    fn row_of(&self, world: &World) -> Result<Option<Comm>, Error> {
        if !self.job.rows {
            return Ok(None);
        }
        if let Some(row) = world.children().pop() {
            return Ok(row);
        }
        let forming = world.isplit(Color::Of(world.origin() % 2), world.rank().number())?;
        Ok(forming.wait_local(Timeout::Never)?.into_comm())
    }

    fn advance(&mut self) {
        self.round += 1;
        self.attempt = 0;
    }

    fn restore(&mut self, world: &World) -> Result<Next, Error> {
        let number = self.count(world);
        let options = BlockOptions::global(Timeout::Never);
        let tried = world.try_block(options, |block| block.restore::<u64>(3))?;
        let (finished, error, state) = match tried {
            Tried::Committed(state, finished) => (finished, None, Some(state)),
            Tried::Faulty(finished, error) => (finished, error, None),
        };
        self.note(world, number, &finished, error.is_none());
        if let Some(state) = state {
            if state[1] != u64::from(world.origin()) || state[0] > self.job.work.len() as u64 {
                self.log.wrong = Some(format!("rank {} restored {state:?}", world.rank()));
            }
            self.round = state[0];
            return Ok(Next::Again);
        }
        match (after(&finished)?, error) {
            (Next::Recover, _) => Ok(Next::Recover),
            (_, Some(Error::NothingProtected)) => {
                self.round = 0;
                Ok(Next::Again)
            }
            (_, Some(error @ Error::StateLost { .. })) => Err(error),
            (_, Some(_)) | (Next::Done | Next::Again, None) => self.restore(world),
        }
    }

    fn one_round(
        &mut self,
        comm: &Comm,
        state: Option<(&World, Option<&Comm>)>,
    ) -> Result<Next, Error> {
        let work = self.await_round();
        let number = self.count(comm);
        let window = (work == Work::Accesses).then(|| self.window(comm)).transpose()?;
        comm.set_patience(self.job.setting.at_a_death());
        let riders = work == Work::Riders;
        let level = if riders { Level::WithCollective } else { Level::Global };
        let mut block = comm.start(level)?;
        if let Some((world, _)) = &state {
            let after = [self.round + 1, u64::from(world.origin())];
            if let Err(error) = block.protect(3, &after) {
                return self.end(comm, number, block.leave(&error), false);
            }
        }
        if let Some(window) = &window {
            return self.accesses(comm, block, number, window);
        }
        let result = match (work, &state) {
            (Work::Ring, _) => self.ring(comm, &mut block, number, 8),
            (Work::LongRing, _) => self.ring(comm, &mut block, number, 2000),
            (Work::Sum, _) => self.sum(comm, &mut block),
            (Work::FanIn, _) => self.fan_in(comm, &mut block, number),
            (Work::Vote, _) => self.vote(comm),
            (Work::Nested, _) => self.nested(comm, &mut block, number, self.job.depth),
            (Work::Row, Some((_, Some(row)))) => self.inner_row(row, &mut block, number),
            (Work::Collectives, _) => self.all_ranks(comm, &mut block),
            (Work::Outstanding, _) => return self.outstanding(comm, block, number),
            (Work::Late, _) => return self.late(comm, block, number),
            (Work::Riders, _) => return self.riders(comm, block, number),
            (Work::Nothing | Work::Row | Work::Accesses, _) => Ok(()),
        };
        match result {
            Ok(()) if self.fuses(comm, number) => self.end_fused(comm, number, block),
            Ok(()) => self.end(comm, number, block.finish(Timeout::Never), true),
            Err(error) => self.end(comm, number, block.leave(&error), false),
        }
    }

    /// What is to be done in this round; the calm ones wait for the end of the storm.
    fn await_round(&self) -> Work {
        let job = self.job;
        if self.round as usize + job.calm >= job.work.len() {
            sim::compute_until(Duration::from_micros(job.setting.calm_from));
        }
        if let Some((slow, time)) = job.slow
            && sim::process() == Some(slow as usize)
        {
            sim::compute(Duration::from_micros(time));
        }
        job.work[self.round as usize]
    }

    /// Everybody sends to the right and receives from the left.
    fn ring(
        &mut self,
        comm: &Comm,
        block: &mut TryBlock,
        stamp: u64,
        length: usize,
    ) -> Result<(), Error> {
        let (me, size) = (comm.rank().number(), comm.size());
        let (right, left) = (Rank::new((me + 1) % size), Rank::new((me + size - 1) % size));
        let receive = block.irecv(vec![0_u64; length], left, Tag(5))?;
        let payload = self.payload(comm, stamp, me, length);
        if self.round.is_multiple_of(2) {
            block.isend(payload, right, Tag(5))?;
        } else {
            block.issend(payload, right, Tag(5))?;
        }
        block.wait_local(receive, Timeout::Never)?;
        let found = block.take(receive)?;
        self.compare(&found, &self.payload(comm, stamp, left.number(), length));
        Ok(())
    }

    fn sum(&mut self, comm: &Comm, block: &mut TryBlock) -> Result<(), Error> {
        let (me, size) = (u64::from(comm.rank().number()), u64::from(comm.size()));
        let mine = vec![me, self.round];
        let request = block.iallreduce(mine, ReduceOp::Sum)?;
        let barrier = block.ibarrier();
        block.wait_local(request, Timeout::Never)?;
        let found = block.take(request)?;
        self.compare(&found, &[size * (size - 1) / 2, size * self.round]);
        let gathered = block.iallgather([me * 3].repeat(size as usize))?;
        block.wait_local(barrier, Timeout::Never)?;
        block.wait_local(gathered, Timeout::Never)?;
        let found = block.take(gathered)?;
        self.compare(&found, &(0..size).map(|rank| rank * 3).collect::<Vec<_>>());
        Ok(())
    }

    /// A few of the operations of all ranks at once.
    fn all_ranks(&mut self, comm: &Comm, block: &mut TryBlock) -> Result<(), Error> {
        let (me, size) = (comm.rank().index(), comm.size() as usize);
        let mut draw = Draw(self.job.setting.seed ^ self.round);
        let mut posted = Vec::new();
        for _ in 0..3 {
            let kind = KINDS[draw.below(KINDS.len() as u64) as usize];
            let (root, longest) = (draw.below(size as u64) as usize, 1 + draw.below(800));
            let seed = draw.word() ^ self.attempt;
            let call = Call { kind, size, root, left_out: 0, seed, longest };
            posted.push((call, call.post(block, me)?));
        }
        for (call, request) in posted {
            block.wait_local(request, Timeout::Never)?;
            if let Err(wrong) = call.verify(me, &block.take(request)?) {
                self.log.wrong.get_or_insert(wrong);
            }
        }
        Ok(())
    }

    fn fan_in(&mut self, comm: &Comm, block: &mut TryBlock, stamp: u64) -> Result<(), Error> {
        let me = comm.rank().number();
        if me != 0 {
            let payload = self.payload(comm, stamp, me, 3);
            block.isend(payload, Rank::new(0), Tag(me))?;
            return Ok(());
        }
        let requests: Vec<_> = (1..comm.size())
            .map(|_| block.irecv(vec![0_u64; 3], Source::Any, TagSelector::Any))
            .collect::<Result<_, _>>()?;
        for request in requests {
            let status = block.wait_local(request, Timeout::Never)?;
            let found = block.take(request)?;
            self.compare(&found, &self.payload(comm, stamp, status.tag.0, 3));
        }
        Ok(())
    }

    /// One rank votes no, the first time.
    fn vote(&mut self, comm: &Comm) -> Result<(), Error> {
        let raises = self.attempt == 0 && comm.rank().number() == comm.size() / 2;
        if raises { Err(Error::Raised(41)) } else { Ok(()) }
    }

    /// Local blocks inside each other, each handed to its outer one in one of two ways.
    fn nested(
        &mut self,
        comm: &Comm,
        block: &mut TryBlock,
        stamp: u64,
        depth: u64,
    ) -> Result<(), Error> {
        let mut inner = comm.start(Level::Local)?;
        let result = match depth {
            1 => self.ring(comm, &mut inner, stamp, 4),
            _ => self.nested(comm, &mut inner, stamp, depth - 1),
        };
        let pending = match result {
            Ok(()) => inner.finish(Timeout::Never),
            Err(error) => inner.leave(&error),
        };
        if (self.round + depth).is_multiple_of(2) {
            block.nest(pending);
        } else {
            block.escalate(&wait(pending)?);
        }
        Ok(())
    }

    /// A global block on another communicator inside the world's.
    fn inner_row(&mut self, row: &Comm, block: &mut TryBlock, number: u64) -> Result<(), Error> {
        row.set_patience(self.job.setting.at_a_death());
        let mut inner = row.start(Level::Global)?;
        let result = self.sum(row, &mut inner);
        let yes = result.is_ok();
        let pending = match result {
            Ok(()) => inner.finish(Timeout::Never),
            Err(error) => inner.leave(&error),
        };
        if self.attempt.is_multiple_of(2) {
            block.nest(pending);
        } else {
            let finished = wait(pending)?;
            self.note(row, number, &finished, yes);
            block.escalate(&finished);
        }
        Ok(())
    }

    /// Several blocks at a time, ended in either order.
    fn outstanding(&mut self, comm: &Comm, first: TryBlock, number: u64) -> Result<Next, Error> {
        let mut blocks = vec![(first, number)];
        for _ in 1..self.job.outstanding {
            let number = self.count(comm);
            comm.set_patience(self.job.setting.at_a_death());
            blocks.push((comm.start(Level::Global)?, number));
        }
        let mut ends = Vec::new();
        for (mut block, number) in blocks {
            let result = self.exchange_without_wait(comm, &mut block, number);
            ends.push((block, number, result));
        }
        if !self.round.is_multiple_of(2) {
            ends.reverse();
        }
        let mut pending = Vec::new();
        for (block, number, result) in ends {
            let yes = result.is_ok();
            let end = match result {
                Err(error) => block.leave(&error),
                Ok(()) => block.finish(Timeout::Never),
            };
            pending.push((end, number, yes));
        }
        if !self.round.is_multiple_of(3) {
            pending.reverse();
        }
        let mut next = Next::Done;
        for (end, number, yes) in pending {
            match (self.end(comm, number, end, yes)?, &next) {
                (Next::Recover, _) | (_, Next::Recover) => next = Next::Recover,
                (Next::Again, _) => next = Next::Again,
                (Next::Done, _) => {}
            }
        }
        Ok(next)
    }

    fn exchange_without_wait(
        &mut self,
        comm: &Comm,
        block: &mut TryBlock,
        stamp: u64,
    ) -> Result<(), Error> {
        let (me, size) = (comm.rank().number(), comm.size());
        block.irecv(vec![0_u64; 4], Rank::new((me + size - 1) % size), Tag(7))?;
        block.isend(self.payload(comm, stamp, me, 4), Rank::new((me + 1) % size), Tag(7))?;
        Ok(())
    }

    /// One rank forgets to send, the first time: the others' requests run into the deadline.
    fn late(&mut self, comm: &Comm, mut block: TryBlock, stamp: u64) -> Result<Next, Error> {
        let (me, size) = (comm.rank().number(), comm.size());
        let forgets = self.attempt == 0 && me == 0;
        block.irecv(vec![0_u64; 2], Rank::new((me + size - 1) % size), Tag(1))?;
        if !forgets {
            let to = Rank::new((me + 1) % size);
            block.isend(self.payload(comm, stamp, me, 2), to, Tag(1))?;
        }
        let mut pending = block.finish(Timeout::After(Duration::from_millis(3)));
        let finished = loop {
            pending = match pending.wait_local(Timeout::After(Duration::from_micros(70)))? {
                Outcome::Committed(finished) | Outcome::Faulty(finished) => break finished,
                Outcome::TimedOut(pending) => pending,
            };
        };
        let complete = finished.failed_requests(Codes::Any).is_empty();
        self.note(comm, stamp, &finished, complete);
        after(&finished)
    }

    fn end(
        &mut self,
        comm: &Comm,
        number: u64,
        pending: Pending,
        yes: bool,
    ) -> Result<Next, Error> {
        let finished = wait(pending)?;
        let failed = !finished.failed_requests(Codes::Any).is_empty();
        self.note(comm, number, &finished, yes && !failed);
        after(&finished)
    }

    fn note(&mut self, comm: &Comm, number: u64, finished: &Finished, voted_yes: bool) {
        let (committed, report) = (finished.is_committed(), finished.report());
        let end = End { committed, report, voted_yes, fused: None };
        self.log.ends.push(((comm.id(), number), end));
    }

    /// The number of the block that is started next on this communicator.
    fn count(&mut self, comm: &Comm) -> u64 {
        let id = comm.id();
        if let Some((_, count)) = self.started.iter_mut().find(|(known, _)| *known == id) {
            *count += 1;
            return *count;
        }
        self.started.push((id, 0));
        0
    }

    fn payload(&self, comm: &Comm, stamp: u64, sender: u32, length: usize) -> Vec<u64> {
        let mut draw = Draw(comm.id().0 ^ (stamp << 20) ^ u64::from(sender) ^ self.round);
        (0..length).map(|_| draw.word()).collect()
    }

    fn compare(&mut self, found: &[u64], expected: &[u64]) {
        if found != expected && self.log.wrong.is_none() {
            let round = self.round;
            self.log.wrong = Some(format!(
                "isolation: in round {round} (attempt {}) a completed request holds {:x?}… \
                 instead of {:x?}…",
                self.attempt,
                &found[..found.len().min(2)],
                &expected[..expected.len().min(2)]
            ));
        }
    }
}

/// What follows from a block's end, the same on all ranks.
/// What follows a block. A rank that has left the job ends it for the others.
fn after(finished: &Finished) -> Result<Next, Error> {
    if finished.is_committed() {
        return Ok(Next::Done);
    }
    if let Some(error @ Error::Left { .. }) = finished.agreed_error() {
        return Err(error);
    }
    let report = finished.report();
    let died = report.faults().iter().any(|fault| Codes::PROCESS_FAILURES.matches(fault.code));
    Ok(if died { Next::Recover } else { Next::Again })
}

fn wait(mut pending: Pending) -> Result<Finished, Error> {
    loop {
        pending = match pending.wait_local(Timeout::Never)? {
            Outcome::Committed(finished) | Outcome::Faulty(finished) => return Ok(finished),
            Outcome::TimedOut(pending) => pending,
        };
    }
}
