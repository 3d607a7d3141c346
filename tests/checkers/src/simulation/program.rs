//! What all kinds of programs have in common: they are drawn from a seed, run, judged, and made
//! smaller when they fail.
//!
//! A candidate for a smaller program leaves something out: a death, a round, a rank. What happens
//! then happens at other moments, so each is tried with a few other seeds and moments of death,
//! too. The first that still fails, in whatever way, takes the program's place, until none does.

use std::{fmt::Debug, panic::RefUnwindSafe, panic::catch_unwind};

use super::{setting::Setting, tally::Tally};

/// Runs that a shrinking may take; each takes about a millisecond.
const RUNS: u64 = 6_000;
/// Ways in which a candidate is tried.
const WAYS: u64 = 16;

/// A program with all that its run depends on.
pub trait Program: Clone + Debug + PartialEq + RefUnwindSafe {
    /// What must happen in a thousand runs, each more often than its number says.
    const HAPPENS: &[(&'static str, u64)];
    /// The test that repeats the run of a seed.
    const TEST: &str;

    fn drawn_from(seed: u64) -> Self;

    /// Runs it, with its story if that is to be told; what happened, or what was wrong.
    fn run(&self, told: bool) -> Result<Tally, String>;

    fn setting(&mut self) -> &mut Setting;

    /// Programs that do less in the same setting.
    fn simpler(&self) -> Vec<Self>;

    /// What a person needs to look at it.
    fn described(&self) -> String {
        format!("{self:#?}")
    }

    /// How a person repeats the run of a seed.
    fn repeated(seed: u64) -> String {
        format!(
            "REPRODUCE WITH: FAMPI_SEED={seed} cargo test --release -p fampi-checkers --test \
             simulation -- {} --nocapture",
            Self::TEST
        )
    }

    /// What is wrong with a run, if anything; a panic of the simulator is.
    fn violation(&self) -> Option<String> {
        let run = catch_unwind(|| self.run(false));
        run.unwrap_or_else(|_| Err("the simulator panicked".into())).err()
    }

    /// The program itself, or with another seed and other moments of death.
    #[must_use]
    fn varied(&self, way: u64) -> Self {
        let mut varied = self.clone();
        let setting = varied.setting();
        *setting = setting.clone().varied(way);
        varied
    }

    /// The smallest failing program that was found, and how it fails.
    fn shrunk(self, violation: String) -> (Self, String) {
        let mut best = (self, violation);
        let mut runs: u64 = 0;
        loop {
            let all = smaller(&best.0);
            let tries = all.iter().flat_map(|it| (0..WAYS).map(move |way| it.varied(way)));
            let left = RUNS.saturating_sub(runs);
            let found = tries.take(left as usize).find_map(|candidate| {
                runs += 1;
                let violation = candidate.violation()?;
                Some((candidate, violation))
            });
            match found {
                Some(found) => best = found,
                None => return best,
            }
        }
    }
}

/// Programs that lack something of this one.
fn smaller<P: Program>(program: &P) -> Vec<P> {
    let settings = program.clone().setting().smaller().into_iter().map(|setting| {
        let mut smaller = program.clone();
        *smaller.setting() = setting;
        smaller
    });
    settings.chain(program.simpler()).filter(|it| it != program).collect()
}
