//! What a round of a soak does, drawn from its seed.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use crate::plan::{Kill, When};

/// Warm spares of a round, at most.
pub(super) const MOST_SPARES: u32 = 3;
const MODES: [&str; 4] = ["kill", "segv", "exit", "panic"];
const PHASES: [&str; 6] = ["iteration", "exchange", "spmv", "dot", "finish", "update"];
/// The greatest iteration of a plan; `minife nx=20` takes 65.
const ITERATIONS: u64 = 60;

/// What a round does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Round {
    pub(super) program: &'static str,
    pub(super) words: Vec<String>,
    pub(super) spares: u32,
    /// A rank that dies by the clock, after this part of the time that an undisturbed run takes
    /// from the start of MPI on, before which no job survives a death.
    clock: Option<(u32, f64)>,
}

impl Round {
    /// A round without deaths.
    pub(super) fn undisturbed() -> Self {
        let words = ["nx=20", "yaml=none"].map(str::to_owned).to_vec();
        Self { program: "minife", words, spares: 0, clock: None }
    }

    pub(super) fn drawn_from(seed: u64, ranks: u32) -> Self {
        let mut rng = Rng::with_seed(seed);
        let spares = rng.u32(..=MOST_SPARES);
        if seed.is_multiple_of(2) {
            let words = vec!["--deaths".to_owned(), seed.to_string()];
            return Self { program: "ring", words, spares, clock: None };
        }
        let Self { program, mut words, .. } = Self::undisturbed();
        let mut victims: Vec<u32> = (0..ranks).collect();
        rng.shuffle(&mut victims);
        for _ in 0..rng.u32(1..=2) {
            let Some(rank) = victims.pop() else { break };
            let (phase, count) = match rng.u32(..8) {
                0 => ("recovery", 1),
                _ => (PHASES[rng.usize(..PHASES.len())], rng.u64(1..=ITERATIONS)),
            };
            let mode = MODES[rng.usize(..MODES.len())];
            words.push(format!("kill={rank}@{phase}:{count}:{mode}"));
        }
        let by_clock = rng.bool().then(|| victims.pop()).flatten();
        let clock = by_clock.map(|rank| (rank, rng.f64()));
        Self { program, words, spares, clock }
    }

    /// The deaths by the clock, for a program whose run without deaths takes this long.
    pub(super) fn kills(&self, undisturbed: Duration) -> Vec<Kill> {
        let kill = |&(rank, part): &(u32, f64)| {
            let when = When::After(undisturbed.mul_f64(part));
            Kill { rank, when }
        };
        self.clock.iter().map(kill).collect()
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} with {} spares", self.program, self.words.join(" "), self.spares)?;
        let Some((rank, part)) = self.clock else { return Ok(()) };
        write!(f, ", rank {rank} killed after {:.0} % of the time", 100.0 * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_drawn_from_their_seeds() {
        let mut by_clock = 0;
        for seed in 0..200 {
            let round = Round::drawn_from(seed, 8);
            assert_eq!(round, Round::drawn_from(seed, 8));
            assert_eq!(round.program == "ring", seed % 2 == 0);
            assert!(round.spares <= MOST_SPARES);
            let kills = round.kills(Duration::from_secs(2));
            by_clock += kills.len();
            for Kill { rank, when } in kills {
                let When::After(delay) = when else { panic!("by the clock") };
                assert!(rank < 8 && delay <= Duration::from_secs(2), "{round}");
            }
        }
        assert!(by_clock > 20, "{by_clock}");
        assert_eq!(Round::undisturbed().kills(Duration::from_secs(2)), []);
    }
}
