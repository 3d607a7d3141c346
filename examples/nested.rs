//! Nested blocks: one half of the ranks has a fault of its own inside a block of all. At first it
//! mends that alone, and the others never hear of it; then it hands the fault to all.
//!
//! Run it: `cargo fampi run -n 4 -- nested`

use fampi::{
    BlockOptions, Codes, Color, Comm, Error, FaultCode, Rank, ReduceOp, Timeout, Tried, TryBlock,
    World,
};

const OPTIONS: BlockOptions = BlockOptions::global(Timeout::Never);

fn main() -> Result<(), Error> {
    let world = fampi::init()?;
    let color = Color::Of(world.rank().number() % 2);
    let half = world.isplit(color, world.rank().number())?.wait_local(Timeout::Never)?;
    let half = half.into_comm().ok_or(Error::CreationFailed)?;

    let tried = world.try_block(OPTIONS, |outer| with_two_attempts(&world, outer, &half))?;
    let Tried::Committed(sum, _) = tried else { panic!("the half has mended its fault") };
    println!("rank {}: my half's sum is {sum}", world.rank());

    let tried = world.try_block(OPTIONS, |outer| match half_sum(&world, &half, 1)? {
        Tried::Committed(sum, _) => Ok(sum),
        Tried::Faulty(inner, _) => {
            // Nobody here can mend it: it becomes a fault of the outer block.
            outer.escalate(&inner);
            Ok(0)
        }
    })?;
    let Tried::Faulty(finished, _) = tried else { panic!("an inner fault was not handled") };
    let handed = finished.failed_group(Codes::Of(&[FaultCode::InnerBlock]), &world);
    println!("rank {}: the half of ranks {handed} handed its fault on", world.rank());
    world.finalize();
    Ok(())
}

/// The half tries again inside the same outer block, which commits.
fn with_two_attempts(world: &World, outer: &mut TryBlock, half: &Comm) -> Result<u32, Error> {
    if let Tried::Committed(sum, _) = half_sum(world, half, 1)? {
        return Ok(sum);
    }
    match half_sum(world, half, 2)? {
        Tried::Committed(sum, _) => Ok(sum),
        Tried::Faulty(inner, _) => {
            outer.escalate(&inner);
            Ok(0)
        }
    }
}

/// An inner block; rank 1 objects to the first attempt.
fn half_sum(world: &World, half: &Comm, attempt: u32) -> Result<Tried<u32>, Error> {
    half.try_block(OPTIONS, |inner| {
        if attempt == 1 && world.rank() == Rank::new(1) {
            return Err(Error::Raised(7));
        }
        let sum = inner.iallreduce(vec![world.rank().number()], ReduceOp::Sum)?;
        inner.wait_local(sum, Timeout::Never)?;
        Ok(inner.take(sum)?[0])
    })
}
