//! Who is told of what: the faults of inner blocks, on members and on others; the dead, as often as
//! a recovery asks for them.

use fampi::{
    BlockOptions, Codes, Color, Comm, CommId, Error, Fault, FaultCode, FaultReport, Finished,
    Level, Outcome, Rank, RankSet, Timeout, Tried, World,
    sim::{self, Simulation},
};

const ALWAYS: BlockOptions = BlockOptions::global(Timeout::Never);
const SIZE: u32 = 6;
/// The rank that dies, or raises a code: one of the upper half.
const BAD: u32 = 4;
const RAISED: FaultCode = FaultCode::Application(7);

/// What a rank knows of an outer block.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    report: FaultReport,
    dead: Vec<u32>,
    is_committed: bool,
}

fn numbers(ranks: &RankSet) -> Vec<u32> {
    ranks.iter().map(Rank::number).collect()
}

fn told(outcome: Result<Outcome, Error>, comm: &Comm) -> (Told, Finished) {
    let (is_committed, finished) = match outcome.expect("agreed") {
        Outcome::Committed(finished) => (true, finished),
        Outcome::Faulty(finished) => (false, finished),
        Outcome::TimedOut(_) => unreachable!("there is no limit"),
    };
    let dead = numbers(&finished.failed_group(Codes::PROCESS_FAILURES, comm));
    (Told { report: finished.report(), dead, is_committed }, finished)
}

/// The half of the world that this rank is in.
fn half(world: &World) -> Comm {
    let color = Color::Of(world.rank().number() * 2 / SIZE);
    let forming = world.isplit(color, 0).expect("one at a time");
    let half = forming.wait_local(Timeout::Never).expect("all are alive");
    half.into_comm().expect("each rank has a colour")
}

/// A block of the world around one of the half; the bad rank of the upper half does this in it.
fn around(world: &World, half: &Comm, bad: impl FnOnce()) -> (Told, Vec<u32>) {
    let mut outer = world.start(Level::Global).expect("in use");
    let mut inner = half.start(Level::Global).expect("in use");
    if world.rank().number() == BAD {
        inner.raise_error(7);
        bad();
    }
    outer.nest(inner.finish(Timeout::Never));
    let (told, finished) = told(outer.finish(Timeout::Never).wait_local(Timeout::Never), world);
    let of_half = finished.failed_group(Codes::PROCESS_FAILURES, half);
    (told, numbers(&of_half))
}

#[test]
fn all_ranks_of_a_block_are_told_what_was_wrong_inside_of_it() {
    for (seed, dies) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
        let report = Simulation::new(SIZE).seed(seed).run_world(move |world| {
            let half = half(&world);
            let (told, of_half) = around(&world, &half, || {
                if dies {
                    sim::crash();
                }
            });
            let is_member = world.rank().number() >= SIZE / 2;
            let here = if dies && is_member { vec![BAD - SIZE / 2] } else { Vec::new() };
            assert_eq!(of_half, here, "rank {}, seed {seed}", world.rank());
            let upper = is_member.then(|| half.id());
            world.finalize();
            (told, upper)
        });
        let all: Vec<_> = report.results().cloned().collect();
        assert_eq!(all.len(), SIZE as usize - usize::from(dies), "seed {seed}: {report}");
        let upper = all.iter().find_map(|(_, upper)| *upper).expect("members live");
        let rank = Rank::new(BAD - SIZE / 2);
        let code = if dies { FaultCode::ProcessFailed } else { RAISED };
        for (told, _) in &all {
            assert_eq!(told, &all[0].0, "seed {seed}");
            assert!(!told.is_committed);
            let faults = told.report.faults();
            assert!(faults.contains(&Fault { comm: upper, rank, code }), "{}", told.report);
            let handed = |it: &&Fault| (it.comm, it.code) == (upper, FaultCode::InnerBlock);
            assert!(faults.iter().any(|fault| handed(&fault)), "{}", told.report);
            let of_upper = told.report.failed_group(Codes::PROCESS_FAILURES, upper);
            assert_eq!(numbers(&of_upper), if dies { vec![rank.number()] } else { Vec::new() });
            assert!(told.report.to_string().contains("of the inner block"), "{}", told.report);
        }
    }
}

#[test]
fn the_dead_of_a_recovery_are_all_that_the_communicator_has_lost() {
    for seed in 0..20 {
        let report = Simulation::new(SIZE).seed(seed).run_world(|world| {
            let mut seen = Vec::new();
            for round in 0..4 {
                let raises = round == 3 && world.rank() == Rank::new(0);
                if (round == 0 && world.rank().number() == BAD)
                    || (round == 1 && world.rank().number() == 1)
                {
                    sim::crash();
                }
                // The first attempt after a death may be the one that meets it.
                for _ in 0..2 {
                    let mut block = world.start(Level::Global).expect("in use");
                    if raises {
                        block.raise_error(7);
                    }
                    let pending = block.finish(Timeout::Never);
                    seen.push(told(pending.wait_local(Timeout::Never), &world).0);
                }
            }
            let known = numbers(&world.known_failed());
            world.finalize();
            (seen, known)
        });
        let all: Vec<_> = report.results().cloned().collect();
        assert_eq!(all.len(), SIZE as usize - 2, "seed {seed}: {report}");
        for (seen, known) in &all {
            assert_eq!((seen, known), (&all[0].0, &vec![1, BAD]), "seed {seed}");
            let mut dead = Vec::new();
            for told in seen.iter().filter(|told| !told.is_committed) {
                let new = told.report.faults().iter();
                let new = new.filter(|it| it.code == FaultCode::ProcessFailed);
                dead.extend(new.map(|fault| fault.rank.number()));
                dead.sort_unstable();
                assert_eq!(told.dead, dead, "seed {seed}: {}", told.report);
            }
            assert_eq!(dead, [1, BAD], "each death is new once");
        }
    }
}

#[test]
fn a_fault_that_is_handled_inside_is_told_to_no_other() {
    let report = Simulation::new(SIZE).run_world(|world| {
        let half = half(&world);
        let tried = world.try_block(ALWAYS, |_| {
            let inner = half.try_block(ALWAYS, |_| {
                if world.rank().number() == BAD { Err(Error::Raised(7)) } else { Ok(()) }
            })?;
            let faulty = matches!(inner, Tried::Faulty(..));
            assert_eq!(faulty, world.rank().number() >= SIZE / 2);
            Ok(())
        });
        let committed = matches!(tried, Ok(Tried::Committed(..)));
        world.finalize();
        committed
    });
    assert!(report.expect_orderly().into_iter().all(|committed| committed));
}

/// What a rank knows of the halves after a death that no block on them has met.
struct Used {
    is_member: bool,
    half: CommId,
    failed: Vec<CommId>,
    of_half: Vec<u32>,
    known: Vec<u32>,
}

#[test]
fn a_death_counts_for_each_communicator_in_use_that_has_the_process() {
    for (seed, uses) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
        let report = Simulation::new(SIZE).seed(seed).run_world(move |world| {
            let half = half(&world);
            let mut outer = world.start(Level::Global).expect("in use");
            if uses {
                outer.nest(half.start(Level::Global).expect("in use").finish(Timeout::Never));
            }
            let voted = world.try_block(ALWAYS, |_| Ok(())).expect("nobody has died");
            assert!(matches!(voted, Tried::Committed(..)));
            if world.rank().number() == BAD {
                sim::crash();
            }
            let ended = outer.finish(Timeout::Never).wait_local(Timeout::Never);
            let (told, finished) = told(ended, &world);
            assert_eq!((told.is_committed, &told.dead), (false, &vec![BAD]), "{}", told.report);
            let used = Used {
                is_member: world.rank().number() >= SIZE / 2,
                half: half.id(),
                failed: finished.failed_communicators(Codes::PROCESS_FAILURES),
                of_half: numbers(&finished.failed_group(Codes::PROCESS_FAILURES, &half)),
                known: numbers(&half.known_failed()),
            };
            assert!(used.failed.contains(&world.id()));
            // It can be shrunk, and used, though no block on it has met the death.
            drop(finished);
            let living = if used.is_member { shrunk(&half) } else { half.clone() };
            let tried = living.try_block(ALWAYS, |_| Ok(())).expect("no outer block");
            assert!(matches!(tried, Tried::Committed(..)), "seed {seed}");
            assert_eq!(living.size(), SIZE / 2 - u32::from(used.is_member));
            drop((half, living));
            world.finalize();
            used
        });
        let all: Vec<_> = report.results().collect();
        assert_eq!(all.len(), SIZE as usize - 1, "seed {seed}: {report}");
        for used in all {
            assert_eq!(used.failed.contains(&used.half), uses && used.is_member, "seed {seed}");
            let dead = if used.is_member { vec![BAD - SIZE / 2] } else { Vec::new() };
            assert_eq!((&used.of_half, &used.known), (&dead, &dead), "seed {seed}");
        }
    }
}

fn shrunk(comm: &Comm) -> Comm {
    comm.shrink().expect("nobody else dies")
}
