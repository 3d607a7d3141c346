//! Grids that lose one or two ranks more at each step of a recovery: world, rows and columns are
//! whole again.
//!
//! A *step* is whatever a process does to the outside: the second death comes before each of them,
//! in every process, replacements included.

use std::{array, time::Duration};

use fampi::{
    BlockOptions, Comm, Error, Grid, Level, Placement, ReduceOp, Timeout, Tried, TryBlock, World,
    sim::{self, Crash, Report, Simulation},
};

const ALWAYS: BlockOptions = BlockOptions::global(Timeout::Never);

type Dims = [u32; 2];

fn lines(world: &World, dims: Dims) -> Result<(Grid, [Comm; 2]), Error> {
    let grid = world.grid(&dims, &[true, true])?;
    let lines = [grid.sub(&[false, true])?, grid.sub(&[true, false])?];
    Ok((grid, lines))
}

/// The sum of the ranks' numbers over a communicator, in a block inside of that of the world.
fn sum(block: &mut TryBlock, comm: &Comm, mine: u32) -> Result<u32, Error> {
    let mut inner = comm.start(Level::Global)?;
    let sum = inner.iallreduce(vec![mine], ReduceOp::Sum)?;
    inner.wait_local(sum, Timeout::Never)?;
    let sum = inner.take(sum)?;
    block.nest(inner.finish(Timeout::Never));
    Ok(sum[0])
}

/// A block in which all three communicators are used: `true` when it is committed, and each of them
/// has the ranks that it should have.
fn are_whole(world: &World, dims: Dims) -> Result<bool, Error> {
    let (grid, [row, column]) = match lines(world, dims) {
        Err(Error::CreationFailed) => return Ok(false),
        lines => lines?,
    };
    let me = world.rank().number();
    let tried = world.try_block(ALWAYS, |block| {
        let sums = [sum(block, &row, me)?, sum(block, &column, me)?];
        let all = block.iallreduce(vec![me], ReduceOp::Sum)?;
        block.wait_local(all, Timeout::Never)?;
        Ok((sums, block.take(all)?[0]))
    })?;
    let Tried::Committed(sums, _) = tried else { return Ok(false) };
    let [rows, columns] = dims;
    let [r, c] = array::from_fn(|at| grid.coordinates()[at]);
    let in_row = (0..columns).map(|c| r * columns + c).sum::<u32>();
    let in_column = (0..rows).map(|r| r * columns + c).sum::<u32>();
    let ends = [row.size(), column.size(), row.rank().number(), column.rank().number()];
    assert_eq!(ends, [columns, rows, c, r], "sizes and ranks of rank {me}");
    assert_eq!(sums, ([in_row, in_column], (0..rows * columns).sum()), "sums of rank {me}");
    Ok(true)
}

/// These ranks die after a first block, and processes besides when they are told to.
fn recovers(dims: Dims, dead: &[u32], spares: u32, crashes: &[Crash]) -> Report<u32> {
    let size = dims[0] * dims[1];
    let simulation = Simulation::new(size).spares(spares).crashes(crashes.iter().copied());
    let dead = dead.to_vec();
    let what = format!("{dims:?} without {dead:?}, {spares} spares, {crashes:?}");
    let report = simulation.time_limit(Duration::from_secs(20)).run_world(move |mut world| {
        loop {
            let whole = are_whole(&world, dims).unwrap_or_else(|error| panic!("{error}"));
            if whole && world.generation() > 0 {
                break;
            }
            if !whole {
                let next = world.rebuild(Placement::SameRanks);
                world = next.unwrap_or_else(|error| panic!("{error}"));
            } else if dead.contains(&world.rank().number()) {
                sim::crash();
            }
        }
        let me = world.rank().number();
        world.finalize();
        me
    });
    let mut places: Vec<u32> = Vec::new();
    for process in &report.processes {
        match &process.ending {
            sim::Ending::Finished(place) => places.push(*place),
            sim::Ending::Panicked(why) | sim::Ending::Stuck(why) => {
                panic!("{what}: {why}\n{report}")
            }
            _ => {}
        }
    }
    places.sort_unstable();
    places.dedup();
    // Who dies at the very end is not replaced.
    assert!(places.len() + crashes.len() >= size as usize, "{what}: {places:?}\n{report}");
    report
}

/// Before which steps a process can die: from those of the launch on, of which nobody is replaced.
fn steps(report: &Report<u32>, process: usize) -> impl Iterator<Item = u64> + use<> {
    const LAUNCH: u64 = 16;
    let spawned = report.processes[process].spawned;
    let first = if spawned { 1 } else { LAUNCH };
    first..=report.processes[process].effects
}

#[test]
fn a_grid_is_whole_again_whoever_else_dies_at_whichever_step_of_its_recovery() {
    for (dims, dead, spares) in [
        ([2, 2], &[3][..], 0),
        ([2, 2], &[0, 3], 0),
        ([2, 2], &[0, 1], 1),
        ([2, 4], &[6], 1),
        ([2, 4], &[1, 4], 0),
        ([3, 3], &[4], 0),
    ] {
        let plain = recovers(dims, dead, spares, &[]);
        for process in 0..plain.processes.len() {
            for step in steps(&plain, process) {
                recovers(dims, dead, spares, &[Crash::before_effect(process as u32, step)]);
            }
        }
    }
}

#[test]
fn a_grid_is_whole_again_when_two_more_die_at_steps_of_its_recovery() {
    for (dims, dead, spares, stride) in [
        ([2, 2], &[3][..], 0, 2),
        ([2, 4], &[1, 6], 2, 7),
        ([2, 4], &[6], 0, 5),
        ([3, 3], &[4], 2, 7),
        ([3, 3], &[0, 8], 0, 7),
    ] {
        let plain = recovers(dims, dead, spares, &[]);
        let processes = plain.processes.len();
        for first in 0..processes {
            for (at, step) in steps(&plain, first).enumerate().step_by(stride) {
                // Each with each in turn, sooner or later than the first.
                let second = (first + 1 + at / stride % (processes - 1)) % processes;
                let there = steps(&plain, second).collect::<Vec<_>>();
                let later = there[(at + at % 11) % there.len()];
                let crashes = [(first, step), (second, later)];
                let crashes =
                    crashes.map(|(process, step)| Crash::before_effect(process as u32, step));
                recovers(dims, dead, spares, &crashes);
            }
        }
    }
}
