//! Who dies when, drawn from a seed, such that the data survive.

use std::fmt;

use fampi::sim::Draw;

const MODES: [&str; 6] = ["kill", "kill", "kill", "segv", "exit", "panic"];
/// So many iterations between two deaths are enough for new copies to be committed.
const HEALED_AFTER: u64 = 4;

/// What plans are made of.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Numbers of ranks.
    pub ranks: &'static [u32],
    /// Points of an iteration.
    pub phases: &'static [&'static str],
    /// Most plans come due before the run is over.
    pub last_iteration: u64,
}

/// A run with deaths.
#[derive(Clone, Debug)]
pub struct RandomPlan {
    /// How many ranks.
    pub ranks: u32,
    /// How many spares.
    pub spares: u32,
    kills: Vec<String>,
}

impl RandomPlan {
    /// The plan of this seed.
    #[must_use]
    pub fn drawn_from(seed: u64, choice: &Choice) -> Self {
        let mut draw = Draw(seed);
        let ranks = draw.one_of(choice.ranks);
        let spares = draw.below(3) as u32;
        let mut struck: Vec<(u32, u64)> = Vec::new();
        let mut kills = Vec::new();
        for _ in 0..=draw.below(3) {
            // Some strike at once.
            let k = match struck.last() {
                Some(&(_, k)) if draw.below(2) == 0 => k,
                _ => 1 + draw.below(choice.last_iteration),
            };
            let rank = draw.below(u64::from(ranks)) as u32;
            let is_safe = |&(other, at): &(u32, u64)| {
                other != rank && (!partners(ranks, rank, other) || at.abs_diff(k) >= HEALED_AFTER)
            };
            if !struck.iter().all(is_safe) {
                continue;
            }
            let (phase, mode) = (draw.one_of(choice.phases), draw.one_of(&MODES));
            struck.push((rank, k));
            kills.push(format!("{rank}@{phase}:{k}:{mode}"));
        }
        let (first, _) = struck[0];
        if struck.len() == 1 {
            match draw.below(4) {
                0 => kills.push(format!("{first}@join:1")),
                1 => {
                    let other = (first + 1) % ranks;
                    if !partners(ranks, first, other) {
                        kills.push(format!("{other}@recovery:1"));
                    }
                }
                _ => {}
            }
        }
        Self { ranks, spares, kills }
    }

    /// For the command line.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.kills.iter().map(|kill| format!("kill={kill}"))
    }
}

impl fmt::Display for RandomPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, spares, kills } = self;
        write!(f, "{ranks} ranks, {spares} spares, kills {}", kills.join(" "))
    }
}

/// Whether one holds the copy of the other.
fn partners(ranks: u32, one: u32, other: u32) -> bool {
    let keeper = |rank| (rank + ranks / 2) % ranks;
    keeper(one) == other || keeper(other) == one
}
