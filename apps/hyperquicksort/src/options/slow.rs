//! Which rank is slow, and when.

use std::time::Duration;

/// Work that takes longer on one rank: `RANK@round:K:MS[:ROUNDS]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The rank of the launch.
    pub rank: u32,
    /// From this round on.
    pub round: u32,
    /// So much longer.
    pub time: Duration,
    /// For so many rounds.
    pub rounds: u32,
}

impl Slow {
    pub(super) fn of(text: &str) -> Option<Self> {
        let (rank, rest) = text.split_once("@round:")?;
        let mut numbers = rest.split(':').map(|word| word.parse::<u32>().ok());
        let (round, ms) = (numbers.next()??, numbers.next()??);
        let rounds = numbers.next().unwrap_or(Some(1))?;
        let ends = numbers.next().is_none() && round > 0;
        let time = Duration::from_millis(ms.into());
        ends.then_some(Self { rank: rank.parse().ok()?, round, time, rounds })
    }
}
