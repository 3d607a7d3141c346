//! Whole programs on simulated ranks: the real engine and interface, with deaths cut anywhere.
//!
//! Each seed draws a job (ranks, spares, latencies, deaths, a sequence of rounds of many kinds)
//! and runs it twice as long as it must. Checked are agreement (all living ranks hold the same
//! verdict and report of every block), validity (a committed block had no *no*), isolation (a
//! completed receive holds what was sent in the same attempt of the same block), restored states
//! and termination.
//!
//! `FAMPI_SEEDS=100000 cargo test --release --test simulation` runs more seeds;
//! `FAMPI_SEED=42 cargo test --release --test simulation -- one_seed --nocapture` repeats one,
//! with its transcript.

mod checks;
#[allow(dead_code)]
#[path = "../operations/every.rs"]
mod every;
mod job;
mod rounds;
mod runs;

use std::sync::atomic::{AtomicU64, Ordering};

use job::Job;
use runs::RunJob;

/// How many seeds run when nobody says how many.
const SEEDS: u64 = 20_000;
/// The same for jobs that a policy drives.
const RUNS: u64 = 6_000;

#[test]
fn thousands_of_jobs_end_with_one_story_on_all_living_ranks() {
    let seeds = seeds(SEEDS);
    let began = std::time::Instant::now();
    let tally = std::sync::Mutex::new(checks::Tally::default());
    each_seed(seeds, |seed| match Job::drawn_from(seed).run(false) {
        Ok(seen) => tally.lock().expect("no panic holds it").add(&seen),
        Err(violation) => panic!("{violation}\n{}", reproduce(seed, "one_seed")),
    });
    let tally = tally.into_inner().expect("no panic holds it");
    println!("{seeds} seeds in {:?}: {tally}", began.elapsed());
    if seeds >= 1000 {
        tally.assert_everything_happened();
    }
}

#[test]
fn runs_under_all_policies_end_as_without_failures_or_with_one_error() {
    let seeds = seeds(RUNS);
    let seen = std::sync::Mutex::new(std::collections::BTreeMap::new());
    each_seed(seeds, |seed| match RunJob::drawn_from(seed).run(false) {
        Ok(end) => *seen.lock().expect("no panic holds it").entry(end).or_insert(0_u64) += 1,
        Err(violation) => panic!("{violation}\n{}", reproduce(seed, "one_run")),
    });
    let seen = seen.into_inner().expect("no panic holds it");
    println!("{seeds} seeds: {seen:?}");
    assert!(seeds < 1000 || seen.len() >= 5, "the jobs are too tame: {seen:?}");
}

/// The number of seeds, if nobody says another.
fn seeds(otherwise: u64) -> u64 {
    let asked = std::env::var("FAMPI_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    asked.unwrap_or(otherwise)
}

/// Runs the seeds on all cores, until one panics.
fn each_seed(seeds: u64, run: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut seed = next.fetch_add(1, Ordering::Relaxed);
                while seed < seeds {
                    let stop = Stop(&next, seeds);
                    run(seed);
                    std::mem::forget(stop);
                    seed = next.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
}

/// Dropped by a panic only: the other threads find no more seeds.
struct Stop<'a>(&'a AtomicU64, u64);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}

#[test]
fn one_seed() {
    let Some(seed) = std::env::var("FAMPI_SEED").ok().and_then(|seed| seed.parse().ok()) else {
        return;
    };
    let job = Job::drawn_from(seed);
    println!("{job:#?}");
    if let Err(violation) = job.run(true) {
        panic!("{violation}\n{}", reproduce(seed, "one_seed"));
    }
}

#[test]
fn one_run() {
    let Some(seed) = std::env::var("FAMPI_SEED").ok().and_then(|seed| seed.parse().ok()) else {
        return;
    };
    let job = RunJob::drawn_from(seed);
    println!("{job:#?}");
    match job.run(true) {
        Ok(end) => println!("all: {end}"),
        Err(violation) => panic!("{violation}\n{}", reproduce(seed, "one_run")),
    }
}

#[test]
fn equal_seeds_tell_equal_stories() {
    for seed in 0..20 {
        let [one, other] = [0; 2].map(|_| Job::drawn_from(seed).fingerprint());
        assert_eq!(one, other, "{}", reproduce(seed, "one_seed"));
    }
}

fn reproduce(seed: u64, test: &str) -> String {
    format!(
        "REPRODUCE WITH: FAMPI_SEED={seed} cargo test --release --test simulation -- {test} \
         --nocapture"
    )
}
