//! A swarm of random runs over the machines of the protocol alone.
//!
//! `FAMPI_SEEDS` sets how many seeds are run. A failure prints the line that runs its seed again,
//! with every event.

use std::{
    env,
    panic::catch_unwind,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use fampi_checkers::machines::swarm::Swarm;

/// Seeds of one `cargo test`; about ten seconds on two cores.
const SEEDS: u64 = 300_000;

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_seed_ends_with_one_decision_per_block_on_all_living_ranks() {
    let seeds = number("FAMPI_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let run = catch_unwind(|| Swarm::new(seed, false).run());
                    let wrong = match run {
                        Ok(Ok(_)) => continue,
                        Ok(Err(wrong)) => wrong,
                        Err(_) => "a machine panicked".into(),
                    };
                    next.store(seeds, Ordering::Relaxed);
                    panic!(
                        "{wrong}\nFAMPI_SEED={seed} cargo test -p fampi-checkers --test machines -- \
                         one_seed --nocapture"
                    );
                }
            });
        }
    });
    let rate = seeds as f64 / start.elapsed().as_secs_f64();
    println!("{seeds} seeds, {rate:.0} a second");
}

#[test]
fn one_seed() {
    if let Some(seed) = number("FAMPI_SEED") {
        println!("{:?}", Swarm::new(seed, true).run());
        Swarm::new(seed, false).run().expect("every property holds");
    }
}
