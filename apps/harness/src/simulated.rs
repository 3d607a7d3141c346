//! Applications on simulated ranks, with deaths cut anywhere by a seed: what their tests share.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use fampi::Error;
use fampi::sim::{Crash, Draw, Ending, Report, Simulation};

use crate::words::Recovery;

/// The first effects of a process belong to the launch, from which there is no recovery.
const LAUNCH_EFFECTS: u64 = 8;

/// A run with deaths.
#[derive(Clone, Debug)]
pub struct Case {
    /// What decides about everything that is left to chance.
    pub seed: u64,
    /// How many spares.
    pub spares: u32,
    /// How a lost rank is dealt with.
    pub recovery: Recovery,
    /// Iterations between copies, 0 for none.
    pub every: u64,
    /// Whether reductions ride on commits.
    pub fused: bool,
    /// Who is struck when.
    pub crashes: Vec<Crash>,
}

impl Case {
    /// A run in which no process is struck.
    #[must_use]
    pub fn undisturbed(spares: u32) -> Self {
        let (recovery, crashes) = (Recovery::Rebuild, Vec::new());
        Self { seed: 0, spares, recovery, every: 1, fused: true, crashes }
    }

    /// The case of this seed on so many ranks, which have so many effects when no process dies,
    /// with one of these intervals between copies.
    #[must_use]
    pub fn drawn_from(seed: u64, ranks: u32, effects: u64, intervals: &[u64]) -> Self {
        let mut draw = Draw(seed);
        let spares = draw.below(2) as u32;
        let recovery = if draw.below(4) == 0 { Recovery::Merge } else { Recovery::Rebuild };
        let every = if intervals.len() > 1 { draw.one_of(intervals) } else { 1 };
        let crashes = (0..=draw.below(3)).map(|_| {
            // Spares and those that are spawned later may be struck, too.
            let process = draw.below(u64::from(ranks) + 2) as u32;
            let first = if process < ranks { LAUNCH_EFFECTS } else { 1 };
            if process < ranks && draw.below(4) == 0 {
                Crash::at_time(process, Duration::from_micros(300 + draw.below(4_000)))
            } else {
                Crash::before_effect(process, first + draw.below(effects))
            }
        });
        let crashes = crashes.collect();
        let fused = draw.below(4) > 0;
        Self { seed, spares, recovery, every, fused, crashes }
    }

    /// The ranks on which it runs.
    #[must_use]
    pub fn simulation(&self, ranks: u32, trace: bool) -> Simulation {
        let simulation = Simulation::new(ranks).seed(self.seed).spares(self.spares).trace(trace);
        simulation.crashes(self.crashes.iter().copied())
    }

    /// Whether a state that was lost in a run on so many ranks, with so many deaths, may be.
    ///
    /// # Errors
    /// A sentence.
    pub fn may_lose(&self, error: &Error, ranks: u32, deaths: u64) -> Result<(), String> {
        let Error::StateLost { rank, partner: Some(partner) } = error else {
            return Err(format!("the run was given up: {error}"));
        };
        // After a merge ranks are numbered anew.
        let apart = rank.number().abs_diff(partner.number());
        let partners = apart == ranks / 2 || self.recovery == Recovery::Merge;
        if partners && deaths > 1 {
            return Ok(());
        }
        Err(format!("{rank} and {partner} were not lost together"))
    }
}

/// What all living ranks came to, and how many processes were struck.
///
/// # Errors
/// What is wrong with the run.
pub fn agreed<R: PartialEq + Debug>(report: &Report<R>) -> Result<(&R, u64), String> {
    let mut deaths = 0;
    for process in &report.processes {
        match &process.ending {
            Ending::Panicked(message) => return Err(format!("a process panicked: {message}")),
            Ending::Stuck(what) => return Err(format!("termination: {what}")),
            Ending::Crashed => deaths += 1,
            Ending::Finished(_) | Ending::Exited => {}
        }
    }
    let mut results = report.results();
    // A job may lose all ranks, but not to three deaths.
    let first = results.next().ok_or("nobody finished")?;
    match results.find(|other| *other != first) {
        Some(other) => Err(format!("agreement: {first:?} and {other:?}")),
        None => Ok((first, deaths)),
    }
}

/// How many effects the busiest process had.
#[must_use]
pub fn most_effects<R>(report: &Report<R>) -> u64 {
    report.processes.iter().map(|process| process.effects).max().unwrap_or_default()
}

/// The command that repeats a seed of a package.
#[must_use]
pub fn reproduce(package: &str, seed: u64) -> String {
    format!(
        "REPRODUCE WITH: FAMPI_SEED={seed} cargo test --release -p {package} --test simulated -- \
         one_seed --nocapture"
    )
}

/// A whole number in the environment.
#[must_use]
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the cases of as many seeds as the environment or the caller wants, and gives their
/// verdicts.
///
/// # Panics
/// With the command that repeats it, if a verdict is that something is wrong.
pub fn search<V>(
    package: &str,
    seeds: u64,
    drawn_from: impl Fn(u64) -> Case,
    verdict: impl Fn(&Case) -> Result<V, String>,
) -> Vec<V> {
    let began = Instant::now();
    let seeds = number("FAMPI_SEEDS").unwrap_or(seeds);
    let judge = |seed| {
        let case = drawn_from(seed);
        verdict(&case)
            .unwrap_or_else(|wrong| panic!("{wrong}\n{case:?}\n{}", reproduce(package, seed)))
    };
    let verdicts = (0..seeds).map(judge).collect();
    println!("{seeds} seeds in {:?}", began.elapsed());
    verdicts
}
