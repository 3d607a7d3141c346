//! A policy of one's own: the dead are replaced as long as spares are parked, then the others go
//! on without them, but not when half of them or more have died.
//!
//! Run it: `cargo fampi run -n 4 --spares 1 -- own_policy`

use std::process::Command;

use fampi::{
    Ended, Error, Flow, Placement, Rank, ReduceOp, Timeout,
    policy::{Decision, Situation},
};

const STEPS: u64 = 9;

/// All ranks decide alike, because they see the same situation, and nothing else: no clock, no
/// rank number, no memory, which a replacement would lack.
fn frugal(situation: &Situation<'_>) -> Decision {
    let dead = situation.dead.len();
    match dead {
        _ if situation.faulty_in_a_row > 5 => Decision::Stop,
        0 => Decision::Retry,
        _ if !situation.shrunk && dead <= situation.spares => {
            Decision::Rebuild(Placement::SameRanks)
        }
        _ if 2 * dead < situation.ranks as usize => Decision::Shrink,
        _ => Decision::Escalate,
    }
}

fn main() -> Result<(), Error> {
    let mut world = fampi::init()?;
    let mut steps = vec![0_u32];
    let ended = world.run(&frugal, &mut steps, |step, steps| {
        let (generation, me) = (step.world().generation(), step.world().rank().number());
        let turn = (generation, step.number(), me);
        if turn == (0, 3, 1) || turn == (1, 6, 2) {
            die(step.world().rank());
        }
        let all = step.iallreduce(vec![1_u32], ReduceOp::Sum)?;
        step.wait_local(all, Timeout::Never)?;
        steps[0] += 1;
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    })?;
    match ended {
        Ended::Done(comm) => {
            let (me, size, steps) = (world.rank(), comm.size(), steps[0]);
            println!("rank {me}: rank {} of {size}, {steps} steps", comm.rank());
        }
        // The caller has the report, and everything that it needs to go on by hand.
        Ended::Escalated { report, .. } => println!("rank {}: {report}", world.rank()),
    }
    world.finalize();
    Ok(())
}

/// Ends this process by SIGKILL, as the system does when memory runs out: it cleans up nothing and
/// tells nobody.
fn die(me: Rank) -> ! {
    eprintln!("rank {me} kills itself, on purpose: the others go on");
    fampi::trace::mark("killed by plan", &[]);
    let _ = Command::new("sh").args(["-c", "kill -KILL $PPID"]).status();
    unreachable!("this process is dead");
}
