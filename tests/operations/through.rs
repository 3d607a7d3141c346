//! Collectives over the living.

use std::time::Duration;

use fampi::{
    Patience,
    sim::{self, Ending, Simulation},
};
use fampi_kit::programs::through::run_through;

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
