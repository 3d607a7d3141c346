//! Jobs that end as a whole, and go on from what they have saved.

use std::{collections::BTreeMap, time::Duration};

use fampi::{
    Checkpoints, Error, Flow, Interval, ReduceOp, State, Timeout, TryBlock, World, policy,
    sim::{Crash, Disk, Report, Simulation},
};

const RANKS: u32 = 4;
const STEPS: u64 = 12;

/// A number of each rank, which depends on the order of all steps.
struct Number {
    origin: u64,
    value: Vec<u64>,
}

impl State for Number {
    fn interval(&self) -> Interval {
        Interval::Every(2)
    }

    fn begin(&mut self, _: &mut TryBlock) -> Result<(), Error> {
        self.value = vec![self.origin];
        Ok(())
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect(3, &self.value)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.value = block.restore(3)?;
        Ok(())
    }
}

/// The number of this rank in the end, and the step with which this process began.
fn count(mut world: World, checkpoints: Checkpoints) -> Result<(u64, u64), Error> {
    world.set_checkpoints(checkpoints);
    let mut number = Number { origin: world.origin().into(), value: vec![0] };
    let rebuild = policy::Rebuild { times: 40, ..policy::Rebuild::default() };
    let mut first = None;
    let ended = world.run(&rebuild, &mut number, |step, number| {
        first.get_or_insert(step.number());
        let all = step.iallreduce(number.value.clone(), ReduceOp::Sum)?;
        step.wait_local(all, Timeout::Never)?;
        let sum = step.take(all)?[0];
        number.value[0] = number.value[0].wrapping_mul(31).wrapping_add(sum % 1009);
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    });
    world.finalize();
    ended?.done()?;
    Ok((number.value[0], first.unwrap_or_default()))
}

type Counted = Result<(u64, u64), Error>;

/// One start of the job.
fn start(disk: &Disk, ranks: u32, restart: bool, crashes: Vec<Crash>) -> Report<Counted> {
    let disk = disk.clone();
    Simulation::new(ranks).crashes(crashes).run_world(move |world| {
        let checkpoints = Checkpoints::on_disk(&disk).every(Interval::Every(4));
        count(world, if restart { checkpoints.restart() } else { checkpoints })
    })
}

/// The numbers of all ranks when nothing happens.
fn undisturbed() -> Vec<u64> {
    let report = start(&Disk::default(), RANKS, false, Vec::new());
    report.expect_orderly().into_iter().map(|counted| counted.expect("no fault").0).collect()
}

/// The steps of the sets on a disk of which each rank has its part.
fn complete(disk: &Disk) -> Vec<u64> {
    let mut parts: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    for name in disk.names().iter().filter(|name| name.ends_with("-of-4.ckpt")) {
        let words: Vec<&str> = name.split('-').collect();
        let set = (words[1].parse().expect("launch"), words[2].parse().expect("steps"));
        *parts.entry(set).or_default() += 1;
    }
    parts.into_iter().filter(|(_, parts)| *parts == RANKS).map(|((_, steps), _)| steps).collect()
}

/// All ranks die at a moment.
fn blackout(moment: Duration) -> Vec<Crash> {
    (0..RANKS).map(|rank| Crash::at_time(rank, moment)).collect()
}

#[test]
fn a_job_that_dies_as_a_whole_at_any_moment_goes_on_from_its_newest_complete_checkpoint() {
    let expected = undisturbed();
    let mut began = BTreeMap::new();
    for microseconds in (0..2_400).step_by(7) {
        let disk = Disk::default();
        drop(start(&disk, RANKS, false, blackout(Duration::from_micros(microseconds))));
        let newest = complete(&disk).last().copied();
        let there = disk.names();
        let again = start(&disk, RANKS, true, Vec::new()).expect_orderly();
        for (rank, counted) in again.into_iter().enumerate() {
            match (newest, counted) {
                (Some(newest), Ok(found)) => {
                    assert_eq!(found, (expected[rank], newest), "{there:?}");
                }
                (None, Err(Error::NoCheckpoint { ranks: RANKS, .. })) => {}
                other => panic!("after {microseconds} µs, with {there:?}: {other:?}"),
            }
        }
        *began.entry(newest).or_insert(0) += 1;
    }
    assert_eq!(began.keys().copied().collect::<Vec<_>>(), [None, Some(4), Some(8)]);
}

#[test]
fn deaths_before_any_effect_of_saving_change_neither_this_job_nor_the_next() {
    let expected = undisturbed();
    let calm = start(&Disk::default(), RANKS, false, Vec::new());
    for effect in 20..calm.processes[1].effects {
        let disk = Disk::default();
        let report = start(&disk, RANKS, false, vec![Crash::before_effect(1, effect)]);
        let mut numbers: Vec<_> =
            report.expect_orderly().into_iter().map(|it| it.expect("survived").0).collect();
        // The process that died is replaced by one at the end, or died after the last step.
        numbers.sort_unstable_by_key(|number| expected.iter().position(|it| it == number));
        let without: Vec<_> = [0, 2, 3].map(|rank| expected[rank]).to_vec();
        assert!(numbers == expected || numbers == without, "effect {effect}: {numbers:?}");
        let next = start(&disk, RANKS, true, Vec::new()).expect_orderly();
        let numbers: Vec<_> = next.into_iter().map(|it| it.expect("a checkpoint").0).collect();
        assert_eq!(numbers, expected, "after effect {effect}");
    }
}

#[test]
fn a_damaged_or_missing_part_makes_no_mixture_but_one_error_on_all_ranks() {
    for damage in 0..3 {
        let disk = Disk::default();
        start(&disk, RANKS, false, Vec::new()).expect_orderly();
        let name = disk.names().into_iter().find(|name| name.contains("-2-of-")).expect("a part");
        disk.spoil(&name, |content| match damage {
            0 => content.truncate(content.len() - 1),
            1 => content[70] ^= 4,
            _ => content.clear(),
        });
        for counted in start(&disk, RANKS, true, Vec::new()).expect_orderly() {
            assert!(matches!(counted, Err(Error::NoCheckpoint { .. })), "{counted:?}");
        }
    }
}

#[test]
fn a_job_neither_overwrites_checkpoints_nor_takes_those_of_another_size() {
    let disk = Disk::default();
    start(&disk, RANKS, false, Vec::new()).expect_orderly();
    let there = disk.names();
    assert_eq!(complete(&disk), [8]);
    for counted in start(&disk, RANKS, false, Vec::new()).expect_orderly() {
        assert!(matches!(counted, Err(Error::CheckpointsExist { .. })), "{counted:?}");
    }
    for counted in start(&disk, 3, true, Vec::new()).expect_orderly() {
        assert!(matches!(counted, Err(Error::NoCheckpoint { ranks: 3, .. })), "{counted:?}");
    }
    assert_eq!(disk.names(), there);
}
