//! Who dies when, drawn from a seed, such that the data survive.

use std::fmt;

use crate::draw::Draw;

const PHASES: [&str; 6] = ["iteration", "exchange", "spmv", "dot", "finish", "update"];
const MODES: [&str; 6] = ["kill", "kill", "kill", "segv", "exit", "panic"];
/// So many iterations between two deaths are enough for new copies to be committed.
const HEALED_AFTER: u64 = 4;
/// Most plans come due before the solve is over.
const LAST_ITERATION: u64 = 60;

/// A run with deaths.
pub(crate) struct RandomPlan {
    pub(crate) ranks: u32,
    pub(crate) spares: u32,
    kills: Vec<String>,
}

impl RandomPlan {
    /// The plan of this seed.
    pub(crate) fn drawn_from(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let ranks = [3, 4, 4, 5, 6, 8][draw.below(6) as usize];
        let spares = draw.below(3) as u32;
        let mut struck: Vec<(u32, u64)> = Vec::new();
        let mut kills = Vec::new();
        for _ in 0..=draw.below(3) {
            // Some strike at once.
            let k = match struck.last() {
                Some(&(_, k)) if draw.below(2) == 0 => k,
                _ => 1 + draw.below(LAST_ITERATION),
            };
            let rank = draw.below(u64::from(ranks)) as u32;
            let is_safe = |&(other, at): &(u32, u64)| {
                other != rank && (!partners(ranks, rank, other) || at.abs_diff(k) >= HEALED_AFTER)
            };
            if !struck.iter().all(is_safe) {
                continue;
            }
            let (phase, mode) = (PHASES[draw.below(6) as usize], MODES[draw.below(6) as usize]);
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
    pub(crate) fn words(&self) -> impl Iterator<Item = String> {
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
