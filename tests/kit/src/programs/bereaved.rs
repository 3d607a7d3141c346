//! A communicator that has lost a member goes on.

use std::time::Duration;

use fampi::{
    Comm, Level, Rank, Tag, World,
    sim::{self, Ending, Simulation},
};

use super::aftermath::{Receive, end, go_on};

/// Ranks, of which the last dies.
pub const SIZE: u32 = 4;
const SEEDS: u64 = 12;

/// Runs it on a communicator that is made of the world before its last rank dies.
pub fn bereaved(
    way: Receive,
    living: &'static [u32],
    attempts: u32,
    make: impl Fn(&World) -> Option<Comm> + Send + Sync + Clone + 'static,
) {
    for seed in 0..SEEDS {
        let make = make.clone();
        let limit = Duration::from_secs(100);
        let report = Simulation::new(SIZE).seed(seed).time_limit(limit).run_world(move |world| {
            let made = make(&world);
            let comm = made.as_ref().unwrap_or(&world);
            let mut early = comm.start(Level::Global).expect("in use");
            if seed % 2 == 0 && world.rank().number() == 0 {
                // The spare context is used up, and the next one is not made, when the death comes.
                early.raise_error(3);
                assert!(!end(early).is_committed());
            } else {
                drop(end(early));
            }
            if world.rank().number() == SIZE - 1 {
                sim::crash();
            }
            let mut block = world.start(Level::Global).expect("in use");
            let _ = block.irecv(vec![0_u64], Rank::new(SIZE - 1), Tag(5)).expect("a rank");
            assert!(!end(block).is_committed());
            let most = go_on(&world, comm, living, way);
            world.finalize();
            most
        });
        for process in &report.processes[..SIZE as usize - 1] {
            let Ending::Finished(most) = process.ending else { panic!("{way:?} {seed}: {report}") };
            assert!(most <= attempts, "{way:?}, seed {seed}: {most} attempts");
        }
    }
}
