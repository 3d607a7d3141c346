//! Programs about windows on real ranks: contents, refusals, deaths.

use std::{thread, time::Duration};

use fampi::{FaultCode, Level, Rank, ReduceOp, Timeout, World};

use crate::{
    all_say, example, program,
    programs::{Ended, command, die, say, wait},
    said,
};
use fampi_kit::programs::cells::{Truth, draw, living, post, start_again, verify};

/// Everybody puts to, gets from and accumulates at everybody, in blocks of all sizes.
pub(crate) fn all(world: World) -> Ended {
    let (me, size) = (world.rank().index(), world.size() as usize);
    for (round, length) in [1, 7, 1000, 3, 100_000, 0, 20].into_iter().cycle().take(70).enumerate()
    {
        let value = |from: usize, to: usize| ((round * 100 + from) * 100 + to) as u64;
        let window = world.window(2, vec![3_u64; length * (size + 1)])?;
        let mut block = world.start(Level::Global)?;
        let mut before = Vec::new();
        for to in (0..size).map(|k| (me + k) % size) {
            let (rank, part) = (Rank::from(to), || vec![value(me, to); length]);
            block.rput(&window, rank, length * me, part())?;
            block.raccumulate(&window, rank, length * size, part(), ReduceOp::Sum)?;
            before.push(block.rget(&window, rank, length * me, vec![0; length])?);
        }
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(finished.is_committed(), "{length} elements: {finished:?}");
        for gotten in before {
            assert_eq!(finished.take(gotten)?, vec![3; length]);
        }
        let sum = 3 + (0..size).map(|from| value(from, me)).sum::<u64>();
        let parts = (0..size).flat_map(|from| vec![value(from, me); length]);
        let expected: Vec<u64> = parts.chain(vec![sum; length]).collect();
        window.read(|memory| assert!(*memory == expected, "{length} elements"));
        drop((finished, window));
    }
    undisturbed(&world)?;
    refused(&world)?;
    say(world, "all windows are right")
}

/// Sums of floats have the bits of a run in which messages come in order.
fn undisturbed(world: &World) -> Ended {
    let (me, mut truth) = (world.rank().number(), Truth::new(world.size()));
    let window = world.window(0, truth.0[me as usize].clone())?;
    for round in 0..300 {
        let mut block = world.start(Level::Global)?;
        let gotten = post(&mut block, &window, (round, me), &living(world))?;
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(finished.is_committed(), "round {round}: {finished:?}");
        verify(&finished, &gotten, &truth);
        truth.commit(round, &living(world));
        window.read(|memory| assert_eq!(memory, truth.0[me as usize]));
    }
    Ok(())
}

/// What only the target knows has its class, and the other accesses of the block are right.
fn refused(world: &World) -> Ended {
    let (me, last) = (world.rank(), Rank::new(world.size() - 1));
    for length in [3, 30_000] {
        let window = world.window(0, vec![me.number(); length])?;
        let other = (me != last).then(|| world.window(1, vec![0.5; length])).transpose()?;
        let typed = (me == last).then(|| world.window(2, vec![0.5_f32; length])).transpose()?;
        let mut block = world.start(Level::Global)?;
        if me == last {
            let finished = wait(block.finish(Timeout::seconds(20.0)))?;
            assert_eq!(finished.is_committed(), world.size() == 1, "{finished:?}");
        } else {
            let typed = world.window(2, vec![1_u32; length])?;
            let other = other.as_ref().expect("made");
            let whole = || vec![0; length];
            let requests = [
                (block.rput(&window, last, 1, whole())?.id(), Some(68)),
                (block.rget(&window, last, length, vec![0])?.id(), Some(68)),
                (block.rget(other, last, 0, vec![0.0; length])?.id(), Some(53)),
                (block.rput(other, last, 0, vec![0.0; length])?.id(), Some(53)),
                (block.rput(&typed, last, 0, whole())?.id(), Some(3)),
                (block.rget(&typed, last, 0, whole())?.id(), Some(3)),
            ];
            let right = block.rget(&window, last, 0, whole())?;
            let finished = wait(block.finish(Timeout::seconds(20.0)))?;
            for (request, class) in requests {
                assert_eq!(finished.fault(request), class.map(FaultCode::Mpi), "{finished:?}");
            }
            assert_eq!(finished.take(right)?, vec![last.number(); length]);
        }
        window.read(|memory| assert_eq!(memory, vec![me.number(); length]));
        drop(typed);
    }
    Ok(())
}

/// The survivors of a death go on without a recovery, among themselves.
pub(crate) fn going_on(world: World) -> Ended {
    let (me, mut truth) = (world.rank().number(), Truth::new(world.size()));
    let window = world.window(0, truth.0[me as usize].clone())?;
    let (mut committed, mut faulty) = (0, 0);
    for round in 0..40 {
        let living = living(&world);
        let mut block = world.start(Level::Global)?;
        if round == 5 && me == 2 {
            die();
        }
        let gotten = post(&mut block, &window, (round, me), &living)?;
        let finished = wait(block.finish(Timeout::Never))?;
        verify(&finished, &gotten, &truth);
        if finished.is_committed() {
            truth.commit(round, &living);
            committed += 1;
        } else {
            faulty += 1;
        }
        window.read(|memory| assert_eq!(memory, truth.0[me as usize], "{finished:?}"));
    }
    assert!(committed >= 37 && faulty >= 1, "{committed} blocks, {faulty} faulty");
    drop(window);
    say(world, "the living go on")
}

/// Ranks are killed in the middle of blocks, again and again; the result is that of a run without
/// deaths. The test says in which way.
pub(crate) fn with_deaths(world: World) -> Ended {
    const ROUNDS: u64 = 60;
    let way: u64 = std::env::var("WAY").expect("told").parse().expect("a number");
    let me = world.rank();
    let last = draw([way, 0, 1]) >> 30;
    let (world, [found, truth]) = start_again(world, ROUNDS, |world, round, posted| {
        let generation = u64::from(world.generation());
        let victim = (last + generation) % u64::from(world.size());
        let round_of_death = 10 + 20 * generation + (last >> 8) % 10;
        if generation == 2 || victim != u64::from(me.number()) {
            return;
        }
        match ((way + generation) % 3, posted, round.checked_sub(round_of_death)) {
            (0, false, Some(0)) | (1, true, Some(0)) => die(),
            (2, false, Some(0)) => {
                command("sleep 0.001; kill -KILL PID");
                thread::sleep(Duration::from_micros((last >> 12) % 3000));
            }
            // On a busy machine it takes its time, but nothing goes on without it.
            (2, false, Some(5)) => thread::sleep(Duration::from_secs(20)),
            _ => {}
        }
    })?;
    assert_eq!(found, truth);
    say(world, "as without deaths")
}

#[test]
fn windows_work_on_real_ranks() {
    for ranks in [1, 2, 4, 8] {
        all_say(&program("windows", ranks), ranks, "all windows are right");
    }
}

#[test]
fn windows_of_the_living_work_on_a_broken_communicator() {
    for _ in 0..3 {
        let run = program("windows of the living", 4).run();
        let expected = [0, 1, 3].map(|rank| format!("rank {rank}: the living go on"));
        assert_eq!(said(&run), expected, "{run}");
    }
}

#[test]
fn windows_are_what_they_would_be_without_the_deaths() {
    let trials = std::env::var("FAMPI_TRIALS").ok().and_then(|trials| trials.parse().ok());
    for way in 0..trials.unwrap_or(9) {
        let ranks = if way % 4 == 3 { 8 } else { 4 };
        let launch = program("windows with deaths", ranks).variable("WAY", &way);
        let launch = launch.spares([0, 2][way as usize % 2]);
        let run = launch.run();
        let expected = (0..ranks).map(|rank| format!("rank {rank}: as without deaths"));
        assert_eq!(said(&run), expected.collect::<Vec<_>>(), "way {way}: {run}");
        assert_eq!(run.processes - run.orderly, 2, "way {way}: two die\n{run}");
    }
}

#[test]
fn a_window_has_whole_blocks_and_no_others_after_a_death() {
    for spares in [0, 1] {
        let run = example("window", 4).spares(spares).run();
        let lines = run.expect_orderly(4).sorted_lines();
        assert_eq!(lines.len(), 4, "{run}");
        for (rank, line) in lines.iter().enumerate() {
            let bins = line.strip_prefix(&format!("rank {rank}: ")).expect("in order");
            let (found, rest) = bins.split_once(" (undisturbed ").expect("both");
            let undisturbed = rest.strip_suffix("), generation 1").expect("a rebuild");
            assert!(found == undisturbed && found.len() > 9, "{run}");
        }
    }
}
