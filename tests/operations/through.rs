//! Collectives over the living.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use fampi::{
    Patience,
    sim::{self, Crash, Draw, Ending, Simulation},
};
use fampi_kit::{
    programs::through::{run_through, wander},
    seeds::{each_seed, number},
};

#[test]
fn collectives_go_on_over_the_living_until_one_rank_is_left() {
    for size in [2, 3, 5, 8] {
        for seed in 0..12 {
            let patience = [Patience::Prompt, Patience::Patient][seed as usize % 2];
            let latency = Duration::from_micros(1)..=Duration::from_micros(300);
            let simulation = Simulation::new(size).seed(seed).latency(latency);
            let report = simulation.time_limit(Duration::from_secs(100)).run_world(move |world| {
                world.set_patience(patience);
                run_through(&world, seed, sim::crash);
                world.finalize();
            });
            let ended =
                report.processes.iter().filter(|it| matches!(it.ending, Ending::Finished(())));
            assert_eq!(ended.count(), 1, "{size} ranks, seed {seed}: {report}");
        }
    }
}

/// Ranks, of which any but one may die at any moment; how many did.
fn survive(seed: u64) -> Result<u64, String> {
    let mut draw = Draw(seed);
    let size = 2 + draw.below(6) as u32;
    let deaths = draw.below(u64::from(size));
    let crashes: Vec<_> = (0..deaths)
        .map(|_| {
            let who = 1 + draw.below(u64::from(size) - 1) as u32;
            Crash::before_effect(who, 1 + draw.below(400))
        })
        .collect();
    let patience = draw.one_of(&[Patience::Prompt, Patience::Patient]);
    let latency = Duration::from_micros(1)..=Duration::from_micros(1 + draw.below(300));
    let simulation = Simulation::new(size).seed(seed).latency(latency).crashes(crashes);
    let report = simulation.time_limit(Duration::from_secs(100)).run_world(move |world| {
        world.set_patience(patience);
        wander(&world, seed, 8);
        world.finalize();
    });
    let mut dead = 0;
    for process in &report.processes {
        match process.ending {
            Ending::Finished(()) => {}
            Ending::Crashed => dead += 1,
            _ => return Err(format!("{size} ranks, {patience:?}: {report}")),
        }
    }
    Ok(dead)
}

#[test]
fn deaths_at_any_moment_leave_right_results_and_nobody_waiting() {
    let (seeds, dead) = (number("FAMPI_SEEDS").unwrap_or(1_000), AtomicU64::new(0));
    let ended = each_seed(0, seeds, |seed| {
        dead.fetch_add(survive(seed)?, Ordering::Relaxed);
        Ok::<_, String>(())
    });
    if let Err((seed, wrong)) = ended {
        panic!("seed {seed}: {wrong}");
    }
    assert!(dead.into_inner() >= seeds / 4, "hardly anybody dies");
}
