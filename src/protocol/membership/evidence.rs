//! What one tester has to report, and reports once.
//!
//! The service that tests only counts: how many tests of a target failed ever, and how many passed
//! since. It knows no groups, and nobody tells it of them. What of that is news, and since when
//! tests count for a return, is kept here, beside the group: a *baseline* of each target, which is
//! what the service had counted when the target changed sides.
//!
//! An accusation ends with the census that hears it, or when the target has passed ζ tests since.
//! Who was removed has its accusations forgotten: it saw the others in a bad moment of its own.

use alloc::vec::Vec;

use super::{Finding, Membership, Report, Terms, removal::Rule};
use crate::{protocol::planted::planted, rank::Rank};

/// What a service has counted of one target.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Opinion {
    /// Tests that it failed, ever.
    pub fails: u32,
    /// Tests that it passed since the last that it failed.
    pub streak: u32,
}

/// What the observer of its node has counted of a process, if it tests anybody.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Tested {
    /// Of this process.
    pub opinion: Opinion,
    /// ζ, as the user set it for the whole job.
    pub zeta: u32,
    /// The number of this node among those that have observers, and how many these are.
    pub node: (u32, u32),
    /// Intervals in which the observer itself was kept from testing.
    pub stalls: u64,
}

impl Tested {
    /// By the only observer, which was never kept from testing.
    pub const fn of(opinion: Opinion, zeta: u32) -> Self {
        Self { opinion, zeta, node: (0, 1), stalls: 0 }
    }
}

/// What a process can ask its observer.
pub trait Tests {
    /// What it has counted of this process, if it tests anybody.
    fn tested(&self) -> Option<Tested>;

    /// What it has counted of the observer of another node.
    fn of_node(&self, node: u32) -> Opinion;
}

/// An observer that tests no other.
impl Tests for Option<Tested> {
    fn tested(&self) -> Option<Tested> {
        *self
    }

    fn of_node(&self, _: u32) -> Opinion {
        Opinion::default()
    }
}

/// The opinions of one tester that the group has not taken into account.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Evidence {
    tester: Rank,
    baselines: Vec<Baseline>,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Baseline {
    /// What was counted when the target changed sides, or its return was refused.
    since: Opinion,
    /// Of the failed tests a census knows so many.
    told: u32,
}

impl Baseline {
    /// Tests passed in a row that count for a return.
    fn streak(self, now: Opinion) -> u32 {
        if now.fails == self.since.fails && !planted!(CountOldPasses) {
            now.streak.saturating_sub(self.since.streak)
        } else {
            now.streak
        }
    }

    fn accuses(self, now: Opinion, terms: Terms) -> bool {
        now.fails > self.since.fails && now.streak < terms.zeta.max(1)
    }
}

/// The word that rides on a commit when some member failed a test.
pub const ACCUSATION: u32 = 1;
/// The word that rides on a commit when somebody who is benched passed ζ tests.
pub const CANDIDATE: u32 = 2;

impl Evidence {
    /// A tester that has counted this of each rank: what was before is not held against anybody.
    pub fn start(tester: Rank, opinions: &[Opinion]) -> Self {
        let baselines =
            opinions.iter().map(|now| Baseline { since: *now, told: now.fails }).collect();
        Self { tester, baselines }
    }

    /// The word that rides on a commit: 0 while nothing is new.
    pub fn news(&self, group: &Membership, terms: Terms, opinions: &[Opinion]) -> u32 {
        if !terms.rule.hears(self.tester, group) {
            return 0;
        }
        let news = self.targets(terms, opinions).map(|(target, baseline, now)| {
            if group.is_member(target) {
                let accused = now.fails > baseline.told && baseline.accuses(now, terms);
                u32::from(accused) * ACCUSATION
            } else {
                let asked = baseline.streak(now) >= terms.zeta.max(1);
                u32::from(group.is_benched(target) && asked) * CANDIDATE
            }
        });
        news.fold(0, |word, bit| word | bit)
    }

    /// What this tester brings to a census.
    pub fn reports(
        &self,
        group: &Membership,
        terms: Terms,
        opinions: &[Opinion],
    ) -> impl Iterator<Item = Report> {
        let hears = terms.rule.hears(self.tester, group) || planted!(HearTheBenched);
        self.targets(terms, opinions).filter_map(move |(target, baseline, now)| {
            let finding = if group.is_member(target) {
                baseline.accuses(now, terms).then_some(Finding::Accused)
            } else {
                // Perhaps none in a row: then it says that it tests the target.
                let tests = group.is_benched(target) && now != baseline.since;
                tests.then(|| Finding::Passed(baseline.streak(now)))
            };
            let finding = finding.filter(|_| hears)?;
            Some(Report { tester: self.tester, target, finding })
        })
    }

    /// A census has made one group of the other, in which this tester had these opinions.
    pub fn handle_census(
        &mut self,
        (before, after): (&Membership, &Membership),
        terms: Terms,
        opinions: &[Opinion],
    ) {
        let heard = |group| terms.rule.hears(self.tester, group);
        let kept_in = heard(before) && heard(after);
        for (at, (baseline, now)) in self.baselines.iter_mut().zip(opinions).enumerate() {
            let stays = after.is_member(at.into()) && before.is_member(at.into());
            let refused = !after.is_member(at.into()) && baseline.streak(*now) >= terms.zeta.max(1);
            baseline.told = now.fails;
            if (stays && !kept_in && !planted!(AccuseAgain)) || refused {
                baseline.since = *now;
            }
        }
        self.handle_view((before, after), opinions);
    }

    /// One group has become the other, while this tester has these opinions.
    pub fn handle_view(
        &mut self,
        (before, after): (&Membership, &Membership),
        opinions: &[Opinion],
    ) {
        for (at, (baseline, now)) in self.baselines.iter_mut().zip(opinions).enumerate() {
            if before.counter(at.into()) != after.counter(at.into()) {
                *baseline = Baseline { since: *now, told: now.fails };
            }
        }
    }

    /// Whoever it may test, with what was and is counted. A tester that is no member may test the
    /// one that speaks for it.
    fn targets(
        &self,
        terms: Terms,
        opinions: &[Opinion],
    ) -> impl Iterator<Item = (Rank, Baseline, Opinion)> {
        let all = self.baselines.iter().zip(opinions).enumerate();
        let all = all.map(|(at, (baseline, now))| (Rank::from(at), *baseline, *now));
        all.filter(move |(target, _, _)| *target != self.tester || terms.rule == Rule::Own)
    }
}
