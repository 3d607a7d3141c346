//! How the dead have died, as far as a rank, or all that have voted, know.

use alloc::vec::Vec;

use super::Cause;
use crate::rank::Rank;

/// The causes of deaths that are known; each rank once, in ascending order.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Causes(Vec<(Rank, Cause)>);

impl Causes {
    /// None is known.
    pub const NONE: Self = Self(Vec::new());

    /// How a rank has died, as far as it is known here.
    pub fn of(&self, rank: Rank) -> Cause {
        let at = self.0.binary_search_by_key(&rank, |(known, _)| *known);
        at.map_or(Cause::Unknown, |at| self.0[at].1)
    }

    /// Those that are known.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Rank, Cause)> + '_ {
        self.0.iter().copied()
    }

    /// Notes how a rank has died. Of two causes the greater one counts.
    pub fn note(&mut self, rank: Rank, cause: Cause) {
        match self.0.binary_search_by_key(&rank, |(known, _)| *known) {
            Ok(at) => self.0[at].1 = self.0[at].1.max(cause),
            Err(_) if cause == Cause::Unknown => {}
            Err(at) => self.0.insert(at, (rank, cause)),
        }
    }

    /// Notes what others know.
    pub fn merge(&mut self, others: &Self) {
        others.iter().for_each(|(rank, cause)| self.note(rank, cause));
    }
}

impl FromIterator<(Rank, Cause)> for Causes {
    fn from_iter<T: IntoIterator<Item = (Rank, Cause)>>(known: T) -> Self {
        let mut causes = Self::NONE;
        known.into_iter().for_each(|(rank, cause)| causes.note(rank, cause));
        causes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_whatever_order_causes_come_they_are_the_same() {
        let all = [(2, Cause::Killed(9)), (0, Cause::Exited(3)), (2, Cause::NodeLost)];
        let all = all.map(|(rank, cause)| (Rank::new(rank), cause));
        let forth: Causes = all.into_iter().collect();
        let mut back: Causes = all.into_iter().rev().collect();
        assert_eq!(forth, back);
        assert_eq!(back.of(Rank::new(2)), Cause::NodeLost);
        assert_eq!(back.of(Rank::new(1)), Cause::Unknown);
        back.note(Rank::new(1), Cause::Unknown);
        back.merge(&forth);
        assert_eq!(back, forth);
    }
}
