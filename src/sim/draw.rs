//! The only source of chance: `SplitMix64`, seeded once per simulation.
//!
//! Reference: G. Steele, D. Lea, C. Flood, *Fast splittable pseudorandom number generators*,
//! OOPSLA 2014. It passes the usual statistical batteries and needs one word of state.

use std::ops::RangeInclusive;

use crate::ids::mix;

/// Numbers that a seed alone decides, for what a test draws beside the simulation: who dies, when,
/// and what the ranks do.
#[derive(Clone, Debug)]
pub struct Draw(pub u64);

impl Draw {
    /// The numbers of a simulation with this seed.
    pub(super) fn of_simulation(seed: u64) -> Self {
        // Neighbouring seeds must not give neighbouring sequences.
        Self(mix(seed))
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        let word = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    /// True once in `times` on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of some values, of which there is one.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// A number below `bound`, which is not 0, by the upper bits of a word.
    pub(super) fn scaled(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of the range; its start when the range is empty.
    pub(super) fn within(&mut self, range: &RangeInclusive<u64>) -> u64 {
        let (start, end) = (*range.start(), *range.end());
        start + self.scaled(end.saturating_sub(start).saturating_add(1))
    }

    /// True once in `one_in` times.
    pub(super) fn chance(&mut self, one_in: u64) -> bool {
        self.scaled(one_in) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_range_and_reach_both_ends() {
        let mut draw = Draw::of_simulation(1);
        let drawn: Vec<u64> = (0..1000).map(|_| draw.within(&(3..=7))).collect();
        assert_eq!(drawn.iter().min(), Some(&3));
        assert_eq!(drawn.iter().max(), Some(&7));
        assert_eq!(draw.within(&(9..=9)), 9);
    }

    #[test]
    fn the_seed_alone_determines_the_sequence() {
        let draw = |seed| {
            let mut draw = Draw::of_simulation(seed);
            (0..8).map(|_| draw.scaled(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }
}
