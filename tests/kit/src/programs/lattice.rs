//! An application on a torus: sums of rows and columns, and what the neighbours have, make the
//! next value of each place. Whoever dies, the values are those of one process alone.

use fampi::{
    Comm, Error, Flow, Grid, Level, Placement, Rank, ReduceOp, Step, Timeout, World, policy,
};

/// The grid of all ranks, and this rank's row and column.
fn lines(world: &World) -> Result<(Grid, [Comm; 2]), Error> {
    let grid = world.grid(&[0, 0], &[true, true])?;
    let lines = [grid.sub(&[false, true])?, grid.sub(&[true, false])?];
    Ok((grid, lines))
}

/// Goes on until a step says that it was the last. The value of this rank's place.
pub fn run(
    world: &mut World,
    placement: Placement,
    mut is_last: impl FnMut(&Step<'_>) -> bool,
) -> Result<u64, Error> {
    while let Err(error) = lines(world) {
        let Error::CreationFailed = error else { return Err(error) };
        *world = world.rebuild(placement)?;
    }
    let mut value = vec![1 + u64::from(world.origin())];
    let mut history = vec![first(world.size())];
    let policy = policy::Rebuild { placement, ..policy::Rebuild::default() };
    let ended = world.run(&policy, &mut value, |step, value| {
        let last = is_last(step);
        let (grid, [row, column]) = lines(step.world())?;
        check(&grid, &row, &column);
        let (me, number) = (step.world().origin() as usize, step.number() as usize);
        while history.len() <= number {
            history.push(turn(grid.dims(), &history[history.len() - 1]));
        }
        assert_eq!(value[0], history[number][me], "the state of this place in step {number}");
        let neighbours = grid.neighbours();
        let near = step.ineighbor_allgather([value[0]].repeat(5), &neighbours)?;
        let sums = [sum(step, &row, value[0])?, sum(step, &column, value[0])?];
        let ways = (0..4).flat_map(|way| [step.comm().rank().number(), way]);
        let ways = ways.chain([99; 8]).collect();
        let ways = step.ineighbor_alltoall(ways, &neighbours)?;
        step.wait_local(near, Timeout::Never)?;
        step.wait_local(ways, Timeout::Never)?;
        let (came, from) = (step.take(ways)?, neighbours.sources().iter().flatten());
        // What is sent towards one side comes from the other one.
        let expected = (0..4).zip(from).flat_map(|(way, from)| [from.number(), way ^ 1]);
        assert!(came[8..].iter().copied().eq(expected), "{came:?} on a torus");
        value[0] = next(sums, step.take(near)?[1..].iter().sum());
        Ok(if last { Flow::Done } else { Flow::Continue })
    })?;
    ended.done()?;
    Ok(value[0])
}

/// Rows and columns have the processes that they should have, in the right order.
fn check(grid: &Grid, row: &Comm, column: &Comm) {
    let here: Vec<i64> = grid.coordinates().into_iter().map(i64::from).collect();
    let at = |place: [i64; 2]| grid.rank_at(&place).expect("two dimensions").expect("a torus");
    let in_row = (0..i64::from(grid.dims()[1])).map(|column| at([here[0], column]));
    let in_column = (0..i64::from(grid.dims()[0])).map(|row| at([row, here[1]]));
    let all = grid.comm().group();
    let group = |ranks: Vec<Rank>| all.incl(&ranks).expect("different ranks");
    assert_eq!(row.group(), group(in_row.collect()));
    assert_eq!(column.group(), group(in_column.collect()));
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

fn next([row, column]: [u64; 2], near: u64) -> u64 {
    (3 * row + 5 * column + 7 * near) % 1_000_003
}

/// The values of all places at first.
fn first(places: u32) -> Vec<u64> {
    (1..=u64::from(places)).collect()
}

/// A step of all places, by one process alone.
fn turn(dims: &[u32], values: &[u64]) -> Vec<u64> {
    let (rows, columns) = (dims[0] as usize, dims[1] as usize);
    let at = |row: usize, column: usize| values[row % rows * columns + column % columns];
    let step = |place: usize| {
        let (r, c) = (place / columns, place % columns);
        let sums = [(0..columns).map(|c| at(r, c)).sum(), (0..rows).map(|r| at(r, c)).sum()];
        next(sums, at(r + 1, c) + at(r + rows - 1, c) + at(r, c + 1) + at(r, c + columns - 1))
    };
    (0..rows * columns).map(step).collect()
}

/// The values of all places after so many steps.
pub fn alone(dims: &[u32], steps: u64) -> Vec<u64> {
    (0..steps).fold(first(dims.iter().product()), |values, _| turn(dims, &values))
}
