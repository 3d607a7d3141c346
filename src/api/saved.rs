//! How a job begins with a checkpoint, or goes back to one: the ranks choose a set that all can
//! have, and each takes its own state from it, or, of a set of another number of ranks, what it
//! needs.

use std::fmt;

use super::{
    Comm, TryBlock,
    checkpoints::{Filing, OFFERED, Offer, Told},
};
use crate::{
    engine::Copies,
    error::Error,
    native::Element,
    recovery::checkpoint::{Part, Set},
    timeout::Timeout,
};

/// Words of an offer.
const WORDS: usize = 3;

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
                place: self.filing.place(),
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
    told: Told,
    resizes: bool,
) -> Result<Begun<'a>, Error> {
    let offers = filing.as_mut().map(|it| it.offers(part, told.oldest(), resizes));
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
    let place = filing.as_ref().map(Filing::place).unwrap_or_default();
    let none = Error::NoCheckpoint { place, ranks: comm.size() };
    let Some(((set, before), it)) = newest.zip(filing.as_mut()) else {
        return Ok(Begun::Refused(none));
    };
    let (rank, ranks) = part;
    if before == ranks {
        let copies = it.load(Part { set, rank, ranks }).ok_or(none)?;
        let job = &mut comm.engine().borrow_mut().job;
        job.copies = copies;
        if told.loss().is_some() {
            // They are what this rank has even if the block fails.
            job.protected_steps = set.protected;
        }
        return Ok(Begun::Loaded(set.protected));
    }
    let saved = Saved { filing: it, set, before, now: part, last: None };
    Ok(Begun::Resized(set.protected, saved))
}
