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
use core::{array, cmp::Reverse, time::Duration};
use std::io::{self, Write as _};

use super::{
    checkpoint::{File, Part, Set, neighbours},
    interval::{Interval, steps_between},
};
use crate::{
    engine::{BlockKey, CommKey, Copies, Engine, Job, Saving, Slot},
    error::Error,
    native::Element,
    rank::Rank,
    seam::archive::{Archive, Files},
};

/// How many sets a rank offers, the newest first. Two of one start of the job can be there when
/// ranks die while they save or remove one, and of each further start that ended before it had
/// saved a whole set parts of one.
const OFFERED: usize = 16;

/// A set, and how many ranks have saved it.
type Offer = (Set, u32);

/// Words of an offer.
const WORDS: usize = 3;

/// A rank whose state no living rank has, and the one that had kept it, if it was a partner.
pub(crate) type Loss = (Rank, Option<Rank>);

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

/// What the ranks tell each other about checkpoints when they bring their states back; of all the
/// largest counts.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told {
    /// 1 on a rank without checkpoints.
    lacks: u64,
    /// The newest start of the job that has left checkpoints.
    seen: u64,
    /// 1 where the job is to go on from one.
    restart: u64,
    /// What [`Saving`] says, where it is known.
    launch: u64,
    saved: u64,
    every: u64,
    oldest: u64,
    /// One more than a rank whose state is lost to all others, and than the one that had kept it;
    /// 0 for none.
    lost: u64,
    keeper: u64,
    /// 1 where a state is in memory, if the ranks tell it here.
    states: u64,
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

impl Told {
    pub(crate) const LENGTH: usize = 10;

    /// What a rank tells, with the loss that the last attempt to bring states back has found.
    pub(crate) fn of(filing: Option<&mut Filing>, job: &Job) -> Self {
        let number = |rank: Option<Rank>| rank.map_or(0, |rank| u64::from(rank.number()) + 1);
        let (lost, own) = (job.lost, &job.saving);
        let told = Self {
            lost: number(lost.map(|(rank, _)| rank)),
            keeper: number(lost.and_then(|(_, keeper)| keeper)),
            ..Self::default()
        };
        let lacking = Self { lacks: 1, ..told };
        let Some(it) = filing.filter(|_| !own.is_off) else { return lacking };
        match it.find() {
            Ok(()) => Self {
                lacks: 0,
                seen: it.found.iter().map(|file| file.set.launch).max().unwrap_or(0),
                restart: it.plan.restart.into(),
                launch: own.launch,
                saved: own.saved,
                every: own.every.unwrap_or(0),
                oldest: own.oldest,
                ..told
            },
            Err(error) => {
                it.complain("read", &error);
                lacking
            }
        }
    }

    pub(crate) fn words(self) -> [u64; Self::LENGTH] {
        let Self { lacks, seen, restart, launch, saved, every, oldest, lost, keeper, states } =
            self;
        [lacks, seen, restart, launch, saved, every, oldest, lost, keeper, states]
    }

    pub(crate) fn from_words(words: [u64; Self::LENGTH]) -> Self {
        let [lacks, seen, restart, launch, saved, every, oldest, lost, keeper, states] = words;
        Self { lacks, seen, restart, launch, saved, every, oldest, lost, keeper, states }
    }

    /// And whether this rank has states in memory.
    pub(crate) fn with_states(self, has_states: bool) -> Self {
        Self { states: has_states.into(), ..self }
    }

    /// True when a rank has said that it has states in memory.
    pub(crate) fn has_states(self) -> bool {
        self.states > 0
    }

    /// States of which a checkpoint was saved are lost, that of rank 0 as well, if none is in the
    /// memory of any rank.
    pub(crate) fn lost_if_nowhere(self) -> Self {
        let is_lost = !self.has_states() && self.launch > 0 && self.saved > 0 && self.lost == 0;
        if is_lost { Self { lost: 1, ..self } } else { self }
    }

    /// True when no rank is without checkpoints.
    pub(crate) fn all_have_some(self) -> bool {
        self.lacks == 0
    }

    /// True when a job that has nothing protected is to go on from a checkpoint.
    pub(crate) fn restarts(self) -> bool {
        self.restart > 0 && self.launch == 0
    }

    /// A state that no living rank has, so that all states come from a checkpoint.
    pub(crate) fn loss(self) -> Option<Loss> {
        let rank = |number: u64| number.checked_sub(1).map(|rank| Rank::new(rank as u32));
        rank(self.lost).map(|lost| (lost, rank(self.keeper)))
    }

    /// Why a job that begins to save must not do so here.
    pub(crate) fn refusal(self, filing: Option<&Filing>) -> Option<Error> {
        let begins_over_others = self.launch == 0 && self.seen > 0 && self.restart == 0;
        let place = || filing.map(Filing::place).unwrap_or_default();
        (begins_over_others && self.lacks == 0).then(|| Error::CheckpointsExist { place: place() })
    }

    /// What a rank knows when the block is committed in which all have told this, with so many
    /// steps protected.
    pub(crate) fn saving(self, own: &Saving, protected: u64, now: Duration) -> Saving {
        if self.lacks > 0 {
            return Saving { is_off: true, ..own.clone() };
        }
        let (launch, saved, every) = match self.launch {
            0 if self.restart > 0 => (self.seen + 1, protected, None),
            0 => (self.seen + 1, 0, None),
            // What it saves again is newer than what it has left behind.
            launch if self.lost > 0 => (launch.max(self.seen) + 1, protected, None),
            launch => (launch, self.saved, Some(self.every).filter(|every| *every > 0)),
        };
        let begins = self.launch == 0 && self.restart == 0;
        let oldest = if begins { launch } else { self.oldest };
        let since = if self.lost > 0 { None } else { own.since };
        let since = Some(since.unwrap_or(now));
        Saving { launch, oldest, saved, every, since, ..own.clone() }
    }
}

impl Filing {
    /// From now on a job saves these.
    pub(crate) fn of(plan: Plan, job: &mut Job) -> Self {
        let place = plan.archive.place();
        if job.saving.place != place {
            job.saving = Saving { place, ..Saving::default() };
        }
        job.saving.is_off = false;
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
    fn load(&mut self, part: Part) -> Option<Copies> {
        let Self { found, plan } = self;
        let mut files = found.iter().filter(|file| file.holds(part));
        files.find_map(|file| file.load(&mut *plan.archive, part))
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
        let mut offers = self.offers(part, told.oldest, resizes);
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
        engine.job.copies = self.load(Part { set, rank, ranks }).ok_or(none)?;
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
    pub(crate) fn place(&self) -> String {
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
        let aside = file.name_aside(&attempt(engine, block));
        let partnership = engine.partnership();
        let counts = |slot: &&Slot| partnership.is_of(comm, slot.known.over);
        let slots: Vec<&Slot> = engine.job.copies.slots.iter().filter(counts).collect();
        let content = part.encode(&slots, self.plan.compressed);
        let encoding = engine.platform.now().saturating_sub(began);
        let length = content.as_ref().map_or(0, |content| content.len() as u64);
        let mut lengths = vec![0; ranks as usize];
        lengths[rank as usize] = length;
        if is_shared {
            let all = engine.partnership().tell(engine, block, &[rank.into(), length])?;
            for pair in all.as_chunks::<2>().0 {
                lengths[pair[0] as usize] = pair[1];
            }
        }
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
        let [took, each, all_failed] =
            most(engine, block, [took.to_bits(), each.to_bits(), failed(&saved)])?;
        let mut complete = all_failed == 0;
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
            Interval::Auto { mtbf } => {
                let [took, each] = [took, each].map(f64::from_bits);
                Some(steps_between(took, each, mtbf).into())
            }
            _ => own.every,
        };
        let since = Some(engine.platform.now());
        engine.will_know(block, Saving { saved: protected, since, every, ..own });
        Ok(complete)
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
        if self.last.as_ref().is_none_or(|(last, _)| *last != rank) {
            let part = Part { set: self.set, rank, ranks: self.ranks };
            let copies = filing
                .load(part)
                .ok_or_else(|| Error::NoCheckpoint { place: filing.place(), ranks: self.now.1 })?;
            self.last = Some((rank, copies));
        }
        let slots = self.last.iter().flat_map(|(_, copies)| &copies.slots);
        let slot = slots.into_iter().find(|slot| slot.number == number);
        let state = slot.and_then(|slot| slot.own.as_ref()).ok_or(Error::NothingProtected)?;
        state.as_any().downcast_ref().ok_or(Error::StateType { slot: number })
    }
}

/// A word for this attempt to save a checkpoint: the rebuilds before, and the block.
fn attempt(engine: &Engine, block: BlockKey) -> String {
    format!("{}-{}", engine.job.roster.generation, engine.block(block).scope.0)
}

/// The largest of the words that the ranks have, one by one. Of the bits of numbers that are not
/// negative those of the largest are the largest.
pub(crate) fn most<const N: usize>(
    engine: &mut Engine,
    block: BlockKey,
    mine: [u64; N],
) -> Result<[u64; N], Error> {
    let all = engine.partnership().tell(engine, block, &mine)?;
    Ok(array::from_fn(|at| all.iter().skip(at).step_by(N).copied().max().unwrap_or(0)))
}
