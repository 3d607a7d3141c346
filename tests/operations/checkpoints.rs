//! Jobs that end as a whole, and go on from what they have saved.

mod back;
mod due;

use std::{collections::BTreeMap, time::Duration};

use fampi::{
    Checkpoints, Error, Files, Flow, Interval, ReduceOp, Saved, State, Timeout, TryBlock, World,
    policy,
    sim::{Crash, Disk, Ending, Report, Simulation},
};

const RANKS: u32 = 4;
const STEPS: u64 = 12;

/// How files are shared, where two ranks are on each node.
const KINDS: [Files; 3] = [Files::OfEachRank, Files::OfEachNode, Files::OfTheJob];

fn job(ranks: u32) -> Simulation {
    Simulation::new(ranks).nodes((0..16).map(|process| process / 2))
}

/// As these tests save; those of shared files compress.
fn checkpoints(disk: &Disk, files: Files, restart: bool) -> Checkpoints {
    let to = Checkpoints::on_disk(disk).every(Interval::Every(4)).files(files);
    let to = if files == Files::OfEachRank { to } else { to.compressed() };
    if restart { to.restart() } else { to }
}

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
fn start(
    disk: &Disk,
    ranks: u32,
    files: Files,
    restart: bool,
    crashes: Vec<Crash>,
) -> Report<Counted> {
    let (disk, job) = (disk.clone(), job(ranks).crashes(crashes));
    job.run_world(move |world| count(world, checkpoints(&disk, files, restart)))
}

/// The numbers of all ranks when nothing happens.
fn undisturbed() -> Vec<u64> {
    let report = start(&Disk::default(), RANKS, Files::default(), false, Vec::new());
    report.expect_orderly().into_iter().map(|counted| counted.expect("no fault").0).collect()
}

/// The steps of the sets on a disk of which each of so many ranks has its part.
pub(crate) fn complete(disk: &Disk, ranks: u32) -> Vec<u64> {
    let mut parts: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    let ending = format!("-of-{ranks}.ckpt");
    for name in disk.names().iter().filter(|name| name.ends_with(&ending)) {
        let words: Vec<&str> = name.split('-').collect();
        let number = |at: usize| words[at].parse::<u32>().expect("a number");
        let in_it = if words[4] == "to" { number(5) - number(3) + 1 } else { 1 };
        let set = (words[1].parse().expect("launch"), words[2].parse().expect("steps"));
        *parts.entry(set).or_default() += in_it;
    }
    parts.into_iter().filter(|(_, parts)| *parts == ranks).map(|((_, steps), _)| steps).collect()
}

/// All ranks die at a moment.
fn blackout(moment: Duration) -> Vec<Crash> {
    (0..RANKS).map(|rank| Crash::at_time(rank, moment)).collect()
}

#[test]
fn a_job_that_dies_as_a_whole_at_any_moment_goes_on_from_its_newest_complete_checkpoint() {
    let expected = undisturbed();
    for files in KINDS {
        let mut began = BTreeMap::new();
        for microseconds in (0..2_400).step_by(7) {
            let disk = Disk::default();
            drop(start(&disk, RANKS, files, false, blackout(Duration::from_micros(microseconds))));
            let newest = complete(&disk, RANKS).last().copied();
            let there = disk.names();
            // What is in files of one kind can be gone on from with files of another one.
            let then = KINDS[microseconds as usize % KINDS.len()];
            let again = start(&disk, RANKS, then, true, Vec::new()).expect_orderly();
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
            let finished = disk.names();
            assert!(newest.is_none() || !finished.iter().any(|it| it.contains(".part")));
        }
        assert_eq!(began.keys().copied().collect::<Vec<_>>(), [None, Some(4), Some(8)]);
    }
}

#[test]
fn deaths_before_any_effect_of_saving_change_neither_this_job_nor_the_next() {
    let expected = undisturbed();
    for (files, victim) in KINDS.into_iter().flat_map(|files| [0, 1].map(|rank| (files, rank))) {
        let calm = start(&Disk::default(), RANKS, files, false, Vec::new());
        for effect in 20..calm.processes[victim].effects {
            let disk = Disk::default();
            let crash = Crash::before_effect(victim as u32, effect);
            let report = start(&disk, RANKS, files, false, vec![crash]);
            let mut numbers: Vec<_> =
                report.expect_orderly().into_iter().map(|it| it.expect("survived").0).collect();
            // The process that died is replaced by one at the end, or died after the last step.
            numbers.sort_unstable_by_key(|number| expected.iter().position(|it| it == number));
            let mut without = expected.clone();
            without.remove(victim);
            let text = format!("{files:?}, {victim} before {effect}: {numbers:?}");
            assert!(numbers == expected || numbers == without, "{text}");
            let next = start(&disk, RANKS, files, true, Vec::new()).expect_orderly();
            let numbers: Vec<_> = next.into_iter().map(|it| it.expect("a checkpoint").0).collect();
            assert_eq!(numbers, expected, "{text}");
        }
    }
}

#[test]
fn each_kind_has_as_many_files_as_it_says() {
    for (files, number) in KINDS.into_iter().zip([5, 3, 1]) {
        let disk = Disk::default();
        start(&disk, 5, files, false, Vec::new()).expect_orderly();
        assert_eq!(disk.names().len(), number, "{:?}", disk.names());
        assert_eq!(complete(&disk, 5), [8]);
    }
}

/// Damages the part of rank 2, of four, in the only set.
fn damage_the_part_of_rank_2(disk: &Disk, change: impl FnOnce(&mut Vec<u8>, usize)) {
    let holds = |name: &&String| ["-2-", "-2-to-", "-0-to-3-"].iter().any(|it| name.contains(it));
    let name = disk.names().iter().find(holds).cloned().expect("a part");
    let place = if name.contains("-0-to-3-") { Some(2) } else { name.find("-2-to-").map(|_| 0) };
    disk.spoil(&name, |content| {
        let entry = place.map(|place| content[16 * place..][..8].try_into().expect("eight"));
        let begin = entry.map_or(0, u64::from_le_bytes) as usize;
        change(content, begin);
    });
}

#[test]
fn a_damaged_or_missing_part_makes_no_mixture_but_one_error_on_all_ranks() {
    for (files, damage) in KINDS.into_iter().flat_map(|it| (0..4).map(move |damage| (it, damage))) {
        let disk = Disk::default();
        start(&disk, RANKS, files, false, Vec::new()).expect_orderly();
        damage_the_part_of_rank_2(&disk, |content, begin| match damage {
            0 => content.truncate(content.len() - 1),
            1 => content[begin + 70] ^= 4,
            // As a disk does that has lost what was last written, or an index of nonsense.
            2 if begin > 0 => content[..64.min(begin)].fill(0xff),
            2 => content.fill(0),
            _ => content.clear(),
        });
        for counted in start(&disk, RANKS, files, true, Vec::new()).expect_orderly() {
            assert!(matches!(counted, Err(Error::NoCheckpoint { .. })), "{damage} {counted:?}");
        }
    }
}

#[test]
fn a_job_neither_overwrites_checkpoints_nor_takes_those_of_another_size() {
    for files in KINDS {
        let disk = Disk::default();
        start(&disk, RANKS, files, false, Vec::new()).expect_orderly();
        let there = disk.names();
        assert_eq!(complete(&disk, RANKS), [8]);
        for counted in start(&disk, RANKS, files, false, Vec::new()).expect_orderly() {
            assert!(matches!(counted, Err(Error::CheckpointsExist { .. })), "{counted:?}");
        }
        for counted in start(&disk, 3, files, true, Vec::new()).expect_orderly() {
            assert!(matches!(counted, Err(Error::NoCheckpoint { ranks: 3, .. })), "{counted:?}");
        }
        assert_eq!(disk.names(), there);
    }
}

/// Numbers that all ranks have together, each rank as many as its neighbours or one more.
struct Shares(Vec<u64>);

/// The numbers of a rank of so many.
fn share(rank: u32, ranks: u32) -> std::ops::Range<usize> {
    let begin = |rank: u32| NUMBERS * rank as usize / ranks as usize;
    begin(rank)..begin(rank + 1)
}

const NUMBERS: usize = 37;
const LONG: u64 = 60;

impl State for Shares {
    const RESIZES: bool = true;

    fn interval(&self) -> Interval {
        Interval::Every(2)
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect(5, &self.0)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.0 = block.restore(5)?;
        Ok(())
    }

    fn resize(&mut self, _: &mut TryBlock, saved: &mut Saved<'_>) -> Result<(), Error> {
        let (mine, before) = (share(saved.rank(), saved.ranks()), saved.saved_ranks());
        self.0.clear();
        for rank in 0..before {
            let theirs = share(rank, before);
            let both = mine.start.max(theirs.start)..mine.end.min(theirs.end);
            if !both.is_empty() {
                let state: Vec<u64> = saved.state(rank, 5)?;
                self.0.extend(&state[both.start - theirs.start..both.end - theirs.start]);
            }
        }
        Ok(())
    }
}

/// All numbers after so many steps.
fn numbers(steps: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..NUMBERS as u64).collect();
    for step in 0..steps {
        for number in &mut all {
            *number = number.wrapping_mul(31).wrapping_add(step);
        }
    }
    all
}

/// The step with which this process began; each has its numbers before each step, or panics.
fn shared(mut world: World, checkpoints: Checkpoints) -> Result<u64, Error> {
    world.set_checkpoints(checkpoints);
    let (me, ranks) = (world.origin(), world.size());
    let mut shares = Shares(numbers(0)[share(me, ranks)].to_vec());
    let rebuild = policy::Rebuild { times: 40, ..policy::Rebuild::default() };
    let (mut first, mut last) = (None, 0);
    let ended = world.run(&rebuild, &mut shares, |step, shares| {
        let number = step.number();
        first.get_or_insert(number);
        assert!(number + 8 >= last, "back to {number} from {last}, with a checkpoint each 4");
        last = number;
        assert_eq!(shares.0, numbers(number)[share(me, ranks)], "{me} of {ranks}, {number}");
        shares.0 = numbers(number + 1)[share(me, ranks)].to_vec();
        Ok(if number + 1 < LONG { Flow::Continue } else { Flow::Done })
    });
    world.finalize();
    ended?.done()?;
    Ok(first.unwrap_or_default())
}

type Begun = Result<u64, Error>;

fn start_shared(disk: &Disk, job: Simulation, files: Files, restart: bool) -> Report<Begun> {
    let disk = disk.clone();
    job.run_world(move |world| shared(world, checkpoints(&disk, files, restart)))
}

/// Where so many ranks have saved, and all have died.
fn left_by(ranks: u32, files: Files) -> Disk {
    let disk = Disk::default();
    let all_die = (0..ranks).map(|rank| Crash::at_time(rank, Duration::from_micros(1_200)));
    drop(start_shared(&disk, job(ranks).crashes(all_die), files, false));
    disk
}

#[test]
fn a_job_goes_on_with_more_or_fewer_ranks_from_what_all_have_saved() {
    for (files, before) in KINDS.into_iter().flat_map(|it| (1..7).map(move |ranks| (it, ranks))) {
        for ranks in 1..7 {
            let disk = left_by(before, files);
            let saved = disk.names().len();
            let again = start_shared(&disk, job(ranks), files, true).expect_orderly();
            let began: Vec<u64> = again.into_iter().map(|it| it.expect("a checkpoint")).collect();
            assert!(began.iter().all(|it| *it == began[0] && *it >= 4), "{began:?} {saved}");
            // The newest ones are those of as many ranks, and those before are removed.
            if began[0] + 8 < LONG {
                let ending = format!("-of-{ranks}.ckpt");
                assert!(disk.names().iter().all(|it| it.ends_with(&ending)), "{:?}", disk.names());
            }
        }
    }
}

#[test]
fn whoever_dies_while_a_job_of_another_size_begins_loses_nothing() {
    for (files, before, ranks) in [(KINDS[0], 3, 4), (KINDS[0], 5, 2), (KINDS[1], 3, 4)] {
        let left = || left_by(before, files);
        let newest = complete(&left(), before).last().copied().expect("a set");
        let mut in_the_beginning = 0;
        let calm = start_shared(&left(), job(ranks), files, true);
        for effect in 1..calm.processes[1].effects {
            for spares in [0, 1] {
                let disk = left();
                let job = job(ranks).spares(spares).seed(effect);
                let job = job.crash(Crash::before_effect(1, effect));
                let report = start_shared(&disk, job, files, true);
                let died = matches!(report.processes[1].ending, Ending::Crashed);
                let text = format!("effect {effect}, {spares}: {report}");
                let began: Vec<_> = report.expect_orderly();
                // A survivor begins with the set, a replacement there or later.
                assert_eq!(began[0], Ok(newest), "{text}");
                assert!(began.iter().all(|it| matches!(it, Ok(at) if *at >= newest)), "{text}");
                in_the_beginning += u32::from(died && began.iter().all(|it| *it == Ok(newest)));
            }
        }
        assert!(in_the_beginning > 10, "{in_the_beginning}");
    }
}

#[test]
fn of_sets_of_several_sizes_the_newest_that_is_whole_counts() {
    for files in KINDS {
        let mut moments = 0;
        // A job of four goes on, and dies when its first set is complete and the old one there.
        for microseconds in 200..1500 {
            let disk = left_by(3, files);
            let moment = Duration::from_micros(microseconds);
            drop(start_shared(&disk, job(4).crashes(blackout(moment)), files, true));
            let (Some(older), Some(newer)) =
                (complete(&disk, 3).last().copied(), complete(&disk, 4).last().copied())
            else {
                continue;
            };
            let spoiled = moments % 2 == 1;
            if spoiled {
                let is_newer = |name: &&String| name.contains("-of-4");
                let name = disk.names().iter().rfind(is_newer).cloned().expect("a part");
                disk.spoil(&name, Vec::clear);
            }
            let began: Vec<_> = start_shared(&disk, job(2), files, true).expect_orderly();
            let expected = if spoiled { older } else { newer };
            let text = format!("{files:?} {microseconds}: {began:?} {expected}");
            assert!(began.iter().all(|it| *it == Ok(expected)), "{text}");
            moments += 1;
        }
        assert!(moments > 3, "{files:?}: {moments}");
    }
}

/// True for what is not saved.
type Refused = fn(&str) -> bool;

#[test]
fn checkpoints_that_one_rank_cannot_save_leave_the_last_whole_one() {
    let refused: [(Files, Refused); 5] = [
        (Files::OfEachRank, |name| name.contains("-1-of-4")),
        (Files::OfEachNode, |name| name.contains("-0-to-1-of-4")),
        (Files::OfTheJob, |name| name.contains("-0-to-3-of-4")),
        // All is written, and the file does not get its name.
        (Files::OfEachRank, |name| name.ends_with("-1-of-4.ckpt")),
        (Files::OfEachNode, |name| name.ends_with("-0-to-1-of-4.ckpt")),
    ];
    for (files, refused) in refused {
        let disk = left_by(4, files);
        let whole = complete(&disk, 4);
        disk.refuse(Some(refused));
        // The job goes on to its end without a checkpoint.
        let ended: Vec<_> = start_shared(&disk, job(4), files, true).expect_orderly();
        assert!(ended.iter().all(|it| it.as_ref().ok() == whole.last()), "{ended:?} {whole:?}");
        disk.refuse(None);
        assert_eq!(complete(&disk, 4), whole, "{:?}", disk.names());
        for (ranks, effect) in [4, 3].into_iter().flat_map(|it| (30..230).map(move |at| (it, at))) {
            let disk = left_by(4, files);
            disk.refuse(Some(refused));
            // Another rank dies, also between a checkpoint of its own and the end of that.
            let dies = job(4).seed(effect).crash(Crash::before_effect(2, effect));
            drop(start_shared(&disk, dies, files, true));
            disk.refuse(None);
            let again: Vec<_> = start_shared(&disk, job(ranks), files, true).expect_orderly();
            let text = format!("{files:?} {ranks} {effect}: {again:?} {whole:?}");
            assert!(again.iter().all(|it| it.as_ref().ok() == whole.last()), "{text}");
        }
    }
}

/// A job that saves, with a disk of its own for each of its two nodes.
fn on_two_disks(disks: &[Disk; 2], files: Files, restart: bool) -> Vec<Begun> {
    let disks = disks.clone();
    let report = job(4).run_world(move |world| {
        let disk = &disks[world.origin() as usize / 2];
        shared(world, checkpoints(disk, files, restart))
    });
    report.expect_orderly()
}

#[test]
fn a_file_that_not_all_who_write_it_see_counts_for_nothing() {
    for (files, sees) in [(KINDS[0], true), (KINDS[1], true), (KINDS[2], false)] {
        let disks = [Disk::default(), Disk::default()];
        let all_begin_with = |begun: &[Begun], step| begun.iter().all(|it| *it == Ok(step));
        assert!(all_begin_with(&on_two_disks(&disks, files, false), 0), "it goes on");
        let again = on_two_disks(&disks, files, true);
        if sees {
            assert!(all_begin_with(&again, 56), "{files:?}: {again:?}");
        } else {
            let none = |it: &Begun| matches!(it, Err(Error::NoCheckpoint { .. }));
            assert!(again.iter().all(none), "{again:?}");
            assert_eq!(disks.map(|disk| disk.names()), [[""; 0]; 2]);
        }
    }
}
