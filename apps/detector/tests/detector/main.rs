//! The protocol of the observers without a network: every order of events in small groups, random
//! runs of large ones, and planted bugs that one of the two has to catch.
//!
//! `FAMPI_SEEDS` sets how many random runs there are; `FAMPI_SEED` runs one and prints what it
//! stands for.

mod bugs;
mod model;
mod mutations;
mod searches;
mod stories;
mod storm;

use fampi_kit::seeds::number;
use storm::Storm;

/// Seeds of one `cargo test`; a few seconds.
const SEEDS: u64 = 400;

#[test]
fn every_storm_ends_with_all_deaths_known_to_all_and_no_others() {
    let (mut deaths, mut refused) = (0, 0);
    for seed in 0..number("FAMPI_SEEDS").unwrap_or(SEEDS) {
        match Storm::new(seed).run() {
            Ok(story) => {
                deaths += story.deaths;
                refused += story.refused;
            }
            Err(wrong) => panic!(
                "{wrong}\nFAMPI_SEED={seed} cargo test --package fampi-detector --test detector -- \
                 one_seed --nocapture"
            ),
        }
    }
    println!("{deaths} deaths, {refused} packets refused");
    assert!(number("FAMPI_SEEDS").is_some() || (deaths > 500 && refused > 10_000));
}

#[test]
fn one_seed() {
    if let Some(seed) = number("FAMPI_SEED") {
        let storm = Storm::new(seed);
        println!("{storm:?}");
        println!("{:?}", storm.run().expect("every property holds"));
    }
}
