//! What it costs to protect states: by where they are kept, beside a copy in memory and a plain
//! exchange of the same bytes.
//!
//! `cargo fampi bench data --ranks 8 --mib 1,16,64 --csv FILE` builds and launches this program
//! for each number of ranks. All ways alternate in one launch. A time is that of a whole block, to
//! its verdict on rank 0, with buffers that have been used before; for `memcpy` that of copying the
//! state on all ranks at once. The numbers are medians. Before each copy a part of the state's
//! pages changes, spread over all of it: for `protect` all, for `changed-N%` so many.

use std::time::Instant;

use fampi::{BlockOptions, Error, Rank, Redundancy, Tag, Timeout, Tried, TryBlock, World};
use fampi_kit::median::median;

/// Times of each way, after two that do not count.
const TIMES: usize = 15;
const MIB: usize = 1 << 20;

/// What is done with the state of each rank.
#[derive(Clone, Copy)]
enum Way {
    /// It is copied in memory.
    Memcpy,
    /// It goes to the partner, and that of the partner comes.
    Exchange,
    /// It is protected, when so many percent of its pages have changed.
    Protect(Redundancy, usize),
}

const WAYS: [(&str, &str, Way); 10] = [
    ("memcpy", "plain", Way::Memcpy),
    ("exchange", "plain", Way::Exchange),
    ("own", "protect", Way::Protect(Redundancy::Own, 100)),
    ("partner", "protect", Way::Protect(Redundancy::Partner, 100)),
    ("partner", "changed-25%", Way::Protect(Redundancy::Partner, 25)),
    ("partner", "changed-10%", Way::Protect(Redundancy::Partner, 10)),
    ("partner", "changed-1%", Way::Protect(Redundancy::Partner, 1)),
    ("partner", "changed-0%", Way::Protect(Redundancy::Partner, 0)),
    ("xor", "protect", Way::Protect(Redundancy::Group { ranks: 4, losses: 1 }, 100)),
    ("reed-solomon", "protect", Way::Protect(Redundancy::Group { ranks: 6, losses: 2 }, 100)),
];
/// The numbers of a page.
const PAGE: usize = 4096 / size_of::<f64>();

fn main() -> Result<(), Error> {
    let mut sizes: Vec<usize> =
        std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes.push(1);
    }
    let world = fampi::init()?;
    if world.rank() == Rank::new(0) {
        println!("ranks,mib,level,phase,median_ms,mib_per_s,ratio_to_memcpy,ratio_to_exchange");
    }
    for (size, mib) in (0..).zip(sizes) {
        measure(&world, size, mib)?;
    }
    world.finalize();
    Ok(())
}

/// Prints a row for each way to treat a state of this size, which has its own slots.
fn measure(world: &World, size: u32, mib: usize) -> Result<(), Error> {
    let mut state = vec![f64::from(world.rank().number()) + 0.5; mib * MIB / size_of::<f64>()];
    // Of the exchange: what goes out, and what comes in.
    let mut buffers = [state.clone(), state.clone()];
    let mut times = WAYS.map(|_| Vec::new());
    for time in 0..TIMES + 2 {
        for ((_, _, way), times) in WAYS.iter().zip(&mut times) {
            let took = once(world, *way, size, &mut state, &mut buffers)?;
            if time >= 2 {
                times.push(took);
            }
        }
    }
    let medians = times.map(|times| median(&times));
    for ((name, phase, _), took) in WAYS.iter().zip(medians) {
        if world.rank() == Rank::new(0) {
            let [memcpy, exchange] = [medians[0], medians[1]].map(|plain| took / plain);
            let (ms, rate) = (took * 1e3, mib as f64 / took);
            let ranks = world.size();
            println!("{ranks},{mib},{name},{phase},{ms:.3},{rate:.0},{memcpy:.2},{exchange:.2}");
        }
    }
    Ok(())
}

/// Seconds of one way, which all ranks begin together.
fn once(
    world: &World,
    way: Way,
    size: u32,
    state: &mut [f64],
    buffers: &mut [Vec<f64>; 2],
) -> Result<f64, Error> {
    if let Way::Protect(redundancy, percent) = way {
        protect(world, size, redundancy, state)?;
        let mut so_far = 0;
        for (page, numbers) in (1..).zip(state.chunks_mut(PAGE)) {
            if page * percent / 100 > so_far {
                numbers[page % PAGE] += 1.0;
            }
            so_far = page * percent / 100;
        }
    }
    block(world, |_| Ok(()))?;
    let began = Instant::now();
    match way {
        Way::Memcpy => buffers[1].copy_from_slice(state),
        Way::Exchange => {
            let [out, inside] = buffers;
            *buffers = block(world, |block| exchange(block, world, out, inside))?;
        }
        Way::Protect(redundancy, _) => protect(world, size, redundancy, state)?,
    }
    block(world, |_| Ok(()))?;
    Ok(began.elapsed().as_secs_f64())
}

fn protect(world: &World, size: u32, redundancy: Redundancy, state: &[f64]) -> Result<(), Error> {
    let slot = match redundancy {
        Redundancy::Own => 0,
        Redundancy::Partner => 1,
        Redundancy::Group { losses, .. } => 1 + losses,
    };
    block(world, |block| {
        block.set_redundancy(redundancy);
        block.protect(4 * size + slot, state)
    })
}

fn exchange(
    block: &mut TryBlock,
    world: &World,
    out: &mut Vec<f64>,
    inside: &mut Vec<f64>,
) -> Result<[Vec<f64>; 2], Error> {
    let (me, size) = (world.rank().number(), world.size());
    let beside = |by: u32| Rank::new((me + by) % size);
    let (to, from) = (beside(size / 2), beside(size - size / 2));
    let received = block.irecv(std::mem::take(inside), from, Tag(0))?;
    let sent = block.isend(std::mem::take(out), to, Tag(0))?;
    block.wait_local(received, Timeout::Never)?;
    block.wait_local(sent, Timeout::Never)?;
    Ok([block.take(sent)?, block.take(received)?])
}

/// A block that commits, as nobody dies here.
fn block<R>(
    world: &World,
    content: impl FnOnce(&mut TryBlock) -> Result<R, Error>,
) -> Result<R, Error> {
    match world.try_block(BlockOptions::global(Timeout::Never), content)? {
        Tried::Committed(result, _) => Ok(result),
        Tried::Faulty(_, error) => Err(error.unwrap_or(Error::NotCommitted)),
    }
}
