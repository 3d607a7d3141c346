//! A first block: numbers go around a ring and are added up, and all of it counts or nothing.
//!
//! Run it: `cargo fampi run -n 4 -- hello_block`

use fampi::{Error, Level, Outcome, Rank, ReduceOp, Tag, Timeout};

const GREETING: Tag = Tag(1);

fn main() -> Result<(), Error> {
    let world = fampi::init()?;
    let (me, size) = (world.rank().number(), world.size());
    let left = Rank::new((me + size - 1) % size);
    let right = Rank::new((me + 1) % size);

    // A block starts without a message. Its requests own their buffers, so that no code can touch
    // what MPI may still write to.
    let mut block = world.start(Level::Global)?;
    let greeting = block.irecv(vec![0_u32], left, GREETING)?;
    block.isend(vec![me], right, GREETING)?;
    let sum = block.iallreduce(vec![me], ReduceOp::Sum)?;

    // Work that needs none of this goes here, while the messages travel.

    // `finish` returns at once. Requests that take longer than its timeout would be faults.
    let mut pending = block.finish(Timeout::seconds(5.0));
    loop {
        match pending.wait_local(Timeout::seconds(1.0))? {
            Outcome::Committed(finished) => {
                let (from, sum) = (finished.take(greeting)?[0], finished.take(sum)?[0]);
                println!("rank {me} of {size}: greeted by rank {from}, the sum is {sum}");
                break;
            }
            // Every living rank gets the same report, so all of them come here, or none.
            Outcome::Faulty(finished) => {
                println!("rank {me} of {size}: no agreement, {}", finished.report());
                break;
            }
            // This wait was too short, which says nothing about the verdict: ask again.
            Outcome::TimedOut(again) => pending = again,
        }
    }

    // Without this the process would count as a failed one.
    world.finalize();
    Ok(())
}
