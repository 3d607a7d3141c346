//! A window: ranks count into each other's memory, which has the counts of whole blocks and no
//! others, also when a rank is killed in the middle of one.
//!
//! Run it: `cargo fampi run -n 4 -- window`

use std::process::Command;

use fampi::{BlockOptions, Error, Flow, Rank, ReduceOp, Timeout, Tried, policy};

/// Of each rank.
const BINS: u64 = 4;
const STEPS: u64 = 6;

fn main() -> Result<(), Error> {
    let mut world = fampi::init()?;
    let mut bins = vec![0_u64; BINS as usize];
    let ended = world.run(&policy::Rebuild::default(), &mut bins, |step, bins| {
        let (me, size) = (step.comm().rank(), step.comm().size());
        let killed = step.world().generation() == 0 && step.number() == 3 && me == Rank::new(2);
        let window = step.comm().window(0, bins.clone())?;
        // A block of its own, so that the step protects what it has made.
        let tried = step.comm().try_block(BlockOptions::global(Timeout::Never), |block| {
            for number in numbers(me, step.number()) {
                let (owner, bin) = place(number, size);
                block.raccumulate(&window, owner, bin, vec![1], ReduceOp::Sum)?;
                if killed && number % 5 == 0 {
                    die(me);
                }
            }
            Ok(())
        })?;
        // Now all ranks have what all have counted, or nobody has any of it.
        let Tried::Committed(..) = tried else { return Err(Error::NotCommitted) };
        *bins = window.into_vec();
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    })?;
    let (me, size) = (world.rank(), ended.done()?.size());
    let undisturbed = undisturbed(me, size);
    println!(
        "rank {me}: {bins:?} (undisturbed {undisturbed:?}), generation {}",
        world.generation()
    );
    world.finalize();
    Ok(())
}

/// What a rank has to count in a step.
fn numbers(rank: Rank, step: u64) -> impl Iterator<Item = u64> {
    (0..50).map(move |k| (step * 1000 + u64::from(rank.number()) * 100 + k).pow(2) / 7)
}

/// Who counts a number, and where.
fn place(number: u64, ranks: u32) -> (Rank, usize) {
    let bin = number % (BINS * u64::from(ranks));
    (Rank::new((bin / BINS) as u32), (bin % BINS) as usize)
}

/// The bins of a rank, by one process alone.
fn undisturbed(me: Rank, ranks: u32) -> Vec<u64> {
    let mut bins = vec![0; BINS as usize];
    for (rank, step) in (0..ranks).flat_map(|rank| (0..STEPS).map(move |step| (rank, step))) {
        for (owner, bin) in numbers(Rank::new(rank), step).map(|number| place(number, ranks)) {
            bins[bin] += u64::from(owner == me);
        }
    }
    bins
}

/// Ends this process by SIGKILL, as the system does when memory runs out: it cleans up nothing and
/// tells nobody.
fn die(me: Rank) -> ! {
    eprintln!("rank {me} kills itself, on purpose: the others go on");
    fampi::trace::mark("killed by plan", &[]);
    let _ = Command::new("sh").args(["-c", "kill -KILL $PPID"]).status();
    unreachable!("this process is dead");
}
