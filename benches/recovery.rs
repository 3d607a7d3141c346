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
//! Arguments: the way to go on, number of trials, file for the time of death. With two more, the
//! number of a rank and the network of the machine, it is the whole node of this rank that ends, in
//! one trial, and no step is measured: `cargo fampi bench nodes`, on name spaces. The rank takes
//! the time before it kills all processes of its node, the daemon among them, and itself last, so
//! their connections are closed, as those of a node are that starts anew; one that loses its power
//! is silent, and is given up when its heartbeats are missed for too long.

use std::{fs, thread, time::Duration};

use fampi::{
    BlockOptions, Codes, Error, Finished, Level, Outcome, Placement, Rank, ReduceOp, Tag, Timeout,
    Tried, World,
};
use rustix::{
    process::{Pid, Signal, getpid, kill_process},
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

/// What is measured in a launch.
struct Plan<'a> {
    way: &'a str,
    trials: u32,
    /// For the time of death.
    file: &'a str,
    /// The rank that ends its node, if it is one that is lost, and the network that is none of a
    /// node's, as `/proc/self/ns/net` names it.
    ends_node: Option<(Rank, &'a str)>,
    /// What a step of the world took as it was launched, in milliseconds.
    step_before: f64,
}

impl<'a> Plan<'a> {
    fn of(words: &'a [String]) -> Option<Self> {
        let [way, trials, file, node @ ..] = words else { return None };
        let ends_node = match node {
            [] => None,
            [rank, network] => Some((Rank::new(rank.parse().ok()?), network.as_str())),
            _ => return None,
        };
        Some(Self { way, trials: trials.parse().ok()?, file, ends_node, step_before: 0.0 })
    }

    fn shrinks(&self) -> bool {
        self.way == "shrink"
    }

    fn has_steps(&self) -> bool {
        !self.shrinks() && self.ends_node.is_none()
    }
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(mut plan) = Plan::of(&words) else {
        eprintln!("recovery: to be started by `cargo fampi bench recovery`, or `nodes`");
        return Ok(());
    };
    let mut world = fampi::init()?;
    let mut state = vec![0.0; STATE];
    if world.is_replacement() {
        let ends = if plan.shrinks() { vec![0, 0] } else { vec![0, now()] };
        state = restore(&world, ends, &plan)?;
    } else if plan.has_steps() {
        plan.step_before = step(&world)?;
    }
    while world.generation() < plan.trials {
        (world, state) = trial(&world, &state, &plan)?;
    }
    world.finalize();
    Ok(())
}

/// One death, of a rank other than 0 or of a node, and the world that is complete again.
fn trial(world: &World, state: &[f64], plan: &Plan<'_>) -> Result<(World, Vec<f64>), Error> {
    for _ in 0..CALM {
        let tried = world.try_block(FOREVER, |block| block.protect(0, state))?;
        assert!(matches!(tried, Tried::Committed(..)), "nobody was to die yet");
    }
    let usual = Rank::new(1 + world.generation() % (world.size() - 1));
    let with_it = plan.ends_node;
    if world.rank() == with_it.map_or(usual, |(rank, _)| rank) {
        let with_it = with_it.map(|(_, machine)| others_of_node(machine)).unwrap_or_default();
        thread::sleep(Duration::from_millis(2));
        let _ = fs::write(plan.file, now().to_string());
        for pid in with_it.into_iter().chain([getpid()]) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    let finished = verdict(world)?;
    assert!(!finished.is_committed(), "somebody was to die");
    let mut ends = vec![now()];
    if plan.shrinks() {
        let shrunk = world.ishrink()?.wait_local(Timeout::Never)?.into_comm();
        ends.push(now());
        let dead = finished.failed_group(Codes::PROCESS_FAILURES, world).len() as u32;
        assert_eq!(shrunk.map(|comm| comm.size()), Some(world.size() - dead));
    }
    let world = world.rebuild(Placement::SameRanks)?;
    if !plan.shrinks() {
        ends.push(now());
    }
    let state = restore(&world, ends, plan)?;
    Ok((world, state))
}

/// All other processes of the node of this one, which has to have a network of its own, and not
/// that of the machine.
fn others_of_node(machine: &str) -> Vec<Pid> {
    let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = network("self");
    let is_node = own.as_ref().is_some_and(|own| own.as_os_str() != machine);
    assert!(is_node, "this node is no name space: all of the machine would end");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let of_node = names.filter(|name| network(name) == own);
    let pids = of_node.filter_map(|name| Pid::from_raw(name.parse().ok()?));
    pids.filter(|pid| *pid != getpid()).collect()
}

/// Brings the state back; then rank 0 tells how long everything took.
fn restore(world: &World, mut ends: Ends, plan: &Plan<'_>) -> Result<Vec<f64>, Error> {
    let Tried::Committed(state, _) = world.try_block(FOREVER, |block| block.restore(0))? else {
        return Err(Error::CreationFailed);
    };
    if !plan.shrinks() {
        ends.push(now());
    }
    let tried = world.try_block(FOREVER, |block| {
        let latest = block.iallreduce(ends, ReduceOp::Max)?;
        block.wait_local(latest, Timeout::Never)?;
        block.take(latest)
    })?;
    let step_after = if plan.has_steps() { Some(step(world)?) } else { None };
    let death = fs::read_to_string(plan.file).ok().and_then(|text| text.parse::<u64>().ok());
    if let (Tried::Committed(latest, _), Some(death)) = (tried, death)
        && world.rank() == Rank::new(0)
    {
        let mut before = death;
        print!("{}", plan.way);
        for end in latest {
            print!(",{:.4}", milliseconds(before, end));
            before = end;
        }
        print!(",{:.4}", milliseconds(death, before));
        if let Some(step_after) = step_after {
            print!(",{:.4},{step_after:.4}", plan.step_before);
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
