//! Programs that a policy drives.

use fampi::{
    Error, Flow, Placement, Rank, ReduceOp, State, Step, Timeout, TryBlock, World, policy,
};

use fampi_kit::programs::{changed, lattice, planes};

use super::{Ended, command, say};

/// Some other process ends a rank of each generation, at a moment that nobody knows.
pub(super) fn deaths(mut world: World) -> Ended {
    let deaths: u32 = std::env::var("DEATHS").expect("told").parse().expect("a number");
    let (mut threatened, mut count) = (false, vec![0_u64, u64::from(world.origin())]);
    let ended = world.run(&policy::Rebuild::default(), &mut count, |step, count| {
        let (me, ranks) = (step.comm().rank().number(), step.comm().size());
        let generation = step.world().generation();
        if !threatened && generation < deaths && me == generation % ranks {
            threatened = true;
            let delay = (generation.wrapping_mul(7_919) + std::process::id()) % 20_000;
            command(&format!("sleep 0.{delay:06}; kill -KILL PID"));
        }
        assert_eq!(count[1], u64::from(step.world().origin()), "a rank has its own state");
        let sum = step.iallreduce(vec![1_u64], ReduceOp::Sum)?;
        step.wait_local(sum, Timeout::Never)?;
        count[0] += step.take(sum)?[0];
        assert_eq!(count[0], (step.number() + 1) * u64::from(ranks), "each step counts once");
        Ok(if generation < deaths { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    say(world, "all counted")
}

/// Ends the ranks one after the other, one in each generation, at moments that nobody knows. True
/// when that is over.
fn one_by_one() -> impl FnMut(&Step<'_>) -> bool {
    let deaths: u32 = std::env::var("DEATHS").expect("told").parse().expect("a number");
    let mut threatened = false;
    move |step| {
        let (me, ranks) = (step.comm().rank().number(), step.comm().size());
        let generation = step.world().generation();
        if !threatened && generation < deaths && me == generation % ranks {
            threatened = true;
            let delay = (generation.wrapping_mul(7_919) + std::process::id()) % 20_000;
            command(&format!("sleep 0.{delay:06}; kill -KILL PID"));
        }
        generation >= deaths
    }
}

/// Deaths on a torus, whose rows and columns are parts of the world.
pub(super) fn lattice(mut world: World) -> Ended {
    lattice::run(&mut world, Placement::SameRanks, one_by_one())?;
    say(world, "all places are right")
}

/// Deaths where a copy is what has changed in a state of forty pages.
pub(super) fn changed(world: World) -> Ended {
    let mut is_over = one_by_one();
    let world = changed::run(world, (20_000, 1), |step| {
        Ok(if is_over(step) { Flow::Done } else { Flow::Continue })
    })?;
    say(world, "all as it was")
}

/// Deaths in planes whose rows, columns and groups are parts of them.
pub(super) fn planes(mut world: World) -> Ended {
    planes::run(&mut world, Placement::SameRanks, one_by_one())?;
    say(world, "all places are right")
}

/// Items that grow by one in each step, whoever has them.
struct Work(Vec<u64>);

impl State for Work {
    const INHERITED: bool = true;

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect(0, &self.0)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.0 = block.restore(0)?;
        Ok(())
    }

    fn inherit(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.0.extend(block.inherit::<u64>(0)?.into_iter().flat_map(|(_, theirs)| theirs));
        Ok(())
    }
}

/// Two ranks that are not partners die, each at a moment that nobody knows.
pub(super) fn shrinking(mut world: World) -> Ended {
    let me = world.rank();
    let mut work = Work(vec![u64::from(me.number()); 3]);
    let items = 3 * u64::from(world.size());
    let first = 3 * u64::from(world.size() * (world.size() - 1) / 2);
    let mut threatened = false;
    let ended = world.run(&policy::Shrink::default(), &mut work, |step, work| {
        // Not before everybody has a copy somewhere.
        if !threatened && [Rank::new(1), Rank::new(2)].contains(&me) && step.number() > 10 {
            threatened = true;
            let delay = std::process::id() * 7 % 20_000;
            let seconds = me.number() - 1;
            command(&format!("sleep {seconds}.{delay:06}; kill -KILL PID"));
        }
        work.0.iter_mut().for_each(|item| *item += 1);
        let sum = step.iallreduce(vec![work.0.iter().sum::<u64>()], ReduceOp::Sum)?;
        step.wait_local(sum, Timeout::Never)?;
        assert_eq!(step.take(sum)?, [first + items * (step.number() + 1)], "nothing is lost");
        Ok(if step.comm().size() > 3 { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    say(world, "all work")
}
