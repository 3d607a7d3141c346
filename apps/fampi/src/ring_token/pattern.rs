//! Who dies in a ring, and when.

use fastrand::Rng;

/// How processes die; rank 0 makes the tokens and never does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pattern {
    Nobody,
    /// Until two are left, as in figure 1(a).
    One,
    /// Until two are left, as in figure 1(b).
    Two,
    Half,
    AllButTwo,
}

pub(super) const PATTERNS: [Pattern; 5] =
    [Pattern::Nobody, Pattern::One, Pattern::Two, Pattern::Half, Pattern::AllButTwo];

impl Pattern {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody dies",
            Self::One => "one at a time",
            Self::Two => "two at a time",
            Self::Half => "n/2 at once",
            Self::AllButTwo => "n-2 at once",
        }
    }

    /// How many die in all, and how many of them at once.
    fn numbers(self, ranks: u32) -> (u32, u32) {
        let most = ranks - 2;
        match self {
            Self::Nobody => (0, 1),
            Self::One => (most, 1),
            Self::Two => (most, 2),
            Self::Half => (most.min(ranks / 2), most),
            Self::AllButTwo => (most, most),
        }
    }

    /// Who dies, in an order that is drawn, and when, in nanoseconds of a run of so many: evenly
    /// spread, with room behind the last death for what goes on then.
    pub(super) fn deaths(self, ranks: u32, whole: u64, seed: u64) -> Vec<(u32, u64)> {
        let (dying, at_once) = self.numbers(ranks);
        let moments = u64::from(dying.div_ceil(at_once));
        let room = (moments / 20).max(1);
        let mut order: Vec<u32> = (1..ranks).collect();
        Rng::with_seed(seed).shuffle(&mut order);
        let moment = |at: u32| whole / (moments + room) * u64::from(at / at_once + 1);
        order.into_iter().zip(0..dying).map(|(rank, at)| (rank, moment(at))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_part_the_time_evenly_and_spare_rank_0_and_one_more() {
        for (pattern, number, at_once) in [
            (Pattern::Nobody, 0, 1),
            (Pattern::One, 14, 1),
            (Pattern::Two, 14, 2),
            (Pattern::Half, 8, 8),
            (Pattern::AllButTwo, 14, 14),
        ] {
            let deaths = pattern.deaths(16, 4000, 7);
            assert_eq!(deaths.len(), number, "{pattern:?}");
            let mut ranks: Vec<u32> = deaths.iter().map(|(rank, _)| *rank).collect();
            ranks.sort_unstable();
            ranks.dedup();
            assert!(ranks.len() == number && !ranks.contains(&0), "{pattern:?} {ranks:?}");
            let moments: Vec<u64> = deaths.chunks(at_once).map(|together| together[0].1).collect();
            assert!(deaths.chunks(at_once).all(|it| it.iter().all(|(_, at)| *at == it[0].1)));
            let gaps: Vec<u64> = moments.windows(2).map(|two| two[1] - two[0]).collect();
            assert!(gaps.iter().all(|gap| *gap == moments[0]), "{gaps:?}");
            assert!(moments.last().is_none_or(|last| *last + moments[0] <= 4000));
        }
        assert_eq!(Pattern::Half.deaths(3, 10, 1).len(), 1, "two are left");
        assert_eq!(Pattern::Two.deaths(5, 10, 1).len(), 3, "the last one dies alone");
        assert_ne!(Pattern::One.deaths(16, 4000, 1), Pattern::One.deaths(16, 4000, 2));
    }
}
