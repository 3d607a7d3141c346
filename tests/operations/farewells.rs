//! Ranks that leave while others go on: a farewell is never a block, whoever comes first.

use std::time::Duration;

use fampi::{
    BlockOptions, Codes, Color, Comm, Error, Fault, FaultCode, Flow, Forming, Level, Outcome,
    Placement, Rank, ReduceOp, Tag, Timeout, Tried, policy,
    sim::{self, Crash, Ending, Report, Simulation},
};

const ALWAYS: BlockOptions = BlockOptions::global(Timeout::Never);
const SIZE: u32 = 5;

/// What a rank saw: whether its blocks committed, and who had left, after how many blocks.
type Seen = Vec<(bool, Vec<(u32, i32)>)>;

fn departures(faults: &[Fault]) -> Vec<(u32, i32)> {
    let left = |fault: &Fault| match fault.code {
        FaultCode::Finalized(blocks) => Some((fault.rank.number(), blocks)),
        _ => None,
    };
    faults.iter().filter_map(left).collect()
}

fn block(comm: &Comm) -> (bool, Vec<(u32, i32)>) {
    match comm.try_block(ALWAYS, |_| Ok(())) {
        Ok(Tried::Committed(..)) => (true, Vec::new()),
        Ok(Tried::Faulty(finished, error)) => {
            let left = departures(finished.report().faults());
            assert_eq!(left.len(), finished.report().faults().len(), "{}", finished.report());
            let first = left
                .first()
                .map(|(rank, blocks)| Error::Left { rank: Rank::new(*rank), blocks: *blocks });
            assert_eq!(error, first);
            (false, left)
        }
        Err(error) => panic!("{error}"),
    }
}

/// All ranks end in order, with what they saw; those that died are left out.
fn ends(report: Report<Seen>, what: &str) -> Vec<(usize, Seen)> {
    let well = |ending: &Ending<Seen>| matches!(ending, Ending::Finished(_) | Ending::Crashed);
    assert!(report.processes.iter().all(|it| well(&it.ending)), "{what}: {report}");
    let processes = report.processes.into_iter().enumerate();
    processes.filter_map(|(rank, it)| Some((rank, it.ending.finished()?.clone()))).collect()
}

#[test]
fn each_block_of_those_who_stay_names_those_who_left() {
    let leavers: [&[u32]; 5] = [&[0], &[4], &[2], &[0, 1, 3], &[1, 2, 3, 4]];
    for leavers in leavers {
        // The leavers come long before the others, at about the same time, or long after.
        for (early, late) in [(0, 3_000), (0, 0), (3_000, 0), (900, 0), (0, 900)] {
            for seed in 0..6 {
                let report = Simulation::new(SIZE).seed(seed).run_world(move |world| {
                    let mut seen: Seen = (0..2).map(|_| block(&world)).collect();
                    let leaves = leavers.contains(&world.rank().number());
                    sim::compute(Duration::from_millis(if leaves { early } else { late }));
                    if !leaves {
                        seen.extend((0..3).map(|_| block(&world)));
                        assert!(world.known_failed().is_empty(), "nobody has died");
                    }
                    world.finalize();
                    seen
                });
                let what = format!("{leavers:?} after {early}, others after {late}, seed {seed}");
                for (rank, seen) in ends(report, &what) {
                    let before = [(true, Vec::new()), (true, Vec::new())];
                    assert_eq!(seen[..2], before, "{what}");
                    if !leavers.contains(&(rank as u32)) {
                        let left: Vec<_> = leavers.iter().map(|rank| (*rank, 2)).collect();
                        assert_eq!(seen[2..], vec![(false, left); 3], "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn who_waits_for_a_rank_that_left_is_told() {
    for seed in 0..8 {
        let report = Simulation::new(SIZE).seed(seed).run_world(|world| {
            let mut seen = vec![block(&world)];
            if world.rank() == Rank::new(1) {
                world.finalize();
                return seen;
            }
            let tried = world.try_block(ALWAYS, |block| {
                let message = block.irecv(vec![0_u8], Rank::new(1), Tag(3))?;
                block.wait_local(message, Timeout::Never)
            });
            let Ok(Tried::Faulty(finished, _)) = tried else { panic!("nobody sends") };
            seen.push((false, departures(finished.report().faults())));
            seen.push(block(&world));
            world.finalize();
            seen
        });
        for (rank, seen) in ends(report, &format!("seed {seed}")) {
            if rank != 1 {
                assert_eq!(seen[1..], [(false, vec![(1, 1)]), (false, vec![(1, 1)])]);
            }
        }
    }
}

#[test]
fn a_block_of_a_part_and_one_inside_of_another_learn_of_it_too() {
    for (inside, seed) in [false, true].into_iter().flat_map(|it| (0..8).map(move |s| (it, s))) {
        let report = Simulation::new(SIZE).seed(seed).run_world(move |world| {
            let part = world.isplit(Color::Of(world.rank().number() / 3), 0).expect("one");
            let part = part.wait_local(Timeout::Never).expect("alive").into_comm().expect("one");
            let mut seen = vec![block(&part)];
            let leaves = world.rank() == Rank::new(1);
            if !leaves && inside {
                let tried =
                    world.try_block(ALWAYS, |_| part.try_block(ALWAYS, |_| Ok(())).map(|_| ()));
                let Ok(Tried::Faulty(finished, _)) = tried else { panic!("one has left") };
                seen.push((false, departures(finished.report().faults())));
            } else if !leaves {
                seen.push(block(&part));
                seen.push(block(&part));
            }
            world.finalize();
            seen
        });
        for (rank, seen) in ends(report, &format!("inside: {inside}, seed {seed}")) {
            let waits = rank != 1 && (inside || rank < 3);
            if waits {
                assert!(!seen[1].0 && seen[1].1.len() == 1, "{seen:?}");
                assert_eq!(seen[1].1[0].0, 1);
            }
            if waits && !inside {
                assert_eq!(seen[2], seen[1]);
            }
        }
    }
}

#[test]
fn a_farewell_ends_whoever_dies_before_it_in_it_or_after_it() {
    for victim in 0..SIZE {
        for effect in 1..40 {
            let simulation = Simulation::new(SIZE).seed(u64::from(victim) * 64 + effect);
            let simulation = simulation.crash(Crash::before_effect(victim, effect));
            let report = simulation.run_world(|world| {
                if world.rank() >= Rank::new(2) {
                    let _ = world.try_block(ALWAYS, |_| Ok(()));
                }
                let tried = world.try_block(ALWAYS, |_| Ok(()));
                assert!(tried.is_ok());
                world.finalize();
                Seen::new()
            });
            ends(report, &format!("rank {victim} before its effect {effect}"));
        }
    }
}

#[test]
fn a_job_that_ends_together_waits_for_the_last_and_has_no_fault() {
    for effect in 0..40 {
        let simulation = Simulation::new(SIZE).seed(effect);
        let simulation = simulation.crash(Crash::before_effect(3, 1 + effect));
        let simulation = if effect == 0 { Simulation::new(SIZE) } else { simulation };
        let report = simulation.run_world(|world| {
            let seen = match world.try_block(ALWAYS, |_| Ok(())) {
                Ok(Tried::Committed(..)) => vec![(true, Vec::new())],
                Ok(Tried::Faulty(it, _)) => vec![(false, departures(it.report().faults()))],
                Err(error) => panic!("{error}"),
            };
            // The last comes when those who came first have waited for long.
            sim::compute(Duration::from_millis(u64::from(world.rank().number()) * 900));
            world.finalize();
            seen
        });
        let seen = ends(report, &format!("effect {effect}"));
        assert!(seen.iter().all(|(_, seen)| seen[0].1.is_empty()), "effect {effect}: {seen:?}");
    }
}

#[test]
fn nothing_is_made_without_a_rank_that_left() {
    for (work, seed) in (0..3).flat_map(|work| (0..6).map(move |seed| (work, seed))) {
        let report = Simulation::new(SIZE).seed(seed).run_world(move |world| {
            let seen = vec![block(&world)];
            if world.rank() == Rank::new(1) {
                world.finalize();
                return seen;
            }
            let forming = |it: Result<Forming, Error>| it?.wait_local(Timeout::Never);
            let made = match work {
                0 => forming(world.ishrink()).map(drop),
                1 => forming(world.isplit(Color::Of(0), 0)).map(drop),
                _ => world.rebuild(Placement::SameRanks).map(drop),
            };
            let error = made.expect_err("one has left");
            assert!(matches!(error, Error::Left { rank, .. } if rank == Rank::new(1)), "{error}");
            // A rebuild gives the old world up, whatever comes of it.
            let after = world.try_block(ALWAYS, |_| Ok(()));
            assert_eq!(after.is_err(), work == 2);
            world.finalize();
            seen
        });
        assert_eq!(ends(report, &format!("work {work}, seed {seed}")).len(), SIZE as usize);
    }
}

#[test]
fn a_finished_block_that_nobody_waits_for_counts_all_the_same() {
    for seed in 0..8 {
        let report = Simulation::new(4).seed(seed).run_world(|world| {
            let mut block = world.start(Level::Global).expect("in use");
            let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum).expect("right");
            let pending = block.finish(Timeout::Never);
            let mut seen = Vec::new();
            if world.rank() == Rank::new(2) {
                drop(pending);
            } else {
                let Ok(Outcome::Committed(it)) = pending.wait_local(Timeout::Never) else {
                    panic!("all have finished it");
                };
                assert_eq!(it.take(sum), Ok(vec![4]));
                seen.push((true, Vec::new()));
            }
            world.finalize();
            seen
        });
        ends(report, &format!("seed {seed}"));
    }
}

#[test]
fn ranks_that_disagree_about_the_last_step_get_an_error() {
    for (protects, seed) in [true, false].into_iter().flat_map(|it| (0..6).map(move |s| (it, s))) {
        let report = Simulation::new(4).seed(seed).run_world(move |mut world| {
            let mut state = vec![7_u64; 3];
            let me = world.rank().number();
            let ended = world.run(&policy::Rebuild::default(), &mut state, |step, state| {
                if !protects {
                    step.skip_protection();
                }
                let last = step.number() >= if me == 2 { 4 } else { 6 };
                if last {
                    state.clear();
                }
                Ok(if last { Flow::Done } else { Flow::Continue })
            });
            let error = ended.map(|_| ()).expect_err("they disagree");
            assert_eq!(error, Error::NotAllDone { rank: Rank::new(2) });
            assert!(error.to_string().contains("rank 2"));
            world.finalize();
            Seen::new()
        });
        assert_eq!(ends(report, &format!("seed {seed}")).len(), 4);
    }
}

#[test]
fn a_rank_that_left_is_told_so_by_name_and_number() {
    let code = FaultCode::Finalized(3);
    assert_eq!(code.to_string(), "the rank had left the job after 3 blocks");
    assert!(!Codes::PROCESS_FAILURES.matches(code));
    assert_eq!(FaultCode::from_numbers(12, 3), Some(code));
}

#[test]
fn what_is_left_of_a_world_after_its_end_says_that_the_rank_has_left() {
    let report = Simulation::new(2).run_world(|world| {
        let twin = world.idup().and_then(Forming::wait).expect("all are here").expect("a colour");
        let pending = twin.idup().expect("all are here");
        world.finalize();
        assert_eq!(twin.start(Level::Global).err(), Some(Error::HasLeft));
        assert_eq!(twin.idup().err(), Some(Error::HasLeft));
        assert_eq!(twin.ishrink().err(), Some(Error::HasLeft));
        assert_eq!(twin.window(1, vec![0_u8]).err(), Some(Error::HasLeft));
        assert_eq!(
            twin.open_file::<u8>("file", fampi::FileMode::Write).err(),
            Some(Error::HasLeft)
        );
        assert_eq!(fampi::ulfm::iagree(&twin, 1).err(), Some(Error::HasLeft));
        assert_eq!(pending.wait().err(), Some(Error::HasLeft));
    });
    report.expect_orderly();
}
