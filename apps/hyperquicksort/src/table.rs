//! What all ranks know of all lists: a row for each part, agreed with every commit.
//!
//! A row says in what bounds the keys of a list lie and how many of them equal a bound, which is
//! enough to make the list again from the input ([`crate::lineage`]), and has samples of the list,
//! from which all ranks choose the next pivots alike.

use std::ops::Range;

use crate::keys::{Key, bits};
use crate::planted::is_planted;

/// How many keys of a list are shown to the other ranks.
pub const SAMPLES: usize = 16;
/// How many words of a row an owner tells.
pub const TOLD: usize = 4 + SAMPLES;
/// How many words a row is.
pub const WORDS: usize = TOLD + 4;

/// How the pivot of a cluster is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pivot {
    /// The middle key of the first list that has keys.
    Root,
    /// The weighted median of the middle keys of all lists.
    Medians,
    /// The weighted median of samples of all lists.
    Sample,
}

/// Where the keys that equal the pivot go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Into both halves, as the list is best halved.
    Even,
    /// Into the lower half.
    Strict,
}

impl Split {
    /// The first place of the upper half of a sorted list.
    pub fn cut<K: Key>(self, list: &[K], pivot: K) -> usize {
        let above = list.partition_point(|key| *key <= pivot);
        match self {
            Self::Strict => above,
            Self::Even => {
                let from = list[..above].partition_point(|key| *key < pivot);
                (list.len() / 2).clamp(from, above)
            }
        }
    }
}

/// A list of one part, as all ranks know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row<K> {
    /// The nearest pivot below; keys may equal it.
    pub low: Option<K>,
    /// The nearest pivot above; keys may equal it.
    pub high: Option<K>,
    /// How many keys equal the lower bound.
    pub of_low: u64,
    /// How many keys equal the upper bound, unless it is the lower one, too.
    pub of_high: u64,
    /// How many keys there are.
    pub length: u64,
    middle: K,
    samples: [K; SAMPLES],
}

impl<K: Key> Row<K> {
    /// The row of a sorted list within these bounds.
    #[must_use]
    pub fn of(list: &[K], low: Option<K>, high: Option<K>) -> Self {
        let above = low.map_or(0, |low| list.partition_point(|key| *key <= low));
        let below = high.map_or(list.len(), |high| list.partition_point(|key| *key < high));
        let at = |place: usize| list.get(place).copied().unwrap_or_default();
        let regular = |sample: usize| at((2 * sample + 1) * list.len() / (2 * SAMPLES));
        Self {
            low,
            high,
            of_low: above as u64,
            of_high: list.len().saturating_sub(below.max(above)) as u64,
            length: list.len() as u64,
            middle: at(list.len() / 2),
            samples: std::array::from_fn(regular),
        }
    }

    /// How many keys lie strictly between the bounds.
    #[must_use]
    pub const fn inside(&self) -> u64 {
        self.length - self.of_low - self.of_high
    }

    /// True for keys that lie strictly between the bounds.
    #[must_use]
    pub fn surrounds(&self, key: K) -> bool {
        let is_bound = is_planted("TakeTheBounds") && [self.low, self.high].contains(&Some(key));
        is_bound || self.low.is_none_or(|low| low < key) && self.high.is_none_or(|high| key < high)
    }

    /// What the owner tells the others, who know the bounds.
    #[must_use]
    pub fn told(&self) -> [u64; TOLD] {
        let mut words = [0; TOLD];
        words[..4].copy_from_slice(&[self.of_low, self.of_high, self.length, bits(self.middle)]);
        words[4..].iter_mut().zip(self.samples).for_each(|(word, key)| *word = bits(key));
        words
    }

    /// The row that an owner has told.
    ///
    /// # Panics
    /// If these are fewer words than [`TOLD`].
    #[must_use]
    pub fn heard(words: &[u64], low: Option<K>, high: Option<K>) -> Self {
        let key = |word: u64| K::of_number(word as i64);
        Self {
            low,
            high,
            of_low: words[0],
            of_high: words[1],
            length: words[2],
            middle: key(words[3]),
            samples: std::array::from_fn(|sample| key(words[4 + sample])),
        }
    }

    /// All of the row, for a rank that knows nothing.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let bound =
            |bound: Option<K>| [u64::from(bound.is_some()), bound.map(bits).unwrap_or_default()];
        self.told().into_iter().chain(bound(self.low)).chain(bound(self.high))
    }

    /// The row of [`Self::words`].
    ///
    /// # Panics
    /// If these are fewer words than [`WORDS`].
    #[must_use]
    pub fn of_words(words: &[u64]) -> Self {
        let bound = |at: usize| (words[at] > 0).then(|| K::of_number(words[at + 1] as i64));
        Self::heard(words, bound(TOLD), bound(TOLD + 2))
    }
}

/// The pivots of the clusters of `2 * bit` neighbouring parts; none where there are no keys.
#[must_use]
pub fn pivots<K: Key>(rule: Pivot, table: &[Row<K>], bit: u32) -> Vec<Option<K>> {
    table.chunks(2 * bit as usize).map(|cluster| pivot(rule, cluster)).collect()
}

fn pivot<K: Key>(rule: Pivot, cluster: &[Row<K>]) -> Option<K> {
    let mut lists = cluster.iter().filter(|row| row.length > 0);
    let mut weighted: Vec<(K, u64)> = match rule {
        Pivot::Root => return lists.next().map(|row| row.middle),
        Pivot::Medians => lists.map(|row| (row.middle, row.length)).collect(),
        Pivot::Sample => {
            lists.flat_map(|row| row.samples.map(|sample| (sample, row.length))).collect()
        }
    };
    weighted.sort_unstable();
    let total: u64 = weighted.iter().map(|(_, weight)| weight).sum();
    let mut before = 0;
    let is_middle = |(_, weight): &&(K, u64)| {
        before += weight;
        2 * before >= total
    };
    weighted.iter().find(is_middle).map(|(key, _)| *key)
}

/// The bounds of a part after the round of `bit`.
#[must_use]
pub fn bounds<K: Key>(
    part: u32,
    row: &Row<K>,
    bit: u32,
    pivots: &[Option<K>],
) -> (Option<K>, Option<K>) {
    match pivots[(part / (2 * bit)) as usize] {
        None => (row.low, row.high),
        pivot if part & bit == 0 => (row.low, pivot),
        pivot => (pivot, row.high),
    }
}

/// The halves of a list of this length that is cut there: what part `part` keeps in the round of
/// `bit`, and what it gives away.
#[must_use]
pub fn halves(part: u32, bit: u32, cut: usize, length: usize) -> [Range<usize>; 2] {
    let (lower, upper) = (0..cut, cut..length);
    if part & bit == 0 { [lower, upper] } else { [upper, lower] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_cut_as_near_to_the_middle_as_they_allow() {
        let list = [1, 2, 2, 2, 2, 3];
        for (pivot, strict, even) in [(0, 0, 0), (1, 1, 1), (2, 5, 3), (3, 6, 5), (9, 6, 6)] {
            assert_eq!(Split::Strict.cut(&list, pivot), strict, "{pivot}");
            assert_eq!(Split::Even.cut(&list, pivot), even, "{pivot}");
        }
        assert_eq!(Split::Even.cut(&[7; 10], 7), 5);
        assert_eq!(Split::Even.cut(&[0_i32; 0], 7), 0);
    }

    #[test]
    fn a_row_counts_the_copies_of_its_bounds_and_goes_through_words() {
        let list = [2, 2, 3, 5, 5, 5];
        let row = Row::of(&list, Some(2), Some(5));
        assert_eq!((row.of_low, row.of_high, row.inside()), (2, 3, 1));
        assert!(row.surrounds(3) && !row.surrounds(2) && !row.surrounds(5));
        assert_eq!(Row::of_words(&row.words().collect::<Vec<_>>()), row);
        let equal = Row::of(&[4; 3], Some(4), Some(4));
        assert_eq!((equal.of_low, equal.of_high, equal.inside()), (3, 0, 0));
        let open = Row::of(&[-1_i64, 8], None, None);
        assert_eq!((open.inside(), open.surrounds(i64::MIN)), (2, true));
        assert_eq!(Row::<i32>::of_words(&[0; WORDS]), Row::of(&[], None, None));
    }

    #[test]
    fn pivots_halve_what_they_know() {
        let all: Vec<i32> = (0..100).collect();
        let table = [&all[..10], &all[10..], &[], &[]].map(|list| Row::of(list, None, None));
        assert_eq!(pivots(Pivot::Root, &table, 1), [Some(5), None]);
        assert_eq!(pivots(Pivot::Medians, &table, 1), [Some(55), None]);
        let [Some(pivot)] = pivots(Pivot::Sample, &table, 2)[..] else { panic!("one cluster") };
        assert!((44..57).contains(&pivot), "{pivot}");
        // The first list that has keys speaks for the cluster.
        assert_eq!(pivots(Pivot::Root, &[table[2], table[1]], 1), [Some(55)]);
    }

    #[test]
    fn a_round_narrows_the_bounds_of_both_sides() {
        let row = Row::<i32>::of(&[], Some(1), Some(9));
        let around = |part| bounds(part, &row, 2, &[Some(5), None]);
        assert_eq!(around(1), (Some(1), Some(5)));
        assert_eq!(around(3), (Some(5), Some(9)));
        assert_eq!(around(4), (Some(1), Some(9)));
        assert_eq!([halves(1, 2, 3, 8), halves(3, 2, 3, 8)], [[0..3, 3..8], [3..8, 0..3]]);
    }
}
