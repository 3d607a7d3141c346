//! Shrink: a rank is killed inside a block, the survivors close ranks and go on without it.
//!
//! Run it: `cargo fampi run -n 4 -- shrink`

use std::process::Command;

use fampi::{BlockOptions, Codes, Error, Rank, ReduceOp, Timeout, Tried};

const STEPS: u32 = 6;
const VICTIM: Rank = Rank::new(1);
const LAST_STEP_OF_THE_VICTIM: u32 = 3;

fn main() -> Result<(), Error> {
    let world = fampi::init()?;
    // The communicator that the survivors share; a shrink replaces it, the world stays.
    let mut comm = world.comm();
    let mut step = 1;
    while step <= STEPS {
        let options = BlockOptions::global(Timeout::seconds(5.0));
        let tried = comm.try_block(options, |block| {
            let present = block.iallreduce(vec![1_u32], ReduceOp::Sum)?;
            if world.rank() == VICTIM && step == LAST_STEP_OF_THE_VICTIM {
                die(VICTIM);
            }
            block.wait_local(present, Timeout::Never)?;
            Ok(block.take(present)?[0])
        })?;
        let speaker = comm.rank() == Rank::new(0);
        match tried {
            Tried::Committed(present, _) => {
                if speaker {
                    println!("step {step}: {present} ranks");
                }
                step += 1;
            }
            // The step did not count on any rank, so each of them does it again.
            Tried::Faulty(finished, _) => {
                if speaker {
                    let dead = finished.failed_group(Codes::PROCESS_FAILURES, &comm);
                    println!("step {step}: lost rank {dead}, {} ranks shrink", comm.size());
                }
                comm = comm.shrink()?;
            }
        }
    }
    println!("rank {} of {} was rank {}", comm.rank(), comm.size(), world.rank());
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
