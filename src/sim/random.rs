//! The only source of chance: `SplitMix64`, seeded once per simulation.
//!
//! Reference: G. Steele, D. Lea, C. Flood, *Fast splittable pseudorandom number generators*,
//! OOPSLA 2014. It passes the usual statistical batteries and needs one word of state.

use std::ops::RangeInclusive;

use crate::ids::mix;

/// A generator of pseudo-random numbers; equal seeds give equal sequences.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give neighbouring sequences.
        Self(mix(seed))
    }

    fn word(&mut self) -> u64 {
        let word = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word
    }

    /// A number below `bound`, which is not zero; the bias is below 2⁻⁶⁴ · bound.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of the range; its start when the range is empty.
    pub(super) fn within(&mut self, range: &RangeInclusive<u64>) -> u64 {
        let (start, end) = (*range.start(), *range.end());
        start + self.below(end.saturating_sub(start).saturating_add(1))
    }

    /// True once in `one_in` times.
    pub(super) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_range_and_reach_both_ends() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.within(&(3..=7))).collect();
        assert_eq!(drawn.iter().min(), Some(&3));
        assert_eq!(drawn.iter().max(), Some(&7));
        assert_eq!(random.within(&(9..=9)), 9);
    }

    #[test]
    fn the_seed_alone_determines_the_sequence() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..8).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }
}
