//! A fingerprint of numbers on all ranks that needs no gather.
//!
//! Every number is hashed together with its place in the whole, and the hashes are added modulo
//! 2⁶⁴. Addition does not care about order, so each rank adds up its own ones and the ranks'
//! sums are added in any order: the digest depends on the bits of the whole in its order
//! and on nothing else, neither the number of ranks nor the partition. Two runs agree in their
//! digest if and (but for one chance in 2⁶⁴) only if they agree in every bit of every number.
//!
//! A reduction that knows only `f64` can add digests exactly: [`Digest::to_limbs`] cuts one into
//! two numbers below 2³², whose sums stay exact for up to two million ranks.

use std::fmt;

/// The sum of the hashes of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(u64);

impl Digest {
    /// The digest of nothing, with which sums begin.
    pub const EMPTY: Self = Self(0);

    /// The digest of one number: its place in the whole and its bits.
    #[must_use]
    pub fn of(place: u64, value: f64) -> Self {
        Self::of_bits(place, value.to_bits())
    }

    /// The digest of one value that is no `f64`: its place in the whole and its bits.
    #[must_use]
    pub const fn of_bits(place: u64, bits: u64) -> Self {
        let position = mix(place.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
        Self(mix(position ^ mix(bits)))
    }

    /// The digest as a number, which reductions of `u64` add as [`Digest::and`] does.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The digest of this number.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The digest of two disjoint parts together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// Low and high half, for a sum over ranks in `f64`.
    #[must_use]
    pub fn to_limbs(self) -> [f64; 2] {
        [(self.0 & 0xffff_ffff) as f64, (self.0 >> 32) as f64]
    }

    /// The digest whose halves, or sums of halves over ranks, are given.
    #[must_use]
    pub fn from_limbs([low, high]: [f64; 2]) -> Self {
        Self((low as u64).wrapping_add((high as u64) << 32))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The finalizer of `SplitMix64`: every input bit changes about half of the output bits.
#[must_use]
pub const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(values: &[f64]) -> Digest {
        let parts = values.iter().enumerate().map(|(id, &value)| Digest::of(id as u64, value));
        parts.fold(Digest::EMPTY, Digest::and)
    }

    #[test]
    fn the_digest_never_changes_between_versions() {
        assert_eq!(whole(&[0.0, 1.0, -2.5]).to_string(), "333e1fab1a4c99b4");
    }

    #[test]
    fn one_bit_or_one_exchange_of_values_changes_it() {
        let base = whole(&[1.0, 2.0, 3.0]);
        assert_ne!(base, whole(&[1.0, 2.0, f64::from_bits(3.0_f64.to_bits() + 1)]));
        assert_ne!(base, whole(&[2.0, 1.0, 3.0]));
        assert_ne!(base, whole(&[1.0, 2.0]));
        assert_ne!(whole(&[0.0]), whole(&[-0.0]));
    }

    #[test]
    fn sums_of_limbs_give_the_sum_of_digests() {
        let parts: Vec<_> = (0..1000).map(|id| Digest::of(id, 0.1)).collect();
        let whole = parts.iter().copied().fold(Digest::EMPTY, Digest::and);
        let limbs = parts.iter().map(|part| part.to_limbs());
        let sums = limbs.fold([0.0; 2], |sum, limb| [sum[0] + limb[0], sum[1] + limb[1]]);
        assert_eq!(Digest::from_limbs(sums), whole);
    }
}
