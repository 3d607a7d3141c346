//! What one rank knows of the group and of itself: what it tells the others in a census, and the
//! group that it makes of what all have told.
//!
//! The observer of each node tests its ranks, so each rank brings what was counted of itself, and
//! no opinion of others ([`Rule::Own`]). Members are numbered by their ranks at the start, which
//! they keep when communicators shrink.
//!
//! **Guarantees** that ranks which have accepted the same censuses hold the same group.

use alloc::{vec, vec::Vec};

use super::{
    Finding, Membership, Report, Terms,
    evidence::{ACCUSATION, Evidence, Opinion, Tested},
    removal::Rule,
};
use crate::rank::{Rank, RankSet};

/// What one rank tells all others: what its observer has found, and ζ, if it tests anybody.
pub type Told = [u64; 2];

const NOTHING: u64 = 0;
const ACCUSED: u64 = 1;
/// Added to a number of tests passed in a row.
const PASSED: u64 = 2;

/// What becomes of living ranks that fail tests; the same on all ranks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Slow {
    /// They keep their work: only the dead leave the group.
    Stay,
    /// They are benched for good.
    Leave,
    /// They are benched until they have passed ζ tests in a row.
    Return,
    /// So are they, and so is at first who takes the place of a dead one, if it is tested.
    Probation,
}

/// The group as one rank knows it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Member {
    me: Rank,
    slow: Slow,
    zeta: u32,
    view: Membership,
    evidence: Evidence,
    /// What was counted of this rank when it told the others.
    seen: Vec<Opinion>,
}

impl Member {
    /// One of so many ranks, which are all members; so much was counted of it before.
    pub fn new(me: Rank, ranks: u32, slow: Slow, tested: Option<Tested>) -> Self {
        let zeta = tested.map_or(Terms::default().zeta, |tested| tested.zeta);
        let mut seen = vec![Opinion::default(); ranks as usize];
        see(&mut seen, me, tested);
        let evidence = Evidence::start(me, &seen);
        Self { me, slow, zeta, view: Membership::of_all(ranks), evidence, seen }
    }

    /// The number of this member.
    pub fn number(&self) -> Rank {
        self.me
    }

    /// The group as all ranks know it.
    pub fn view(&self) -> &Membership {
        &self.view
    }

    /// Takes over the group that others know, as a rank that begins.
    pub fn learn(&mut self, view: Membership) {
        self.view = view;
    }

    /// The word that rides on a commit: 0 while nothing is new.
    pub fn news(&mut self, tested: Option<Tested>) -> u32 {
        let counts = tested.filter(|_| self.slow != Slow::Stay);
        let Some(Tested { zeta, .. }) = counts else { return 0 };
        self.zeta = zeta;
        see(&mut self.seen, self.me, tested);
        let word = self.evidence.news(&self.view, self.terms(), &self.seen);
        if self.slow == Slow::Leave { word & ACCUSATION } else { word }
    }

    /// What this rank tells all others.
    pub fn tell(&mut self, tested: Option<Tested>) -> Told {
        let counts = tested.filter(|_| self.slow != Slow::Stay);
        let Some(Tested { zeta, .. }) = counts else { return [NOTHING, 0] };
        see(&mut self.seen, self.me, tested);
        let mut reports = self.evidence.reports(&self.view, self.terms(), &self.seen);
        let word = match reports.next().map(|report| report.finding) {
            None => NOTHING,
            Some(Finding::Accused) => ACCUSED,
            Some(Finding::Passed(_)) if self.slow == Slow::Leave => NOTHING,
            Some(Finding::Passed(streak)) => PASSED + u64::from(streak),
        };
        [word, u64::from(zeta)]
    }

    /// The group after all living ranks have told this, each with its number first; these have new
    /// processes.
    pub fn next(&mut self, told: &[(u32, Told)], replaced: &RankSet) -> Membership {
        let zeta = told.iter().map(|(_, [_, zeta])| *zeta as u32).max();
        self.zeta = zeta.filter(|zeta| *zeta > 0).unwrap_or(self.zeta);
        let there: RankSet = told.iter().map(|(member, _)| Rank::new(*member)).collect();
        let all: RankSet = (0..self.seen.len()).map(Rank::from).collect();
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
        let is_tested =
            |it: Rank| told.iter().any(|(member, [_, zeta])| *member == it.number() && *zeta > 0);
        let proves = |it| self.slow == Slow::Probation && is_tested(it);
        let view = self.view.with_replaced(replaced, proves);
        view.next(self.terms(), &reports, &all.difference(&there), own)
    }

    /// The block in which all told each other counts: this is the group now.
    pub fn accept(&mut self, view: Membership) {
        self.evidence.handle_census((&self.view, &view), self.terms(), &self.seen);
        self.view = view;
    }

    /// Each rank is tested by its own observer alone, which is trusted.
    fn terms(&self) -> Terms {
        Terms { rule: Rule::Own, zeta: self.zeta }
    }
}

/// Notes what was counted of this rank among opinions of all, of which no other is known here.
fn see(seen: &mut [Opinion], me: Rank, tested: Option<Tested>) {
    if let (Some(own), Some(tested)) = (seen.get_mut(me.index()), tested) {
        *own = tested.opinion;
    }
}

/// Words of a row of a census.
pub const ROW_WORDS: usize = 4;

/// The first word of a row that no rank has told.
const NOBODY: u64 = u64::MAX;

/// What all living ranks of a communicator have told each other, by rank: their numbers, whether
/// they have accepted a census before, and what was counted of them.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Census(Vec<[u64; ROW_WORDS]>);

impl Census {
    /// The words of so many ranks before anybody has told anything but this one: a member that has
    /// accepted a census before, or has not.
    pub fn words(
        member: &mut Member,
        knows: bool,
        tested: Option<Tested>,
        (rank, ranks): (usize, usize),
    ) -> Vec<u64> {
        let [word, zeta] = member.tell(tested);
        let mut rows = vec![[NOBODY; ROW_WORDS]; ranks];
        rows[rank] = [u64::from(member.me.number()), u64::from(knows), word, zeta];
        rows.concat()
    }

    /// The rows in these words.
    pub fn of_words(words: &[u64]) -> Self {
        Self(words.as_chunks().0.to_vec())
    }

    /// What each rank has told.
    fn told(&self) -> impl Iterator<Item = (usize, [u64; ROW_WORDS])> + '_ {
        self.0.iter().copied().enumerate().filter(|(_, row)| row[0] != NOBODY)
    }

    /// The rank that tells the group to those who begin, if some begin among others who do not.
    pub fn speaker(&self) -> Option<usize> {
        let speaker = self.told().find(|(_, [_, knows, ..])| *knows == 1);
        let begins = self.told().any(|(_, [_, knows, ..])| knows == 0);
        speaker.filter(|_| begins).map(|(rank, _)| rank)
    }

    /// The group after it, which this member knew before as all others did.
    pub fn next(&self, member: &mut Member) -> Membership {
        let told = self.told().map(|(_, row)| (row[0] as u32, [row[2], row[3]]));
        let told: Vec<(u32, Told)> = told.collect();
        let some_begin = self.speaker().is_some();
        let begins = self.told().filter(|(_, row)| some_begin && row[1] == 0);
        let replaced = begins.map(|(_, row)| Rank::new(row[0] as u32)).collect();
        member.next(&told, &replaced)
    }

    /// The ranks of the communicator whose members are benched in this group.
    pub fn benched(&self, view: &Membership) -> RankSet {
        let benched =
            |(_, row): &(usize, [u64; ROW_WORDS])| view.is_benched(Rank::new(row[0] as u32));
        self.told().filter(benched).map(|(rank, _)| Rank::from(rank)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::evidence::CANDIDATE, *};

    const ZETA: u32 = 3;

    #[allow(clippy::unnecessary_wraps, reason = "as the platform has it")]
    fn tested(fails: u32, streak: u32) -> Option<Tested> {
        Some(Tested::of(Opinion { fails, streak }, ZETA))
    }

    /// What all of four ranks have told, of which rank 2 is known to have counted this.
    fn census(members: &mut [Member], of_rank_2: Option<Tested>) -> Vec<u32> {
        let rows = members.iter_mut().enumerate().flat_map(|(rank, member)| {
            let tested = if rank == 2 { of_rank_2 } else { tested(0, 9) };
            let words = Census::words(member, true, tested, (rank, 4));
            words[rank * ROW_WORDS..][..ROW_WORDS].to_vec()
        });
        let census = Census::of_words(&rows.collect::<Vec<u64>>());
        for member in &mut *members {
            let view = census.next(member);
            member.accept(view);
        }
        assert!(members.iter().all(|member| member.view == members[0].view));
        members[0].view.members().map(Rank::number).collect()
    }

    fn four(slow: Slow) -> Vec<Member> {
        let member =
            |rank: u32| Member::new(Rank::new(rank), 4, slow, tested(u32::from(rank == 2), 0));
        (0..4).map(member).collect()
    }

    #[test]
    fn who_fails_a_test_is_benched_and_comes_back_after_zeta_good_ones() {
        let mut group = four(Slow::Return);
        assert_eq!(group[2].news(tested(1, 0)), 0, "what was before counts against nobody");
        assert!(group[2].news(tested(2, 0)) > 0);
        assert_eq!(census(&mut group, tested(2, 0)), [0, 1, 3]);
        assert_eq!(group[2].news(tested(2, ZETA - 1)), 0);
        assert!(group[2].news(tested(2, ZETA)) > 0);
        assert_eq!(census(&mut group, tested(2, ZETA)), [0, 1, 2, 3]);
        assert_eq!(group[2].news(tested(2, ZETA + 1)), 0);
    }

    #[test]
    fn who_may_not_come_back_does_not() {
        let mut group = four(Slow::Leave);
        assert_eq!(census(&mut group, tested(2, 0)), [0, 1, 3]);
        assert_eq!(group[2].news(tested(2, 1000)), 0);
        assert_eq!(census(&mut group, tested(2, 1000)), [0, 1, 3]);
    }

    #[test]
    fn a_bad_moment_that_is_over_benches_nobody() {
        for slow in [Slow::Return, Slow::Leave] {
            let mut group = four(slow);
            assert!(group[2].news(tested(2, ZETA - 1)) > 0);
            assert_eq!(group[2].news(tested(2, ZETA)), 0);
            assert_eq!(census(&mut group, tested(2, ZETA)), [0, 1, 2, 3]);
        }
    }

    #[test]
    fn a_dead_rank_is_none_of_the_benched_and_its_replacement_is_a_member() {
        let mut member = Member::new(Rank::new(0), 3, Slow::Return, tested(0, 0));
        let told = |members: &[u32]| -> Vec<(u32, Told)> {
            members.iter().map(|member| (*member, [NOTHING, 3])).collect()
        };
        let view = member.next(&told(&[0, 1]), &RankSet::new());
        member.accept(view);
        assert!(!member.view.is_member(Rank::new(2)) && !member.view.is_benched(Rank::new(2)));
        let view = member.next(&told(&[0, 1, 2]), &[Rank::new(2)].into_iter().collect());
        member.accept(view);
        assert!(member.view.is_member(Rank::new(2)));
    }

    #[test]
    fn a_replacement_on_probation_is_benched_if_somebody_tests_it_until_it_has_passed() {
        let of_2 = |word, zeta| [(0, [NOTHING, ZETA.into()]), (1, [NOTHING, 3]), (2, [word, zeta])];
        let (replaced, nobody) = ([Rank::new(2)].into_iter().collect(), RankSet::new());
        for (slow, zeta, works) in
            [(Slow::Probation, 3, false), (Slow::Probation, 0, true), (Slow::Return, 3, true)]
        {
            let mut member = Member::new(Rank::new(0), 3, slow, tested(0, 0));
            let view = member.next(&of_2(NOTHING, zeta), &replaced);
            member.accept(view);
            assert_eq!(member.view.is_member(Rank::new(2)), works, "{slow:?} {zeta}");
            let view = member.next(&of_2(PASSED + 2, zeta), &nobody);
            assert_eq!(view.is_member(Rank::new(2)), works, "two are not enough");
            let view = member.next(&of_2(PASSED + 3, zeta), &nobody);
            assert!(view.is_member(Rank::new(2)));
        }
        let mut new = Member::new(Rank::new(2), 3, Slow::Probation, tested(4, 90));
        new.learn(Membership::of_all(3));
        let view = new.next(&of_2(NOTHING, 3), &replaced);
        assert_eq!(new.tell(tested(4, 90)), [NOTHING, 3]);
        new.accept(view);
        assert_eq!(new.news(tested(4, 92)), 0, "what was counted before does not count");
        assert_eq!(new.news(tested(4, 93)), CANDIDATE);
    }

    #[test]
    fn without_tests_nothing_is_ever_new() {
        let mut member = Member::new(Rank::new(0), 2, Slow::Return, None);
        assert_eq!((member.news(None), member.tell(None)), (0, [NOTHING, 0]));
        let mut member = Member::new(Rank::new(0), 2, Slow::Stay, tested(0, 0));
        assert_eq!((member.news(tested(1, 0)), member.tell(tested(1, 0))), (0, [NOTHING, 0]));
    }

    #[test]
    fn who_begins_is_told_the_group_and_the_benched_are_named_by_their_ranks_now() {
        // Rank 1 was member 1, and is dead; member 3 has a new process.
        let rows =
            [[0, 1, NOTHING, 3], [NOBODY; ROW_WORDS], [2, 1, ACCUSED, 3], [3, 0, NOTHING, 3]];
        let census = Census::of_words(rows.as_flattened());
        assert_eq!(census.speaker(), Some(0));
        let view = census.next(&mut Member::new(Rank::new(0), 4, Slow::Return, tested(0, 0)));
        assert_eq!(view.members().map(Rank::number).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(view.counter(Rank::new(3)), 2, "it was dead between");
        assert_eq!(census.benched(&view), [Rank::new(2)].into_iter().collect());
        // Shrunken to those who live, the benched one is rank 1.
        let shrunken = Census::of_words([rows[0], rows[2], rows[3]].as_flattened());
        assert_eq!(shrunken.next(&mut Member::new(Rank::new(0), 4, Slow::Return, None)), view);
        assert_eq!(shrunken.benched(&view), [Rank::new(1)].into_iter().collect());
        let all_begin = Census::of_words(&[0, 0, NOTHING, 3, 1, 0, NOTHING, 3]);
        assert_eq!(all_begin.speaker(), None);
    }
}
