//! Checkpoints of a run: states go to an archive, too, and another job goes on from them.
//!
//! ```text
//!   step ─▶ committed, copied ─▶ due: each rank saves what is valid ─▶ a block: all have saved
//!                                                                             │
//!                           sets before this one are removed ◀── committed ───┘
//! ```
//!
//! The set of files becomes the one to start from as soon as all of it is there, which is before
//! the block is decided; the block tells the ranks that they can remove the sets before.

use std::{
    fmt,
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use super::{Comm, TryBlock};
use crate::{
    error::Error,
    recovery::{
        checkpoint::{Part, Set},
        folder::Folder,
        interval::{Interval, steps_between},
    },
    seam::{archive::Archive, reduction::ReduceOp},
    sim::Disk,
    timeout::Timeout,
};

/// How many sets a rank offers when a job starts again; two of its own launch can be complete, and
/// one each of launches that ended before they could remove what was there.
const OFFERED: usize = 4;
/// Words of a set.
const WORDS: usize = 2;

/// Where a run saves the protected states of all ranks, so that they outlive the job.
///
/// Each checkpoint is a set of files, one of each rank, and what it holds was committed before. A
/// job that is started again with as many ranks goes on from the newest set that is complete. The
/// folder may be shared, or each rank may have one of its own node; then a rank has to be started
/// on the same node again. States that do not consist of numbers cannot be saved.
///
/// In a program without [`World::run`](crate::World::run), nothing is saved.
pub struct Checkpoints {
    archive: Box<dyn Archive>,
    interval: Interval,
    restart: bool,
}

impl Checkpoints {
    /// In this folder, as often as is best for the measured cost of saving and a failure an hour.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::in_archive(Box::new(Folder(folder.into())))
    }

    /// On the disk of a simulation.
    pub fn on_disk(disk: &Disk) -> Self {
        Self::in_archive(Box::new(disk.clone()))
    }

    fn in_archive(archive: Box<dyn Archive>) -> Self {
        Self { archive, interval: Interval::default(), restart: false }
    }

    /// After how many steps a checkpoint is due. It is saved with the next copy of the states
    /// ([`State::interval`](crate::State::interval)).
    #[must_use]
    pub fn every(mut self, interval: Interval) -> Self {
        self.interval = interval;
        self
    }

    /// The first run goes on from the newest complete checkpoint. Without this call a folder that
    /// has checkpoints is refused, so that none is lost by mistake.
    #[must_use]
    pub fn restart(mut self) -> Self {
        self.restart = true;
        self
    }
}

impl fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, Self { interval, restart, .. }) = (self.archive.place(), self);
        write!(f, "Checkpoints in {place}, {interval:?}, restart: {restart}")
    }
}

/// The checkpoints of a run, and which of them there are; all ranks know the same.
pub(super) struct Filing {
    checkpoints: Checkpoints,
    /// The number of this start of the job; 0 as long as this rank does not know it.
    launch: u64,
    /// One more than the steps of the newest checkpoint.
    saved: u64,
    /// When it was saved, or this rank has joined.
    since: Option<Duration>,
    /// How many steps lie between two, once that is known.
    every: Option<u64>,
}

/// What the ranks tell each other about checkpoints when they join; of all the largest counts.
#[derive(Clone, Copy, Default)]
pub(super) struct Told {
    /// 1 on a rank without checkpoints.
    lacks: u64,
    /// The newest start of the job that has left checkpoints.
    seen: u64,
    /// 1 where the job is to go on from one.
    restart: u64,
    /// [`Filing::launch`], `saved` and `every`, where they are known.
    launch: u64,
    saved: u64,
    every: u64,
}

impl Told {
    pub(super) const LENGTH: usize = 6;

    /// What a rank tells.
    pub(super) fn of(filing: Option<&mut Filing>) -> Self {
        let lacking = Self { lacks: 1, ..Self::default() };
        let Some(it) = filing else { return lacking };
        match it.parts() {
            Ok(parts) => Self {
                lacks: 0,
                seen: parts.iter().map(|part| part.set.launch).max().unwrap_or(0),
                restart: it.checkpoints.restart.into(),
                launch: it.launch,
                saved: it.saved,
                every: it.every.unwrap_or(0),
            },
            Err(error) => {
                it.complain("read", &error);
                lacking
            }
        }
    }

    pub(super) fn words(self) -> [u64; Self::LENGTH] {
        let Self { lacks, seen, restart, launch, saved, every } = self;
        [lacks, seen, restart, launch, saved, every]
    }

    pub(super) fn from_words(words: [u64; Self::LENGTH]) -> Self {
        let [lacks, seen, restart, launch, saved, every] = words;
        Self { lacks, seen, restart, launch, saved, every }
    }

    /// True when a job that has nothing protected is to go on from a checkpoint.
    pub(super) fn restarts(self) -> bool {
        self.restart > 0 && self.launch == 0
    }

    /// Why a job that begins must not save checkpoints here.
    pub(super) fn refusal(self, filing: Option<&Filing>) -> Option<Error> {
        let begins_over_others = self.launch == 0 && self.seen > 0 && self.restart == 0;
        let place = || filing.map(|it| it.checkpoints.archive.place()).unwrap_or_default();
        (begins_over_others && self.lacks == 0).then(|| Error::CheckpointsExist { place: place() })
    }

    /// The ranks have joined, with so many steps protected.
    pub(super) fn settle(self, filing: &mut Option<Filing>, protected: u64, now: Duration) {
        if self.lacks > 0 {
            *filing = None;
        }
        let Some(it) = filing else { return };
        (it.launch, it.saved, it.every) = match self.launch {
            0 if self.restart > 0 => (self.seen + 1, protected, None),
            0 => (self.seen + 1, 0, None),
            launch => (launch, self.saved, Some(self.every).filter(|every| *every > 0)),
        };
        it.since.get_or_insert(now);
    }
}

impl Filing {
    pub(super) fn of(checkpoints: Checkpoints) -> Self {
        Self { checkpoints, launch: 0, saved: 0, since: None, every: None }
    }

    fn parts(&mut self) -> io::Result<Vec<Part>> {
        let names = self.checkpoints.archive.names()?;
        Ok(names.iter().filter_map(|name| Part::named(name)).collect())
    }

    /// The newest parts of this rank that are whole.
    fn offers(&mut self, (rank, ranks): (u32, u32)) -> Vec<Set> {
        let parts = self.parts().unwrap_or_default().into_iter();
        let mut mine: Vec<Part> = parts.filter(|it| (it.rank, it.ranks) == (rank, ranks)).collect();
        mine.sort_unstable_by_key(|part| core::cmp::Reverse(part.set));
        let whole = mine.into_iter().filter(|part| self.load(*part).is_some());
        whole.take(OFFERED).map(|part| part.set).collect()
    }

    fn load(&mut self, part: Part) -> Option<crate::engine::Copies> {
        part.decode(&self.checkpoints.archive.load(&part.name()).ok()?)
    }

    /// Saves the states that are valid now.
    fn save(&mut self, part: Part, comm: &Comm) -> io::Result<()> {
        let content = part.encode(&comm.engine().borrow().job.copies);
        let content = content.ok_or_else(|| io::Error::other("its states are not all numbers"))?;
        self.checkpoints.archive.save(&part.name(), &content)
    }

    fn remove_before(&mut self, set: Set) -> io::Result<()> {
        let old: Vec<Part> = self.parts()?.into_iter().filter(|part| part.set < set).collect();
        old.into_iter().try_for_each(|part| self.checkpoints.archive.remove(&part.name()))
    }

    fn complain(&self, what: &str, error: &io::Error) {
        let place = self.checkpoints.archive.place();
        let text =
            format!("fampi: checkpoints in {place} cannot be {what}: {error}; the run goes on\n");
        // At once, as ranks may complain at the same time; a lost complaint is no reason to stop.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// True when the states that are protected are to be saved.
    pub(super) fn is_due(&self, protected: u64) -> bool {
        let every = match self.checkpoints.interval {
            Interval::Never => return false,
            Interval::Every(steps) => u64::from(steps.max(1)),
            Interval::Auto { .. } => self.every.unwrap_or(1),
        };
        // The copy before the first step is made again from nothing.
        protected > 1 && protected >= self.saved + every
    }

    /// Saves the states, in a block that says whether all ranks have; true if so.
    pub(super) fn checkpoint(
        &mut self,
        block: &mut TryBlock,
        comm: &Comm,
        (rank, ranks): (u32, u32),
        protected: u64,
    ) -> Result<bool, Error> {
        let now = || comm.engine().borrow().platform.now();
        let (set, began) = (Set { launch: self.launch, protected }, now());
        let saved = self.save(Part { set, rank, ranks }, comm);
        if let Err(error) = &saved {
            self.complain("saved", error);
        }
        let took = now().saturating_sub(began).as_secs_f64();
        let steps = protected.saturating_sub(self.saved).max(1);
        let each = began.saturating_sub(self.since.unwrap_or(began)).as_secs_f64() / steps as f64;
        let mine = vec![took, each, f64::from(u8::from(saved.is_err()))];
        let all = block.iallreduce(mine, ReduceOp::Max)?;
        block.wait_local(all, Timeout::Never)?;
        let all = block.take(all)?;
        if let Interval::Auto { mtbf } = self.checkpoints.interval {
            self.every = Some(steps_between(all[0], all[1], mtbf).into());
        }
        Ok(all[2] == 0.0)
    }

    /// A further run of the program saves newer checkpoints than those of this one.
    pub(super) fn for_next_run(self) -> Self {
        Self { launch: self.launch + 1, saved: 0, since: None, every: None, ..self }
    }

    /// The block is committed in which all ranks, or not all, have saved this.
    pub(super) fn settle(&mut self, protected: u64, complete: bool, now: Duration) {
        (self.saved, self.since) = (protected, Some(now));
        let set = Set { launch: self.launch, protected };
        if complete && let Err(error) = self.remove_before(set) {
            self.complain("removed", &error);
        }
    }
}

/// Loads the newest checkpoint of which all ranks of the block have their part. One more than its
/// steps; or why there is none, on all ranks.
pub(super) fn restart(
    block: &mut TryBlock,
    comm: &Comm,
    part: (u32, u32),
    filing: &mut Option<Filing>,
) -> Result<Result<u64, Error>, Error> {
    let mut offers = filing.as_mut().map(|it| it.offers(part)).unwrap_or_default();
    offers.resize(OFFERED, Set { launch: 0, protected: 0 });
    let mut all = vec![0; WORDS * OFFERED * comm.size() as usize];
    let mine = all.chunks_exact_mut(WORDS).skip(OFFERED * comm.rank().index());
    mine.zip(&offers).for_each(|(words, set)| words.copy_from_slice(&[set.launch, set.protected]));
    let all = block.iallgather(all)?;
    block.wait_local(all, Timeout::Never)?;
    let all = block.take(all)?;
    let ranks = all.chunks_exact(WORDS * OFFERED);
    let has = |words: &[u64], set: Set| {
        words.chunks_exact(WORDS).any(|it| *it == [set.launch, set.protected])
    };
    let common = |set: &Set| set.protected > 0 && ranks.clone().all(|words| has(words, *set));
    let newest = offers.iter().copied().find(common);
    let place = filing.as_ref().map(|it| it.checkpoints.archive.place()).unwrap_or_default();
    let none = Error::NoCheckpoint { place, ranks: comm.size() };
    let Some((set, it)) = newest.zip(filing.as_mut()) else { return Ok(Err(none)) };
    let (rank, ranks) = part;
    let copies = it.load(Part { set, rank, ranks }).ok_or(none)?;
    comm.engine().borrow_mut().job.copies = copies;
    Ok(Ok(set.protected))
}
