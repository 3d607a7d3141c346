//! An application on a grid of all ranks, or of those that a shrunken communicator has. After a
//! death each rank rebuilds another one of its communicators. Whoever dies, the values are those of
//! one process alone.

use fampi::{
    BlockOptions, Comm, Error, Grid, Level, Outcome, Placement, ReduceOp, Timeout, Tried, TryBlock,
    World,
};

/// A moment in the application, at which a rank may die.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Moment {
    /// Before the survivors of a first death shrink the world.
    Shrink,
    /// Before rows and columns are made, or found.
    Lines,
    /// In the block of this round, between that on its row and that on its column.
    Block(u64),
    /// Before a rebuild.
    Rebuild,
    /// After one.
    Rebuilt,
}

/// What the ranks compute on.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub rounds: u64,
    /// The last rank dies at first, and the others go on without it.
    pub shrunken: bool,
    pub placement: Placement,
}

/// A grid, and this rank's row and column.
struct Lines {
    grid: Grid,
    row: Comm,
    column: Comm,
}

const BLOCK: BlockOptions = BlockOptions::global(Timeout::Never);

/// Runs it to its end. The world then, how many ranks the grid has, the place of this rank there,
/// and its value.
pub fn run(
    mut world: World,
    plan: Plan,
    mut at: impl FnMut(Moment, u32),
) -> Result<(World, [u64; 3]), Error> {
    let mut comm = world.comm();
    if plan.shrunken && !world.is_replacement() {
        comm = shrunken(&world, &mut at)?;
    }
    let mut outdated = world.is_replacement();
    let (mut state, mut known) = (Vec::new(), None);
    loop {
        at(Moment::Lines, place(&comm)?);
        let turned = one_try(&comm, &mut known, (&state, outdated), &mut at);
        match turned {
            Ok(Tried::Committed(next, _)) => (state, outdated) = (next, false),
            Ok(Tried::Faulty(_, Some(Error::NothingProtected))) => {
                (state, outdated) = (Vec::new(), false);
            }
            Ok(Tried::Faulty(_, Some(error @ Error::StateLost { .. }))) => return Err(error),
            Ok(Tried::Faulty(..)) | Err(Error::CreationFailed) => {
                at(Moment::Rebuild, place(&comm)?);
                world = rebuilt(&comm, known.take(), plan.placement)?;
                (comm, outdated) = (world.comm(), true);
                at(Moment::Rebuilt, place(&comm)?);
            }
            Err(error) => return Err(error),
        }
        if state.get(1) == Some(&plan.rounds) {
            let place = place(&comm)?;
            return Ok((world, [comm.size().into(), place.into(), state[0]]));
        }
    }
}

/// A block of all ranks: a round, or one that brings the states back.
fn one_try(
    comm: &Comm,
    known: &mut Option<Lines>,
    (state, outdated): (&[u64], bool),
    at: &mut impl FnMut(Moment, u32),
) -> Result<Tried<Vec<u64>>, Error> {
    if known.is_none() {
        *known = Some(lines(comm)?);
    }
    comm.try_block(BLOCK, |block| match (known, state) {
        (Some(lines), []) if !outdated => {
            // Nothing was protected before: the first value of this place.
            turn(block, lines, &[1 + u64::from(place(comm)?), 0], at)
        }
        (Some(lines), state) if !outdated => turn(block, lines, state, at),
        _ => block.restore(0),
    })
}

/// What is left of the world after the death of its last rank.
fn shrunken(world: &World, at: &mut impl FnMut(Moment, u32)) -> Result<Comm, Error> {
    at(Moment::Shrink, world.rank().number());
    loop {
        let pending = world.start(Level::Global)?.finish(Timeout::Never);
        if let Outcome::Faulty(_) = pending.wait_local(Timeout::Never)? {
            return world.shrink();
        }
    }
}

fn grid(comm: &Comm) -> Result<Grid, Error> {
    comm.grid(&[0, 0], &[false, false])
}

/// The place of this rank in the grid of all ranks.
fn place(comm: &Comm) -> Result<u32, Error> {
    let grid = grid(comm)?;
    Ok(grid
        .coordinates()
        .iter()
        .zip(grid.dims())
        .fold(0, |place, (at, length)| place * length + at))
}

fn lines(comm: &Comm) -> Result<Lines, Error> {
    let grid = grid(comm)?;
    let (row, column) = (grid.sub(&[false, true])?, grid.sub(&[true, false])?);
    Ok(Lines { grid, row, column })
}

/// Rebuilds one of three communicators, and finds what takes the place of each.
fn rebuilt(comm: &Comm, lines: Option<Lines>, placement: Placement) -> Result<World, Error> {
    let Some(Lines { row, column, .. }) = lines else { return comm.rebuild(placement) };
    let own = [comm, &row, &column];
    let world = own[comm.rank().index() % 3].rebuild(placement)?;
    let ids = |known: [Option<Comm>; 3]| known.map(|known| known.map(|it| (it.id(), it.size())));
    let found = ids(own.map(|old| world.in_place_of(old)));
    assert_eq!(found.map(|it| it.map(|it| it.1)), own.map(|old| Some(old.size())));
    let made = self::lines(&world)?;
    assert_eq!(found, ids([Some(world.comm()), Some(made.row), Some(made.column)]));
    Ok(world)
}

/// One round: the value that comes after this one, which is protected.
fn turn(
    block: &mut TryBlock,
    lines: &Lines,
    state: &[u64],
    at: &mut impl FnMut(Moment, u32),
) -> Result<Vec<u64>, Error> {
    let (value, round) = (state[0], state[1]);
    let of_row = sum(block, &lines.row, value)?;
    at(Moment::Block(round), place(lines.grid.comm())?);
    let of_column = sum(block, &lines.column, value)?;
    let next = vec![after(value, of_row, of_column), round + 1];
    block.protect(0, &next)?;
    Ok(next)
}

/// A block on a row or a column; its end is an operation of that around it.
fn sum(outer: &mut TryBlock, line: &Comm, value: u64) -> Result<u64, Error> {
    let mut block = line.start(Level::Global)?;
    let sum = block.iallreduce(vec![value], ReduceOp::Sum)?;
    block.wait_local(sum, Timeout::Never)?;
    let sum = block.take(sum)?;
    outer.nest(block.finish(Timeout::Never));
    Ok(sum[0])
}

fn after(value: u64, of_row: u64, of_column: u64) -> u64 {
    (7 * value + 3 * of_row + 5 * of_column) % 1_000_003
}

/// The values of all places of a grid of so many ranks at the end, by one process alone.
pub fn alone(size: u32, rounds: u64) -> Result<Vec<u64>, Error> {
    let dims = Grid::balanced(size, &[0, 0])?;
    let (rows, columns) = (dims[0] as usize, dims[1] as usize);
    let turn = |values: Vec<u64>, _| {
        let of_row = |at: usize| (0..columns).map(|k| values[at / columns * columns + k]).sum();
        let of_column = |at: usize| (0..rows).map(|k| values[k * columns + at % columns]).sum();
        let next = |at: usize| after(values[at], of_row(at), of_column(at));
        (0..values.len()).map(next).collect()
    };
    Ok((0..rounds).fold((1..=u64::from(size)).collect(), turn))
}
