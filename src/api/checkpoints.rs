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
    engine::Copies,
    error::Error,
    native::Element,
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
/// Words of an offer.
const WORDS: usize = 3;

/// A set, and how many ranks have saved it.
type Offer = (Set, u32);

/// Where a run saves the protected states of all ranks, so that they outlive the job.
///
/// Each checkpoint is a set of files, one of each rank, and what it holds was committed before. A
/// job that is started again with as many ranks goes on from the newest set that is complete; with
/// another number of ranks if the state says how ([`State::resize`](crate::State::resize)). The
/// folder may be shared, or each rank may have one of its own node; then a rank has to be started
/// on the same node again, and there have to be as many. States that do not consist of numbers
/// cannot be saved.
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

    /// The newest sets in which this rank has found no damage. Of a set of as many ranks it reads
    /// its own part. Of a set of another number, if `resizes` is true, it sees that all parts are
    /// there, and the ranks share the work of reading them.
    fn offers(&mut self, (rank, ranks): (u32, u32), resizes: bool) -> Vec<Offer> {
        let mut parts = self.parts().unwrap_or_default();
        let order = |part: &Part| (part.set, part.ranks, part.rank);
        parts.sort_unstable_by_key(order);
        let mut offers: Vec<Offer> = parts.iter().map(|part| (part.set, part.ranks)).collect();
        offers.sort_unstable_by_key(|offer| core::cmp::Reverse(*offer));
        offers.dedup();
        let whole = offers.into_iter().filter(|&(set, before)| {
            let mut parts_of_it = (0..before).map(|rank| Part { set, rank, ranks: before });
            if before == ranks {
                return self.load(Part { set, rank, ranks }).is_some();
            }
            let mine = (rank..before).step_by(ranks as usize);
            resizes
                && parts_of_it.all(|part| parts.binary_search_by_key(&order(&part), order).is_ok())
                && mine
                    .map(|rank| Part { set, rank, ranks: before })
                    .all(|it| self.load(it).is_some())
        });
        whole.take(OFFERED).collect()
    }

    fn load(&mut self, part: Part) -> Option<Copies> {
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
    pub(super) fn settle(
        &mut self,
        (rank, ranks): (u32, u32),
        protected: u64,
        complete: bool,
        now: Duration,
    ) {
        (self.saved, self.since) = (protected, Some(now));
        let set = Set { launch: self.launch, protected };
        let removed = if complete {
            self.remove_before(set)
        } else {
            // Some could not save theirs: this part is of no use, and would hide older ones.
            self.checkpoints.archive.remove(&Part { set, rank, ranks }.name())
        };
        if let Err(error) = removed {
            self.complain("removed", &error);
        }
    }
}

/// What a job with another number of ranks has saved: the states of all its ranks, for
/// [`State::resize`](crate::State::resize).
pub struct Saved<'a> {
    filing: &'a mut Filing,
    set: Set,
    before: u32,
    now: (u32, u32),
    /// The part that was read last.
    last: Option<(u32, Copies)>,
}

impl Saved<'_> {
    /// The number of ranks that have saved it.
    pub fn saved_ranks(&self) -> u32 {
        self.before
    }

    /// The number of ranks that there are now.
    pub fn ranks(&self) -> u32 {
        self.now.1
    }

    /// Which of these this rank is.
    pub fn rank(&self) -> u32 {
        self.now.0
    }

    /// The state with this number of one of the ranks that have saved it. A file is read again
    /// when another rank was asked for in between.
    ///
    /// # Errors
    ///
    /// [`Error::NoCheckpoint`] when its file cannot be read any more, [`Error::NothingProtected`]
    /// when it has no such state, [`Error::StateType`] when that has other elements.
    ///
    /// # Panics
    ///
    /// When there was no such rank.
    pub fn state<T: Element>(&mut self, rank: u32, number: u32) -> Result<Vec<T>, Error> {
        assert!(rank < self.before, "{} ranks have saved their states", self.before);
        if self.last.as_ref().is_none_or(|(last, _)| *last != rank) {
            let part = Part { set: self.set, rank, ranks: self.before };
            let copies = self.filing.load(part).ok_or_else(|| Error::NoCheckpoint {
                place: self.filing.checkpoints.archive.place(),
                ranks: self.now.1,
            })?;
            self.last = Some((rank, copies));
        }
        let slots = self.last.iter().flat_map(|(_, copies)| &copies.slots);
        let slot = slots.into_iter().find(|slot| slot.number == number);
        let state = slot.and_then(|slot| slot.own.as_ref()).ok_or(Error::NothingProtected)?;
        let state = state.as_any().downcast_ref::<Vec<T>>();
        state.cloned().ok_or(Error::StateType { slot: number })
    }
}

impl fmt::Debug for Saved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what {} ranks have saved, for {}", self.before, self.now.1)
    }
}

/// What a job begins with that is to go on from a checkpoint; alike on all ranks, with one more
/// than the steps of the checkpoint.
pub(super) enum Begun<'a> {
    /// With none, for this reason.
    Refused(Error),
    /// With one of as many ranks, which has the last copies of their states.
    Loaded(u64),
    /// With one of another number of ranks, of which the state takes what it needs.
    Resized(u64, Saved<'a>),
}

/// Loads the newest checkpoint that all ranks of the block offer.
pub(super) fn restart<'a>(
    block: &mut TryBlock,
    comm: &Comm,
    part: (u32, u32),
    filing: &'a mut Option<Filing>,
    resizes: bool,
) -> Result<Begun<'a>, Error> {
    let offers = filing.as_mut().map(|it| it.offers(part, resizes));
    let mut offers = offers.unwrap_or_default();
    offers.resize(OFFERED, (Set { launch: 0, protected: 0 }, 0));
    let words = |(set, ranks): Offer| [set.launch, set.protected, ranks.into()];
    let mut all = vec![0; WORDS * OFFERED * comm.size() as usize];
    let mine = all.chunks_exact_mut(WORDS).skip(OFFERED * comm.rank().index());
    mine.zip(&offers).for_each(|(mine, offer)| mine.copy_from_slice(&words(*offer)));
    let all = block.iallgather(all)?;
    block.wait_local(all, Timeout::Never)?;
    let all = block.take(all)?;
    let ranks = all.chunks_exact(WORDS * OFFERED);
    let has = |all: &[u64], offer: Offer| all.chunks_exact(WORDS).any(|it| *it == words(offer));
    let common = |offer: &Offer| offer.1 > 0 && ranks.clone().all(|all| has(all, *offer));
    let newest = offers.iter().copied().find(common);
    let place = filing.as_ref().map(|it| it.checkpoints.archive.place()).unwrap_or_default();
    let none = Error::NoCheckpoint { place, ranks: comm.size() };
    let Some(((set, before), it)) = newest.zip(filing.as_mut()) else {
        return Ok(Begun::Refused(none));
    };
    let (rank, ranks) = part;
    if before == ranks {
        let copies = it.load(Part { set, rank, ranks }).ok_or(none)?;
        comm.engine().borrow_mut().job.copies = copies;
        return Ok(Begun::Loaded(set.protected));
    }
    let saved = Saved { filing: it, set, before, now: part, last: None };
    Ok(Begun::Resized(set.protected, saved))
}
