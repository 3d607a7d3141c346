//! The group in small cases: the paper's figures, and what could go wrong.

use alloc::vec;

use super::*;

fn set(numbers: &[u32]) -> RankSet {
    numbers.iter().copied().map(Rank::new).collect()
}

fn accused(tester: u32, target: u32) -> Report {
    Report { tester: tester.into(), target: target.into(), finding: Finding::Accused }
}

fn passed(tester: u32, target: u32, streak: u32) -> Report {
    Report { tester: tester.into(), target: target.into(), finding: Finding::Passed(streak) }
}

fn next(group: &Membership, reports: &[Report]) -> Membership {
    group.next(Terms::default(), reports, &RankSet::new(), |_, _| true)
}

fn members(group: &Membership) -> Vec<u32> {
    group.members().map(Rank::number).collect()
}

/// A group of so many with these benched.
fn group_without(size: u32, benched: &[u32]) -> Membership {
    let accuser = (0..size).find(|rank| !benched.contains(rank)).expect("a member");
    let reports: Vec<Report> = benched.iter().map(|rank| accused(accuser, *rank)).collect();
    let terms = Terms { rule: Rule::Any, ..Terms::default() };
    Membership::of_all(size).next(terms, &reports, &RankSet::new(), |_, _| true)
}

#[test]
fn a_part_of_who_is_benched_goes_to_the_first_member_in_its_clusters() {
    let owner = |benched: &[u32], part| group_without(7, benched).owner(part).map(Rank::number);
    assert_eq!([owner(&[2], 2), owner(&[2], 3), owner(&[4], 4)], [Some(3), Some(3), Some(5)]);
    assert_eq!([owner(&[4, 5], 4), owner(&[4, 5], 7)], [Some(6), Some(6)], "7 is not there");
    assert_eq!([owner(&[0, 1, 2, 3, 4, 5], 0), owner(&[], 8)], [Some(6), None]);
    assert_eq!(Membership::of_all(1).owner(0), Some(Rank::new(0)));
}

#[test]
fn figures_2_and_3_of_the_paper_0_goes_and_6_comes_back() {
    let before = group_without(8, &[1, 3, 4, 6]);
    assert_eq!(members(&before), [0, 2, 5, 7]);
    let reports = [accused(2, 0), accused(5, 0), passed(2, 6, 5), passed(5, 6, 3), passed(7, 6, 4)];
    let after = next(&before, &reports);
    assert_eq!(members(&after), [2, 5, 6, 7]);
    assert_eq!((after.epoch(), after.counter(0_u32.into())), (2, 1));
    assert_eq!(after.counter(6_u32.into()), 2);
}

#[test]
fn nobody_comes_back_unless_more_than_half_of_the_members_saw_it_well() {
    let group = group_without(5, &[4]);
    let asked = [passed(0, 4, 5), passed(1, 4, 3)];
    assert!(!next(&group, &asked).is_member(4_u32.into()), "two of four");
    let more = [passed(0, 4, 5), passed(1, 4, 3), passed(2, 4, 2)];
    assert!(!next(&group, &more).is_member(4_u32.into()), "2 is not more than 5/2");
    let enough = [passed(0, 4, 5), passed(1, 4, 3), passed(2, 4, 3)];
    assert!(next(&group, &enough).is_member(4_u32.into()));
    let nobody_asks = [passed(0, 4, 4), passed(1, 4, 4), passed(2, 4, 4), passed(3, 4, 4)];
    assert_eq!(next(&group, &nobody_asks), group);
}

#[test]
fn whoever_does_not_test_a_target_has_no_vote_on_it() {
    let group = group_without(5, &[4]);
    let tests = |tester: Rank, _: Rank| tester.number() < 2;
    let reports = [passed(0, 4, 5), passed(1, 4, 3), accused(3, 0)];
    let after = group.next(Terms::default(), &reports, &RankSet::new(), tests);
    assert_eq!(members(&after), [0, 1, 2, 3, 4]);
}

#[test]
fn with_a_zeta_of_one_or_two_a_yes_takes_as_many_tests() {
    for (zeta, streak, back) in [(1, 1, true), (2, 1, false), (2, 2, true)] {
        let group = group_without(3, &[2]);
        let terms = Terms { zeta, ..Terms::default() };
        let reports = [passed(0, 2, zeta), passed(1, 2, streak)];
        let after = group.next(terms, &reports, &RankSet::new(), |_, _| true);
        assert_eq!(after.is_member(2_u32.into()), back, "{zeta} {streak}");
    }
}

#[test]
fn the_accused_leave_before_it_is_asked_who_comes_back() {
    let group = group_without(4, &[3]);
    // 2 goes, and its vote with it: one of the two who stay is not more than half of them.
    let reports = [accused(0, 2), accused(1, 2), passed(2, 3, 5), passed(0, 3, 5)];
    assert_eq!(members(&next(&group, &reports)), [0, 1]);
}

#[test]
fn the_benched_accuse_nobody_and_vote_for_nobody() {
    let group = group_without(4, &[2, 3]);
    let reports = [accused(2, 0), accused(3, 0), passed(2, 3, 9), passed(3, 2, 9)];
    assert_eq!(next(&group, &reports), group);
}

#[test]
fn the_last_member_decides_alone_and_when_it_dies_all_who_live_are_members() {
    let group = group_without(3, &[1, 2]);
    assert_eq!(members(&next(&group, &[passed(0, 2, 5)])), [0, 2]);
    let after = group.without(&set(&[0]));
    assert_eq!((members(&after), after.epoch()), (vec![1, 2], group.epoch() + 1));
    assert!(after.benched().next().is_none(), "the dead are not benched");
    assert_eq!(after.without(&set(&[0])), after, "a death counts once");
}

#[test]
fn a_replacement_is_benched_until_it_has_passed_or_member_at_once() {
    let group = Membership::of_all(4).without(&set(&[1, 2]));
    let probation = group.with_replaced(&set(&[1]), |_| true);
    assert!(probation.is_benched(1_u32.into()) && !probation.is_benched(2_u32.into()));
    assert_eq!(members(&group.with_replaced(&set(&[1]), |_| false)), [0, 1, 3]);
    let well = [passed(0, 1, 5), passed(3, 1, 5)];
    assert_eq!(members(&next(&probation, &well)), [0, 1, 3]);
    for counted in [&probation, &group.with_replaced(&set(&[1]), |_| false)] {
        assert!(counted.counter(1_u32.into()) > group.counter(1_u32.into()));
    }
}

#[test]
fn a_tester_that_is_trusted_is_heard_though_it_is_benched_itself() {
    let own = Terms { rule: Rule::Own, zeta: 3 };
    let same = |tester: Rank, target: Rank| tester.number() / 2 == target.number() / 2;
    let all = Membership::of_all(4);
    let first = all.next(own, &[accused(0, 0)], &RankSet::new(), same);
    assert_eq!(members(&first), [1, 2, 3]);
    let second = first.next(own, &[passed(0, 0, 3), accused(0, 1)], &RankSet::new(), same);
    assert_eq!(members(&second), [0, 2, 3]);
    let everybody = (0..4).map(|rank| accused(rank, rank)).collect::<Vec<_>>();
    assert_eq!(all.next(own, &everybody, &RankSet::new(), same), all);
}

#[test]
fn strangers_and_counters_at_their_end_change_nothing() {
    let group = Membership::of_all(3);
    let strangers = [accused(7, 0), accused(0, 9), passed(0, 9, 5)];
    assert_eq!(next(&group, &strangers), group);
    assert_eq!(group.without(&set(&[8])), group);
    let mut old = group_without(3, &[2]);
    old.counters[2] = u32::MAX;
    let well = [passed(0, 2, 9), passed(1, 2, 9)];
    assert_eq!(next(&old, &well), old);
}

mod evidence {
    use super::super::evidence::{ACCUSATION, CANDIDATE, Evidence, Opinion};
    use super::*;

    const TERMS: Terms = Terms { rule: Rule::Fewest, zeta: 3 };

    fn opinion(fails: u32, streak: u32) -> Opinion {
        Opinion { fails, streak }
    }

    fn next(group: &Membership, reports: &[Report]) -> Membership {
        group.next(TERMS, reports, &RankSet::new(), |_, _| true)
    }

    #[test]
    fn an_accusation_is_news_once_and_a_return_after_zeta_tests_since() {
        let group = Membership::of_all(2);
        let mut seen = [opinion(0, 0), opinion(4, 100)];
        let mut evidence = Evidence::start(Rank::new(0), &seen);
        assert_eq!(evidence.news(&group, TERMS, &seen), 0, "the past is not held against it");
        seen[1] = opinion(5, 0);
        assert_eq!(evidence.news(&group, TERMS, &seen), ACCUSATION);
        let reports: Vec<_> = evidence.reports(&group, TERMS, &seen).collect();
        assert_eq!(reports, [accused(0, 1)]);
        let benched = next(&group, &reports);
        evidence.handle_census((&group, &benched), TERMS, &seen);
        assert_eq!(evidence.news(&benched, TERMS, &seen), 0);
        seen[1] = opinion(5, 3);
        assert_eq!(evidence.news(&benched, TERMS, &seen), CANDIDATE);
        let reports: Vec<_> = evidence.reports(&benched, TERMS, &seen).collect();
        assert_eq!(reports, [passed(0, 1, 3)]);
        let back = next(&benched, &reports);
        evidence.handle_census((&benched, &back), TERMS, &seen);
        assert_eq!(evidence.news(&back, TERMS, &seen), 0, "{back:?}");
    }

    #[test]
    fn tests_that_were_passed_before_the_target_was_benched_do_not_count() {
        let group = Membership::of_all(3);
        let mut seen = [opinion(0, 0), opinion(0, 50), opinion(0, 50)];
        let mut evidence = Evidence::start(Rank::new(0), &[Opinion::default(); 3]);
        let benched = next(&group, &[accused(1, 2)]);
        evidence.handle_census((&group, &benched), TERMS, &seen);
        assert_eq!(evidence.news(&benched, TERMS, &seen), 0);
        seen[2].streak = 52;
        let reports: Vec<_> = evidence.reports(&benched, TERMS, &seen).collect();
        assert_eq!(reports, [passed(0, 2, 2)]);
    }

    #[test]
    fn who_asks_in_vain_asks_again_after_zeta_more_tests() {
        let group = next(&Membership::of_all(3), &[accused(1, 2)]);
        let mut evidence = Evidence::start(Rank::new(0), &[Opinion::default(); 3]);
        let mut seen = [opinion(0, 0), opinion(0, 3), opinion(0, 3)];
        assert_eq!(evidence.news(&group, TERMS, &seen), CANDIDATE);
        let reports: Vec<_> = evidence.reports(&group, TERMS, &seen).collect();
        let after = next(&group, &reports);
        evidence.handle_census((&group, &after), TERMS, &seen);
        seen[2].streak = 5;
        assert_eq!(evidence.news(&after, TERMS, &seen), 0);
        seen[2].streak = 6;
        assert_eq!(evidence.news(&after, TERMS, &seen), CANDIDATE);
    }

    #[test]
    fn who_comes_back_accuses_nobody_of_what_it_saw_before() {
        let group = Membership::of_all(4);
        let mut evidence = Evidence::start(Rank::new(3), &[Opinion::default(); 4]);
        let mut seen = [opinion(1, 0), opinion(1, 0), opinion(1, 0), opinion(0, 0)];
        let reports: Vec<_> = evidence.reports(&group, TERMS, &seen).collect();
        let without = next(&group, &reports);
        assert_eq!(members(&without), [0, 1, 2], "it was stalled");
        evidence.handle_census((&group, &without), TERMS, &seen);
        seen[0] = opinion(2, 0);
        assert_eq!(evidence.news(&without, TERMS, &seen), 0, "its tests count for nothing");
        let well = [passed(0, 3, 3), passed(1, 3, 3)];
        let back = next(&without, &well);
        evidence.handle_census((&without, &back), TERMS, &seen);
        assert_eq!(evidence.news(&back, TERMS, &seen), 0);
        assert_eq!(evidence.reports(&back, TERMS, &seen).count(), 0);
    }

    #[test]
    fn an_accusation_that_nobody_heard_in_time_is_over() {
        let group = Membership::of_all(2);
        let evidence = Evidence::start(Rank::new(0), &[Opinion::default(); 2]);
        let seen = [opinion(0, 0), opinion(1, 2)];
        assert_eq!(evidence.news(&group, TERMS, &seen), ACCUSATION);
        let seen = [opinion(0, 0), opinion(1, 3)];
        assert_eq!(evidence.news(&group, TERMS, &seen), 0);
        assert_eq!(evidence.reports(&group, TERMS, &seen).count(), 0);
    }

    #[test]
    fn under_a_quorum_an_accusation_stands_until_others_join_it() {
        let terms = Terms { rule: Rule::Quorum(2), zeta: 3 };
        let group = Membership::of_all(4);
        let mut evidence = Evidence::start(Rank::new(0), &[Opinion::default(); 4]);
        let seen = [opinion(0, 0), opinion(0, 1), opinion(1, 0), opinion(0, 1)];
        let reports: Vec<_> = evidence.reports(&group, terms, &seen).collect();
        let after = group.next(terms, &reports, &RankSet::new(), |_, _| true);
        assert_eq!(after, group);
        evidence.handle_census((&group, &after), terms, &seen);
        assert_eq!(evidence.news(&after, terms, &seen), 0, "it is no news");
        let mut reports: Vec<_> = evidence.reports(&after, terms, &seen).collect();
        assert_eq!(reports, [accused(0, 2)], "and it stands");
        reports.push(accused(1, 2));
        let after = after.next(terms, &reports, &RankSet::new(), |_, _| true);
        assert_eq!(members(&after), [0, 1, 3]);
    }
}

#[test]
fn a_group_in_words_is_the_same_group() {
    let group = group_without(5, &[4]).without(&set(&[1]));
    assert_eq!(Membership::of_words(&group.to_words()), Some(group.clone()));
    assert!(group.is_benched(4_u32.into()) && !group.is_benched(1_u32.into()));
    assert_eq!(Membership::of_words(&[]), None);
}
