//! From a death to a world that is complete again, phase by phase.
//!
//! `cargo fampi bench recovery --ranks 4,8 --csv FILE` builds and launches this program, several
//! times for each way to go on. One trial: all ranks commit 20 blocks, each of which protects
//! 1 MiB per rank, and start one more; all but one finish it and wait. The last one waits for two
//! milliseconds, so that they do, takes the time (`CLOCK_MONOTONIC`, which all processes of a
//! machine share), writes it to a file, and dies by SIGKILL. From then on each rank takes the time
//! at the end of each phase, and the latest of them counts:
//!
//! | phase | from | to |
//! |---|---|---|
//! | `report` | the death | the faulty verdict, with the same report, on the last survivor |
//! | `ishrink` | there | a communicator of the survivors, on the last of them |
//! | `irebuild` | there | the world, complete again, on the last rank, the replacement included |
//! | `restore` | there | the committed block that brought the state back, on the last rank |
//! | `total` | the death | the last of these |
//! | `step before`, `step after` | | one of 500 blocks: every rank sends 8 bytes in a ring |
//!
//! The step before is one of the world as it was launched. With the third death in a launch the
//! step after is one among three replacements.
//!
//! Then it is another rank's turn, until there were enough deaths for this launch. The world has
//! `shrink` rebuilt from a spare, too, after the measured part, and no step is measured there.
//! Rank 0 never dies and prints a row for each death: the way, and the milliseconds of each phase.
//!
//! What limits it: the kernel gives back the memory of the dead process first, before anybody can
//! know. Parked spares take part in every step: here there are as many as deaths to come in the
//! launch. The time is taken before it is written to the file, so that counts, too.
//!
//! Arguments: the way to go on, number of trials, file for the time of death.

use std::{fs, thread, time::Duration};

use fampi::{
    BlockOptions, Error, Finished, Level, Outcome, Placement, Rank, ReduceOp, Tag, Timeout, Tried,
    World,
};
use rustix::{
    process::{Signal, getpid, kill_process},
    time::{ClockId, clock_gettime},
};

/// Commits between a recovery and the next death.
const CALM: u32 = 20;
/// Blocks of which the time of a step is the mean.
const STEPS: u32 = 500;
/// The protected state of each rank, in numbers of 8 bytes.
const STATE: usize = 1 << 17;
const FOREVER: BlockOptions = BlockOptions::global(Timeout::Never);

/// When this rank was at the end of each phase, in nanoseconds; 0 for those it took no part in.
type Ends = Vec<u64>;

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, trials, file] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        eprintln!("recovery: to be started by `cargo fampi bench recovery`");
        return Ok(());
    };
    let trials: u32 = trials.parse().unwrap_or(1);
    let mut world = fampi::init()?;
    let mut state = vec![0.0; STATE];
    let mut before = 0.0;
    if world.is_replacement() {
        let ends = if way == "shrink" { vec![0, 0] } else { vec![0, now()] };
        state = restore(&world, ends, way, file, before)?;
    } else {
        before = step(&world)?;
    }
    while world.generation() < trials {
        (world, state) = trial(&world, &state, way, file, before)?;
    }
    world.finalize();
    Ok(())
}

/// One death of a rank other than 0, and the world that is complete again.
fn trial(
    world: &World,
    state: &[f64],
    way: &str,
    file: &str,
    before: f64,
) -> Result<(World, Vec<f64>), Error> {
    for _ in 0..CALM {
        let tried = world.try_block(FOREVER, |block| block.protect(0, state))?;
        assert!(matches!(tried, Tried::Committed(..)), "nobody was to die yet");
    }
    let victim = Rank::new(1 + world.generation() % (world.size() - 1));
    if world.rank() == victim {
        thread::sleep(Duration::from_millis(2));
        let _ = fs::write(file, now().to_string());
        let _ = kill_process(getpid(), Signal::KILL);
    }
    let finished = verdict(world)?;
    assert!(!finished.is_committed(), "somebody was to die");
    let mut ends = vec![now()];
    if way == "shrink" {
        let shrunk = world.ishrink()?.wait_local(Timeout::Never)?.into_comm();
        ends.push(now());
        assert_eq!(shrunk.map(|comm| comm.size()), Some(world.size() - 1));
    }
    let world = world.rebuild(Placement::SameRanks)?;
    if way != "shrink" {
        ends.push(now());
    }
    let state = restore(&world, ends, way, file, before)?;
    Ok((world, state))
}

/// Brings the state back; then rank 0 tells how long everything took.
fn restore(
    world: &World,
    mut ends: Ends,
    way: &str,
    file: &str,
    step_before: f64,
) -> Result<Vec<f64>, Error> {
    let Tried::Committed(state, _) = world.try_block(FOREVER, |block| block.restore(0))? else {
        return Err(Error::CreationFailed);
    };
    if way != "shrink" {
        ends.push(now());
    }
    let tried = world.try_block(FOREVER, |block| {
        let latest = block.iallreduce(ends, ReduceOp::Max)?;
        block.wait_local(latest, Timeout::Never)?;
        block.take(latest)
    })?;
    let step_after = if way == "shrink" { 0.0 } else { step(world)? };
    let death = fs::read_to_string(file).ok().and_then(|text| text.parse::<u64>().ok());
    if let (Tried::Committed(latest, _), Some(death)) = (tried, death)
        && world.rank() == Rank::new(0)
    {
        let mut before = death;
        print!("{way}");
        for end in latest {
            print!(",{:.4}", milliseconds(before, end));
            before = end;
        }
        print!(",{:.4}", milliseconds(death, before));
        if way != "shrink" {
            print!(",{step_before:.4},{step_after:.4}");
        }
        println!();
    }
    Ok(state)
}

/// The mean time of a step, in milliseconds.
fn step(world: &World) -> Result<f64, Error> {
    let (me, ranks) = (world.rank().number(), world.size());
    let [left, right] = [me + ranks - 1, me + 1].map(|rank| Rank::new(rank % ranks));
    let begun = now();
    for _ in 0..STEPS {
        let tried = world.try_block(FOREVER, |block| {
            let message = block.irecv(vec![0_u64], left, Tag(1))?;
            block.isend(vec![u64::from(me)], right, Tag(1))?;
            block.wait_local(message, Timeout::Never)
        })?;
        assert!(matches!(tried, Tried::Committed(..)), "nobody was to die in a step");
    }
    Ok(milliseconds(begun, now()) / f64::from(STEPS))
}

/// Start, finish without requests, wait.
fn verdict(world: &World) -> Result<Finished, Error> {
    match world.start(Level::Global)?.finish(Timeout::Never).wait_local(Timeout::Never)? {
        Outcome::Committed(finished) | Outcome::Faulty(finished) => Ok(finished),
        Outcome::TimedOut(_) => unreachable!("it never times out"),
    }
}

/// Nanoseconds of a clock that all processes of the machine share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn milliseconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}
