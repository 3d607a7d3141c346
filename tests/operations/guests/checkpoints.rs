//! Jobs of programs that own their MPI: they end as a whole, and go on from what they have saved.

use std::{collections::BTreeMap, time::Duration};

use fampi::{
    Checkpoints, CommId, Error, Files, Flow, Interval, Level, Rank, State, TryBlock,
    guest::States,
    policy,
    sim::{Crash, Disk, Report, Simulation},
};

use super::{LIMIT, Member};
use crate::checkpoints::complete;

const RANKS: u32 = 4;
const STEPS: u64 = 9;
const KINDS: [Files; 3] = [Files::OfEachRank, Files::OfEachNode, Files::OfTheJob];

/// How a job has ended on a rank: with the rank's number and the step with which it began, or with
/// an error; `None` if another rank has died.
type Ended = Option<Result<(u64, u64), Error>>;

/// What a rank has after so many steps.
fn number(rank: u32, steps: u64) -> u64 {
    (0..steps).fold(rank.into(), |number: u64, step| number.wrapping_mul(31).wrapping_add(step))
}

impl Member {
    /// Brings the number of this rank back, or begins; the steps that lead to it.
    fn bring_back(&mut self, mine: &mut u64) -> Option<Result<u64, Error>> {
        let block = self.start();
        let from = self.guest.restart(block, false);
        let mut step = 0;
        if let Ok(States::Saved(steps, _)) = from {
            step = steps;
            let Ok(bytes) = self.guest.restore(block, 0) else {
                assert!(!self.concludes(block).0, "a whole checkpoint has all states");
                return None;
            };
            *mine = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        if !self.concludes(block).0 {
            return None;
        }
        Some(from.map(|_| step))
    }

    fn count(&mut self, checkpoints: Checkpoints) -> Ended {
        self.guest.set_checkpoints(Some(checkpoints));
        let mut mine = self.me.into();
        let first = match self.bring_back(&mut mine)? {
            Ok(first) => first,
            Err(error) => return Some(Err(error)),
        };
        for step in first..STEPS {
            let block = self.start();
            let _ = self.guest.checkpoint(block, step);
            mine = mine.wrapping_mul(31).wrapping_add(step);
            let _ = self.guest.protect(block, 0, &mine.to_le_bytes());
            if !self.concludes(block).0 {
                return None;
            }
        }
        Some(Ok((mine, first)))
    }
}

/// One start of a job that saves every two steps.
fn start(disk: &Disk, files: Files, restart: bool, crashes: Vec<Crash>) -> Report<Ended> {
    let disk = disk.clone();
    let simulation = Simulation::new(RANKS).nodes((0..RANKS).map(|rank| rank / 2));
    simulation.time_limit(LIMIT).crashes(crashes).run(move |platform| {
        let mut member = Member::enter(platform, RANKS);
        let to = Checkpoints::on_disk(&disk).every(Interval::Every(2)).files(files);
        let ended = member.count(if restart { to.restart() } else { to });
        member.guest.leave();
        ended
    })
}

/// A job goes on from the newest checkpoint on a disk, with the numbers that it would have.
#[track_caller]
fn goes_on(disk: &Disk, files: Files, what: &str) -> Option<u64> {
    let (newest, there) = (complete(disk, RANKS).last().copied(), disk.names());
    let again = start(disk, files, true, Vec::new()).expect_orderly();
    for (rank, ended) in again.into_iter().enumerate() {
        match (newest, ended.expect("nobody dies")) {
            (Some(newest), Ok(found)) => {
                assert_eq!(found, (number(rank as u32, STEPS), newest), "{what}: {there:?}");
            }
            (None, Err(Error::NoCheckpoint { ranks: RANKS, .. })) => {}
            other => panic!("{what}, with {there:?}: {other:?}"),
        }
    }
    newest
}

#[test]
fn a_guests_job_that_dies_as_a_whole_at_any_moment_goes_on_from_its_newest_checkpoint() {
    for files in KINDS {
        let mut began = BTreeMap::new();
        for microseconds in (0..2_000).step_by(9) {
            let disk = Disk::default();
            let moment = Duration::from_micros(microseconds);
            let blackout = (0..RANKS).map(|rank| Crash::at_time(rank, moment)).collect();
            drop(start(&disk, files, false, blackout));
            // What is in files of one kind can be gone on from with files of another one.
            let then = KINDS[microseconds as usize % KINDS.len()];
            let step = goes_on(&disk, then, &format!("{files:?}, {microseconds} µs"));
            *began.entry(step).or_insert(0) += 1;
        }
        let began: Vec<_> = began.keys().copied().collect();
        assert_eq!(began, [None, Some(2), Some(4), Some(6), Some(8)], "{files:?}");
    }
}

#[test]
fn a_death_before_any_effect_of_a_guest_that_saves_leaves_a_whole_checkpoint_for_the_next_job() {
    for (files, victim) in KINDS.into_iter().flat_map(|files| [0, 1].map(|rank| (files, rank))) {
        let calm = start(&Disk::default(), files, false, Vec::new());
        let (mut steps, effects) = (0, calm.processes[victim as usize].effects);
        for effect in 10..effects {
            let disk = Disk::default();
            let crash = vec![Crash::before_effect(victim, effect)];
            start(&disk, files, false, crash).expect_orderly();
            // A job that is started from the beginning by mistake leaves these files as they are.
            let there = disk.names();
            if !complete(&disk, RANKS).is_empty() {
                for ended in start(&disk, files, false, Vec::new()).expect_orderly() {
                    assert!(
                        matches!(ended, Some(Err(Error::CheckpointsExist { .. }))),
                        "{ended:?}"
                    );
                }
                assert_eq!(disk.names(), there);
            }
            steps += goes_on(&disk, files, &format!("{victim} before {effect}")).unwrap_or(0);
        }
        assert!(steps > effects, "{files:?}, {victim}: {steps} in {effects} jobs");
    }
}

#[test]
fn a_death_before_any_effect_of_a_guest_that_goes_on_loses_no_checkpoint() {
    for files in KINDS {
        let left = || {
            let disk = Disk::default();
            let moment = Duration::from_micros(1_200);
            let blackout = (0..RANKS).map(|rank| Crash::at_time(rank, moment)).collect();
            drop(start(&disk, files, false, blackout));
            disk
        };
        let first = complete(&left(), RANKS).last().copied().expect("one is there");
        let calm = start(&left(), files, true, Vec::new());
        for effect in 10..calm.processes[1].effects {
            let disk = left();
            let crash = vec![Crash::before_effect(1, effect)];
            start(&disk, files, true, crash).expect_orderly();
            let step = goes_on(&disk, files, &format!("{files:?}, before {effect}"));
            assert!(step >= Some(first), "{files:?}, before {effect}: {step:?}");
        }
    }
}

#[test]
fn where_one_guest_has_no_checkpoints_nothing_is_saved_and_all_know_it() {
    for restart in [false, true] {
        let disk = Disk::default();
        let saved = disk.clone();
        let report = Simulation::new(RANKS).time_limit(LIMIT).run(move |platform| {
            let mut member = Member::enter(platform, RANKS);
            let to = Checkpoints::on_disk(&saved).every(Interval::Every(2));
            let to = if restart { to.restart() } else { to };
            member.guest.set_checkpoints((member.me != 2).then_some(to));
            let mut mine = 0;
            let begun = member.bring_back(&mut mine).expect("nobody dies");
            let block = member.start();
            member.guest.protect(block, 0, &[1; 8]).expect("nobody dies");
            assert!(member.concludes(block).0);
            let block = member.start();
            let is_saved = member.guest.checkpoint(block, 5).expect("it has been told");
            assert!(member.concludes(block).0 && !is_saved);
            member.guest.leave();
            begun
        });
        for begun in report.expect_orderly() {
            let as_expected = match begun {
                Ok(0) => !restart,
                Err(Error::NoCheckpoint { .. }) => restart,
                _ => false,
            };
            assert!(as_expected, "{begun:?}");
        }
        assert!(disk.names().is_empty(), "{:?}", disk.names());
    }
}

/// Four ranks that bring their numbers back, protect them, and try to save those of some step, as
/// `tries` does it; whether that has come to a checkpoint, and what is on the disk.
fn save(
    settings: impl Fn(u32, Checkpoints) -> Checkpoints + Send + Sync + Clone + 'static,
    tries: impl Fn(&mut Member) -> bool + Send + Sync + Clone + 'static,
) -> (Vec<bool>, Vec<String>) {
    let disk = Disk::default();
    let saved = disk.clone();
    let report = Simulation::new(RANKS).time_limit(LIMIT).run(move |platform| {
        let mut member = Member::enter(platform, RANKS);
        let to = Checkpoints::on_disk(&saved).every(Interval::Every(2));
        member.guest.set_checkpoints(Some(settings(member.me, to)));
        let mut mine = 0;
        assert_eq!(member.bring_back(&mut mine), Some(Ok(0)));
        let block = member.start();
        member.guest.protect(block, 0, &[1; 8]).expect("nobody dies");
        assert!(member.concludes(block).0);
        let is_saved = tries(&mut member);
        member.guest.leave();
        is_saved
    });
    (report.expect_orderly(), disk.names())
}

/// Saves the states of a step.
fn save_step(member: &mut Member, step: u64) -> bool {
    let block = member.start();
    let is_saved = member.guest.checkpoint(block, step).expect("all have told what they know");
    assert!(member.concludes(block).0);
    is_saved
}

#[test]
fn ranks_that_do_not_save_alike_save_nothing_and_lose_nothing() {
    let (saved, names) = save(|_, to| to, |member| save_step(member, 2));
    assert_eq!((saved, names.len()), (vec![true; 4], 4), "{names:?}");
    // Some say that their states are those of another step: the older ones stay.
    let (saved, names) = save(
        |_, to| to,
        |member| {
            let before = save_step(member, 2);
            let me = u64::from(member.me);
            before && save_step(member, 4 + me % 2)
        },
    );
    let of_step_2 = |name: &String| name.starts_with("fampi-000001-0000000002-");
    assert_eq!((saved, names.len()), (vec![false; 4], 4), "{names:?}");
    assert!(names.iter().all(of_step_2), "{names:?}");
    // Some have other files, other intervals, or compress.
    let others: [fn(Checkpoints) -> Checkpoints; 3] = [
        |to| to.files(Files::OfTheJob),
        |to| to.every(Interval::Every(3)),
        Checkpoints::compressed,
    ];
    for other in others {
        let settings = move |me, to| if me == 3 { other(to) } else { to };
        let (saved, names) = save(settings, |member| save_step(member, 9));
        assert_eq!((saved, names), (vec![false; 4], vec![]));
    }
}

#[test]
fn what_a_guest_has_protected_elsewhere_is_not_missing_in_a_checkpoint() {
    let (saved, names) = save(
        |_, to| to,
        |member| {
            let before = save_step(member, 2);
            // Another communicator of all, on which one more state is protected.
            let (universe, data) =
                member.guest.with_sim(fampi::sim::SimPlatform::adopt_comm).expect("all live");
            let other =
                member.guest.adopt(CommId(101), universe, (RANKS, Rank::new(member.me)), data);
            let block = member.guest.start(other, Level::Global);
            member.guest.protect(block, 1, &[2; 8]).expect("nobody dies");
            assert!(member.concludes(block).0);
            before && save_step(member, 4)
        },
    );
    assert_eq!((saved, names.len()), (vec![false; 4], 4), "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("fampi-000001-0000000002-")), "{names:?}");
}

#[test]
fn a_guest_gets_the_bytes_of_what_a_world_has_saved() {
    /// The number of a rank.
    struct One(Vec<u64>);
    impl State for One {
        fn begin(&mut self, _: &mut TryBlock) -> Result<(), Error> {
            Ok(())
        }
        fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
            block.protect(0, &self.0)
        }
        fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
            self.0 = block.restore(0)?;
            Ok(())
        }
    }
    let disk = Disk::default();
    let of_world = disk.clone();
    let world = Simulation::new(RANKS).run_world(move |mut world| {
        world.set_checkpoints(Checkpoints::on_disk(&of_world).every(Interval::Every(3)));
        let mut one = One(vec![number(world.rank().number(), 3)]);
        let ended = world.run(&policy::Rebuild::default(), &mut one, |step, _| {
            Ok(if step.number() < 4 { Flow::Continue } else { Flow::Done })
        });
        world.finalize();
        ended.and_then(fampi::Ended::done).map(drop)
    });
    assert!(world.expect_orderly().iter().all(Result::is_ok));
    let ended = start(&disk, Files::OfEachRank, true, Vec::new()).expect_orderly();
    let expected: Vec<_> = (0..RANKS).map(|rank| Some(Ok((number(rank, STEPS), 3)))).collect();
    assert_eq!(ended, expected, "{:?}", disk.names());
}

#[test]
fn a_guest_that_is_refused_and_then_wants_to_go_on_does_not_begin_over_what_is_there() {
    let disk = Disk::default();
    start(&disk, Files::OfEachRank, false, Vec::new()).expect_orderly();
    let (saved, there) = (disk.clone(), disk.names());
    let report = Simulation::new(RANKS).time_limit(LIMIT).run(move |platform| {
        let mut member = Member::enter(platform, RANKS);
        let mut mine = 0;
        let to = || Checkpoints::on_disk(&saved).every(Interval::Every(2));
        member.guest.set_checkpoints(Some(to()));
        let refused = member.bring_back(&mut mine).expect("nobody dies");
        assert!(matches!(refused, Err(Error::CheckpointsExist { .. })), "{refused:?}");
        // Once more by mistake, and then as it should have been.
        member.guest.set_checkpoints(Some(to()));
        let refused = member.bring_back(&mut mine).expect("nobody dies");
        assert!(matches!(refused, Err(Error::CheckpointsExist { .. })), "{refused:?}");
        member.guest.set_checkpoints(Some(to().restart()));
        let begun = member.bring_back(&mut mine).expect("nobody dies");
        member.guest.leave();
        begun.map(|step| (step, mine))
    });
    let ended = report.expect_orderly();
    let expected: Vec<_> = (0..RANKS).map(|rank| Ok((8, number(rank, 8)))).collect();
    assert_eq!((ended, disk.names()), (expected, there));
}
