//! Who works: the ranks that no test has found slow, as all ranks agree.
//!
//! The observer of each node tests its ranks ([`fampi::Comm::tested`]), so each rank knows what is
//! thought of itself. Whether that is news rides on the commit of a round. If it is at any rank,
//! all join ([`crate::join`]), tell each other what they know, and make of that the same group
//! ([`fampi::membership`]). Who is benched keeps its rank, takes part in every commit, and owns no
//! parts.
//!
//! Camargo and Duarte 2018, section 3.

use fampi::membership::{
    Finding, Membership, Report, Terms,
    evidence::{Evidence, Opinion, Tested},
    removal::Rule,
};
use fampi::{Rank, RankSet};

use crate::report::Events;

/// How many words a rank tells of itself.
pub const WORDS: usize = 2;
const NOTHING: u64 = 0;
const ACCUSED: u64 = 1;
/// Added to a number of tests passed in a row.
const PASSED: u64 = 2;

/// What one rank tells all others: what its observer has found, and ζ, if it tests anybody.
pub type Told = [u64; WORDS];

/// The group as one rank knows it.
#[derive(Debug)]
pub struct Group {
    me: Rank,
    /// Who is benched may come back.
    rejoins: bool,
    zeta: u32,
    view: Membership,
    evidence: Evidence,
    /// What was counted of this rank when it told the others.
    seen: Vec<Opinion>,
}

impl Group {
    /// All so many ranks of the launch; this one is `me`, of which so much was counted before.
    #[must_use]
    pub fn new(me: u32, ranks: u32, rejoins: bool, tested: Option<Tested>) -> Self {
        let (me, zeta) = (Rank::new(me), Terms::default().zeta);
        let seen = seen(me, ranks, tested);
        let evidence = Evidence::start(me, &seen);
        Self { me, rejoins, zeta, view: Membership::of_all(ranks), evidence, seen }
    }

    /// The group as all ranks know it.
    #[must_use]
    pub const fn view(&self) -> &Membership {
        &self.view
    }

    /// Takes over what others know, as a rank that begins.
    pub fn learn(&mut self, words: &[u64]) {
        let Some(view) = Membership::of_words(words) else { unreachable!("it was told so") };
        self.view = view;
    }

    /// The word that rides on a commit: 0 while nothing is new.
    #[must_use]
    pub fn news(&self, tested: Option<Tested>) -> u32 {
        let seen = seen(self.me, self.size(), tested);
        tested.map_or(0, |_| self.evidence.news(&self.view, self.terms(), &seen))
    }

    /// What this rank tells all others.
    pub fn tell(&mut self, tested: Option<Tested>) -> Told {
        let Some(Tested { zeta, .. }) = tested else { return [NOTHING, 0] };
        self.seen = seen(self.me, self.size(), tested);
        let mut reports = self.evidence.reports(&self.view, self.terms(), &self.seen);
        let word = match reports.next().map(|report| report.finding) {
            None => NOTHING,
            Some(Finding::Accused) => ACCUSED,
            Some(Finding::Passed(streak)) => PASSED + u64::from(streak),
        };
        [word, u64::from(zeta)]
    }

    /// The group after all living ranks have told this, the member of the launch first; these have
    /// new processes.
    #[must_use]
    pub fn next(&mut self, told: &[(u32, Told)], replaced: &RankSet) -> Membership {
        let zeta = told.iter().map(|(_, [_, zeta])| *zeta as u32).max();
        self.zeta = zeta.filter(|zeta| *zeta > 0).unwrap_or(self.zeta);
        let there: RankSet = told.iter().map(|(member, _)| Rank::new(*member)).collect();
        let all: RankSet = (0..self.size()).map(Rank::new).collect();
        let report = |(member, [word, _]): &(u32, Told)| {
            let finding = match *word {
                NOTHING => return None,
                ACCUSED => Finding::Accused,
                passed => Finding::Passed((passed - PASSED) as u32),
            };
            let rank = Rank::new(*member);
            Some(Report { tester: rank, target: rank, finding })
        };
        let reports: Vec<Report> = told.iter().filter_map(report).collect();
        let own = |tester, target| tester == target;
        let view = self.view.with_replaced(replaced, false);
        view.next(self.terms(), &reports, &all.difference(&there), own)
    }

    /// The block in which all told each other counts: this is the group now.
    pub fn accept(&mut self, view: Membership) {
        self.evidence.handle_census((&self.view, &view), self.terms(), &self.seen);
        self.view = view;
    }

    /// Counts who was benched, and who came back, of those who live.
    pub fn count(&self, after: &Membership, events: &mut Events) {
        let turned = |rank: &Rank| after.counter(*rank) != self.view.counter(*rank);
        events.benched += after.benched().filter(turned).count() as u64;
        events.back += after.members().filter(|rank| self.view.is_benched(*rank)).count() as u64;
    }

    fn size(&self) -> u32 {
        self.seen.len() as u32
    }

    /// Each rank is tested by its own observer alone, which is trusted.
    const fn terms(&self) -> Terms {
        Terms { rule: Rule::Own, zeta: if self.rejoins { self.zeta } else { u32::MAX } }
    }
}

/// Opinions of all ranks, of which one is known here.
fn seen(me: Rank, ranks: u32, tested: Option<Tested>) -> Vec<Opinion> {
    let mut seen = vec![Opinion::default(); ranks as usize];
    seen[me.index()] = tested.map_or_else(Opinion::default, |tested| tested.opinion);
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZETA: u32 = 3;

    #[allow(clippy::unnecessary_wraps, reason = "as the library has it")]
    fn tested(fails: u32, streak: u32) -> Option<Tested> {
        Some(Tested { opinion: Opinion { fails, streak }, zeta: ZETA })
    }

    /// What all of four ranks have told, of which rank 2 is known to have counted this.
    fn census(groups: &mut [Group], of_rank_2: Option<Tested>) -> Vec<u32> {
        let told: Vec<(u32, Told)> = (0..)
            .zip(groups.iter_mut())
            .map(|(rank, group)| {
                (rank, group.tell(if rank == 2 { of_rank_2 } else { tested(0, 9) }))
            })
            .collect();
        for group in &mut *groups {
            let view = group.next(&told, &RankSet::new());
            group.accept(view);
        }
        assert!(groups.iter().all(|group| group.view == groups[0].view));
        groups[0].view.members().map(Rank::number).collect()
    }

    fn four(rejoins: bool) -> Vec<Group> {
        (0..4).map(|rank| Group::new(rank, 4, rejoins, tested(u32::from(rank == 2), 0))).collect()
    }

    #[test]
    fn who_fails_a_test_is_benched_and_comes_back_after_zeta_good_ones() {
        let mut groups = four(true);
        assert_eq!(groups[2].news(tested(1, 0)), 0, "what was before counts against nobody");
        assert!(groups[2].news(tested(2, 0)) > 0);
        assert_eq!(census(&mut groups, tested(2, 0)), [0, 1, 3]);
        assert_eq!(groups[2].news(tested(2, ZETA - 1)), 0);
        assert!(groups[2].news(tested(2, ZETA)) > 0);
        assert_eq!(census(&mut groups, tested(2, ZETA)), [0, 1, 2, 3]);
        assert_eq!(groups[2].news(tested(2, ZETA + 1)), 0);
    }

    #[test]
    fn who_may_not_come_back_does_not() {
        let mut groups = four(false);
        assert_eq!(census(&mut groups, tested(2, 0)), [0, 1, 3]);
        assert_eq!(groups[2].news(tested(2, 1000)), 0);
        assert_eq!(census(&mut groups, tested(2, 1000)), [0, 1, 3]);
    }

    #[test]
    fn a_dead_rank_is_none_of_the_benched_and_its_replacement_is_a_member() {
        let mut group = Group::new(0, 3, true, tested(0, 0));
        let told = |members: &[u32]| -> Vec<(u32, Told)> {
            members.iter().map(|member| (*member, [NOTHING, 3])).collect()
        };
        let view = group.next(&told(&[0, 1]), &RankSet::new());
        group.accept(view);
        assert!(!group.view.is_member(Rank::new(2)) && !group.view.is_benched(Rank::new(2)));
        let view = group.next(&told(&[0, 1, 2]), &[Rank::new(2)].into_iter().collect());
        group.accept(view);
        assert!(group.view.is_member(Rank::new(2)));
    }

    #[test]
    fn without_tests_nothing_is_ever_new() {
        let mut group = Group::new(0, 2, true, None);
        assert_eq!((group.news(None), group.tell(None)), (0, [NOTHING, 0]));
    }
}
