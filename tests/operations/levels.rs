//! Blocks of level `WithCollective`: what they promise, and what becomes of those that do not keep
//! it.

use fampi::{
    BlockOptions, Codes, FaultCode, FaultReport, Level, Rank, ReduceOp, Tag, Timeout, Tried, World,
    sim::{Crash, Simulation},
};

use crate::faults::{same, wait};

const SIZE: u32 = 4;
/// The rank that forgets the collective, or dies.
const BAD: u32 = 1;
const FOREVER: BlockOptions = BlockOptions::with_collective(Timeout::Never);

/// The last operation of a block of level `WithCollective`.
#[derive(Clone, Copy, Debug)]
enum Last {
    Nothing,
    Empty,
    Broadcast,
    Unposted,
    Barrier,
    Sum,
}

/// What the ranks are told when some of them have no synchronising collective in their block.
fn with_collective(world: World, last: Last) -> FaultReport {
    let me = world.rank();
    let mut block = world.start(Level::WithCollective).expect("in use");
    let (left, right) = (Rank::new((me.number() + SIZE - 1) % SIZE), (me.number() + 1) % SIZE);
    let received = block.irecv(vec![0], left, Tag(1)).expect("a rank");
    block.isend(vec![me.number()], Rank::new(right), Tag(1)).expect("a rank");
    match last {
        Last::Nothing => {}
        Last::Empty => drop(block.iallreduce(Vec::<u8>::new(), ReduceOp::Sum)),
        Last::Broadcast => drop(block.ibcast(vec![1_u8], Rank::new(0))),
        Last::Barrier => drop(block.ibarrier()),
        Last::Unposted if me == Rank::new(BAD) => {}
        Last::Sum | Last::Unposted => {
            let sum = block.iallreduce(vec![1_u8], ReduceOp::Sum).expect("a sum");
            // Those who wait for it are not held up by one that forgets it.
            let _ = block.wait_local(sum, Timeout::Never);
        }
    }
    let finished = wait(block, Timeout::Never);
    if finished.is_committed() {
        assert_eq!(finished.take(received).expect("complete"), [left.number()]);
    }
    let report = finished.report();
    drop(finished);
    assert!(wait(world.start(Level::Global).expect("in use"), Timeout::Never).is_committed());
    world.finalize();
    report
}

#[test]
fn a_block_with_collective_commits_as_a_global_one_and_is_refused_without_one() {
    for last in
        [Last::Nothing, Last::Empty, Last::Broadcast, Last::Unposted, Last::Barrier, Last::Sum]
    {
        for seed in 0..8 {
            let report = Simulation::new(SIZE)
                .seed(seed)
                .run_world(move |world| with_collective(world, last));
            let report = same(&report, &format!("{last:?}, seed {seed}"));
            let lacking = report.faults().iter().filter(|it| it.code == FaultCode::NoCollective);
            let lacking: Vec<Rank> = lacking.map(|fault| fault.rank).collect();
            match last {
                Last::Barrier | Last::Sum => assert!(report.is_empty(), "{report}"),
                Last::Unposted => assert_eq!(lacking, [Rank::new(BAD)], "{report}"),
                _ => assert!(!lacking.is_empty(), "{report}"),
            }
        }
    }
}

#[test]
fn a_death_around_the_collective_is_known_to_all() {
    let mut died = false;
    for effect in 1..40 {
        let simulation = Simulation::new(SIZE).seed(effect);
        let crash = Crash::before_effect(BAD, effect);
        let report = simulation.crash(crash).run_world(|world| {
            let mut codes = Vec::new();
            for _ in 0..3 {
                let tried = world.try_block(FOREVER, |block| {
                    let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum)?;
                    block.wait_local(sum, Timeout::Never)?;
                    block.take(sum)
                });
                match tried.expect("a living communicator") {
                    Tried::Committed(sum, _) => assert_eq!(sum, [SIZE]),
                    Tried::Faulty(finished, _) => {
                        codes.push(finished.failed_group(Codes::PROCESS_FAILURES, &world));
                        break;
                    }
                }
            }
            world.finalize();
            codes
        });
        let survivors = report.processes.iter().enumerate().filter(|(at, _)| *at != BAD as usize);
        let told: Vec<_> = survivors.map(|(_, process)| process.ending.finished()).collect();
        let same = told.iter().all(|mine| mine.is_some() && *mine == told[0]);
        assert!(same, "effect {effect}: {report}");
        died |=
            told[0].is_some_and(|groups| groups.iter().any(|dead| dead.contains(Rank::new(BAD))));
    }
    assert!(died, "somewhere on the way");
}
