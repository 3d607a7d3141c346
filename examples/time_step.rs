//! A time step that all ranks agree on with the commit: the fused reduction costs no message, and
//! there is a step if and only if the block before it counts.
//!
//! Run it: `cargo fampi run -n 4 -- time_step`

use std::process::Command;

use fampi::{Comm, Error, Level, Rank, ReduceOp, Reduced, Tag, Timeout};

const STEPS: u32 = 6;

fn main() -> Result<(), Error> {
    let world = fampi::init()?;
    let me = world.rank();
    let mut comm = Comm::clone(&world);
    let (mut time, mut step, mut steps) = (0.0, 0.0625, 0);
    // Sound crosses the cells of higher ranks faster, so that these need shorter steps.
    let stable = 1.0 / f64::from(2 << me.number());
    while steps < STEPS {
        if steps == 3 && me == Rank::new(3) {
            die(me); // Sound was fastest here.
        }
        match advance(&comm, time, stable)? {
            Reduced::Committed([next, slowest], _) => {
                time += step;
                (step, steps) = (next, steps + 1);
                if comm.rank() == Rank::new(0) {
                    println!("step {steps}: time {time}, next {step}, slowest {}", -slowest);
                }
            }
            // Nothing has changed, on no rank: without the dead, the same again.
            Reduced::Faulty(_) => comm = comm.shrink()?,
            Reduced::TimedOut(_) => unreachable!("this wait has no limit"),
        }
    }
    println!("rank {me}: time {time}");
    world.finalize();
    Ok(())
}

/// Tells the right neighbour the time, and ends the block with the shortest stable step and, as
/// the least of the negated, the longest.
fn advance(comm: &Comm, time: f64, stable: f64) -> Result<Reduced<f64, 2>, Error> {
    let (me, size) = (comm.rank().number(), comm.size());
    let mut block = comm.start(Level::Global)?;
    block.isend(vec![time], Rank::new((me + 1) % size), Tag(0))?;
    block.irecv(vec![0.0], Rank::new((me + size - 1) % size), Tag(0))?;
    let reducing =
        block.finish_allreduce([stable, -stable], ReduceOp::Min, Timeout::seconds(10.0))?;
    reducing.wait_local(Timeout::Never)
}

/// Ends this process by SIGKILL, as the system does when memory runs out: it cleans up nothing and
/// tells nobody.
fn die(me: Rank) -> ! {
    eprintln!("rank {me} kills itself, on purpose: the others go on");
    fampi::trace::mark("killed by plan", &[]);
    let _ = Command::new("sh").args(["-c", "kill -KILL $PPID"]).status();
    unreachable!("this process is dead");
}
