//! When a run saves its states.

use std::{cell::Cell, time::Duration};

use fampi::{
    Checkpoints, Error, Flow, Interval, State, TryBlock, World, policy,
    sim::{Crash, Disk, Simulation},
};

use super::{RANKS, complete};

const STEPS: u64 = 20;

/// How often states are copied, the steps of this rank, and how often they were copied.
struct Steps(Interval, Vec<u64>, Cell<u32>);

/// What a step is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    OneBlock,
    /// It protects at its beginning.
    Early,
    /// It commits by itself.
    Commits,
}

impl State for Steps {
    fn interval(&self) -> Interval {
        self.0
    }

    fn begin(&mut self, _: &mut TryBlock) -> Result<(), Error> {
        self.1 = vec![0];
        Ok(())
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        self.2.set(self.2.get() + 1);
        block.protect(0, &self.1)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.1 = block.restore(0)?;
        Ok(())
    }
}

/// The steps of this rank in the end, and how many copies it has made.
fn run(mut world: World, disk: &Disk, copies: Interval, kind: Kind) -> Result<(u64, u32), Error> {
    world.set_checkpoints(Checkpoints::on_disk(disk).every(Interval::Every(3)));
    let mut steps = Steps(copies, vec![0], Cell::new(0));
    let rebuild = policy::Rebuild { times: 40, ..policy::Rebuild::default() };
    let ended = world.run(&rebuild, &mut steps, |step, steps| {
        assert_eq!(steps.1, [step.number()]);
        if let Kind::Early = kind {
            step.protect_now(steps)?;
        }
        steps.1[0] += 1;
        if let Kind::Commits = kind {
            step.commit()?;
        }
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    });
    world.finalize();
    ended?.done()?;
    Ok((steps.1[0], steps.2.get()))
}

#[test]
fn each_checkpoint_that_is_wanted_after_so_many_steps_is_saved_however_rare_copies_are() {
    let auto = Interval::Auto { mtbf: Duration::from_secs(3_600) };
    for copies in [Interval::Never, Interval::Every(1_000), Interval::Every(2), auto] {
        for kind in [Kind::OneBlock, Kind::Early, Kind::Commits] {
            let (disk, text) = (Disk::default(), format!("{copies:?}, {kind:?}"));
            let of = disk.clone();
            let job = Simulation::new(RANKS).run_world(move |world| run(world, &of, copies, kind));
            for ended in job.expect_orderly() {
                let (steps, made) = ended.expect("nobody dies");
                assert_eq!(steps, STEPS, "{text}");
                assert!(copies != Interval::Never || made == 6, "{text}: {made} copies");
            }
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
            .run_world(move |world| run(world, &disk, Interval::Every(1_000), Kind::OneBlock))
    };
    for effect in (20..calm(&Disk::default()).processes[1].effects).step_by(3) {
        let disk = Disk::default();
        let of = disk.clone();
        let crash = Crash::before_effect(1, effect);
        let job = Simulation::new(RANKS).spares(1).crash(crash);
        let ended =
            job.run_world(move |world| run(world, &of, Interval::Every(1_000), Kind::OneBlock));
        let ended = ended.expect_orderly();
        assert!(ended.iter().all(|ended| matches!(ended, Ok((STEPS, _)))), "{effect}: {ended:?}");
        assert_eq!(complete(&disk, RANKS).last(), Some(&18), "{effect}: {:?}", disk.names());
    }
}
