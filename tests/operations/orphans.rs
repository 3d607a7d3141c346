//! Spares when all ranks are dead, and new processes of a rebuild that failed: nobody needs them
//! any more, and they end.

use std::time::Duration;

use fampi::{
    BlockOptions, Placement, Rank, Timeout, World,
    sim::{self, Crash, Ending, Report, Simulation},
};

const LIMIT: Duration = Duration::from_secs(50);
/// Longer than any recovery takes.
const WORK: Duration = Duration::from_secs(1);

fn run(simulation: Simulation, program: fn(World)) -> Report<()> {
    simulation.time_limit(LIMIT).run_world(program)
}

#[test]
fn spares_go_when_all_ranks_are_dead_and_make_no_world_of_their_own() {
    for seed in 0..20 {
        let simulation = Simulation::new(2).seed(seed).spares(2).trace(true);
        let report = run(simulation, |_| {
            sim::compute(WORK);
            sim::crash();
        });
        let gone = |it: &Ending<()>| matches!(it, Ending::Exited);
        assert!(report.processes[2..].iter().all(|it| gone(&it.ending)), "{report}");
        assert!(!report.trace.iter().any(|line| line.contains("enters regroup")), "{report}");
    }
}

/// Rank 2 is dead, and rank 1 dies somewhere in the rebuild. Rank 0 tries again, and goes on for
/// long.
fn rebuilt(world: World) {
    if world.is_replacement() {
        return world.finalize();
    }
    if world.rank() == Rank::new(2) {
        sim::compute(Duration::from_millis(1));
        return sim::crash();
    }
    let reported = world.try_block(BlockOptions::global(Timeout::Never), |_| Ok(()));
    assert!(reported.is_ok(), "it is in no other block");
    if let Ok(world) = world.rebuild(Placement::SameRanks) {
        sim::compute(WORK);
        world.finalize();
    }
}

#[test]
fn who_was_spawned_for_an_attempt_that_failed_goes_at_once() {
    let mut told = 0;
    for effect in 1..30 {
        let simulation = Simulation::new(3).trace(true).crash(Crash::before_effect(1, effect));
        let trace = run(simulation, rebuilt).trace;
        told +=
            trace.iter().filter(|it| it.contains("p0 → p3 u1") && it.contains("Interrupt")).count();
        let goes = |line: &&String| (3..9).any(|it| line.ends_with(&format!("p{it} crashes")));
        for line in trace.iter().filter(goes) {
            let microseconds = line.split_whitespace().next().and_then(|it| it.parse().ok());
            let soon: f64 = microseconds.expect("a line begins with its time");
            assert!(soon < 1e6 * WORK.as_secs_f64(), "effect {effect}: {line}");
        }
    }
    assert!(told > 0, "no attempt failed after its processes were spawned");
}

/// Rank 0 spawns a process for rank 1, and dies. If it has not said a word to that one, it may have
/// given it up for another.
#[test]
fn who_was_spawned_goes_when_those_who_did_so_are_dead_before_they_have_spoken() {
    let mut alone = 0;
    for effect in 1..30 {
        let simulation = Simulation::new(2).trace(true).crash(Crash::before_effect(0, effect));
        let report = run(simulation, |world| {
            if world.is_replacement() {
                return world.finalize();
            }
            if world.rank() == Rank::new(1) {
                return sim::crash();
            }
            if let Ok(world) = world.rebuild(Placement::SameRanks) {
                world.finalize();
            }
        });
        let spoken = |line: &String| line.contains("p0 → p2 u1") || line.contains("p1 → p2 u1");
        if report.processes.len() > 2 && !report.trace.iter().any(spoken) {
            assert_eq!(report.results().count(), 0, "effect {effect}: {report}");
            alone += 1;
        }
    }
    assert!(alone > 0, "no process was left alone before its welcome");
}
