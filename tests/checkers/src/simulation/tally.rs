//! How often what happened, in all runs: a search in which something never happens proves nothing.

use std::{collections::BTreeMap, fmt};

/// Counts of what happened, by name.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// It happened so many times more.
    pub fn count(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    pub fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            self.count(what, *times);
        }
    }

    /// Makes sure that each of these has happened more often than the number says.
    pub fn assert_more_than(&self, expected: &[(&'static str, u64)]) {
        let rare = |(what, than): &&(_, u64)| self.0.get(what).is_none_or(|times| times <= than);
        let rare: Vec<_> = expected.iter().filter(rare).collect();
        assert!(rare.is_empty(), "the programs are too tame: {rare:?} of {self}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<_> = self.0.iter().map(|(what, times)| format!("{times} {what}")).collect();
        f.write_str(&counts.join(", "))
    }
}
