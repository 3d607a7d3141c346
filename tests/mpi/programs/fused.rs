//! Reductions that ride on commits, while ranks die.

use fampi::{
    Fusible, Level, Placement, ReduceOp, Reduced, Timeout, World,
    protocol::fused::{Values, combined},
};

use super::{Ended, command, say};

/// Sums whose bits depend on the order, of numbers that depend on rank, generation and round.
fn brought<const N: usize>(rank: u32, generation: u32, round: u32) -> [f64; N] {
    std::array::from_fn(|at| {
        let scale = [1e16, 1.0, -1e16, 3.5, 1e-3][(rank + round) as usize % 5];
        scale / f64::from(rank + at as u32 + 1) + f64::from(generation * 1000 + round)
    })
}

/// What all ranks of a world that is complete must get.
fn expected<T: Fusible, const N: usize>(all: impl Iterator<Item = [T; N]>) -> Option<Vec<u64>> {
    let values = all.map(|numbers| Values::new(ReduceOp::Sum, &numbers).expect("sums"));
    combined(values.collect::<Vec<_>>()).map(|sum| sum.words().to_vec())
}

/// One block; true when it committed, with the right bits.
fn sums<const N: usize>(world: &World, round: u32) -> Result<bool, fampi::Error> {
    let brings = |rank| brought::<N>(rank, world.generation(), round);
    let block = world.start(Level::Global)?;
    let mine = brings(world.rank().number());
    let reducing = block.finish_allreduce(mine, ReduceOp::Sum, Timeout::Never)?;
    match reducing.wait_local(Timeout::Never)? {
        Reduced::Committed(sums, _) => {
            let bits: Vec<u64> = sums.iter().map(|sum| sum.to_bits()).collect();
            let expected = expected((0..world.size()).map(brings));
            if Some(&bits) != expected.as_ref() {
                // A panic would be a death, from which the others recover.
                println!("rank {}: {bits:x?} and not {expected:x?}", world.rank());
            }
            Ok(true)
        }
        Reduced::Faulty(_) => Ok(false),
        Reduced::TimedOut(_) => unreachable!("it never times out"),
    }
}

/// Rounds with one to eight numbers, and without, while ranks die at random moments.
pub(super) fn deaths(mut world: World) -> Ended {
    let deaths: u32 = std::env::var("DEATHS").expect("told").parse().expect("a number");
    let (mut round, mut threatened) = (0, false);
    while world.generation() < deaths || round < 500 {
        let generation = world.generation();
        let victim = generation % world.size();
        if generation < deaths && !threatened && world.rank().number() == victim {
            threatened = true;
            let delay = (generation.wrapping_mul(7_919) + std::process::id()) % 20_000;
            command(&format!("sleep 0.{delay:06}; kill -KILL PID"));
        }
        let committed = match round % 5 {
            0 => sums::<1>(&world, round)?,
            1 => sums::<2>(&world, round)?,
            2 => sums::<3>(&world, round)?,
            3 => sums::<8>(&world, round)?,
            _ => super::wait(world.start(Level::Global)?.finish(Timeout::Never))?.is_committed(),
        };
        round += 1;
        if !committed {
            world = world.rebuild(Placement::SameRanks)?;
            round = 0;
        }
    }
    say(world, "all sums are right")
}
