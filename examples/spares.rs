//! Spares: two ranks die, one after the other. A parked process takes the place of the first
//! within milliseconds; for the second none is left, and a new process is started.
//!
//! Run it: `cargo fampi run -n 4 --spares 1 -- spares`

use std::process::Command;

use fampi::{Error, Flow, Rank, ReduceOp, Timeout, policy};

const STEPS: u64 = 9;

fn main() -> Result<(), Error> {
    // A parked process waits in here, without using a core, until it holds a rank. If nobody
    // needs it, it ends in here.
    let mut world = fampi::init()?;
    let role = match (world.is_replacement(), world.generation()) {
        (false, _) => "from the launch".to_owned(),
        (true, generation) => format!("replacement in generation {generation}"),
    };
    let mut sum = vec![0_u64];
    let ended = world.run(&policy::Rebuild::default(), &mut sum, |step, sum| {
        let (me, generation) = (step.comm().rank(), step.world().generation());
        let turn = (generation, step.number(), me.number());
        if turn == (0, 3, 1) || turn == (1, 6, 2) {
            die(me);
        }
        if me == Rank::new(0) {
            let spares = step.world().spares();
            println!("step {}: generation {generation}, {spares} parked", step.number());
        }
        let share = step.iallreduce(vec![u64::from(me.number())], ReduceOp::Sum)?;
        step.wait_local(share, Timeout::Never)?;
        sum[0] += step.take(share)?[0];
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    println!("rank {}: {role}, sum {}, {} parked", world.rank(), sum[0], world.spares());
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
