//! Faces of a box: heat spreads through a grid that is divided along its first axis. The faces of
//! each rank's part go to the neighbours out of the array itself, and into its ghost cells, without
//! packing; along the other axes a rank is its own neighbour.
//!
//! Run it: `cargo fampi run -n 4 -- faces`, with `--kill 2@0.1s` if you like

use std::ops::Range;

use fampi::{Array, Error, Flow, Rank, RequestId, Tag, Timeout, TryBlock, policy};

/// Cells of a rank along each axis, with a ghost at either end.
const CELLS: usize = 6;
const STEPS: u64 = 2000;

/// Everything but the ghosts, and along one axis just one place.
fn face(axis: usize, at: usize) -> [Range<usize>; 3] {
    let mut face = [1..CELLS - 1, 1..CELLS - 1, 1..CELLS - 1];
    face[axis] = at..at + 1;
    face
}

/// Fills the ghosts with what is next to them, across the ends of the ring of ranks, too.
fn exchange(block: &mut TryBlock, field: &Array<f64, 3>, ring: [Rank; 3]) -> Result<(), Error> {
    let mut posted: Vec<RequestId> = Vec::new();
    for axis in 0..3 {
        let [low, high] = if axis == 0 { [ring[0], ring[2]] } else { [ring[1], ring[1]] };
        let [up, down] = [Tag(axis as u32), Tag(3 + axis as u32)];
        posted.push(block.irecv_section(field, face(axis, 0), low, up)?);
        posted.push(block.irecv_section(field, face(axis, CELLS - 1), high, down)?);
        posted.push(block.isend_section(field, face(axis, 1), low, down)?);
        posted.push(block.isend_section(field, face(axis, CELLS - 2), high, up)?);
    }
    block.waitall_local(posted, Timeout::Never)
}

/// Each cell becomes the mean of itself and its six neighbours.
fn average(old: &[f64]) -> Vec<f64> {
    let mut new = old.to_vec();
    let (j, k) = (CELLS, CELLS * CELLS);
    for z in 1..CELLS - 1 {
        for y in 1..CELLS - 1 {
            for at in z * k + y * j + 1..z * k + y * j + CELLS - 1 {
                let neighbours = [at - 1, at + 1, at - j, at + j, at - k, at + k];
                new[at] = neighbours.iter().fold(old[at], |sum, it| sum + old[*it]) / 7.0;
            }
        }
    }
    new
}

fn main() -> Result<(), Error> {
    let mut world = fampi::init()?;
    let (me, size) = (world.rank(), world.size());
    let ring = [size - 1, 0, 1].map(|step| Rank::new((me.number() + step) % size));
    // One rank is warm; in the end all are equally warm.
    let warmth = if me == Rank::new(0) { 100.0 } else { 0.0 };
    let mut cells = vec![warmth; CELLS * CELLS * CELLS];
    let ended = world.run(&policy::Rebuild::default(), &mut cells, |step, cells| {
        // If the step does not count, the cells come back from their copies.
        let field = Array::new([CELLS; 3], std::mem::take(cells))?;
        exchange(step, &field, ring)?;
        *cells = average(&field.read()?);
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    println!("rank {me}: {:.6} degrees", cells[CELLS * CELLS + CELLS + 1]);
    world.finalize();
    Ok(())
}
