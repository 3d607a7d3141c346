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

use std::sync::atomic::{AtomicU64, Ordering};

use job::Job;

/// How many seeds run when nobody says how many.
const SEEDS: u64 = 20_000;

#[test]
fn thousands_of_jobs_end_with_one_story_on_all_living_ranks() {
    let asked = std::env::var("FAMPI_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let seeds = asked.unwrap_or(SEEDS);
    let began = std::time::Instant::now();
    let next = AtomicU64::new(0);
    let tally = std::sync::Mutex::new(checks::Tally::default());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    match Job::drawn_from(seed).run(false) {
                        Ok(seen) => tally.lock().expect("no panic holds it").add(&seen),
                        Err(violation) => {
                            next.store(seeds, Ordering::Relaxed);
                            panic!("{violation}\n{}", reproduce(seed));
                        }
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().expect("no panic holds it");
    println!("{seeds} seeds in {:?}: {tally}", began.elapsed());
    if seeds >= 1000 {
        tally.assert_everything_happened();
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
        panic!("{violation}\n{}", reproduce(seed));
    }
}

#[test]
fn equal_seeds_tell_equal_stories() {
    for seed in 0..20 {
        let [one, other] = [0; 2].map(|_| Job::drawn_from(seed).fingerprint());
        assert_eq!(one, other, "{}", reproduce(seed));
    }
}

fn reproduce(seed: u64) -> String {
    format!(
        "REPRODUCE WITH: FAMPI_SEED={seed} cargo test --release --test simulation -- one_seed \
         --nocapture"
    )
}
