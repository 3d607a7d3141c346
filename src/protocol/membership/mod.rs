//! The group of recommended processes: who gets work, agreed like everything else by a commit.
//!
//! A process that is alive and too slow is *benched*: it votes in commits, and owns nothing. Slow
//! is not dead, so nobody is told dead here, and the dead are told us. Processes test each other
//! (that is a service's affair, outside of this crate), and each has an opinion of all others; none
//! of them is a proof. The group changes only by [`Membership::next`], a function of what all
//! members report, so that it is equal wherever these reports are.
//!
//! ```text
//! commit    every rank ── one word: something new? ──▶ all        no: the group stays
//! census    every rank ── its reports ──▶ all                      yes: one more block
//! next      dead leave · accused leave by the rule · benched whom most members saw well come back
//! ```
//!
//! | file | idea | source |
//! |---|---|---|
//! | [`removal`] | who goes when members accuse each other | Camargo 2018 §3.1 |
//! | [`evidence`] | what one tester has to report, and reports once | Camargo 2018 §3.3 |
//! | [`levels`] | a benched node takes its ranks along | Camargo 2018 §3.1, one process per host |
//! | [`member`] | what a rank tells in a census, and makes of it | Camargo 2018 §3.1 |
//!
//! **Guarantees.** Equal reports make equal groups, in whatever order they come. Whoever goes is
//! dead, or accused by a member, or under [`Rule::Fewest`] the one that accuses many. Under
//! [`Rule::Any`] and [`Rule::Fewest`] no member is left accused by another. A group is never empty
//! while somebody lives. Whoever comes back had more than ζ/2 good tests in a row by more than half
//! of the members that test it, and ζ by one of them. Counters never fall; an even one is a
//! member's.
//!
//! **Assumes** that reports are of one and the same group, as those of a committed census are.
//!
//! **Differs from the paper.** There each process changes its own copy as messages come, so copies
//! may differ for ever; here the commit orders them. The ballot on a return is the census itself,
//! without a leader. Of members that accuse each other as few as possible go, so that one that was
//! stalled, and saw all others late, does not remove them all.
//!
//! Reference: Camargo and Duarte 2018 §3.

pub mod evidence;
pub mod levels;
pub mod member;
pub mod removal;

use alloc::vec::Vec;

use self::removal::{Accusation, Rule};
use super::planted::planted;
use crate::rank::{Rank, RankSet};

/// What one tester says of one target.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Report {
    /// Who says so.
    pub tester: Rank,
    /// Of whom.
    pub target: Rank,
    /// What.
    pub finding: Finding,
}

/// What tests have found.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Finding {
    /// A member failed a test.
    Accused,
    /// One who is benched passed so many in a row.
    Passed(u32),
}

/// How a group changes; equal on all ranks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Terms {
    /// Who goes.
    pub rule: Rule,
    /// ζ: so many good tests in a row before somebody comes back, at least 1.
    pub zeta: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self { rule: Rule::Fewest, zeta: 5 }
    }
}

const DEAD_BIT: u32 = 32;

/// A group, and how often each process changed sides.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Membership {
    epoch: u32,
    /// Even for members, odd for the benched and the dead.
    counters: Vec<u32>,
    dead: RankSet,
}

impl Membership {
    /// The group of all `0..size`.
    pub fn of_all(size: u32) -> Self {
        let counters = (0..size).map(|_| 0).collect();
        Self { epoch: 0, counters, dead: RankSet::new() }
    }

    /// One more with each change.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// How often a process left the group or came back. The larger of two is the newer.
    pub fn counter(&self, rank: Rank) -> u32 {
        self.counters[rank.index()]
    }

    /// True for who gets work.
    pub fn is_member(&self, rank: Rank) -> bool {
        self.counters.get(rank.index()).is_some_and(|counter| counter % 2 == 0)
    }

    /// True for who lives and gets no work.
    pub fn is_benched(&self, rank: Rank) -> bool {
        rank.index() < self.counters.len() && !self.is_member(rank) && !self.dead.contains(rank)
    }

    /// How many processes there are, dead or alive.
    pub fn size(&self) -> u32 {
        self.counters.len() as u32
    }

    fn is_dead(&self, rank: Rank) -> bool {
        self.dead.contains(rank)
    }

    /// With so many processes at least: the new ones are members.
    fn grown_to(&self, size: u32) -> Self {
        let mut grown = self.clone();
        let size = grown.counters.len().max(size as usize);
        grown.counters.resize(size, 0);
        grown
    }

    /// With all members who live.
    fn with_all_back(&self) -> Self {
        self.changed(|it| {
            let benched: Vec<Rank> = it.benched().collect();
            for rank in benched {
                it.turn(rank);
            }
        })
    }

    /// Without these dead, and with those as members of whom this says so.
    fn settled(&self, deaths: &RankSet, is_member: impl Fn(Rank) -> bool) -> Self {
        self.changed(|it| {
            it.bury(deaths);
            for rank in it.all().filter(|rank| !deaths.contains(*rank)) {
                if it.is_member(rank) != is_member(rank) {
                    it.turn(rank);
                }
            }
        })
    }

    /// All of it as words, for who knows nothing: the epoch, then a counter for each rank, above
    /// which a dead one has a bit.
    pub fn to_words(&self) -> Vec<u64> {
        let word = |rank: Rank| {
            u64::from(self.counter(rank)) | u64::from(self.dead.contains(rank)) << DEAD_BIT
        };
        core::iter::once(u64::from(self.epoch)).chain(self.all().map(word)).collect()
    }

    /// The group in these words, if they are one.
    pub fn of_words(words: &[u64]) -> Option<Self> {
        let (epoch, counters) = words.split_first()?;
        let dead = counters.iter().enumerate().filter(|(_, word)| **word >> DEAD_BIT == 1);
        Some(Self {
            epoch: u32::try_from(*epoch).ok()?,
            dead: dead.map(|(at, _)| Rank::from(at)).collect(),
            counters: counters.iter().map(|word| *word as u32).collect(),
        })
    }

    /// Who gets work, in ascending order.
    pub fn members(&self) -> impl DoubleEndedIterator<Item = Rank> + '_ {
        self.all().filter(|rank| self.is_member(*rank))
    }

    /// Who lives and gets no work, in ascending order.
    pub fn benched(&self) -> impl DoubleEndedIterator<Item = Rank> + '_ {
        self.all().filter(|rank| self.is_benched(*rank))
    }

    /// Who works for a part of the whole: the process with its number, or else the first member in
    /// the clusters of that, which is the first of `part` XOR 1, `part` XOR 2 and so on. Nothing
    /// without members, and for a part beyond the next power of two from the group's size on.
    pub fn owner(&self, part: u32) -> Option<Rank> {
        let parts = (self.counters.len() as u32).next_power_of_two();
        let mut asked = (0..parts).map(|k| Rank::new(part ^ k)).filter(|_| part < parts);
        asked.find(|rank| self.is_member(*rank))
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = Rank> + use<> {
        (0..self.counters.len()).map(Rank::from)
    }

    /// The group without these dead. If they were its last members, all who live are members.
    #[must_use]
    pub fn without(&self, deaths: &RankSet) -> Self {
        self.changed(|it| it.bury(deaths))
    }

    /// The group in which these ranks have new processes, which are members at once, or benched
    /// until they have passed their tests if they are on `probation`.
    #[must_use]
    pub fn with_replaced(&self, replaced: &RankSet, probation: impl Fn(Rank) -> bool) -> Self {
        self.changed(|it| {
            it.bury(replaced);
            it.dead = it.dead.difference(replaced);
            for rank in it.known(replaced).iter() {
                // What was said of the process before it has an older counter.
                it.turn(rank);
                if probation(rank) {
                    it.turn(rank);
                }
            }
        })
    }

    /// The group after a census: these are all reports, and the deaths that it found.
    ///
    /// `tests` says whether a tester tests a target: those who do not have no vote on it.
    #[must_use]
    pub fn next(
        &self,
        terms: Terms,
        reports: &[Report],
        deaths: &RankSet,
        tests: impl Fn(Rank, Rank) -> bool,
    ) -> Self {
        self.changed(|it| {
            it.bury(deaths);
            let removed = terms.rule.removed(&it.accusations(terms, reports, &tests), it);
            for rank in removed.iter() {
                it.turn(rank);
                if planted!(CountTwo) {
                    it.turn(rank);
                }
            }
            let back: Vec<Rank> =
                it.benched().filter(|rank| it.may_return(*rank, terms, reports, &tests)).collect();
            for rank in back {
                it.turn(rank);
            }
        })
    }

    /// Accusations that count: of members, by members.
    fn accusations(
        &self,
        terms: Terms,
        reports: &[Report],
        tests: impl Fn(Rank, Rank) -> bool,
    ) -> Vec<Accusation> {
        let counts = |it: &&Report| {
            let heard = terms.rule.hears(it.tester, self) || planted!(HearTheBenched);
            it.finding == Finding::Accused
                && heard
                && self.is_member(it.target)
                && tests(it.tester, it.target)
        };
        let counted = reports.iter().filter(counts);
        let mut all: Vec<Accusation> =
            counted.map(|it| Accusation { tester: it.tester, target: it.target }).collect();
        if !planted!(AccuseAsTheyCome) {
            all.sort_unstable();
            all.dedup();
        }
        all
    }

    /// True when a benched process has passed enough tests.
    fn may_return(
        &self,
        rank: Rank,
        terms: Terms,
        reports: &[Report],
        tests: impl Fn(Rank, Rank) -> bool,
    ) -> bool {
        // The last change of all: nobody could tell another one from it.
        if self.counter(rank) == u32::MAX {
            return false;
        }
        let streak = |tester: Rank| {
            let of_it = reports.iter().filter(|it| (it.tester, it.target) == (tester, rank));
            let passed = of_it.filter_map(|it| match it.finding {
                Finding::Passed(streak) => Some(streak),
                Finding::Accused => None,
            });
            passed.max().unwrap_or(0)
        };
        let heard = self.all().filter(|it| terms.rule.hears(*it, self) && tests(*it, rank));
        let streaks: Vec<u32> = heard.map(streak).collect();
        let asked = streaks.iter().any(|streak| *streak >= terms.zeta.max(1));
        if terms.rule == Rule::Own || planted!(AskNobodyElse) {
            return asked;
        }
        let yes = streaks.iter().filter(|streak| u64::from(**streak) * 2 > u64::from(terms.zeta));
        asked && yes.count() * 2 > streaks.len()
    }

    fn known(&self, ranks: &RankSet) -> RankSet {
        ranks.iter().filter(|rank| rank.index() < self.counters.len()).collect()
    }

    fn bury(&mut self, deaths: &RankSet) {
        for rank in self.known(deaths).iter() {
            if self.dead.insert(rank) && self.is_member(rank) {
                self.turn(rank);
            }
        }
    }

    fn turn(&mut self, rank: Rank) {
        let counter = &mut self.counters[rank.index()];
        *counter = counter.saturating_add(1);
    }

    fn changed(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut next = self.clone();
        change(&mut next);
        if next.members().next().is_none() && !planted!(LeaveNobody) {
            let living: Vec<Rank> = next.benched().collect();
            for rank in living {
                next.turn(rank);
            }
        }
        if next != *self {
            next.epoch += 1;
        }
        next
    }
}

#[cfg(test)]
mod tests;
