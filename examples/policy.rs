//! A policy drives the application: after a death the survivors go on, and share all the work,
//! because whoever keeps the copy of the dead rank's state inherits it.
//!
//! Run it: `cargo fampi run -n 4 -- policy`

use std::process::Command;

use fampi::{Error, Flow, Rank, ReduceOp, State, Timeout, TryBlock, policy};

const STEPS: u64 = 6;

/// The work of a rank: here, numbers that all grow by one in each step.
struct Work(Vec<u64>);

impl State for Work {
    /// A rank that dies together with the one that has its copy ends the run.
    const INHERITED: bool = true;

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect(0, &self.0)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.0 = block.restore(0)?;
        Ok(())
    }

    fn inherit(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        if let Some((_, theirs)) = block.inherit::<u64>(0)? {
            self.0.extend(theirs);
        }
        Ok(())
    }
}

fn main() -> Result<(), Error> {
    let mut world = fampi::init()?;
    let me = world.rank();
    let mut work = Work(vec![u64::from(me.number()); 10]);
    let mut total = 0;
    let ended = world.run(&policy::Shrink::default(), &mut work, |step, work| {
        if me == Rank::new(1) && step.number() == 3 {
            die(me);
        }
        // In place: if the step does not count, this does not count either.
        work.0.iter_mut().for_each(|item| *item += 1);
        let sum = step.iallreduce(vec![work.0.iter().sum::<u64>()], ReduceOp::Sum)?;
        step.wait_local(sum, Timeout::Never)?;
        total = step.take(sum)?[0];
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    })?;
    let survivors = ended.done()?;
    let size = u64::from(world.size());
    let undisturbed = 10 * (size * (size - 1) / 2 + size * STEPS);
    println!(
        "rank {me}: {} items, {} ranks, total {total} (undisturbed {undisturbed})",
        work.0.len(),
        survivors.size()
    );
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
