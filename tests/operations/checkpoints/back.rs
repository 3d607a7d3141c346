//! Jobs that lose a state with all copies in memory, and go back to a checkpoint without ending.

use std::time::Duration;

use fampi::{
    Error, Files, Flow, Interval, Placement, Policy, Redundancy, Saved, State, TryBlock, World,
    policy,
    sim::{Crash, Disk, Report, Simulation},
};

use super::{
    Begun, KINDS, LONG, RANKS, Shares, checkpoints, complete, job, left_by, numbers, share,
    start_shared,
};

/// The partner of rank 1 of four.
const PARTNER: u32 = 3;

#[test]
fn a_state_that_is_lost_with_its_partner_comes_from_the_newest_checkpoint_in_the_same_job() {
    for files in KINDS {
        let (mut from_files, mut lost) = (0, 0);
        for microseconds in (0..1_500).step_by(5) {
            let disk = Disk::default();
            let moment = Duration::from_micros(microseconds);
            let crashes = [1, PARTNER].map(|rank| Crash::at_time(rank, moment));
            let job = job(RANKS).spares(2).seed(microseconds).crashes(crashes);
            let began: Vec<_> = start_shared(&disk, job, files, false).expect_orderly();
            let saved = complete(&disk, RANKS);
            let is_lost = |it: &Begun| matches!(it, Err(Error::StateLost { partner: Some(_), .. }));
            let text = format!("{files:?}, {microseconds} µs: {began:?} {saved:?}");
            if began.iter().all(Result::is_ok) {
                // Those who take the places of the dead begin with what was saved.
                let later = |it: &Begun| it.as_ref().is_ok_and(|at| *at > 0);
                from_files += u32::from(began.iter().any(later));
            } else {
                assert!(began.iter().all(is_lost) && saved.is_empty(), "{text}");
                lost += 1;
            }
        }
        assert!(from_files > 50 && lost > 5, "{from_files} {lost}");
    }
}

#[test]
fn whoever_dies_too_while_all_take_their_states_from_a_checkpoint_changes_nothing() {
    let moment = Duration::from_micros(900);
    let crashes = || [1, PARTNER].map(|rank| Crash::at_time(rank, moment));
    let job = |seed| job(RANKS).spares(4).seed(seed).crashes(crashes());
    let files = Files::OfEachNode;
    let calm = start_shared(&Disk::default(), job(0), files, false);
    let mut others = 0;
    for process in [0, 2, 4] {
        let last = calm.processes[process as usize].effects;
        for effect in 1..last {
            let disk = Disk::default();
            let job = job(effect).crash(Crash::before_effect(process, effect));
            let began: Vec<_> = start_shared(&disk, job, files, false).expect_orderly();
            let text = format!("{process} before {effect}: {began:?} {:?}", disk.names());
            let fine = began.iter().all(Result::is_ok);
            let lost = began.iter().all(|it| matches!(it, Err(Error::StateLost { .. })));
            assert!(fine || (lost && complete(&disk, RANKS).is_empty()), "{text}");
            others += u32::from(fine);
        }
    }
    assert!(others > 300, "{others}");
}

#[test]
fn who_goes_back_to_an_older_checkpoint_saves_newer_ones_than_it_has_left() {
    let moment = Duration::from_micros(1_300);
    let crashes = || [1, PARTNER].map(|rank| Crash::at_time(rank, moment));
    for files in KINDS {
        let disk = Disk::default();
        let job = job(RANKS).spares(2).crashes(crashes());
        let began: Vec<_> = start_shared(&disk, job, files, false).expect_orderly();
        assert!(began.iter().all(Result::is_ok) && began.iter().any(|it| *it != Ok(0)));
        let (names, sets) = (disk.names(), complete(&disk, RANKS));
        assert!(names.iter().all(|name| name.starts_with("fampi-000002-")), "{names:?}");
        assert_eq!(sets.len(), 1, "{names:?}");
    }
}

#[test]
fn where_some_rank_has_no_checkpoints_all_end_with_one_error() {
    let disk = Disk::default();
    let program = move |mut world: World| {
        if !world.is_replacement() {
            world.set_checkpoints(checkpoints(&disk, Files::OfEachRank, false));
        }
        let me = world.origin();
        let mut shares = Shares(vec![u64::from(me); 8]);
        let ended = world.run(&policy::Rebuild::default(), &mut shares, |step, _| {
            if [1, PARTNER].contains(&me) && step.number() == 12 {
                fampi::sim::crash();
            }
            Ok(if step.number() < 20 { Flow::Continue } else { Flow::Done })
        });
        world.finalize();
        ended.and_then(fampi::Ended::done).map(drop)
    };
    let ended: Vec<_> = Simulation::new(RANKS).spares(2).run_world(program).expect_orderly();
    assert!(ended.iter().all(|it| matches!(it, Err(Error::StateLost { .. }))), "{ended:?}");
}

#[test]
fn a_run_after_one_without_checkpoints_does_not_save_over_those_of_another_job() {
    let disk = left_by(RANKS, Files::OfEachRank);
    let (there, saved) = (disk.names(), disk.clone());
    let program = move |mut world: World| {
        let mut ended = Ok(());
        for run in 0..2 {
            // All but one rank have checkpoints, and then all.
            if run == 1 || world.origin() != 1 {
                world.set_checkpoints(checkpoints(&saved, Files::OfEachRank, false));
            }
            let mut shares = Shares(vec![0; 8]);
            let run = world.run(&policy::Rebuild::default(), &mut shares, |step, _| {
                Ok(if step.number() < 20 { Flow::Continue } else { Flow::Done })
            });
            ended = run.and_then(fampi::Ended::done).map(drop);
        }
        world.finalize();
        ended
    };
    let ended: Vec<_> = Simulation::new(RANKS).run_world(program).expect_orderly();
    assert!(ended.iter().all(|it| matches!(it, Err(Error::CheckpointsExist { .. }))), "{ended:?}");
    assert_eq!(disk.names(), there);
}

#[test]
fn a_run_after_one_that_has_ended_with_an_error_saves_all_the_same() {
    let disk = Disk::default();
    let to = disk.clone();
    let program = move |mut world: World| {
        world.set_checkpoints(checkpoints(&to, Files::OfEachRank, false));
        let (ends, mut shares) = (world.origin() == 1, Shares(vec![0; 8]));
        let failed = world.run(&policy::Rebuild::default(), &mut shares, |_, _| {
            // Not all agree that it is the last step.
            Ok(if ends { Flow::Done } else { Flow::Continue })
        });
        assert!(matches!(failed, Err(Error::NotAllDone { .. })), "{failed:?}");
        let run = world.run(&policy::Rebuild::default(), &mut shares, |step, _| {
            Ok(if step.number() < 20 { Flow::Continue } else { Flow::Done })
        });
        let ended = run.and_then(fampi::Ended::done).map(drop);
        world.finalize();
        ended
    };
    let ended: Vec<_> = Simulation::new(RANKS).run_world(program).expect_orderly();
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert!(!disk.names().is_empty());
}

/// How a run of this program ends, and how many steps this process has tried.
type Tried = (Result<(), Error>, u64);

/// Ranks 1 and 3, which stay each other's partners as all are on one node, die together in steps
/// for which `dies` is true, with the run and the step.
fn twice(disk: &Disk, times: u32, dies: fn(u32, u64) -> bool) -> Report<Tried> {
    let disk = disk.clone();
    Simulation::new(RANKS).spares(30).run_world(move |mut world| {
        world.set_checkpoints(checkpoints(&disk, Files::OfEachRank, false));
        let rebuild = policy::Rebuild { times, ..policy::Rebuild::default() };
        let (me, mut tried) = (world.origin(), 0);
        for run in 0..2 {
            let mut shares = Shares(vec![u64::from(me); 8]);
            let ended = world.run(&rebuild, &mut shares, |step, shares| {
                tried += 1;
                // Numbers of the run before would be greater.
                assert_eq!(shares.0, [u64::from(me) + step.number(); 8], "run {run}");
                if [1, PARTNER].contains(&me) && dies(run, step.number()) {
                    fampi::sim::crash();
                }
                shares.0.iter_mut().for_each(|number| *number += 1);
                Ok(if step.number() < 20 - u64::from(run) { Flow::Continue } else { Flow::Done })
            });
            if let Err(error) = ended.and_then(fampi::Ended::done) {
                world.finalize();
                return (Err(error), tried);
            }
        }
        world.finalize();
        (Ok(()), tried)
    })
}

#[test]
fn a_run_does_not_go_back_to_a_checkpoint_of_the_run_before() {
    let disk = Disk::default();
    let ended: Vec<_> = twice(&disk, 40, |run, step| run == 1 && step == 1).expect_orderly();
    let lost = |it: &Tried| matches!(it.0, Err(Error::StateLost { .. }));
    assert!(ended.iter().all(lost), "{ended:?}");
    assert!(disk.names().iter().all(|name| name.starts_with("fampi-000001-")));
    assert!(!complete(&disk, RANKS).is_empty(), "the run before has saved");
}

#[test]
fn who_dies_again_and_again_in_one_step_ends_the_run_though_there_is_a_checkpoint() {
    let ended = twice(&Disk::default(), 3, |run, step| run == 0 && step == 14).expect_orderly();
    let stopped = |it: &Tried| matches!(it.0, Err(Error::Stopped { .. }));
    assert!(ended.iter().all(stopped), "{ended:?}");
    assert!(ended.iter().all(|(_, tried)| *tried < 100), "{ended:?}");
}

#[test]
fn a_policy_of_one_attempt_goes_back_to_a_checkpoint_too() {
    let disk = Disk::default();
    let died = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counts = died.clone();
    let to = disk.clone();
    let report = job(RANKS).spares(2).run_world(move |mut world| {
        world.set_checkpoints(checkpoints(&to, Files::OfTheJob, false));
        let once = policy::Rebuild { times: 1, ..policy::Rebuild::default() };
        let (me, mut shares) = (world.origin(), Shares(vec![u64::from(world.origin()); 8]));
        let ended = world.run(&once, &mut shares, |step, shares| {
            let dies = [1, PARTNER].contains(&me) && step.number() == 11;
            if dies && counts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2 {
                fampi::sim::crash();
            }
            shares.0.iter_mut().for_each(|number| *number += 1);
            Ok(if step.number() < 20 { Flow::Continue } else { Flow::Done })
        });
        world.finalize();
        ended?.done()?;
        Ok::<_, Error>(shares.0[0] - u64::from(me))
    });
    assert_eq!(report.expect_orderly(), [Ok(21), Ok(21), Ok(21), Ok(21)]);
    assert!(disk.names().iter().all(|name| name.starts_with("fampi-000002-")), "it has gone back");
}

/// [`Shares`] that survivors inherit.
struct Inherited(Shares);

impl State for Inherited {
    const INHERITED: bool = true;
    const RESIZES: bool = true;

    fn interval(&self) -> Interval {
        self.0.interval()
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        self.0.protect(block)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.0.restore(block)
    }

    fn inherit(&mut self, _: &mut TryBlock) -> Result<(), Error> {
        panic!("nobody can inherit what is lost")
    }

    fn resize(&mut self, block: &mut TryBlock, saved: &mut Saved<'_>) -> Result<(), Error> {
        self.0.resize(block, saved)
    }
}

#[test]
fn survivors_that_shrink_divide_what_all_have_saved() {
    for microseconds in (700..1_400).step_by(10) {
        let (disk, moment) = (Disk::default(), Duration::from_micros(microseconds));
        let to = disk.clone();
        let crashes = [1, PARTNER].map(|rank| Crash::at_time(rank, moment));
        let job = job(RANKS).seed(microseconds).crashes(crashes);
        let report = job.run_world(move |mut world| {
            world.set_checkpoints(checkpoints(&to, Files::OfEachNode, false));
            let mut state =
                Inherited(Shares(numbers(0)[share(world.rank().number(), RANKS)].into()));
            let shrink = policy::Shrink::default();
            let ended = world.run(&shrink, &mut state, |step, state| {
                let mine = share(step.comm().rank().number(), step.comm().size());
                assert_eq!(state.0.0, numbers(step.number())[mine.clone()], "{}", step.number());
                state.0.0 = numbers(step.number() + 1)[mine].to_vec();
                Ok(if step.number() + 1 < LONG { Flow::Continue } else { Flow::Done })
            });
            world.finalize();
            Ok::<_, Error>(ended?.done()?.size())
        });
        assert_eq!(report.expect_orderly(), [Ok(2), Ok(2)], "{microseconds}");
    }
}

#[test]
fn a_state_of_a_code_that_has_lost_too_many_comes_from_a_checkpoint() {
    let (disk, moment) = (Disk::default(), Duration::from_micros(1_100));
    let to = disk.clone();
    let crashes = [0, 2].map(|rank| Crash::at_time(rank, moment));
    let report = job(RANKS).spares(2).crashes(crashes).run_world(move |mut world| {
        world.set_checkpoints(checkpoints(&to, Files::OfEachNode, false));
        let me = world.origin();
        let mut state = InACode(Shares(numbers(0)[share(me, RANKS)].into()));
        let ended = world.run(&policy::Rebuild::default(), &mut state, |step, state| {
            let mine = share(me, RANKS);
            assert_eq!(state.0.0, numbers(step.number())[mine.clone()], "{}", step.number());
            state.0.0 = numbers(step.number() + 1)[mine].to_vec();
            Ok(if step.number() + 1 < LONG { Flow::Continue } else { Flow::Done })
        });
        world.finalize();
        ended?.done().map(drop)
    });
    assert_eq!(report.expect_orderly(), [Ok(()), Ok(()), Ok(()), Ok(())]);
    assert!(!complete(&disk, RANKS).is_empty());
    assert!(disk.names().iter().all(|name| name.starts_with("fampi-000002-")), "it has gone back");
}

/// [`Shares`] that are kept in a code, which survives one loss.
struct InACode(Shares);

impl State for InACode {
    fn interval(&self) -> Interval {
        self.0.interval()
    }

    fn redundancy(&self) -> Redundancy {
        Redundancy::Group { ranks: RANKS, losses: 1 }
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        self.0.protect(block)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.0.restore(block)
    }
}

#[test]
fn a_program_that_rebuilds_by_itself_saves_on_in_its_folder_and_goes_back_there() {
    let disk = Disk::default();
    let to = disk.clone();
    let report = Simulation::new(RANKS).spares(3).run_world(move |mut world| {
        let (me, is_new) = (world.origin(), world.is_replacement());
        let mut shares = Shares(vec![u64::from(me); 8]);
        let mut steps = |world: &mut World, policy: &dyn Policy, dies: &[(u32, u64)]| {
            world.set_checkpoints(checkpoints(&to, Files::OfEachNode, false));
            world.run(policy, &mut shares, |step, shares| {
                assert_eq!(shares.0, [u64::from(me) + step.number(); 8]);
                if !is_new && dies.contains(&(me, step.number())) {
                    fampi::sim::crash();
                }
                shares.0.iter_mut().for_each(|number| *number += 1);
                Ok(if step.number() < 20 { Flow::Continue } else { Flow::Done })
            })
        };
        if !is_new {
            let escalated = steps(&mut world, &policy::Escalate, &[(2, 7)])?;
            assert!(matches!(escalated, fampi::Ended::Escalated { .. }), "{escalated:?}");
            world = world.rebuild(Placement::SameRanks)?;
        }
        let rebuild = policy::Rebuild::default();
        let ended = steps(&mut world, &rebuild, &[(1, 14), (PARTNER, 14)]);
        world.finalize();
        ended?.done().map(drop)
    });
    assert_eq!(report.expect_orderly(), [Ok(()), Ok(()), Ok(()), Ok(())]);
    let names = disk.names();
    assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("fampi-000002-")));
}

#[test]
fn a_run_in_its_midst_does_not_save_over_checkpoints_of_another_job() {
    let disk = left_by(RANKS, Files::OfEachRank);
    let (there, to) = (disk.names(), disk.clone());
    let report = job(RANKS).run_world(move |mut world| {
        let mut shares = Shares(vec![0; 8]);
        let ended = world.run(&policy::Escalate, &mut shares, |step, shares| {
            shares.0[0] += 1;
            if step.number() == 5 {
                step.raise_error(3);
            }
            Ok(Flow::Continue)
        })?;
        assert!(matches!(ended, fampi::Ended::Escalated { .. }), "{ended:?}");
        world.set_checkpoints(checkpoints(&to, Files::OfEachRank, false));
        let ended = world.run(&policy::Rebuild::default(), &mut shares, |_, _| Ok(Flow::Done));
        world.finalize();
        ended?.done().map(drop)
    });
    let refused = |it: &Result<(), Error>| matches!(it, Err(Error::CheckpointsExist { .. }));
    assert!(report.expect_orderly().iter().all(refused));
    assert_eq!(disk.names(), there);
}
