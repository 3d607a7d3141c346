//! A grid: blocks on rows and columns, nested in the block of a step, and an exchange with the
//! neighbours survive the death of a rank.
//!
//! Run it: `cargo fampi run -n 6 -- grid`

use std::process::Command;

use fampi::{
    Comm, Error, Flow, Grid, Level, Placement, Rank, ReduceOp, Step, Timeout, World, policy,
};

const STEPS: u64 = 8;

fn main() -> Result<(), Error> {
    let mut world = fampi::init()?;
    // The ranks of the launch make rows and columns; a replacement finds them.
    while let Err(error) = lines(&world) {
        let Error::CreationFailed = error else { return Err(error) };
        world = world.rebuild(Placement::SameRanks)?;
    }
    let mut value = vec![1 + u64::from(world.rank().number())];
    let ended = world.run(&policy::Rebuild::default(), &mut value, |step, value| {
        let first = step.world().generation() == 0;
        if first && step.number() == 4 && step.comm().rank() == Rank::new(4) {
            // SIGKILL: this process tells no other rank.
            eprintln!("rank 4 kills itself, on purpose: the others go on");
            fampi::trace::mark("killed by plan", &[]);
            let _ = Command::new("sh").args(["-c", "kill -KILL $PPID"]).status();
        }
        // After a rebuild these are others: ask the world of this step.
        let (grid, [row, column]) = lines(step.world())?;
        let all = step.ineighbor_allgather([value[0]].repeat(5), &grid.neighbours())?;
        let sums = [sum(step, &row, value[0])?, sum(step, &column, value[0])?];
        step.wait_local(all, Timeout::Never)?;
        value[0] = next(sums, step.take(all)?[1..].iter().sum());
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    let (me, generation) = (world.rank(), world.generation());
    let undisturbed = undisturbed(lines(&world)?.0.dims(), me);
    println!("rank {me}: {} (undisturbed {undisturbed}), generation {generation}", value[0]);
    world.finalize();
    Ok(())
}

/// All ranks as a torus, and this rank's row and column.
fn lines(world: &World) -> Result<(Grid, [Comm; 2]), Error> {
    let grid = world.grid(&[0, 0], &[true, true])?;
    let lines = [grid.sub(&[false, true])?, grid.sub(&[true, false])?];
    Ok((grid, lines))
}

/// A block on a row or a column; its end is an operation of the step's block.
fn sum(step: &mut Step<'_>, line: &Comm, value: u64) -> Result<u64, Error> {
    let mut block = line.start(Level::Global)?;
    let sum = block.iallreduce(vec![value], ReduceOp::Sum)?;
    block.wait_local(sum, Timeout::Never)?;
    let sum = block.take(sum)?;
    step.nest(block.finish(Timeout::Never));
    Ok(sum[0])
}

fn next([row, column]: [u64; 2], neighbours: u64) -> u64 {
    (3 * row + 5 * column + 7 * neighbours) % 1_000_003
}

/// The same by one process alone.
fn undisturbed(dims: &[u32], me: Rank) -> u64 {
    let (rows, columns) = (dims[0] as usize, dims[1] as usize);
    let mut values: Vec<u64> = (1..=(rows * columns) as u64).collect();
    for _ in 0..STEPS {
        let at = |row: usize, column: usize| values[row % rows * columns + column % columns];
        let step = |place: usize| {
            let (r, c) = (place / columns, place % columns);
            let sums = [(0..columns).map(|c| at(r, c)).sum(), (0..rows).map(|r| at(r, c)).sum()];
            next(sums, at(r + 1, c) + at(r + rows - 1, c) + at(r, c + 1) + at(r, c + columns - 1))
        };
        values = (0..rows * columns).map(step).collect();
    }
    values[me.index()]
}
