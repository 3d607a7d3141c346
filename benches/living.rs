//! What collectives over the living cost, beside MPI's own on a shrunken communicator.
//!
//! `cargo fampi bench living --ranks 2,4,8 --csv FILE` builds and launches this program with one
//! rank more, which dies at once. Of those that are left, rank 0 prints a row for each kind and
//! length: the time of an operation of a block on the world, which runs through, and of one on the
//! communicator that a shrink has made, where it is MPI's. Both are waited for inside of the block,
//! one after the other, so that the commit of the block is a small part; they alternate in one
//! launch. The numbers are medians over all batches.
//!
//! A length is the bytes of a part: of what each rank gives, or gets.

use std::time::{Duration, Instant};

use fampi::{Comm, Error, Level, Outcome, Rank, ReduceOp, Request, Timeout, TryBlock};
use fampi_kit::median::median;
use rustix::process::{Signal, getpid, kill_process};

/// Operations in a block.
const EACH: u32 = 50;
/// Blocks of each way, unless the first argument says otherwise.
const BATCHES: usize = 60;
/// Bytes of a part.
const LENGTHS: [usize; 3] = [8, 1024, 65_536];

const KINDS: [&str; 9] = [
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "gather",
    "scatter",
    "allgather",
    "alltoall",
    "scan",
];

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let batches = words.iter().find_map(|word| word.parse().ok()).unwrap_or(BATCHES);
    let wanted = |kind: &str| {
        !words.iter().any(|word| KINDS.contains(&&**word)) || words.iter().any(|word| word == kind)
    };
    let world = fampi::init()?;
    if world.rank().number() == world.size() - 1 {
        std::thread::sleep(Duration::from_millis(20));
        let _ = kill_process(getpid(), Signal::KILL);
    }
    while commit(&world)? {}
    let shrunk = world.ishrink()?.wait_local(Timeout::Never)?.into_comm();
    let shrunk = shrunk.expect("it was asked for");
    world.set_run_through(true);
    if world.rank().number() == 0 {
        println!("ranks,kind,bytes,shrunk_us,living_us,ratio");
    }
    for kind in KINDS.into_iter().filter(|kind| wanted(kind)) {
        for bytes in LENGTHS.into_iter().take(if kind == "barrier" { 1 } else { LENGTHS.len() }) {
            let mut times = [Vec::new(), Vec::new()];
            for batch in 0..batches + batches / 5 {
                for (comm, times) in [&shrunk, &*world].into_iter().zip(&mut times) {
                    let time = block(comm, kind, bytes)?;
                    if batch >= batches / 5 {
                        times.push(time);
                    }
                }
            }
            let [shrunk, living] = times.map(|times| median(&times));
            if world.rank().number() == 0 {
                let (ranks, ratio) = (world.size() - 1, living / shrunk);
                println!("{ranks},{kind},{bytes},{shrunk:.3},{living:.3},{ratio:.3}");
            }
        }
    }
    drop(shrunk);
    world.finalize();
    Ok(())
}

/// The verdict on an empty block.
fn commit(comm: &Comm) -> Result<bool, Error> {
    let ended = comm.start(Level::Global)?.finish(Timeout::Never).wait_local(Timeout::Never)?;
    Ok(matches!(ended, Outcome::Committed(_)))
}

/// The microseconds of one operation of a block of many.
fn block(comm: &Comm, kind: &str, bytes: usize) -> Result<f64, Error> {
    let size = comm.size() as usize;
    let parts =
        if matches!(kind, "gather" | "scatter" | "allgather" | "alltoall") { size } else { 1 };
    let root = Rank::new(0);
    let whole = !matches!(kind, "gather" | "scatter") || comm.rank() == root;
    let mut buffer = vec![1_u64; bytes / 8 * if whole { parts } else { 1 }];
    // All ranks start together.
    commit(comm)?;
    let began = Instant::now();
    let mut block = comm.start(Level::Global)?;
    for _ in 0..EACH {
        buffer = operation(&mut block, kind, buffer, root)?;
    }
    match block.finish(Timeout::Never).wait_local(Timeout::Never)? {
        Outcome::Committed(_) => Ok(began.elapsed().as_secs_f64() / f64::from(EACH) * 1e6),
        Outcome::Faulty(_) | Outcome::TimedOut(_) => Err(Error::CreationFailed),
    }
}

/// Does one operation, and gives the buffer back.
fn operation(
    block: &mut TryBlock,
    kind: &str,
    buffer: Vec<u64>,
    root: Rank,
) -> Result<Vec<u64>, Error> {
    let max = ReduceOp::Max;
    let request: Request<u64> = match kind {
        "barrier" => {
            let request = block.ibarrier();
            block.wait_local(request, Timeout::Never)?;
            return Ok(buffer);
        }
        "bcast" => block.ibcast(buffer, root)?,
        "reduce" => block.ireduce(buffer, max, root)?,
        "allreduce" => block.iallreduce(buffer, max)?,
        "gather" => block.igather(buffer, root)?,
        "scatter" => block.iscatter(buffer, root)?,
        "allgather" => block.iallgather(buffer)?,
        "alltoall" => block.ialltoall(buffer)?,
        _ => block.iscan(buffer, max)?,
    };
    block.wait_local(request, Timeout::Never)?;
    block.take(request)
}
