//! Collectives over the living.

use std::time::Duration;

use fampi::{
    Patience,
    sim::{self, Crash, Draw, Ending, Simulation},
};
use fampi_kit::programs::through::{run_through, wander};

#[test]
fn collectives_go_on_over_the_living_until_one_rank_is_left() {
    for size in [2, 3, 5, 8] {
        for seed in 0..12 {
            let patience = [Patience::Prompt, Patience::Patient][seed as usize % 2];
            let latency = Duration::from_micros(1)..=Duration::from_micros(300);
            let simulation = Simulation::new(size).seed(seed).latency(latency);
            let report = simulation.time_limit(Duration::from_secs(100)).run_world(move |world| {
                world.set_patience(patience);
                run_through(&world, seed, || sim::crash());
                world.finalize();
            });
            let ended =
                report.processes.iter().filter(|it| matches!(it.ending, Ending::Finished(())));
            assert_eq!(ended.count(), 1, "{size} ranks, seed {seed}: {report}");
        }
    }
}

#[test]
fn deaths_at_any_moment_leave_right_results_and_nobody_waiting() {
    for seed in 0..400 {
        let mut draw = Draw(seed);
        let size = 2 + draw.below(6) as u32;
        let deaths = draw.below(u64::from(size));
        let crashes = (0..deaths).map(|_| {
            let who = 1 + draw.below(u64::from(size) - 1) as u32;
            Crash::before_effect(who, 1 + draw.below(400))
        });
        let crashes: Vec<_> = crashes.collect();
        let patience = [Patience::Prompt, Patience::Patient][draw.below(2) as usize];
        let latency = Duration::from_micros(1)..=Duration::from_micros(1 + draw.below(300));
        let simulation = Simulation::new(size).seed(seed).latency(latency).crashes(crashes);
        let report = simulation.time_limit(Duration::from_secs(100)).run_world(move |world| {
            world.set_patience(patience);
            wander(&world, seed, 8);
            world.finalize();
        });
        for process in &report.processes {
            let ended = matches!(process.ending, Ending::Finished(()) | Ending::Crashed);
            assert!(ended, "{size} ranks, seed {seed}: {report}");
        }
    }
}
