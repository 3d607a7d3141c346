//! Interruption: each rank waits for a large message from the next one, and the last one dies.
//!
//! In plain MPI only its neighbour would ever notice: the others wait for ranks that are alive.
//! Here all waits end, and the communicator is good for what the living ranks do next.
//!
//! Run it: `cargo fampi run -n 4 -- interrupt`

use std::process::Command;

use fampi::{BlockOptions, Codes, Error, Rank, Tag, Timeout, Tried};

const WORDS: usize = 1 << 19; // 4 MiB

fn main() -> Result<(), Error> {
    let world = fampi::init()?;
    let (me, last) = (world.rank(), Rank::new(world.size() - 1));
    let options = BlockOptions::global(Timeout::seconds(20.0));

    let tried = world.try_block(options, |block| {
        if me == last {
            die(me);
        }
        let next = Rank::new(me.number() + 1);
        let message = block.irecv(vec![0_u64; WORDS], next, Tag(1))?;
        block.wait_local(message, Timeout::Never)?;
        let message = block.take(message)?;
        if me != Rank::new(0) {
            block.isend(message, Rank::new(me.number() - 1), Tag(1))?;
        }
        Ok(())
    })?;
    let Tried::Faulty(finished, Some(why)) = tried else { panic!("nobody had a message") };
    let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
    println!("rank {me}: {why}");

    // Nothing of the first block is left over for this one. The dead rank is known by now, and a
    // block that does not need it commits.
    let tried = world.try_block(options, |block| {
        if me == Rank::new(0) {
            block.isend(vec![7_u64; WORDS], Rank::new(1), Tag(1))?;
        } else if me == Rank::new(1) {
            let message = block.irecv(vec![0_u64; WORDS], Rank::new(0), Tag(1))?;
            block.wait_local(message, Timeout::Never)?;
            assert_eq!(block.take(message)?, vec![7; WORDS]);
        }
        Ok(())
    })?;
    let Tried::Committed((), _) = tried else { panic!("all that it needs are alive") };
    println!("rank {me}: rank {dead} died, and we go on");
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
