//! A rank on its way through the seasons.

use std::{
    panic::{self, AssertUnwindSafe},
    time::Duration,
};

use fampi::{
    Color, Comm, Error, Finished, Level, Outcome, Pending, Rank, ReduceOp, Request, Tag, Timeout,
    TryBlock, World,
    sim::{self, Draw},
};

use super::{
    End, Forest, Log, Name,
    script::{self, Step},
};

/// What a rank panics with on purpose.
const BUG: &str = "a bug of the application";
/// Seasons without storm until one has to commit: the first may tell of deaths before it.
const CALM: u64 = 5;

/// A derived communicator. Its parts have an identifier in common, so each has a name of its own.
#[derive(Clone)]
struct Node {
    comm: Comm,
    name: u64,
}

/// A block of the script, as far as this rank is in it.
#[derive(Default)]
struct Slot {
    /// Its communicator's name, this rank in it, and its size.
    place: Option<(u64, u32, u32)>,
    node: Option<usize>,
    block: Option<TryBlock>,
    pending: Option<Pending>,
    receive: Option<Request<u64>>,
    /// Why this rank will not finish it.
    error: Option<Error>,
}

/// A rank on its way through the seasons.
pub(super) struct Walk<'a> {
    job: &'a Forest,
    log: Log,
    season: u64,
    me: usize,
    /// What was derived, as far as this rank is in it and has not dropped it.
    nodes: Vec<Option<Node>>,
    /// What each was derived from, one after the other; known to all ranks.
    above: Vec<Vec<usize>>,
    slots: Vec<Slot>,
    outer: Option<TryBlock>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(job: &'a Forest) -> Self {
        Self {
            job,
            log: Log::default(),
            season: 0,
            me: 0,
            nodes: Vec::new(),
            above: Vec::new(),
            slots: Vec::new(),
            outer: None,
        }
    }

    pub(super) fn through(mut self, world: World) -> Log {
        self.me = sim::process().unwrap_or_default();
        if let Err(error) = self.seasons(&world) {
            self.wrong(|| format!("ended with {error}"));
        }
        self.nodes.clear();
        world.finalize();
        self.log
    }

    fn seasons(&mut self, world: &World) -> Result<(), Error> {
        let mut base = world.shrink()?;
        loop {
            let calm = self.season >= self.job.seasons;
            if calm {
                sim::compute_until(Duration::from_micros(self.job.setting.calm_from));
            }
            let mut draw =
                Draw(self.job.setting.seed ^ (self.season + 1).wrapping_mul(0x5851_f42d));
            let kept = !calm && draw.one_in(2);
            if !kept {
                self.clear();
            }
            let whole = self.grow(&base, &mut draw, calm)?;
            let (committed, died) = self.follow(&base, &mut draw, calm, whole)?;
            let mut ends = self.log.ends.iter().filter(|_| calm && committed);
            let faulty = ends.find(|(name, end)| name.0 == self.season && !end.committed);
            if let Some(faulty) = faulty.map(|end| format!("{end:?}")) {
                self.wrong(|| format!("nobody objected, and yet {faulty}"));
            }
            self.season += 1;
            if died {
                self.clear();
                base = base.shrink()?;
            } else if calm && committed {
                return Ok(());
            }
            if self.season > self.job.seasons + CALM {
                self.wrong(|| "nothing commits any more".into());
                return Ok(());
            }
        }
    }

    fn clear(&mut self) {
        self.nodes.clear();
        self.above.clear();
    }

    /// Derives communicators; false when one could not be made.
    fn grow(&mut self, base: &Comm, draw: &mut Draw, calm: bool) -> Result<bool, Error> {
        let mut whole = true;
        for _ in 0..=draw.below(3) {
            let parent = draw.below(self.nodes.len() as u64 + 1) as usize;
            let (parts, outsiders) = (1 + draw.below(3) as u32, draw.one_in(5));
            let parent = parent.checked_sub(1);
            let mut above = parent.map_or_else(Vec::new, |at| self.above[at].clone());
            above.extend(parent);
            self.above.push(above);
            let parent = match parent {
                None => Some(Node { comm: base.clone(), name: 0 }),
                Some(at) => self.nodes[at].clone(),
            };
            let Some(Node { comm: parent, name }) = parent else {
                self.nodes.push(None);
                continue;
            };
            let rank = parent.rank().number();
            let outside = outsiders && rank % 4 == 3;
            let color = if outside { Color::None } else { Color::Of(rank % parts) };
            let part = (self.nodes.len() as u64) << 8 | u64::from(rank % parts);
            let name = Draw(name ^ part).word();
            let made = match parent.isplit(color, 0)?.wait_local(Timeout::Never) {
                Ok(made) => made.into_comm().map(|comm| Node { comm, name }),
                Err(Error::CreationFailed) => {
                    whole = false;
                    self.log.seen.count("communicators not made", 1);
                    None
                }
                Err(error) => return Err(error),
            };
            if calm && made.is_none() && !outside && whole {
                self.wrong(|| "a communicator was not made".into());
            }
            self.nodes.push(made);
        }
        Ok(whole)
    }

    /// The script of a season, and its end; whether that committed, and whether somebody died.
    fn follow(
        &mut self,
        base: &Comm,
        draw: &mut Draw,
        calm: bool,
        whole: bool,
    ) -> Result<(bool, bool), Error> {
        let script = script::draw(draw, &self.above, self.job.setting.ranks, calm);
        sim::note(&format!("season {}: {script:?}", self.season));
        let within = draw.one_in(2);
        if within {
            base.set_patience(self.job.setting.at_a_death());
            self.outer = Some(base.start(Level::Global)?);
        }
        self.slots.clear();
        let mut end = Ok(());
        for step in script {
            end = self.step(step);
            if end.is_err() {
                break;
            }
        }
        end = end.and_then(|()| self.end_all());
        self.slots.clear();
        let last = match self.outer.take() {
            Some(outer) => outer,
            None => base.start(Level::Global)?,
        };
        if let (Err(error), false) = (&end, within) {
            self.wrong(|| format!("in no doomed block, and yet {error}"));
        }
        let voted_yes = end.is_ok() && whole;
        let pending = match end {
            Ok(()) if whole => last.finish(Timeout::Never),
            Ok(()) => last.leave(&Error::Raised(7)),
            Err(error) => last.leave(&error),
        };
        let finished = wait(pending)?;
        self.note((self.season, usize::MAX, 0), &finished, voted_yes);
        // A report tells of the new ones. That of a communicator which was not made is not seen.
        Ok((finished.is_committed(), !base.known_failed().is_empty()))
    }

    /// An error of this rank ends its part in the season.
    fn step(&mut self, step: Step) -> Result<(), Error> {
        match step {
            Step::Start { node } => return self.start(node),
            Step::Exchange(slot) => return self.exchange(slot),
            Step::Sum(slot) => return self.sum(slot),
            Step::Panic(slot, process) if process == self.me => self.panic(slot),
            Step::Leave(slot, process) if process == self.me => {
                self.slots[slot].error = Some(Error::Raised(5));
                self.finish(slot);
            }
            Step::Finish(slot) | Step::Leave(slot, _) | Step::Panic(slot, _) => self.finish(slot),
            Step::Wait(slot) => return self.wait(slot),
            Step::Nest(slot) => {
                if let Some(outer) = &mut self.outer
                    && let Some(pending) = self.slots[slot].pending.take()
                {
                    outer.nest(pending);
                }
            }
            Step::Drop { node, process } if process == self.me => self.drop_node(node),
            Step::Compute(process) if process == self.me => {
                sim::compute(Duration::from_micros(40));
            }
            Step::Drop { .. } | Step::Compute(_) => {}
        }
        Ok(())
    }

    /// Drops a handle. What was derived from it starts afresh whenever a block of the others there
    /// is faulty, of which a rank that is not in it has no notice: so that goes, too.
    fn drop_node(&mut self, at: usize) {
        let mut dropped = self.nodes[at].take().is_some();
        for (node, above) in self.nodes.iter_mut().zip(&self.above) {
            dropped |= node.take_if(|_| above.contains(&at)).is_some();
        }
        self.log.seen.count("handles dropped", u64::from(dropped));
    }

    fn start(&mut self, node: usize) -> Result<(), Error> {
        let mut slot = Slot { node: Some(node), ..Slot::default() };
        if let Some(Node { comm, name }) = &self.nodes[node] {
            slot.place = Some((*name, comm.rank().number(), comm.size()));
            comm.set_patience(self.job.setting.at_a_death());
            slot.block = Some(comm.start(Level::Global)?);
        }
        self.slots.push(slot);
        Ok(())
    }

    fn stamp(&self, slot: usize, sender: u32) -> u64 {
        self.season << 32 | (slot as u64) << 16 | u64::from(sender)
    }

    fn exchange(&mut self, at: usize) -> Result<(), Error> {
        let Some((_, me, size)) = self.slots[at].place else { return Ok(()) };
        let stamp = self.stamp(at, me);
        let slot = &mut self.slots[at];
        if let (Some(block), None) = (&mut slot.block, slot.receive) {
            let from = Rank::new((me + size - 1) % size);
            slot.receive = Some(block.irecv(vec![0], from, Tag(2))?);
            block.isend(vec![stamp], Rank::new((me + 1) % size), Tag(2))?;
        }
        Ok(())
    }

    /// A sum, for which this rank waits inside of the block.
    fn sum(&mut self, at: usize) -> Result<(), Error> {
        let Slot { place: Some((_, _, size)), block: Some(block), .. } = &mut self.slots[at] else {
            return Ok(());
        };
        let size = u64::from(*size);
        let request = block.iallreduce(vec![1_u64], ReduceOp::Sum)?;
        match block.wait_local(request, Timeout::Never) {
            Ok(_) => {
                let sum = block.take(request)?;
                if sum != [size] {
                    self.wrong(|| format!("the sum of {size} ranks is {sum:?}"));
                }
            }
            Err(error) => self.slots[at].error = Some(error),
        }
        Ok(())
    }

    fn finish(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if let Some(block) = slot.block.take() {
            slot.pending = Some(match &slot.error {
                Some(error) => block.leave(error),
                None => block.finish(Timeout::Never),
            });
        }
    }

    fn wait(&mut self, at: usize) -> Result<(), Error> {
        let Some(pending) = self.slots[at].pending.take() else { return Ok(()) };
        let finished = match wait(pending) {
            Ok(finished) => finished,
            Err(error) => {
                self.log.seen.count("waits in doomed blocks", 1);
                return Err(error);
            }
        };
        let slot = &self.slots[at];
        let Some((name, me, size)) = slot.place else { return Ok(()) };
        let voted_yes = slot.error.is_none();
        if let Some(receive) = self.slots[at].receive
            && finished.status(receive).is_some()
        {
            let (found, sent) = (finished.take(receive)?, self.stamp(at, (me + size - 1) % size));
            if found != [sent] {
                self.wrong(|| format!("isolation: block {at} received {found:x?}, not {sent:x}"));
            }
        }
        self.note((self.season, at, name), &finished, voted_yes);
        Ok(())
    }

    /// A panic with a block, which this rank catches.
    fn panic(&mut self, at: usize) {
        let Some(block) = self.slots[at].block.take() else { return };
        // Nobody here hears of its verdict.
        if let Some(node) = self.slots[at].node {
            self.drop_node(node);
        }
        self.log.seen.count("panics", 1);
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            let _block = block;
            panic::resume_unwind(Box::new(BUG));
        }));
        if let Err(what) = caught
            && what.downcast_ref() != Some(&BUG)
        {
            // A death of the simulation, which nobody survives.
            panic::resume_unwind(what);
        }
    }

    /// The ends of all that is open.
    fn end_all(&mut self) -> Result<(), Error> {
        for at in 0..self.slots.len() {
            self.finish(at);
        }
        (0..self.slots.len()).try_for_each(|at| self.wait(at))
    }

    fn note(&mut self, name: Name, finished: &Finished, voted_yes: bool) {
        let (committed, report) = (finished.is_committed(), finished.report());
        self.log.ends.insert(name, End { committed, report, voted_yes, fused: None });
    }

    fn wrong(&mut self, what: impl FnOnce() -> String) {
        let (me, season) = (self.me, self.season);
        self.log.wrong.get_or_insert_with(|| format!("process {me}, season {season}: {}", what()));
    }
}

fn wait(pending: Pending) -> Result<Finished, Error> {
    match pending.wait_local(Timeout::Never)? {
        Outcome::Committed(finished) | Outcome::Faulty(finished) => Ok(finished),
        Outcome::TimedOut(_) => unreachable!("it never times out"),
    }
}
