//! What the ranks of a job tell each other about checkpoints when they bring their states back, and
//! what follows from it, alike on all of them.

use alloc::borrow::ToOwned as _;
use core::{array, time::Duration};

use crate::{
    engine::{BlockKey, Engine, Job, Saving},
    error::Error,
    rank::Rank,
};

/// A rank whose state no living rank has, and the one that had kept it, if it was a partner.
pub(crate) type Loss = (Rank, Option<Rank>);

/// What a rank tells; of all the largest counts.
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
    has_one: u64,
    every: u64,
    oldest: u64,
    /// One more than a rank whose state is lost to all others, and than the one that had kept it;
    /// 0 for none.
    lost: u64,
    keeper: u64,
    /// 1 where a state is in memory, if the ranks tell it here.
    states: u64,
    /// A number for the way in which this rank saves.
    plan: u64,
    /// The same number with all bits inverted. As the largest counts, all ranks save in one way if
    /// it is still the inverse of `plan`.
    turned: u64,
}

/// Where ranks get their states from.
pub(crate) enum Course {
    /// From nowhere, and nothing is saved from now on, for this reason.
    Refused(Error),
    Files,
    Memory,
    /// There are none.
    Begin,
}

impl Told {
    pub(crate) const LENGTH: usize = 13;

    /// What a rank without checkpoints tells, with the loss that the last attempt to bring states
    /// back has found.
    pub(super) fn without(job: &Job) -> Self {
        let number = |rank: Option<Rank>| rank.map_or(0, |rank| u64::from(rank.number()) + 1);
        let lost = number(job.lost.map(|(rank, _)| rank));
        let keeper = number(job.lost.and_then(|(_, keeper)| keeper));
        Self { lacks: 1, lost, keeper, ..Self::default() }
    }

    /// The same where it has some: the newest start of the job that has left any, whether it is to
    /// go on from them, what is known of them, and how they are saved.
    pub(super) fn with(self, seen: u64, restart: bool, own: &Saving, plan: u64) -> Self {
        Self {
            lacks: 0,
            seen,
            restart: restart.into(),
            launch: own.launch,
            saved: own.saved,
            has_one: own.has_one.into(),
            every: own.every.unwrap_or(0),
            oldest: own.oldest,
            plan,
            turned: !plan,
            ..self
        }
    }

    /// And whether this rank has states in memory.
    pub(crate) fn with_states(self, has_states: bool) -> Self {
        Self { states: has_states.into(), ..self }
    }

    pub(crate) fn words(self) -> [u64; Self::LENGTH] {
        let Self { lacks, seen, restart, launch, saved, every, .. } = self;
        let Self { has_one, oldest, lost, keeper, states, plan, turned, .. } = self;
        let more = [has_one, oldest, lost, keeper, states, plan, turned];
        let words = [lacks, seen, restart, launch, saved, every];
        array::from_fn(|at| *words.iter().chain(&more).nth(at).unwrap_or(&0))
    }

    /// What all have told.
    pub(crate) fn from_words(words: [u64; Self::LENGTH]) -> Self {
        let [lacks, seen, restart, launch, saved, every, rest @ ..] = words;
        let [has_one, oldest, lost, keeper, states, plan, turned] = rest;
        let told = Self { lacks, seen, restart, launch, saved, every, ..Self::default() };
        Self { has_one, oldest, lost, keeper, states, plan, turned, ..told }
    }

    /// True when no rank is without checkpoints, and all save them in one way.
    pub(crate) fn all_have_some(self) -> bool {
        self.lacks == 0 && !self.is_mixed()
    }

    /// True when all have checkpoints, but not all save them in one way.
    pub(super) fn is_mixed(self) -> bool {
        self.lacks == 0 && self.plan != !self.turned
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

    /// Why a job that begins to save must not do so in this place.
    pub(crate) fn refusal(self, place: &str) -> Option<Error> {
        let begins_over_others = self.launch == 0 && self.seen > 0 && self.restart == 0;
        let refusal = || Error::CheckpointsExist { place: place.to_owned() };
        (begins_over_others && self.all_have_some()).then(refusal)
    }

    /// States of which a checkpoint was saved are lost, that of rank 0 as well, if none is in the
    /// memory of any rank.
    pub(crate) fn lost_if_nowhere(self) -> Self {
        let is_lost = self.states == 0 && self.launch > 0 && self.has_one > 0 && self.lost == 0;
        if is_lost { Self { lost: 1, ..self } } else { self }
    }

    /// Where ranks that have told each other whether they have states in memory get theirs.
    pub(crate) fn course(self, place: &str) -> Course {
        if let Some(refusal) = self.refusal(place) {
            // Even if a state is lost: no living rank knows these checkpoints as this job's.
            Course::Refused(refusal)
        } else if self.lost > 0 || (self.restarts() && self.states == 0) {
            Course::Files
        } else if self.states > 0 {
            Course::Memory
        } else {
            Course::Begin
        }
    }

    /// What a rank knows when the block is committed in which all have told this, with so many
    /// steps protected.
    pub(crate) fn saving(self, own: &Saving, protected: u64, now: Duration) -> Saving {
        if !self.all_have_some() {
            return Saving { is_off: true, ..own.clone() };
        }
        let (launch, saved, every) = match self.launch {
            0 if self.restart > 0 => (self.seen + 1, protected, None),
            0 => (self.seen + 1, 0, None),
            // What it saves again is newer than what it has left behind.
            launch if self.lost > 0 => (launch.max(self.seen) + 1, protected, None),
            launch => (launch, self.saved, Some(self.every).filter(|every| *every > 0)),
        };
        let has_one = protected > 0 || (self.launch > 0 && self.has_one > 0);
        let begins = self.launch == 0 && self.restart == 0;
        let oldest = if begins { launch } else { self.oldest };
        let since = if self.lost > 0 { None } else { own.since };
        let since = Some(since.unwrap_or(now));
        Saving { launch, oldest, saved, has_one, every, since, ..own.clone() }
    }

    /// What it knows where all begin again, although they have begun before: what is saved then is
    /// newer, and does not go on from what was.
    pub(crate) fn anew(self, known: Saving, now: Duration) -> Saving {
        if self.launch == 0 || known.is_off {
            return known;
        }
        let since = Some(now);
        Saving { since, begins: true, ..known.anew(self.launch.max(self.seen) + 1) }
    }

    /// The first start of the job whose sets count.
    pub(super) fn oldest(self) -> u64 {
        self.oldest
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All have checkpoints, in one way.
    const TOLD: Told = Told {
        lacks: 0,
        seen: 0,
        restart: 0,
        launch: 0,
        saved: 0,
        has_one: 0,
        every: 0,
        oldest: 0,
        lost: 0,
        keeper: 0,
        states: 0,
        plan: 5,
        turned: !5,
    };

    fn course(told: Told) -> &'static str {
        match Told::from_words(told.words()).lost_if_nowhere().course("") {
            Course::Refused(Error::CheckpointsExist { .. }) => "refused",
            Course::Refused(_) => unreachable!("no other reason"),
            Course::Files => "files",
            Course::Memory => "memory",
            Course::Begin => "begin",
        }
    }

    #[test]
    fn states_come_from_where_all_can_have_them_and_nobody_saves_over_what_is_not_known() {
        let of_others = Told { seen: 3, ..TOLD };
        let restarted = Told { restart: 1, ..of_others };
        let running = Told { launch: 3, seen: 3, saved: 9, has_one: 1, states: 1, ..TOLD };
        for (told, expected) in [
            (TOLD, "begin"),
            (of_others, "refused"),
            // Those who have found a loss know less than those who have saved, and have died.
            (Told { lost: 2, states: 1, ..of_others }, "refused"),
            (restarted, "files"),
            (Told { states: 1, ..restarted }, "memory"),
            (Told { lost: 1, states: 1, ..restarted }, "files"),
            (running, "memory"),
            (Told { lost: 4, ..running }, "files"),
            (Told { states: 0, ..running }, "files"),
            // None could be saved so far.
            (Told { states: 0, has_one: 0, ..running }, "begin"),
        ] {
            assert_eq!(course(told), expected, "{:?}", told.words());
        }
    }

    #[test]
    fn ranks_that_save_in_different_ways_save_nothing() {
        let both = Told { plan: 7, turned: !5, ..TOLD };
        let told = Told::from_words(both.words());
        assert!(!told.all_have_some() && told.saving(&Saving::default(), 4, Duration::ZERO).is_off);
        assert!(Told::from_words(TOLD.words()).all_have_some());
    }

    #[test]
    fn who_begins_again_saves_newer_sets_and_goes_back_to_no_older_one() {
        let told = Told { launch: 3, seen: 5, oldest: 2, ..TOLD };
        let known = told.saving(&Saving::default(), 0, Duration::ZERO);
        assert_eq!((known.launch, known.oldest), (3, 2));
        let old = Saving { since: Some(Duration::ZERO), ..known };
        let anew = told.anew(old, Duration::from_secs(7));
        assert_eq!((anew.launch, anew.oldest, anew.saved, anew.begins), (6, 6, 0, true));
        assert_eq!(anew.since, Some(Duration::from_secs(7)), "intervals are measured from now on");
        let first = TOLD.saving(&Saving::default(), 0, Duration::ZERO);
        let launch = first.launch;
        assert_eq!((launch, TOLD.anew(first, Duration::ZERO).launch), (1, 1));
    }
}
