//! Causes: ranks die in different ways, and all others report how, each of them the same.
//!
//! Run it: `cargo fampi run -n 4 -- causes`. With a number, ranks wait until so many of them were
//! ended from outside.

use std::process::{self, Command};

use fampi::{BlockOptions, Error, FaultCode, Rank, ReduceOp, Timeout, Tried};

fn main() -> Result<(), Error> {
    let world = fampi::init()?;
    let (me, outside) = (world.rank().number(), std::env::args().nth(1));
    let expected = outside.as_ref().map_or(2, |number| number.parse().expect("a number"));
    let mut is_first = true;
    loop {
        let tried = world.try_block(BlockOptions::global(Timeout::seconds(20.0)), |block| {
            match me {
                1 if outside.is_none() => leave(world.rank(), 3),
                2 if outside.is_none() => die(world.rank()),
                _ => {}
            }
            let living = block.iallreduce(vec![1_u32], ReduceOp::Sum)?;
            block.wait_local(living, Timeout::Never)
        })?;
        if me == 0 && is_first {
            println!("all are here");
        }
        is_first = false;
        let Tried::Faulty(finished, _) = tried else { continue };
        let report = finished.report();
        if report.known_failed().len() < expected {
            continue;
        }
        for dead in report.known_failed().iter() {
            let cause = report.cause(dead);
            let what = if cause.code() == FaultCode::NodeFailed { "hard" } else { "soft" };
            println!("rank {me}: rank {dead} died ({what}): {cause}");
        }
        break;
    }
    world.finalize();
    Ok(())
}

/// An exit before `finalize`.
fn leave(me: Rank, status: i32) -> ! {
    eprintln!("rank {me} kills itself, on purpose: it exits with status {status}");
    process::exit(status)
}

/// Ends this process by SIGKILL, as the system does when memory runs out: it cleans up nothing and
/// tells nobody.
fn die(me: Rank) -> ! {
    eprintln!("rank {me} kills itself, on purpose: the others go on");
    let _ = Command::new("sh").args(["-c", "kill -KILL $PPID"]).status();
    unreachable!("this process is dead");
}
