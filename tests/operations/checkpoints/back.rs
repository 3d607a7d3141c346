//! Jobs that lose a state with all copies in memory, and go back to a checkpoint without ending.

use std::time::Duration;

use fampi::{
    Error, Files,
    sim::{Crash, Disk},
};

use super::{Begun, KINDS, RANKS, complete, job, start_shared};

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
        start_shared(&disk, job, files, false).expect_orderly();
        let names = disk.names();
        assert!(names.iter().all(|name| name.starts_with("fampi-000002-")), "{names:?}");
    }
}
