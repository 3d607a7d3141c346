//! A grid: ranks in rows of three; blocks on rows and columns, nested in the block of a step,
//! survive the death of a rank.
//!
//! Run it: `cargo fampi run -n 6 -- grid`

use std::process::Command;

use fampi::{Color, Comm, Error, Flow, Level, Placement, Rank, ReduceOp, Step, Timeout, policy};

const COLUMNS: u32 = 3;
const STEPS: u64 = 8;

fn main() -> Result<(), Error> {
    let mut world = fampi::init()?;
    // Rows first, then columns; a replacement finds those that the ranks of the launch made.
    while world.children().len() < 2 {
        let me = world.rank().number();
        let color = [me / COLUMNS, me % COLUMNS][world.children().len()];
        match world.isplit(Color::Of(color), me)?.wait_local(Timeout::Never) {
            Err(Error::CreationFailed) => world = world.rebuild(Placement::SameRanks)?,
            made => drop(made?),
        }
    }
    let mut value = vec![1 + u64::from(world.rank().number())];
    let ended = world.run(&policy::Rebuild::default(), &mut value, |step, value| {
        let first = step.world().generation() == 0;
        if first && step.number() == 4 && step.comm().rank() == Rank::new(4) {
            die();
        }
        // After a rebuild these are others: ask the world of this step.
        let grid = step.world().children();
        let sums = [sum(step, grid[0].as_ref(), value[0])?, sum(step, grid[1].as_ref(), value[0])?];
        value[0] = next(sums);
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    let (me, generation) = (world.rank(), world.generation());
    let undisturbed = undisturbed(world.size(), me);
    println!("rank {me}: {} (undisturbed {undisturbed}), generation {generation}", value[0]);
    world.finalize();
    Ok(())
}

/// A block on a row or a column; its end is an operation of the step's block.
fn sum(step: &mut Step<'_>, line: Option<&Comm>, value: u64) -> Result<u64, Error> {
    let line = line.expect("every rank has a row and a column");
    let mut block = line.start(Level::Global)?;
    let sum = block.iallreduce(vec![value], ReduceOp::Sum)?;
    block.wait_local(sum, Timeout::Never)?;
    let sum = block.take(sum)?[0];
    step.nest(block.finish(Timeout::Never));
    Ok(sum)
}

fn next([row, column]: [u64; 2]) -> u64 {
    (3 * row + 5 * column) % 1_000_003
}

/// The same by one process alone.
fn undisturbed(size: u32, me: Rank) -> u64 {
    let mut values: Vec<u64> = (1..=u64::from(size)).collect();
    let columns = COLUMNS as usize;
    for _ in 0..STEPS {
        let row = |at: usize| values[at / columns * columns..][..columns].iter().sum();
        let column = |at: usize| values[at % columns..].iter().step_by(columns).sum();
        values = (0..values.len()).map(|at| next([row(at), column(at)])).collect();
    }
    values[me.index()]
}

/// SIGKILL: nothing is cleaned up, nobody is told.
fn die() -> ! {
    let _ = Command::new("sh").args(["-c", "kill -KILL $PPID"]).status();
    unreachable!("this process is dead");
}
