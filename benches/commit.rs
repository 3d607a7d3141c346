//! The cost of a commit, beside MPI's own reductions and agreements, alternating in one run.
//!
//! `cargo fampi bench commit --ranks 2,4,8 --csv FILE` builds and launches this program, once per
//! number of ranks. Rank 0 prints a row per operation: the median over all batches of the time
//! per operation, and its ratio to `MPI_Iallreduce` of one integer followed by `MPI_Test`s. The
//! bare messages of a commit, `exchange`, are the least that it can cost.

use std::time::{Duration, Instant};

use fampi::{Error, Level, Outcome, ReduceOp, Reduced, Timeout, World, mpi::MpiPlatform};
use fampi_kit::median::median;

/// Operations in a batch: enough to make what comes with a change of the operation vanish.
const BATCH: u32 = 1000;
/// Batches of each operation, unless the first argument says otherwise.
const BATCHES: usize = 60;
/// Longer than any wait here.
const SECOND: Timeout = Timeout::After(Duration::from_secs(1));

type Operation<'a> = (&'static str, Box<dyn FnMut() -> Result<(), Error> + 'a>);

fn main() -> Result<(), Error> {
    let asked = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let batches: usize = asked.unwrap_or(BATCHES);
    let mut platform = MpiPlatform::new()?;
    let baseline = std::cell::RefCell::new(platform.baseline()?);
    let world = World::enter(Box::new(platform))?;
    let mut operations: Vec<Operation<'_>> = vec![
        ("iallreduce", Box::new(|| baseline.borrow_mut().iallreduce())),
        ("commit", Box::new(|| commit(&world, Level::Global))),
        ("fused", Box::new(|| fused(&world))),
        ("exchange", Box::new(|| baseline.borrow_mut().exchange())),
        ("allreduce", Box::new(|| baseline.borrow_mut().allreduce())),
        ("agree", Box::new(|| baseline.borrow_mut().agree())),
        ("iagree", Box::new(|| baseline.borrow_mut().iagree())),
        ("local_commit", Box::new(|| commit(&world, Level::Local))),
    ];
    if cfg!(mpich) {
        // It has no agreements of its own.
        operations.retain(|(name, _)| !name.ends_with("agree"));
    }
    // Words name the operations to measure; without any it is all of them.
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| words.iter().any(|word| word == name);
    if operations.iter().any(|(name, _)| wanted(name)) {
        operations.retain(|(name, _)| wanted(name));
    }
    let mut times = vec![Vec::with_capacity(batches); operations.len()];
    for batch in 0..batches + batches / 10 {
        for ((_, operation), times) in operations.iter_mut().zip(&mut times) {
            // All ranks start together.
            baseline.borrow_mut().allreduce()?;
            let began = Instant::now();
            for _ in 0..BATCH {
                operation()?;
            }
            let each = began.elapsed().as_secs_f64() / f64::from(BATCH);
            if batch >= batches / 10 {
                times.push(each * 1e6);
            }
        }
    }
    if world.rank().number() == 0 {
        println!("ranks,operation,median_us,ratio_to_iallreduce");
        let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
        for ((name, _), time) in operations.iter().zip(&medians) {
            println!("{},{name},{time:.4},{:.3}", world.size(), time / medians[0]);
        }
    }
    drop(operations);
    world.finalize();
    Ok(())
}

/// A commit with a number of each rank, beside which `allreduce` sums one.
fn fused(world: &World) -> Result<(), Error> {
    let block = world.start(Level::Global)?;
    let reducing = block.finish_allreduce([1.0_f64], ReduceOp::Sum, Timeout::Never)?;
    match reducing.wait_local(Timeout::Never)? {
        Reduced::Committed(..) => Ok(()),
        Reduced::Faulty(_) | Reduced::TimedOut(_) => Err(Error::CreationFailed),
    }
}

/// Start, finish without requests, wait for a second at a time, as the papers' benchmark does.
fn commit(world: &World, level: Level) -> Result<(), Error> {
    let mut pending = world.start(level)?.finish(Timeout::Never);
    loop {
        match pending.wait_local(SECOND)? {
            Outcome::Committed(_) => return Ok(()),
            Outcome::Faulty(_) => return Err(Error::CreationFailed),
            Outcome::TimedOut(still) => pending = still,
        }
    }
}
