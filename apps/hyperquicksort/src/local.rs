//! What one rank does with lists that it has: sort one, merge two.

use crate::keys::Key;

/// How own keys are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// By their digits.
    Radix,
    /// By comparing them.
    Comparison,
}

impl Local {
    /// Sorts keys.
    pub fn sort<K: Key>(self, keys: &mut [K]) {
        match self {
            Self::Radix => radsort::sort(keys),
            Self::Comparison => keys.sort_unstable(),
        }
    }
}

/// Merges `kept`, a sorted list, with the sorted list that stands in `merged` behind as many
/// places as `kept` has, and fills `merged`. What is written never overtakes what is still to be
/// read there, so the second list needs no place of its own.
///
/// # Panics
/// If `merged` is shorter than `kept`.
pub fn merge_into<K: Key>(kept: &[K], merged: &mut [K]) {
    let (mut i, mut j) = (0, kept.len());
    assert!(j <= merged.len(), "there is room for what is kept");
    let end = merged.len();
    let mut at = 0;
    while i < kept.len() && j < end {
        // No branch depends on a comparison, which nothing could predict.
        let (a, b) = (kept[i], merged[j]);
        let first = a <= b;
        merged[at] = if first { a } else { b };
        i += usize::from(first);
        j += usize::from(!first);
        at += 1;
    }
    // What is left of the second list stands where it belongs.
    merged[at..at + kept.len() - i].copy_from_slice(&kept[i..]);
}

/// Merges two sorted lists.
///
/// # Panics
/// If `merged` is not as long as both together.
pub fn merge<K: Key>(one: &[K], other: &[K], merged: &mut [K]) {
    assert_eq!(one.len() + other.len(), merged.len(), "there is room for both");
    let (mut i, mut j) = (0, 0);
    while i < one.len() && j < other.len() {
        let (a, b) = (one[i], other[j]);
        let first = a <= b;
        merged[i + j] = if first { a } else { b };
        i += usize::from(first);
        j += usize::from(!first);
    }
    let rest = if i < one.len() { &one[i..] } else { &other[j..] };
    merged[i + j..].copy_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(kept: &[i32], other: &[i32]) -> Vec<i32> {
        let mut merged = [&vec![0; kept.len()], other].concat();
        merge_into(kept, &mut merged);
        merged
    }

    #[test]
    fn a_merge_has_the_keys_of_both_lists_in_order() {
        assert_eq!(merged(&[], &[]), []);
        assert_eq!(merged(&[1, 3], &[]), [1, 3]);
        assert_eq!(merged(&[], &[2, 2]), [2, 2]);
        assert_eq!(merged(&[5, 6], &[1, 2, 3]), [1, 2, 3, 5, 6]);
        assert_eq!(merged(&[1, 2], &[5, 6, 7]), [1, 2, 5, 6, 7]);
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let mut list = || {
                let length = random.usize(0..20);
                let mut keys: Vec<i32> = (0..length).map(|_| random.i32(-5..5)).collect();
                Local::Radix.sort(&mut keys);
                keys
            };
            let (one, other) = (list(), list());
            let mut expected = [&one[..], &other].concat();
            Local::Comparison.sort(&mut expected);
            assert_eq!(merged(&one, &other), expected);
            let mut apart = vec![0; expected.len()];
            merge(&one, &other, &mut apart);
            assert_eq!(apart, expected);
        }
    }
}
