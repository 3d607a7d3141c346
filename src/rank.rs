//! Ranks and sets of ranks: who takes part, who is dead.

use core::fmt;

use smallvec::SmallVec;

/// The position of a process in a communicator, from 0 to its size − 1 (MPI 4.1 §7.2.2).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Rank(u32);

impl Rank {
    /// The rank with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number as MPI counts it.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The number as an index into arrays that hold one entry per rank.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<u32> for Rank {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl From<usize> for Rank {
    fn from(index: usize) -> Self {
        Self(index as u32)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of ranks in ascending order; small sets live without an allocation.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct RankSet(SmallVec<[Rank; 4]>);

impl RankSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self(SmallVec::new_const())
    }

    /// True when no rank is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of ranks in the set.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when `rank` is in the set.
    #[inline]
    pub fn contains(&self, rank: Rank) -> bool {
        !self.0.is_empty() && self.0.binary_search(&rank).is_ok()
    }

    /// Adds `rank`; true when it was not there before.
    pub fn insert(&mut self, rank: Rank) -> bool {
        match self.0.binary_search(&rank) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, rank);
                true
            }
        }
    }

    /// Removes every rank.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds every rank of `other`.
    pub fn union_with(&mut self, other: &Self) {
        for rank in other.iter() {
            self.insert(rank);
        }
    }

    /// The ranks of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.iter().filter(|rank| !other.contains(*rank)).collect()
    }

    /// The ranks of this set that are also in `other`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.iter().filter(|rank| other.contains(*rank)).collect()
    }

    /// True when every rank of this set is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|rank| other.contains(rank))
    }

    /// The ranks in ascending order.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Rank> + '_ {
        self.0.iter().copied()
    }

    /// The ranks in ascending order, as a slice.
    pub fn as_slice(&self) -> &[Rank] {
        &self.0
    }
}

impl FromIterator<Rank> for RankSet {
    fn from_iter<I: IntoIterator<Item = Rank>>(ranks: I) -> Self {
        let mut set = Self::new();
        for rank in ranks {
            set.insert(rank);
        }
        set
    }
}

impl fmt::Display for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, rank) in self.iter().enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            rank.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_its_ranks_sorted_and_single() {
        let set: RankSet = [5, 1, 3, 1].into_iter().map(Rank::new).collect();
        assert_eq!(set.as_slice(), [Rank::new(1), Rank::new(3), Rank::new(5)]);
        assert_eq!(set.to_string(), "1, 3, 5");
        let other: RankSet = [Rank::new(3)].into_iter().collect();
        assert!(other.is_subset(&set));
        assert_eq!(set.difference(&other).as_slice(), [Rank::new(1), Rank::new(5)]);
    }
}
