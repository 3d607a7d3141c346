//! How the dead have died: the same in the reports of all living ranks.

use std::time::Duration;

use fampi::{
    BlockOptions, Cause, Codes, FaultCode, Rank, RankSet, ReduceOp, Timeout, Tried, World,
    sim::{self, Ending, Simulation},
};

const SIZE: u32 = 5;
/// These die, one after the other.
const DEAD: [(u32, Cause); 3] = [(1, Cause::NodeLost), (2, Cause::Exited(3)), (4, Cause::Unknown)];

/// Rank 0 comes to know all that can be known, but late; rank 3 is told that it never will.
fn causes(_: u64, observer: u32, dead: u32, now: Duration) -> Option<Cause> {
    let cause = DEAD.iter().find(|(rank, _)| *rank == dead).map(|it| it.1).expect("one of them");
    match (observer, cause) {
        (0, Cause::Unknown) => None,
        (0, _) => (now.as_micros() / 400).is_multiple_of(2).then_some(cause),
        _ => Some(Cause::Unknown),
    }
}

/// Goes on until three ranks are known to be dead, and gives the last report in words.
fn reports(world: World, seed: u64) -> String {
    let me = world.rank().number();
    for step in 0.. {
        // Some of them die in one step, some one after the other.
        if DEAD.iter().any(|it| it.0 == me) && step == 2 + u64::from(me) * seed % 5 {
            sim::crash();
        }
        let tried = world.try_block(BlockOptions::global(Timeout::Never), |block| {
            let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum)?;
            block.wait_local(sum, Timeout::Never)
        });
        let Tried::Faulty(finished, _) = tried.expect("agreed") else { continue };
        let report = finished.report();
        if report.known_failed().len() < DEAD.len() {
            continue;
        }
        let group = |code| finished.failed_group(Codes::Of(&[code]), &world);
        let ranks = |ranks: &[u32]| ranks.iter().copied().map(Rank::new).collect::<RankSet>();
        assert_eq!(group(FaultCode::NodeFailed), ranks(&[1]), "{report}");
        assert_eq!(group(FaultCode::ProcessFailed), ranks(&[2, 4]), "{report}");
        let dead = report.known_failed().iter();
        let said = dead.map(|rank| format!("{rank}: {}", report.cause(rank)));
        let said = said.collect::<Vec<_>>().join(", ");
        world.finalize();
        return said;
    }
    unreachable!("there is always a next step")
}

#[test]
fn all_living_ranks_report_a_lost_node_as_hard_and_all_else_as_soft_with_its_cause() {
    for seed in 0..40 {
        let simulation = Simulation::new(SIZE).seed(seed).causes(causes);
        let report = simulation.run_world(move |world| reports(world, seed));
        for rank in [0, 3] {
            let Ending::Finished(said) = &report.processes[rank].ending else {
                panic!("seed {seed}: {:?}", report.processes[rank].ending)
            };
            let expected = "1: its node was lost, 2: it exited with status 3, 4: nobody knows how";
            assert_eq!(said, expected, "seed {seed}");
        }
    }
}
