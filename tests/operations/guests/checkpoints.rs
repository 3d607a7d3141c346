//! Jobs of programs that own their MPI: they end as a whole, and go on from what they have saved.

use std::{collections::BTreeMap, time::Duration};

use fampi::{
    Checkpoints, Error, Files, Interval, Timeout,
    guest::{GuestBlock, States, Wait},
    sim::{Crash, Disk, Report, Simulation},
};

use super::{LIMIT, Member};

const RANKS: u32 = 4;
const STEPS: u64 = 9;
const KINDS: [Files; 3] = [Files::OfEachRank, Files::OfEachNode, Files::OfTheJob];

/// How a job of numbers has ended on a rank: with its number and the step that it began with, or
/// with an error; nothing where somebody has died.
type Ended = Option<Result<(u64, u64), Error>>;

/// What a rank has after so many steps.
fn number(rank: u32, steps: u64) -> u64 {
    (0..steps).fold(rank.into(), |number: u64, step| number.wrapping_mul(31).wrapping_add(step))
}

impl Member {
    /// Whether a block without messages of the program's own commits.
    fn concludes(&mut self, block: GuestBlock) -> bool {
        self.guest.finish(block, &[], Timeout::Never);
        assert_eq!(self.guest.wait_block(block, Timeout::Never), Wait::Done);
        let committed = self.guest.verdict(block).expect("it is over");
        self.guest.release(block);
        committed
    }

    /// Brings the number of this rank back, or begins; the steps that lead to it.
    fn bring_back(&mut self, mine: &mut u64) -> Option<Result<u64, Error>> {
        let block = self.start();
        let from = self.guest.restart(block, false);
        let mut step = 0;
        if let Ok(States::Saved(steps, _)) = from {
            step = steps;
            let Ok(bytes) = self.guest.restore(block, 0) else {
                assert!(!self.concludes(block), "a whole checkpoint has all states");
                return None;
            };
            *mine = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        if !self.concludes(block) {
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
            if !self.concludes(block) {
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

/// The newest step of which every rank has its part on a disk.
fn newest(disk: &Disk) -> Option<u64> {
    let mut parts: BTreeMap<u64, u32> = BTreeMap::new();
    let ending = format!("-of-{RANKS}.ckpt");
    for name in disk.names().iter().filter(|name| name.ends_with(&ending)) {
        let words: Vec<&str> = name.split('-').collect();
        let number = |at: usize| words[at].parse::<u32>().expect("a number");
        let in_it = if words[4] == "to" { number(5) - number(3) + 1 } else { 1 };
        *parts.entry(number(2).into()).or_default() += in_it;
    }
    parts.into_iter().filter(|(_, parts)| *parts == RANKS).map(|(step, _)| step).next_back()
}

/// A job goes on from the newest checkpoint on a disk, with the numbers that it would have.
#[track_caller]
fn goes_on(disk: &Disk, files: Files, what: &str) -> Option<u64> {
    let (newest, there) = (newest(disk), disk.names());
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
            // Whoever begins over it by mistake leaves it as it is.
            let there = disk.names();
            if newest(&disk).is_some() {
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
        let first = newest(&left()).expect("one is there");
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
            assert!(member.concludes(block));
            let block = member.start();
            let is_saved = member.guest.checkpoint(block, 5).expect("it has been told");
            assert!(member.concludes(block) && !is_saved);
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
