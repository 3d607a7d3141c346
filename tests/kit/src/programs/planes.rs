//! An application whose communicators are parts of parts. Whoever dies, the values are those of
//! one process alone.
//!
//! ```text
//! world          8 places: two planes of two rows of two
//! plane          a part of the world
//! row, column    parts of the plane
//! corners        a group of the plane: the first and the last of it
//! ```

use fampi::{Comm, Error, Flow, Level, Placement, Rank, ReduceOp, Step, Timeout, World, policy};

pub const SIZE: u32 = 8;
const DIMS: [u32; 3] = [2, 2, 2];

/// This rank's plane, its row and column there, and the corners of the plane if it is one.
struct Parts {
    plane: Comm,
    lines: [Comm; 2],
    corners: Option<Comm>,
}

fn parts(world: &World) -> Result<Parts, Error> {
    let planes = world.grid(&DIMS, &[false; 3])?;
    let plane = planes.sub(&[false, true, true])?;
    let within = plane.grid(&DIMS[1..], &[false; 2])?;
    let lines = [within.sub(&[false, true])?, within.sub(&[true, false])?];
    // Two were made by the grid; the third is the group.
    let corners = if let Some(known) = plane.derived().get(2) {
        known.clone()
    } else {
        let ends = plane.group().incl(&[Rank::new(0), Rank::new(plane.size() - 1)])?;
        plane.icreate(&ends)?.wait_local(Timeout::Never)?.into_comm()
    };
    Ok(Parts { plane, lines, corners })
}

/// Goes on until a step says that it was the last. The value of this rank's place.
pub fn run(
    world: &mut World,
    placement: Placement,
    mut is_last: impl FnMut(&Step<'_>) -> bool,
) -> Result<u64, Error> {
    // Before the run: a creation is no operation of a block. Where one fails all members of the
    // part know it, and the others learn of the death in the run.
    while let Err(error) = parts(world) {
        let Error::CreationFailed = error else { return Err(error) };
        *world = world.rebuild(placement)?;
    }
    let mut value = vec![1 + u64::from(world.origin())];
    let policy = policy::Rebuild { placement, ..policy::Rebuild::default() };
    let ended = world.run(&policy, &mut value, |step, value| {
        let last = is_last(step);
        let Parts { plane, lines, corners } = parts(step.world())?;
        check(step.world(), &plane, &lines);
        let mut sums = Vec::new();
        for comm in [&lines[0], &plane, &lines[1]].into_iter().chain(&corners) {
            sums.push(sum(step, comm, value[0])?);
        }
        value[0] = next(&sums);
        Ok(if last { Flow::Done } else { Flow::Continue })
    })?;
    ended.done()?;
    Ok(value[0])
}

/// Parts have the processes that they should have, in the right order.
fn check(world: &World, plane: &Comm, lines: &[Comm; 2]) {
    let all = world.group();
    let me = world.origin();
    let first = me / 4 * 4;
    let row = (0..2).map(|column| me / 2 * 2 + column);
    let column = (0..2).map(|row| first + row * 2 + me % 2);
    let group = |places: Vec<u32>| {
        let ranks: Vec<Rank> = places.into_iter().map(|place| world.standing_for(place)).collect();
        all.incl(&ranks).expect("different ranks")
    };
    assert_eq!(plane.group(), group((first..first + 4).collect()));
    assert_eq!(lines[0].group(), group(row.collect()));
    assert_eq!(lines[1].group(), group(column.collect()));
}

/// A block on a part, whose end is an operation of the step's block.
fn sum(step: &mut Step<'_>, comm: &Comm, value: u64) -> Result<u64, Error> {
    let mut block = comm.start(Level::Global)?;
    let sum = block.iallreduce(vec![value], ReduceOp::Sum)?;
    block.wait_local(sum, Timeout::Never)?;
    let sum = block.take(sum)?;
    step.nest(block.finish(Timeout::Never));
    Ok(sum[0])
}

fn next(sums: &[u64]) -> u64 {
    let weighted = sums.iter().zip([3, 5, 7, 11]).map(|(sum, weight)| sum * weight);
    weighted.sum::<u64>() % 1_000_003
}

/// The values of all places after so many steps, by one process alone.
pub fn alone(steps: u64) -> Vec<u64> {
    let mut values: Vec<u64> = (1..=u64::from(SIZE)).collect();
    for _ in 0..steps {
        let sum = |places: &[usize]| places.iter().map(|place| values[*place]).sum::<u64>();
        let step = |place: usize| {
            let first = place / 4 * 4;
            let plane: Vec<usize> = (first..first + 4).collect();
            let row = [place / 2 * 2, place / 2 * 2 + 1];
            let column = [first + place % 2, first + 2 + place % 2];
            let mut sums = vec![sum(&row), sum(&plane), sum(&column)];
            let corners = [first, first + 3];
            sums.extend(corners.contains(&place).then(|| sum(&corners)));
            next(&sums)
        };
        values = (0..values.len()).map(step).collect();
    }
    values
}
