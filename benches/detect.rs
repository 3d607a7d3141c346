//! From a death to its agreed report, on the last survivor to learn of it.
//!
//! `cargo fampi bench detect --ranks 8 --trials 200 --csv FILE` builds and launches this program,
//! several times for each way to die, with the node watcher and without. One trial: all ranks
//! commit a few blocks and start one more; all but one finish it and wait, the last one waits for
//! two milliseconds, writes the time (`CLOCK_MONOTONIC`) to a file, and dies. Each survivor takes
//! the time when it has the verdict; the trial's result is the latest of them minus the time of
//! death. Then the world is rebuilt by a spawn, and another rank dies, until there were enough
//! deaths for this launch. Rank 0 prints a row for each: the way, milliseconds.
//!
//! What limits it: the kernel gives back the memory of the dead process, 1.3 ms for one that uses
//! MPI, and does not let go of its processor meanwhile. On a crowded node the ranks that share it
//! come to know last: with 8 ranks on two processors half of them within 0.3 ms, the others after
//! 1.4 to 4 ms; the agreement is there 0.1 to 0.5 ms after the last of them.
//! `panic` is without a backtrace, which takes 70 ms. The first death of a launch takes the MPI
//! 40 ms.
//!
//! Arguments: the way to die, number of trials, file for the time of death.

use std::{fs, thread, time::Duration};

use fampi::{
    BlockOptions, Codes, Error, Finished, Level, Outcome, Placement, Rank, ReduceOp, Timeout,
    Tried, World,
};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::{consts::SIGSEGV, low_level};

const SIGKILL: i32 = 9;
/// Commits between a rebuild and the next death.
const CALM: u32 = 50;
/// What takes longer is never reported.
const LIMIT: Timeout = Timeout::After(Duration::from_secs(3));

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, trials, file] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        eprintln!("detect: to be started by `cargo fampi bench detect`");
        return Ok(());
    };
    let trials: u32 = trials.parse().unwrap_or(1);
    let mut world = fampi::init()?;
    if world.size() < 3 {
        eprintln!("detect: start 3 ranks or more");
        world.finalize();
        return Ok(());
    }
    if world.is_replacement() {
        latest(&world, 0)?;
    }
    while world.generation() < trials {
        world = trial(&world, way, file)?;
    }
    world.finalize();
    Ok(())
}

/// One death of a rank other than 0, and the world that is complete again.
fn trial(world: &World, way: &str, file: &str) -> Result<World, Error> {
    for _ in 0..CALM {
        if block(world)?.is_none_or(|finished| !finished.is_committed()) {
            return world.rebuild(Placement::SameRanks);
        }
    }
    let victim = Rank::new(1 + world.generation() % (world.size() - 1));
    if world.rank() == victim {
        thread::sleep(Duration::from_millis(2));
        let _ = fs::write(file, now().to_string());
        die(way);
    }
    let Some(finished) = block(world)? else {
        if world.rank() == Rank::new(0) {
            println!("{way},inf");
        }
        std::process::exit(0);
    };
    let mine = now();
    let dead = finished.failed_group(Codes::PROCESS_FAILURES, world);
    let world = world.rebuild(Placement::SameRanks)?;
    let latest = latest(&world, mine)?;
    let death = fs::read_to_string(file).ok().and_then(|text| text.parse::<u64>().ok());
    if let (Some(latest), Some(death)) = (latest, death)
        && world.rank() == Rank::new(0)
        && dead.iter().eq([victim])
    {
        println!("{way},{:.4}", latest.saturating_sub(death) as f64 / 1e6);
    }
    Ok(world)
}

/// The greatest of the times that the ranks bring; a replacement brings none.
fn latest(world: &World, mine: u64) -> Result<Option<u64>, Error> {
    let tried = world.try_block(BlockOptions::global(Timeout::Never), |block| {
        let latest = block.iallreduce(vec![mine], ReduceOp::Max)?;
        block.wait_local(latest, Timeout::Never)?;
        block.take(latest)
    })?;
    Ok(match tried {
        Tried::Committed(latest, _) => latest.first().copied(),
        Tried::Faulty(..) => None,
    })
}

/// Start, finish without requests, wait; `None` when there is no verdict within the limit.
fn block(world: &World) -> Result<Option<Finished>, Error> {
    Ok(match world.start(Level::Global)?.finish(Timeout::Never).wait_local(LIMIT)? {
        Outcome::Committed(finished) | Outcome::Faulty(finished) => Some(finished),
        Outcome::TimedOut(_) => None,
    })
}

/// Nanoseconds of a clock that all processes of the machine share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn die(way: &str) -> ! {
    let signal = match way {
        "exit(1)" => std::process::exit(1),
        "_exit(1)" => low_level::exit(1),
        "panic" => panic!("this rank was to die"),
        "SIGSEGV" => SIGSEGV,
        _ => SIGKILL,
    };
    let _ = low_level::raise(signal);
    unreachable!("this process is dead");
}
