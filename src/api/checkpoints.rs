//! Checkpoints of a run: states go to an archive, too, and another job goes on from them.
//!
//! ```text
//!   step ─▶ committed, copied ─▶ due: each rank saves what is valid ─▶ a block: all have saved
//!                                                                             │
//!                           sets before this one are removed ◀── committed ───┘
//! ```
//!
//! The set of files becomes the one to start from as soon as all of it is there, which is before
//! the block is decided; the block tells the ranks that they can remove the sets before. A file
//! that several ranks share gets its name when all of them have written their parts.

use std::{
    fmt,
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use super::{Comm, TryBlock};
use crate::{
    engine::{Copies, Saving},
    error::Error,
    native::Element,
    rank::Rank,
    recovery::{
        checkpoint::{File, Part, Set, neighbours},
        folder::Folder,
        interval::{Interval, steps_between},
    },
    seam::{
        archive::{Archive, Files},
        reduction::{ReduceOp, ReduceWith},
    },
    sim::Disk,
    timeout::Timeout,
};

/// How many sets a rank offers, the newest first. Two of one start of the job can be there when
/// ranks die while they save or remove one, and of each further start that ended before it had
/// saved a whole set parts of one.
pub(super) const OFFERED: usize = 16;
/// A set, and how many ranks have saved it.
pub(super) type Offer = (Set, u32);

/// A rank whose state no living rank has, and the one that had kept it, if it was a partner.
pub(super) type Loss = (Rank, Option<Rank>);

/// Where a run saves the protected states of all ranks, so that they outlive the job.
///
/// Each checkpoint is a set of files that has the states of all ranks, and what it holds was
/// committed before. A job that is started again with as many ranks goes on from the newest set
/// that is complete; with another number of ranks if the state says how
/// ([`State::resize`](crate::State::resize)). A run goes back to its newest set, in the same job,
/// when ranks have died together with those that kept their states.
///
/// The folder may be shared, or each rank may have one of its own node; then a rank has to be
/// started on the same node again, and there have to be as many. States that do not consist of
/// numbers cannot be saved.
///
/// In a program without [`World::run`](crate::World::run), nothing is saved.
pub struct Checkpoints {
    archive: Box<dyn Archive>,
    interval: Interval,
    restart: bool,
    files: Files,
    compressed: bool,
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
        let (interval, files) = (Interval::default(), Files::default());
        Self { archive, interval, restart: false, files, compressed: false }
    }

    /// After how many steps a checkpoint is due. It is saved with the next copy of the states
    /// ([`State::interval`](crate::State::interval)).
    #[must_use]
    pub fn every(mut self, interval: Interval) -> Self {
        self.interval = interval;
        self
    }

    /// Who writes a file together. What was saved in files of another kind can be read as well.
    #[must_use]
    pub fn files(mut self, files: Files) -> Self {
        self.files = files;
        self
    }

    /// States are compressed (LZ4), each where that makes it smaller.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        self.compressed = true;
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
        let (place, Self { interval, restart, files, compressed, .. }) =
            (self.archive.place(), self);
        write!(f, "Checkpoints in {place}, {interval:?}, {files:?}, ")?;
        write!(f, "compressed: {compressed}, restart: {restart}")
    }
}

/// The checkpoints of a run, and which of them there are; all ranks know the same.
pub(super) struct Filing {
    checkpoints: Checkpoints,
    /// What there was when it was last looked for.
    found: Vec<File>,
    /// Which of that is this job's.
    own: Saving,
    /// The file that got its name in the last attempt to save, and was not there before.
    named: Option<File>,
    /// When the newest checkpoint was saved, or this rank has joined.
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
    /// What [`Saving`] says, and [`Filing::every`], where they are known.
    launch: u64,
    saved: u64,
    every: u64,
    oldest: u64,
    /// One more than a rank whose state is lost to all others, and than the one that had kept it;
    /// 0 for none.
    lost: u64,
    keeper: u64,
}

impl Told {
    pub(super) const LENGTH: usize = 9;

    /// What a rank tells, with the loss that the last attempt to bring states back has found.
    pub(super) fn of(filing: Option<&mut Filing>, lost: Option<Loss>) -> Self {
        let number = |rank: Option<Rank>| rank.map_or(0, |rank| u64::from(rank.number()) + 1);
        let told = Self {
            lost: number(lost.map(|(rank, _)| rank)),
            keeper: number(lost.and_then(|(_, keeper)| keeper)),
            ..Self::default()
        };
        let lacking = Self { lacks: 1, ..told };
        let Some(it) = filing else { return lacking };
        match it.find() {
            Ok(()) => Self {
                lacks: 0,
                seen: it.found.iter().map(|file| file.set.launch).max().unwrap_or(0),
                restart: it.checkpoints.restart.into(),
                launch: it.own.launch,
                saved: it.own.saved,
                every: it.every.unwrap_or(0),
                oldest: it.own.oldest,
                ..told
            },
            Err(error) => {
                it.complain("read", &error);
                lacking
            }
        }
    }

    pub(super) fn words(self) -> [u64; Self::LENGTH] {
        let Self { lacks, seen, restart, launch, saved, every, oldest, lost, keeper } = self;
        [lacks, seen, restart, launch, saved, every, oldest, lost, keeper]
    }

    pub(super) fn from_words(words: [u64; Self::LENGTH]) -> Self {
        let [lacks, seen, restart, launch, saved, every, oldest, lost, keeper] = words;
        Self { lacks, seen, restart, launch, saved, every, oldest, lost, keeper }
    }

    /// True when a job that has nothing protected is to go on from a checkpoint.
    pub(super) fn restarts(self) -> bool {
        self.restart > 0 && self.launch == 0
    }

    /// A state that no living rank has, so that all states come from a checkpoint.
    pub(super) fn loss(self) -> Option<Loss> {
        let rank = |number: u64| number.checked_sub(1).map(|rank| Rank::new(rank as u32));
        rank(self.lost).map(|lost| (lost, rank(self.keeper)))
    }

    /// The first start of the job whose sets count.
    pub(super) fn oldest(self) -> u64 {
        self.oldest
    }

    /// Why a job that begins to save must not do so here.
    pub(super) fn refusal(self, filing: Option<&Filing>) -> Option<Error> {
        let begins_over_others = self.launch == 0 && self.seen > 0 && self.restart == 0;
        let place = || filing.map(Filing::place).unwrap_or_default();
        (begins_over_others && self.lacks == 0).then(|| Error::CheckpointsExist { place: place() })
    }

    /// The ranks have joined, with so many steps protected.
    pub(super) fn settle(self, filing: &mut Option<Filing>, protected: u64, now: Duration) {
        if self.lacks > 0 {
            *filing = None;
        }
        let Some(it) = filing else { return };
        (it.own.launch, it.own.saved, it.every) = match self.launch {
            0 if self.restart > 0 => (self.seen + 1, protected, None),
            0 => (self.seen + 1, 0, None),
            // What it saves again is newer than what it has left behind.
            launch if self.lost > 0 => (launch.max(self.seen) + 1, protected, None),
            launch => (launch, self.saved, Some(self.every).filter(|every| *every > 0)),
        };
        it.own.oldest = match self.launch {
            0 if self.restart == 0 => it.own.launch,
            _ => self.oldest,
        };
        if self.lost > 0 {
            it.since = None;
        }
        it.since.get_or_insert(now);
    }
}

impl Filing {
    /// A run is to save these. `known` is what this process knows of where it saved before.
    pub(super) fn of(checkpoints: Checkpoints, known: &Saving) -> Self {
        let place = checkpoints.archive.place();
        let own = if known.place == place {
            known.clone()
        } else {
            Saving { place, ..Saving::default() }
        };
        Self { checkpoints, found: Vec::new(), own, named: None, since: None, every: None }
    }

    /// What this process is to know when its world is another one.
    pub(super) fn own(&self) -> Saving {
        self.own.clone()
    }

    /// All files, those that are aside as well.
    fn list(&mut self) -> io::Result<Vec<(String, File, bool)>> {
        let names = self.checkpoints.archive.names()?.into_iter();
        let known = names.filter_map(|name| {
            let (file, is_aside) = File::named(&name)?;
            Some((name, file, is_aside))
        });
        Ok(known.collect())
    }

    /// Looks for what there is.
    fn find(&mut self) -> io::Result<()> {
        let files = self.list()?.into_iter();
        self.found = files.filter(|(.., aside)| !aside).map(|(_, file, _)| file).collect();
        self.found.sort_unstable();
        Ok(())
    }

    /// The newest sets in which this rank has found no damage, none of a start of the job before
    /// `oldest`. Of a set of as many ranks it reads its own part. Of a set of another number, if
    /// `resizes` is true, it sees that all parts are there, and the ranks share the work of reading
    /// them.
    pub(super) fn offers(
        &mut self,
        (rank, ranks): (u32, u32),
        oldest: u64,
        resizes: bool,
    ) -> Vec<Offer> {
        if self.find().is_err() {
            return Vec::new();
        }
        let counts = self.found.iter().filter(|file| file.set.launch >= oldest);
        let mut offers: Vec<Offer> = counts.map(|it| (it.set, it.ranks)).collect();
        offers.sort_unstable_by_key(|offer| core::cmp::Reverse(*offer));
        offers.dedup();
        let whole = offers.into_iter().filter(|&(set, before)| {
            if before == ranks {
                return self.load(Part { set, rank, ranks }).is_some();
            }
            let mine = (rank..before).step_by(ranks as usize);
            let mut parts = mine.map(|rank| Part { set, rank, ranks: before });
            resizes && self.has_all(set, before) && parts.all(|part| self.load(part).is_some())
        });
        whole.take(OFFERED).collect()
    }

    /// True when there is a file for each part of a set.
    fn has_all(&self, set: Set, ranks: u32) -> bool {
        let files = self.found.iter().filter(|file| (file.set, file.ranks) == (set, ranks));
        // They are in the order of their first ranks.
        let missing =
            files.fold(
                0,
                |missing, file| {
                    if file.first <= missing { missing.max(file.last + 1) } else { missing }
                },
            );
        missing == ranks
    }

    /// The states of a part, if it is undamaged in a file that was found.
    pub(super) fn load(&mut self, part: Part) -> Option<Copies> {
        let Self { found, checkpoints, .. } = self;
        let mut files = found.iter().filter(|file| file.holds(part));
        files.find_map(|file| file.load(&mut *checkpoints.archive, part))
    }

    /// The file that a rank's part goes to.
    fn own_file(&self, Part { set, rank, ranks }: Part, comm: &Comm) -> File {
        let engine = comm.engine().borrow();
        let range = match self.checkpoints.files {
            Files::OfEachRank => rank..rank + 1,
            Files::OfEachNode => neighbours(rank, &engine.nodes_by_place(comm.key())),
            Files::OfTheJob => 0..ranks,
        };
        File { set, ranks, first: range.start, last: range.end - 1 }
    }

    /// Removes all sets before one that is complete, and what attempts at it have left.
    fn remove_before(&mut self, set: Set) -> io::Result<()> {
        let is_old = |file: &File, is_aside| file.set < set || (is_aside && file.set == set);
        let old = self.list()?.into_iter().filter(|(_, file, aside)| is_old(file, *aside));
        old.into_iter().try_for_each(|(name, ..)| self.checkpoints.archive.remove(&name))
    }

    /// Where it saves, for people.
    pub(super) fn place(&self) -> String {
        self.checkpoints.archive.place()
    }

    fn complain(&self, what: &str, error: &io::Error) {
        let place = self.place();
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
        protected > 1 && protected >= self.own.saved + every
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
        let (set, began) = (Set { launch: self.own.launch, protected }, now());
        let part = Part { set, rank, ranks };
        let (file, is_shared) =
            (self.own_file(part, comm), self.checkpoints.files != Files::OfEachRank);
        let aside = file.name_aside(&attempt(block, comm));
        let compressed = self.checkpoints.compressed;
        let content = part.encode(&comm.engine().borrow().job.copies, compressed);
        let encoding = now().saturating_sub(began);
        let content = content.ok_or_else(|| io::Error::other("its states are not all numbers"));
        let mut lengths = vec![0; ranks as usize];
        lengths[rank as usize] = content.as_ref().map_or(0, |content| content.len() as u64);
        if is_shared {
            lengths = most(block, lengths)?;
        }
        let gives_name = !is_shared || rank == file.first;
        let archive = &mut *self.checkpoints.archive;
        let was_there = gives_name && archive.load(&file.name(), 0..1).is_ok();
        let began_writing = now();
        let put = content.and_then(|it| file.put(archive, &aside, rank, &it, &lengths));
        let name = |archive: &mut dyn Archive| archive.rename(&aside, &file.name());
        let mut saved = if is_shared { put } else { put.and_then(|()| name(archive)) };
        let took = (encoding + now().saturating_sub(began_writing)).as_secs_f64();
        let steps = protected.saturating_sub(self.own.saved).max(1);
        let each = began.saturating_sub(self.since.unwrap_or(began)).as_secs_f64() / steps as f64;
        let failed = |saved: &io::Result<()>| f64::from(u8::from(saved.is_err()));
        let all = most(block, vec![took, each, failed(&saved)])?;
        if let Interval::Auto { mtbf } = self.checkpoints.interval {
            self.every = Some(steps_between(all[0], all[1], mtbf).into());
        }
        let mut complete = all[2] == 0.0;
        if is_shared && complete {
            // All parts of the file are there.
            saved = if gives_name { name(archive) } else { Ok(()) };
            complete = most(block, vec![failed(&saved)])?[0] == 0.0;
        }
        if is_shared && complete {
            saved = file.look(archive, rank, lengths[rank as usize]);
            complete = most(block, vec![failed(&saved)])?[0] == 0.0;
        }
        if let Err(error) = &saved {
            self.complain("saved", error);
        }
        if !complete {
            let _ = self.checkpoints.archive.remove(&aside);
        }
        self.named = Some(file).filter(|_| gives_name && !was_there);
        Ok(complete)
    }

    /// A further run of the program saves newer checkpoints than those of this one.
    pub(super) fn for_next_run(self) -> Self {
        let launch = self.own.launch + 1;
        let own = Saving { launch, oldest: launch, saved: 0, ..self.own };
        Self { own, since: None, every: None, ..self }
    }

    /// The block is committed in which all ranks, or not all, have saved this.
    pub(super) fn settle(&mut self, protected: u64, complete: bool, now: Duration) {
        (self.own.saved, self.since) = (protected, Some(now));
        let set = Set { launch: self.own.launch, protected };
        let removed = if complete {
            self.remove_before(set)
        } else {
            // Some could not save theirs: this part is of no use, and would hide older ones.
            let mine = self.named.take();
            mine.map_or(Ok(()), |mine| self.checkpoints.archive.remove(&mine.name()))
        };
        if let Err(error) = removed {
            self.complain("removed", &error);
        }
    }
}

/// A word for this attempt to save a checkpoint: the rebuilds before, and the block.
fn attempt(block: &TryBlock, comm: &Comm) -> String {
    let engine = comm.engine().borrow();
    format!("{}-{}", engine.job.roster.generation, engine.block(block.key).scope.0)
}

/// The largest of the numbers that the ranks have.
fn most<T: Element>(block: &mut TryBlock, mine: Vec<T>) -> Result<Vec<T>, Error>
where
    ReduceOp: ReduceWith<T>,
{
    let all = block.iallreduce(mine, ReduceOp::Max)?;
    block.wait_local(all, Timeout::Never)?;
    block.take(all)
}
