//! The example of the README: all ranks count together, whoever dies.
//!
//! Run it: `cargo fampi run -n 4 --kill 2@1.5s -- count`

use fampi::{BlockOptions, Error, Placement, ReduceOp, Timeout, Tried};

fn main() -> Result<(), Error> {
    let mut world = fampi::init()?; // a replacement comes out here, too
    let (mut count, mut outdated) = (vec![0_u64], world.is_replacement());
    while outdated || count[0] < 500_000 {
        let tried = world.try_block(BlockOptions::global(Timeout::Never), |block| {
            if outdated {
                return block.restore(0); // our own copy, or the partner's
            }
            let ranks = block.iallreduce(vec![1], ReduceOp::Sum)?;
            block.wait_local(ranks, Timeout::Never)?; // ends when somebody dies
            let next = vec![count[0] + block.take(ranks)?[0]];
            block.protect(0, &next)?; // a copy for the partner, valid with the commit
            Ok(next)
        })?;
        match tried {
            Tried::Committed(next, _) => (count, outdated) = (next, false),
            Tried::Faulty(_, Some(Error::NothingProtected)) => {
                (count, outdated) = (vec![0], false); // somebody died before the first commit
            }
            Tried::Faulty(_, Some(error @ Error::StateLost { .. })) => return Err(error),
            Tried::Faulty(..) => {
                world = world.rebuild(Placement::SameRanks)?; // on all living ranks, or on none
                outdated = true;
            }
        }
    }
    println!("rank {}: {}", world.rank(), count[0]);
    world.finalize();
    Ok(())
}
