//! Collectives over the living.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use fampi::{
    Level, Patience, Rank, ReduceOp, Source, Tag, TagSelector, Timeout, TryBlock, World,
    sim::{self, Crash, Draw, Ending, Simulation},
};
use fampi_kit::{
    programs::through::{run_through, wander},
    seeds::{each_seed, number},
};

#[test]
fn collectives_go_on_over_the_living_until_one_rank_is_left() {
    for size in [2, 3, 5, 8] {
        for seed in 0..12 {
            let patience = [Patience::Prompt, Patience::Patient][seed as usize % 2];
            let latency = Duration::from_micros(1)..=Duration::from_micros(300);
            let simulation = Simulation::new(size).seed(seed).latency(latency);
            let report = simulation.time_limit(Duration::from_secs(100)).run_world(move |world| {
                world.set_patience(patience);
                run_through(&world, seed, sim::crash);
                world.finalize();
            });
            let ended =
                report.processes.iter().filter(|it| matches!(it.ending, Ending::Finished(())));
            assert_eq!(ended.count(), 1, "{size} ranks, seed {seed}: {report}");
        }
    }
}

/// Ranks, of which any but one may die at any moment; how many did.
fn survive(seed: u64) -> Result<u64, String> {
    let mut draw = Draw(seed);
    let size = 2 + draw.below(6) as u32;
    let deaths = draw.below(u64::from(size));
    let crashes: Vec<_> = (0..deaths)
        .map(|_| {
            let who = 1 + draw.below(u64::from(size) - 1) as u32;
            Crash::before_effect(who, 1 + draw.below(400))
        })
        .collect();
    let patience = draw.one_of(&[Patience::Prompt, Patience::Patient]);
    let latency = Duration::from_micros(1)..=Duration::from_micros(1 + draw.below(300));
    let simulation = Simulation::new(size).seed(seed).latency(latency).crashes(crashes);
    let report = simulation.time_limit(Duration::from_secs(100)).run_world(move |world| {
        world.set_patience(patience);
        wander(&world, seed, 8);
        world.finalize();
    });
    let mut dead = 0;
    for process in &report.processes {
        match process.ending {
            Ending::Finished(()) => {}
            Ending::Crashed => dead += 1,
            _ => return Err(format!("{size} ranks, {patience:?}: {report}")),
        }
    }
    Ok(dead)
}

#[test]
fn deaths_at_any_moment_leave_right_results_and_nobody_waiting() {
    let (seeds, dead) = (number("FAMPI_SEEDS").unwrap_or(1_000), AtomicU64::new(0));
    let ended = each_seed(0, seeds, |seed| {
        dead.fetch_add(survive(seed)?, Ordering::Relaxed);
        Ok::<_, String>(())
    });
    if let Err((seed, wrong)) = ended {
        panic!("seed {seed}: {wrong}");
    }
    assert!(dead.into_inner() >= seeds / 4, "hardly anybody dies");
}

/// A collective over the living in which one rank is late, and another one does not wait so long.
fn wait_for_a_late_rank(world: &World, seed: u64, patience: Patience) -> bool {
    let me = world.rank().number();
    world.set_run_through(true);
    world.set_patience(patience);
    if me == world.size() - 1 {
        sim::crash();
    }
    let ended = world.start(Level::Global).expect("in use").finish(Timeout::Never);
    assert!(!ended.wait().expect("in use").is_committed(), "the death is new");
    let mut block = world.start(Level::Global).expect("in use");
    let place = (u64::from(me) + seed) % u64::from(world.size() - 1);
    if place == 0 {
        sim::compute(Duration::from_secs(3));
    }
    let _ = block.iallreduce(vec![u64::from(me); 2000], ReduceOp::Sum);
    let limit = Timeout::After(Duration::from_millis(100));
    let timeout = if place == 1 { limit } else { Timeout::Never };
    block.finish(timeout).wait().expect("in use").is_committed()
}

#[test]
fn nobody_waits_for_a_rank_whose_limit_has_passed_in_a_collective() {
    for (seed, patience) in (0..40).zip([Patience::Prompt, Patience::Patient].into_iter().cycle()) {
        let simulation = Simulation::new(6).seed(seed).time_limit(Duration::from_secs(600));
        let report = simulation.run_world(move |world| {
            let committed = wait_for_a_late_rank(&world, seed, patience);
            world.finalize();
            committed
        });
        assert_eq!(report.expect_orderly(), [false; 5], "seed {seed}, {patience:?}");
    }
}

/// Two blocks at once after a death: one with a collective over the living, which is made of
/// messages, the other with a message that is received by any tag, by some before their collective.
/// `calm` if nobody else dies; otherwise what does not commit has to end.
fn receive_of_any_tag(world: &World, seed: u64, calm: bool) {
    let (me, living) = (world.rank().number(), world.size() - 1);
    world.set_run_through(true);
    if me == living {
        sim::crash();
    }
    let ended = world.start(Level::Global).expect("in use").finish(Timeout::Never);
    assert!(!ended.wait().expect("in use").is_committed(), "the death is new");
    for round in 0..6 {
        let number = seed + round;
        let (next, before) = ((me + 1) % living, (me + living - 1) % living);
        let mut sums = world.start(Level::Global).expect("in use");
        let mut messages = world.start(Level::Global).expect("in use");
        let sent = vec![u64::from(me) + number; 3];
        let source =
            if number.is_multiple_of(2) { Source::Any } else { Source::Rank(Rank::new(before)) };
        let later = number.is_multiple_of(3) && me.is_multiple_of(2);
        let mine = vec![u64::from(me); 40 + 3000 * usize::from(round % 2 == 0)];
        let add = |block: &mut TryBlock| block.iallreduce(mine.clone(), ReduceOp::Sum).ok();
        let early = if later { None } else { add(&mut sums) };
        let got = messages.irecv(vec![0_u64; 3], source, TagSelector::Any).expect("a rank");
        messages.isend(sent, Rank::new(next), Tag(number as u32 % 5)).expect("a rank");
        let status = messages.wait_local(got, Timeout::Never);
        let is_right = status.as_ref().is_ok_and(|status| status.tag == Tag(number as u32 % 5));
        assert!(is_right || !calm, "{me} in {round}: {status:?}");
        let sum = early.or_else(|| add(&mut sums));
        let messages = messages.finish(Timeout::Never);
        let sums = sums.finish(Timeout::Never).wait().expect("in use");
        let messages = messages.wait().expect("in use");
        assert!(!calm || sums.is_committed() && messages.is_committed(), "{me} in {round}");
        if let (true, Some(sum)) = (calm, sum) {
            let all = u64::from(living * (living - 1) / 2);
            assert!(sums.take(sum).expect("there").iter().all(|it| *it == all));
        }
        if messages.is_committed() {
            assert_eq!(messages.take(got).expect("there"), vec![u64::from(before) + number; 3]);
        }
    }
}

#[test]
fn a_receive_of_any_tag_gets_no_message_of_a_collective_and_waits_behind_none() {
    for seed in 0..60 {
        let latency = Duration::from_micros(1)..=Duration::from_micros(300);
        let simulation = Simulation::new(3 + seed as u32 % 4).seed(seed).latency(latency);
        let report = simulation.time_limit(Duration::from_secs(100)).run_world(move |world| {
            receive_of_any_tag(&world, seed, true);
            world.finalize();
        });
        let lost = report.processes.iter().filter(|it| !matches!(it.ending, Ending::Finished(())));
        assert_eq!(lost.count(), 1, "seed {seed}: {report}");
    }
}

#[test]
fn who_dies_beside_receives_of_any_tag_leaves_no_message_that_another_block_gets() {
    let mut dead = 0;
    for seed in 0..300 {
        let latency = Duration::from_micros(1)..=Duration::from_micros(300);
        let crash = Crash::before_effect(1, 5 + seed % 60);
        let simulation = Simulation::new(4 + seed as u32 % 3).seed(seed).latency(latency);
        let simulation = simulation.crash(crash).time_limit(Duration::from_secs(100));
        let report = simulation.run_world(move |world| {
            receive_of_any_tag(&world, seed, false);
            world.finalize();
        });
        let ends = report.processes.iter().map(|it| &it.ending);
        let is_well = |it: &Ending<()>| matches!(it, Ending::Finished(()) | Ending::Crashed);
        assert!(ends.clone().all(is_well), "seed {seed}: {report}");
        dead += ends.filter(|it| matches!(it, Ending::Crashed)).count();
    }
    assert!(dead > 550, "{dead}");
}
