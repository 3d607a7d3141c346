//! Rebuild: a rank is killed, a new process takes its place, and its state comes back.
//!
//! Run it: `cargo fampi run -n 4 -- rebuild`, or with a parked process that takes the place,
//! which is faster than to start one: `cargo fampi run -n 4 --spares 1 -- rebuild`

use std::process::Command;

use fampi::{BlockOptions, Error, Placement, Rank, ReduceOp, Timeout, Tried, TryBlock, World};

/// Protected states have numbers; this application has one state.
const STATE: u32 = 0;
const STEPS: u64 = 6;
const VICTIM: Rank = Rank::new(1);
const LAST_STEP_OF_THE_VICTIM: u64 = 3;

fn main() -> Result<(), Error> {
    // A replacement comes out of `init`, too, as soon as it holds the rank of the dead process.
    let mut world = fampi::init()?;
    // The number of steps done, and a value.
    let mut state = vec![0, 0];
    let mut outdated = world.is_replacement();
    while outdated || state[0] < STEPS {
        let options = BlockOptions::global(Timeout::seconds(10.0));
        // Bringing the state back is a block like any other: a death in it is one more round.
        let tried = world.try_block(options, |block| {
            // The state of the last commit: this rank's own copy, or the partner's.
            if outdated { block.restore(STATE) } else { step(&world, block, &state) }
        })?;
        match tried {
            Tried::Committed(next, _) => (state, outdated) = (next, false),
            // Branch on what all living ranks have: whom the reports so far have named dead ...
            Tried::Faulty(finished, error) if world.known_failed().is_empty() => match error {
                // ... and what a restore has come to. Somebody died before the first commit.
                Some(Error::NothingProtected) => (state, outdated) = (vec![0, 0], false),
                _ => panic!("nobody died, yet: {finished:?} {error:?}"),
            },
            Tried::Faulty(..) => {
                let dead = world.known_failed();
                if world.rank() == Rank::new(0) {
                    println!("after step {}: lost rank {dead}, rebuilding", state[0]);
                }
                world = world.rebuild(Placement::SameRanks)?;
                outdated = true;
            }
        }
    }
    let name = if world.is_replacement() { "replacement" } else { "survivor" };
    let undisturbed = STEPS * u64::from(world.size()) * u64::from(world.rank().number() + 1);
    println!("rank {}: {name}, value {} (undisturbed {undisturbed})", world.rank(), state[1]);
    world.finalize();
    Ok(())
}

/// Every rank adds its own share, and protects the result in the same block.
fn step(world: &World, block: &mut TryBlock, state: &[u64]) -> Result<Vec<u64>, Error> {
    let ranks = block.iallreduce(vec![1_u64], ReduceOp::Sum)?;
    let first = world.generation() == 0;
    if first && world.rank() == VICTIM && state[0] == LAST_STEP_OF_THE_VICTIM {
        die(VICTIM);
    }
    block.wait_local(ranks, Timeout::Never)?;
    let share = block.take(ranks)?[0] * u64::from(world.rank().number() + 1);
    let next = vec![state[0] + 1, state[1] + share];
    // The partner's copy becomes valid with the commit: with this step, or not at all.
    block.protect(STATE, &next)?;
    Ok(next)
}

/// Ends this process by SIGKILL, as the system does when memory runs out: it cleans up nothing and
/// tells nobody.
fn die(me: Rank) -> ! {
    eprintln!("rank {me} kills itself, on purpose: the others go on");
    fampi::trace::mark("killed by plan", &[]);
    let _ = Command::new("sh").args(["-c", "kill -KILL $PPID"]).status();
    unreachable!("this process is dead");
}
