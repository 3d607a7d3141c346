//! Who goes when members accuse each other.
//!
//! An accusation is no proof: the accuser may be the slow one. So who goes is a rule on all
//! accusations together, and no rule looks at the order in which they came.

use alloc::vec::Vec;

use super::Membership;
use crate::rank::{Rank, RankSet};

/// A member failed the test of another.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Accusation {
    /// Whose test.
    pub tester: Rank,
    /// Who failed it.
    pub target: Rank,
}

/// Who goes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Rule {
    /// Testers in ascending order: each that is still in removes whom it accuses (the paper's, in
    /// an order).
    Any,
    /// As few as possible: as long as members accuse each other, the one with most others that it
    /// accuses or that accuse it; of several the one with most accusers, then the highest rank.
    #[default]
    Fewest,
    /// Whoever so many members accuse, or all that test it, if these are fewer. Where all would go
    /// nobody does.
    Quorum(u32),
    /// Whoever is accused: its one tester is no member itself, and is trusted. Where all would go
    /// nobody does: none of them is slower than the others.
    Own,
}

impl Rule {
    /// True when what this tester reports counts.
    pub(super) fn hears(self, tester: Rank, group: &Membership) -> bool {
        self == Self::Own || group.is_member(tester)
    }

    /// Those who go; the accusations are sorted, and of members.
    pub(super) fn removed(self, accusations: &[Accusation], group: &Membership) -> RankSet {
        match self {
            Self::Any => first_come(accusations),
            Self::Fewest => fewest(accusations),
            Self::Quorum(least) => quorum(accusations, group, least),
            Self::Own => unless_all(accusations.iter().map(|it| it.target).collect(), group),
        }
    }
}

fn first_come(accusations: &[Accusation]) -> RankSet {
    let mut gone = RankSet::new();
    for it in accusations {
        if !gone.contains(it.tester) {
            gone.insert(it.target);
        }
    }
    gone
}

fn fewest(accusations: &[Accusation]) -> RankSet {
    let mut left: Vec<Accusation> = accusations.to_vec();
    let mut gone = RankSet::new();
    while let Some(worst) = worst(&left) {
        gone.insert(worst);
        left.retain(|it| it.tester != worst && it.target != worst);
    }
    gone
}

/// Who is in most accusations of others and by others.
fn worst(accusations: &[Accusation]) -> Option<Rank> {
    // Each edge from both of its ends, and whether it is an accusation of the first.
    let ends = accusations
        .iter()
        .flat_map(|it| [(it.target, it.tester, true), (it.tester, it.target, false)]);
    let mut ends: Vec<(Rank, Rank, bool)> = ends.collect();
    ends.sort_unstable();
    let by_rank = ends.chunk_by(|one, other| one.0 == other.0);
    let weights = by_rank.map(|ends| {
        let neighbours = ends.chunk_by(|one, other| one.1 == other.1).count();
        let accusers = ends.iter().filter(|end| end.2).count();
        (neighbours, accusers, ends[0].0)
    });
    weights.max().map(|(_, _, rank)| rank)
}

fn quorum(accusations: &[Accusation], group: &Membership, least: u32) -> RankSet {
    let others = group.members().count().saturating_sub(1);
    let needed = others.min(least.max(1) as usize);
    let accusers = |rank: Rank| accusations.iter().filter(|it| it.target == rank).count();
    unless_all(group.members().filter(|rank| accusers(*rank) >= needed.max(1)).collect(), group)
}

fn unless_all(gone: RankSet, group: &Membership) -> RankSet {
    if gone.len() < group.members().count() { gone } else { RankSet::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKS: u32 = 4;

    /// All pairs of four ranks, and every set of accusations among them.
    fn every_set() -> impl Iterator<Item = Vec<Accusation>> {
        let ranks = || (0..RANKS).map(Rank::new);
        let pairs = ranks().flat_map(|tester| ranks().map(move |target| (tester, target)));
        let pairs = pairs.filter(|(tester, target)| tester != target);
        let pairs: Vec<_> = pairs.map(|(tester, target)| Accusation { tester, target }).collect();
        (0_u32..1 << pairs.len()).map(move |mask| {
            let chosen = pairs.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1);
            chosen.map(|(_, pair)| *pair).collect()
        })
    }

    fn is_settled(accusations: &[Accusation], gone: &RankSet) -> bool {
        let stands = |it: &Accusation| !gone.contains(it.tester) && !gone.contains(it.target);
        !accusations.iter().any(stands)
    }

    /// The least number that has to go.
    fn optimum(accusations: &[Accusation]) -> usize {
        let sets = (0_u32..1 << RANKS).map(|mask| {
            let gone = (0..RANKS).filter(|rank| mask >> rank & 1 == 1);
            gone.map(Rank::new).collect::<RankSet>()
        });
        let settled = sets.filter(|gone| is_settled(accusations, gone));
        settled.map(|gone| gone.len()).min().expect("nobody accuses where nobody is")
    }

    #[test]
    fn any_and_fewest_leave_no_accusation_and_somebody_and_fewest_is_the_optimum() {
        let group = Membership::of_all(RANKS);
        let (mut sets, mut fewer, mut more) = (0, 0, 0);
        for accusations in every_set() {
            let [any, fewest] =
                [Rule::Any, Rule::Fewest].map(|rule| rule.removed(&accusations, &group));
            for gone in [&any, &fewest] {
                assert!(is_settled(&accusations, gone), "{gone} of {accusations:?}");
                assert!(gone.len() < RANKS as usize, "all of {accusations:?}");
                let accused = gone.iter().all(|rank| {
                    accusations.iter().any(|it| it.target == rank || it.tester == rank)
                });
                assert!(accused);
            }
            assert_eq!(fewest.len(), optimum(&accusations), "{accusations:?}");
            sets += 1;
            fewer += usize::from(fewest.len() < any.len());
            more += usize::from(fewest.len() > any.len());
        }
        assert_eq!((sets, fewer, more), (4096, 1483, 0));
    }

    #[test]
    fn a_quorum_and_a_trusted_tester_leave_somebody() {
        let group = Membership::of_all(RANKS);
        for accusations in every_set() {
            for rule in [Rule::Quorum(1), Rule::Quorum(2), Rule::Quorum(9), Rule::Own] {
                let gone = rule.removed(&accusations, &group);
                assert!(gone.len() < RANKS as usize);
                let accusers =
                    |rank| accusations.iter().filter(|it: &&Accusation| it.target == rank).count();
                let least = match rule {
                    Rule::Quorum(least) => least.min(RANKS - 1) as usize,
                    _ => 1,
                };
                assert!(gone.iter().all(|rank| accusers(rank) >= least));
            }
        }
    }

    #[test]
    fn one_that_was_stalled_and_accuses_all_is_the_only_one_to_go() {
        let stalled = |target| Accusation { tester: Rank::new(3), target: Rank::new(target) };
        let accusations: Vec<_> = (0..18).filter(|it| *it != 3).map(stalled).collect();
        let group = Membership::of_all(18);
        assert_eq!(Rule::Any.removed(&accusations, &group).len(), 17);
        let gone = Rule::Fewest.removed(&accusations, &group);
        assert_eq!(gone.as_slice(), [Rank::new(3)]);
        assert!(Rule::Quorum(2).removed(&accusations, &group).is_empty());
    }

    #[test]
    fn of_two_that_accuse_each_other_the_higher_goes() {
        let accuse = |tester: u32, target: u32| Accusation {
            tester: Rank::new(tester),
            target: Rank::new(target),
        };
        let mutual = [accuse(0, 1), accuse(1, 0)];
        let group = Membership::of_all(2);
        for rule in [Rule::Any, Rule::Fewest] {
            assert_eq!(rule.removed(&mutual, &group).as_slice(), [Rank::new(1)]);
        }
        assert!(Rule::Quorum(1).removed(&mutual, &group).is_empty());
    }
}
