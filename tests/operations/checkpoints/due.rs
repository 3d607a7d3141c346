//! When a run saves its states.

use std::time::Duration;

use fampi::{
    Checkpoints, Error, Flow, Interval, State, TryBlock, World, policy,
    sim::{Crash, Disk, Simulation},
};

use super::{RANKS, complete};

const STEPS: u64 = 20;

/// How often states are copied, and the steps of this rank.
struct Steps(Interval, Vec<u64>);

impl State for Steps {
    fn interval(&self) -> Interval {
        self.0
    }

    fn begin(&mut self, _: &mut TryBlock) -> Result<(), Error> {
        self.1 = vec![0];
        Ok(())
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect(0, &self.1)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.1 = block.restore(0)?;
        Ok(())
    }
}

/// Steps that protect as a run does, or at their beginning.
fn run(mut world: World, disk: &Disk, copies: Interval, early: bool) -> Result<u64, Error> {
    world.set_checkpoints(Checkpoints::on_disk(disk).every(Interval::Every(3)));
    let mut steps = Steps(copies, vec![0]);
    let rebuild = policy::Rebuild { times: 40, ..policy::Rebuild::default() };
    let ended = world.run(&rebuild, &mut steps, |step, steps| {
        assert_eq!(steps.1, [step.number()]);
        if early {
            step.protect_now(steps)?;
        }
        steps.1[0] += 1;
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    });
    world.finalize();
    ended?.done()?;
    Ok(steps.1[0])
}

#[test]
fn each_checkpoint_that_is_wanted_after_so_many_steps_is_saved_however_rare_copies_are() {
    let auto = Interval::Auto { mtbf: Duration::from_secs(3_600) };
    for copies in [Interval::Never, Interval::Every(1_000), Interval::Every(2), auto] {
        for early in [false, true] {
            let (disk, text) = (Disk::default(), format!("{copies:?}, {early}"));
            let of = disk.clone();
            let job = Simulation::new(RANKS).run_world(move |world| run(world, &of, copies, early));
            assert!(job.expect_orderly().iter().all(|ended| *ended == Ok(STEPS)), "{text}");
            // Of each three steps one; of the last one a copy at its beginning only.
            assert_eq!(complete(&disk, RANKS), [18], "{text}: {:?}", disk.names());
        }
    }
}

#[test]
fn a_death_leads_back_to_a_copy_that_was_made_for_a_checkpoint_alone() {
    let calm = |disk: &Disk| {
        let disk = disk.clone();
        Simulation::new(RANKS)
            .run_world(move |world| run(world, &disk, Interval::Every(1_000), false))
    };
    for effect in (20..calm(&Disk::default()).processes[1].effects).step_by(3) {
        let disk = Disk::default();
        let of = disk.clone();
        let crash = Crash::before_effect(1, effect);
        let job = Simulation::new(RANKS).spares(1).crash(crash);
        let ended = job.run_world(move |world| run(world, &of, Interval::Every(1_000), false));
        let ended = ended.expect_orderly();
        assert!(ended.iter().all(|ended| *ended == Ok(STEPS)), "{effect}: {ended:?}");
        assert_eq!(complete(&disk, RANKS).last(), Some(&18), "{effect}: {:?}", disk.names());
    }
}
