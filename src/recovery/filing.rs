//! Checkpoints of a job: states go to an archive, too, and another job goes on from them, or this
//! one, when ranks have died with those that kept their states.
//!
//! ```text
//!   committed, copied ─▶ due: each rank saves what is valid ─▶ all have saved ─▶ sets before this
//!                                                              one are removed
//! ```
//!
//! All of it happens in a block, where the ranks tell each other what they have and what came of
//! it. The set of files becomes the one to start from as soon as all of it is there, which is
//! before the block is decided; what the ranks know of it then counts with the commit ([`Saving`]).
//! A file that several ranks share gets its name when all of them have written their parts.

use alloc::{boxed::Box, format, string::String, vec, vec::Vec};
use core::cmp::Reverse;
use std::io::{self, Write as _};

use super::{
    checkpoint::{File, Part, Set, neighbours},
    interval::{Interval, steps_between},
    told::{Told, most},
};
use crate::{
    engine::{BlockKey, CommKey, Copies, Engine, Job, Saving, Slot},
    error::Error,
    native::Element,
    seam::{
        archive::{Archive, Files},
        buffer::AnyBuffer,
    },
};

/// How many sets a rank offers, the newest first. Two of one start of the job can be there when
/// ranks die while they save or remove one, and of each further start that ended before it had
/// saved a whole set parts of one.
const OFFERED: usize = 16;

/// A set, and how many ranks have saved it.
type Offer = (Set, u32);

/// Words of an offer.
const WORDS: usize = 3;

/// Where checkpoints are saved, and how.
pub(crate) struct Plan {
    pub(crate) archive: Box<dyn Archive>,
    pub(crate) interval: Interval,
    pub(crate) restart: bool,
    pub(crate) files: Files,
    pub(crate) compressed: bool,
}

/// The checkpoints of a job.
pub(crate) struct Filing {
    plan: Plan,
    /// What there was when it was last looked for.
    found: Vec<File>,
}

/// What a job goes on from; alike on all ranks.
pub(crate) enum Begun {
    /// Nothing, for this reason.
    Refused(Error),
    /// A set of as many ranks, which has the last copies of their states.
    Loaded(Set),
    /// A set of another number of ranks, of which each rank takes what it needs.
    Resized(Reader),
}

/// Reads what ranks have saved, also those of a job with another number of ranks.
pub(crate) struct Reader {
    pub(crate) set: Set,
    /// How many ranks have saved it.
    pub(crate) ranks: u32,
    /// Which of how many ranks reads it.
    pub(crate) now: (u32, u32),
    /// The part that was read last.
    last: Option<(u32, Copies)>,
}

impl Plan {
    /// A number for how it saves, which is another one for each way.
    fn word(&self) -> u64 {
        let Self { interval, files, compressed, .. } = self;
        let every = match interval {
            Interval::Never => 0,
            Interval::Every(steps) => 1 + u64::from((*steps).max(1)),
            Interval::Auto { mtbf } => mtbf.as_millis() as u64 | 1 << 50,
        };
        let files = match files {
            Files::OfEachRank => 0,
            Files::OfEachNode => 1,
            Files::OfTheJob => 2,
        };
        every << 3 | files << 1 | u64::from(*compressed)
    }
}

impl Filing {
    /// What a rank tells, where it may have checkpoints.
    pub(crate) fn tell(filing: Option<&mut Self>, job: &Job) -> Told {
        let (own, told) = (&job.saving, Told::without(job));
        let Some(it) = filing.filter(|_| !own.is_off) else { return told };
        if let Err(error) = it.find() {
            it.complain("read", &error);
            return told;
        }
        let seen = it.found.iter().map(|file| file.set.launch).max();
        told.with(seen.unwrap_or(0), it.plan.restart, own, it.plan.word())
    }

    /// Says where it is of no use.
    pub(crate) fn hear(filing: Option<&Self>, told: Told) {
        if let Some(it) = filing.filter(|_| told.is_mixed()) {
            let why = "not all ranks want the same interval, files and compression";
            it.complain("saved", &io::Error::other(why));
        }
    }

    /// Where a rank saves, for people, if it does.
    pub(crate) fn place_of(filing: Option<&Self>) -> String {
        filing.map(Self::place).unwrap_or_default()
    }

    /// From now on a job saves these.
    pub(crate) fn of(plan: Plan, job: &mut Job) -> Self {
        let place = plan.archive.place();
        if job.saving.place != place {
            job.saving = Saving { place, ..Saving::default() };
        }
        // Whether others save in the same way they have to tell each other first.
        (job.saving.is_off, job.saving.ranks) = (false, 0);
        Self { plan, found: Vec::new() }
    }

    /// All files, those that are aside as well.
    fn list(&mut self) -> io::Result<Vec<(String, File, bool)>> {
        let names = self.plan.archive.names()?.into_iter();
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
    fn offers(&mut self, (rank, ranks): (u32, u32), oldest: u64, resizes: bool) -> Vec<Offer> {
        if self.find().is_err() {
            return Vec::new();
        }
        let counts = self.found.iter().filter(|file| file.set.launch >= oldest);
        let mut offers: Vec<Offer> = counts.map(|it| (it.set, it.ranks)).collect();
        offers.sort_unstable_by_key(|offer| Reverse(*offer));
        offers.dedup();
        let whole = offers.into_iter().filter(|&(set, before)| {
            if before == ranks {
                let part = Part { set, rank, ranks };
                let is_whole = self.load(part).is_some();
                if !is_whole {
                    self.tell_damage(part);
                }
                return is_whole;
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
    fn load(&mut self, part: Part) -> Option<Copies> {
        let Self { found, plan } = self;
        let mut files = found.iter().filter(|file| file.holds(part));
        files.find_map(|file| file.load(&mut *plan.archive, part))
    }

    /// Says which file of this rank's has no use, though it is there.
    fn tell_damage(&self, part: Part) {
        for file in self.found.iter().filter(|file| file.holds(part)) {
            let (place, name, rank) = (self.place(), file.name(), part.rank);
            let why = "is damaged, or of another version of fampi: it is left out";
            // As in `complain`.
            let text = format!("fampi: the part of rank {rank} in {place}/{name} {why}\n");
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }

    /// Loads the newest checkpoint that all ranks of the block offer. `part` is whose state this
    /// rank has, of how many; sets of another number count if `resizes` is true.
    pub(crate) fn begin(
        &mut self,
        engine: &mut Engine,
        block: BlockKey,
        part: (u32, u32),
        told: Told,
        resizes: bool,
    ) -> Result<Begun, Error> {
        let mut offers = self.offers(part, told.oldest(), resizes);
        offers.resize(OFFERED, (Set { launch: 0, protected: 0 }, 0));
        let words = |(set, ranks): Offer| [set.launch, set.protected, ranks.into()];
        let mine: Vec<u64> = offers.iter().copied().flat_map(words).collect();
        let all = engine.partnership().tell(engine, block, &mine)?;
        let ranks = all.chunks_exact(WORDS * OFFERED);
        let has = |all: &[u64], offer: Offer| all.chunks_exact(WORDS).any(|it| *it == words(offer));
        let common = |offer: &Offer| offer.1 > 0 && ranks.clone().all(|all| has(all, *offer));
        let none = Error::NoCheckpoint { place: self.place(), ranks: part.1 };
        let Some((set, before)) = offers.iter().copied().find(common) else {
            return Ok(Begun::Refused(none));
        };
        let (rank, ranks) = part;
        if before != ranks {
            return Ok(Begun::Resized(Reader { set, ranks: before, now: part, last: None }));
        }
        let copies = self.load(Part { set, rank, ranks }).ok_or(none)?;
        engine.job.copies = Copies { part: Some(part), ..copies };
        Ok(Begun::Loaded(set))
    }

    /// The file that a rank's part goes to.
    fn own_file(&self, Part { set, rank, ranks }: Part, engine: &Engine, comm: CommKey) -> File {
        let range = match self.plan.files {
            Files::OfEachRank => rank..rank + 1,
            Files::OfEachNode => neighbours(rank, &engine.nodes_by_place(comm)),
            Files::OfTheJob => 0..ranks,
        };
        File { set, ranks, first: range.start, last: range.end - 1 }
    }

    /// Removes all sets before one that is complete, and what attempts at it have left.
    fn remove_before(&mut self, set: Set) -> io::Result<()> {
        let is_old = |file: &File, is_aside| file.set < set || (is_aside && file.set == set);
        let old = self.list()?.into_iter().filter(|(_, file, aside)| is_old(file, *aside));
        old.into_iter().try_for_each(|(name, ..)| self.plan.archive.remove(&name))
    }

    /// Where it saves, for people.
    fn place(&self) -> String {
        self.plan.archive.place()
    }

    fn complain(&self, what: &str, error: &io::Error) {
        let place = self.place();
        let text =
            format!("fampi: checkpoints in {place} cannot be {what}: {error}; the run goes on\n");
        // At once, as ranks may complain at the same time; a lost complaint is no reason to stop.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// True when the states that are protected are to be saved, on all ranks alike.
    pub(crate) fn is_due(&self, own: &Saving, protected: u64) -> bool {
        let every = match self.plan.interval {
            Interval::Never => return false,
            Interval::Every(steps) => u64::from(steps.max(1)),
            Interval::Auto { .. } => own.every.unwrap_or(1),
        };
        // The copy before the first step is made again from nothing.
        !own.is_off && protected >= own.saved.max(1) + every
    }

    /// True when a copy of the states after so many steps is to be made for a checkpoint alone:
    /// each rank has said after how many steps it wants one.
    pub(crate) fn asks_for_copy(&self, own: &Saving, steps: u64) -> bool {
        matches!(self.plan.interval, Interval::Every(_)) && self.is_due(own, steps + 1)
    }

    /// Saves the states that are valid, in a block of all ranks; true when all have. `part` is
    /// whose state this rank has, of how many.
    pub(crate) fn save(
        &mut self,
        engine: &mut Engine,
        block: BlockKey,
        (rank, ranks): (u32, u32),
        protected: u64,
    ) -> Result<bool, Error> {
        let comm = engine.block(block).comm;
        let (own, began) = (engine.job.saving.clone(), engine.platform.now());
        let set = Set { launch: own.launch, protected };
        let part = Part { set, rank, ranks };
        let (file, is_shared) =
            (self.own_file(part, engine, comm), self.plan.files != Files::OfEachRank);
        let content = self.content(engine, comm, part);
        let encoding = engine.platform.now().saturating_sub(began);
        let length = content.as_ref().map_or(0, |content| content.len() as u64);
        let mut lengths = vec![0; ranks as usize];
        lengths[rank as usize] = length;
        let mut attempt = engine.platform.now().as_nanos() as u64;
        if is_shared {
            let all = engine.partnership().tell(engine, block, &[rank.into(), length, attempt])?;
            for &[rank, length, theirs] in all.as_chunks::<3>().0 {
                lengths[rank as usize] = length;
                attempt = attempt.max(theirs);
            }
        }
        let aside = file.name_aside(&format!("{attempt:x}-{}", engine.block(block).scope.0));
        let gives_name = !is_shared || rank == file.first;
        let archive = &mut *self.plan.archive;
        let was_there = gives_name && archive.load(&file.name(), 0..1).is_ok();
        let began_writing = engine.platform.now();
        let put = content.and_then(|it| file.put(archive, &aside, rank, &it, &lengths));
        let name = |archive: &mut dyn Archive| archive.rename(&aside, &file.name());
        let mut saved = if is_shared { put } else { put.and_then(|()| name(archive)) };
        let now = engine.platform.now();
        let took = (encoding + now.saturating_sub(began_writing)).as_secs_f64();
        let steps = protected.saturating_sub(own.saved).max(1);
        let each = began.saturating_sub(own.since.unwrap_or(began)).as_secs_f64() / steps as f64;
        let failed = |saved: &io::Result<()>| u64::from(saved.is_err());
        let mine = [took.to_bits(), each.to_bits(), failed(&saved), protected, !protected];
        let [took, each, all_failed, latest, turned] = most(engine, block, mine)?;
        if latest != !turned {
            saved = saved.and(Err(io::Error::other("the ranks have states of different steps")));
        }
        let mut complete = all_failed == 0 && latest == !turned;
        if is_shared && complete {
            // All parts of the file are there.
            saved = if gives_name { name(archive) } else { Ok(()) };
            complete = most(engine, block, [failed(&saved)])? == [0];
        }
        if is_shared && complete {
            saved = file.look(archive, rank, lengths[rank as usize]);
            complete = most(engine, block, [failed(&saved)])? == [0];
        }
        if let Err(error) = &saved {
            self.complain("saved", error);
        }
        self.tidy(complete, set, &aside, Some(file).filter(|_| gives_name && !was_there));
        let every = match self.plan.interval {
            Interval::Auto { mtbf } if each > 0 => {
                let [took, each] = [took, each].map(f64::from_bits);
                Some(steps_between(took, each, mtbf).into())
            }
            _ => own.every,
        };
        let since = Some(engine.platform.now());
        let has_one = complete || own.has_one;
        engine.will_know(block, Saving { saved: protected, has_one, since, every, ..own });
        Ok(complete)
    }

    /// The content of a part: all states of this process, none of which may be missing in it.
    fn content(&self, engine: &Engine, comm: CommKey, part: Part) -> io::Result<Vec<u8>> {
        let partnership = engine.partnership();
        let slots = || engine.job.copies.slots.iter().filter(|slot| slot.own.is_some());
        let other = slots().find(|slot| !partnership.is_of(comm, slot.known.over));
        if let Some(Slot { number, .. }) = other {
            let why = format!("state {number} is not protected on the communicator of the others");
            return Err(io::Error::other(why));
        }
        part.encode(&slots().collect::<Vec<_>>(), self.plan.compressed)
    }

    /// Removes what is of no use now: with a complete set those before it; otherwise what this rank
    /// has begun, and has given a name, `named`, which would hide older sets.
    fn tidy(&mut self, complete: bool, set: Set, aside: &str, named: Option<File>) {
        let removed = if complete {
            self.remove_before(set)
        } else {
            let _ = self.plan.archive.remove(aside);
            named.map_or(Ok(()), |file| self.plan.archive.remove(&file.name()))
        };
        if let Err(error) = removed {
            self.complain("removed", &error);
        }
    }
}

impl Reader {
    /// The state with this number of one of the ranks that have saved it. A file is read again when
    /// another rank was asked for in between.
    pub(crate) fn state<T: Element>(
        &mut self,
        filing: &mut Filing,
        rank: u32,
        number: u32,
    ) -> Result<&Vec<T>, Error> {
        let state = self.buffer(filing, rank, number)?;
        state.as_any().downcast_ref().ok_or(Error::StateType { slot: number })
    }

    /// Its bytes, of whichever type its elements are.
    pub(crate) fn bytes(
        &mut self,
        filing: &mut Filing,
        rank: u32,
        number: u32,
    ) -> Result<&[u8], Error> {
        let bytes = self.buffer(filing, rank, number)?.bytes();
        bytes.map(|(_, bytes)| bytes).ok_or(Error::StateType { slot: number })
    }

    fn buffer(&mut self, filing: &mut Filing, rank: u32, number: u32) -> Result<&AnyBuffer, Error> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != rank) {
            let part = Part { set: self.set, rank, ranks: self.ranks };
            let copies = filing
                .load(part)
                .ok_or_else(|| Error::NoCheckpoint { place: filing.place(), ranks: self.now.1 })?;
            self.last = Some((rank, copies));
        }
        let slots = self.last.iter().flat_map(|(_, copies)| &copies.slots);
        let slot = slots.into_iter().find(|slot| slot.number == number);
        slot.and_then(|slot| slot.own.as_ref()).ok_or(Error::NothingProtected)
    }
}
