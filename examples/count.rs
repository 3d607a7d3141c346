//! The example of the README: all ranks count together, whoever dies.
//!
//! Run it: `cargo fampi run -n 4 --kill 2@step:50000 -- count`

use fampi::{Error, Flow, ReduceOp, Timeout, policy};

fn main() -> Result<(), Error> {
    let mut world = fampi::init()?; // a replacement comes out here, too
    let mut count = vec![0_u64]; // protected by copies at the partner, as often as pays
    let ended = world.run(&policy::Rebuild::default(), &mut count, |step, count| {
        let ranks = step.iallreduce(vec![1], ReduceOp::Sum)?;
        step.wait_local(ranks, Timeout::Never)?; // ends when a rank dies
        count[0] += step.take(ranks)?[0];
        Ok(if count[0] < 500_000 { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    println!("rank {}: {}", world.rank(), count[0]);
    world.finalize();
    Ok(())
}
