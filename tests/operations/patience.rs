//! Patient blocks: a death ends what needed the dead, and what no living rank will serve; the rest
//! completes, however late its peer is.

use std::time::Duration;

use fampi::{
    Codes, Color, Comm, FaultCode, Finished, Level, Outcome, Patience, Rank, Request, Source, Tag,
    TagSelector, Timeout, TryBlock, World,
    sim::{self, Crash, Ending, Simulation},
};

const SIZE: u32 = 4;
/// The rank that dies.
const DEAD: Rank = Rank::new(3);
const SEEDS: u64 = 40;
const TAG: Tag = Tag(5);
/// Longer than messages that go without their receiver.
const LONG: usize = 3000;
const LATE: Duration = Duration::from_secs(3);

fn wait(block: TryBlock) -> Finished {
    match block.finish(Timeout::Never).wait_local(Timeout::Never).expect("no outer block") {
        Outcome::Committed(finished) | Outcome::Faulty(finished) => finished,
        Outcome::TimedOut(_) => unreachable!("it waits for ever"),
    }
}

fn start(comm: &Comm, patience: Patience) -> TryBlock {
    comm.set_patience(patience);
    comm.start(Level::Global).expect("in use")
}

fn receive(block: &mut TryBlock, from: impl Into<Source>) -> Request<u64> {
    block.irecv(vec![0; LONG], from, TAG).expect("a rank")
}

fn send(block: &mut TryBlock, to: u32, value: u64) -> Request<u64> {
    block.issend(vec![value; LONG], Rank::new(to), TAG).expect("a rank")
}

/// All survivors get to the end of this, in whatever order things come.
#[track_caller]
fn survive(program: impl Fn(&World, u64) + Clone + Send + Sync + 'static) {
    for seed in 0..SEEDS {
        let program = program.clone();
        let latency = Duration::from_micros(1)..=Duration::from_micros(300);
        let simulation = Simulation::new(SIZE).seed(seed).latency(latency);
        let report = simulation.time_limit(Duration::from_secs(100)).run_world(move |world| {
            program(&world, seed);
            world.finalize();
        });
        let ended = report.processes.iter().filter(|it| matches!(it.ending, Ending::Finished(())));
        assert_eq!(ended.count(), SIZE as usize - 1, "seed {seed}: {report}");
    }
}

fn names_the_dead(finished: &Finished) {
    let report = finished.report();
    let mut faults = report.faults().iter();
    assert!(faults.any(|it| it.code.is_process_failure() && it.rank == DEAD), "{report}");
}

fn fault(finished: &Finished, request: &Request<u64>) -> Option<FaultCode> {
    finished.fault(request.id())
}

#[test]
fn a_pair_that_the_death_does_not_concern_completes_although_one_of_them_is_late() {
    for patience in [Patience::Patient, Patience::Prompt] {
        survive(move |world, _| {
            let me = world.rank().number();
            if world.rank() == DEAD {
                return sim::crash();
            }
            let mut block = start(world, patience);
            let lost = (me == 2).then(|| receive(&mut block, DEAD));
            if me == 1 {
                sim::compute(LATE);
            }
            let pair = (me < 2).then(|| {
                let got = receive(&mut block, Rank::new(1 - me));
                (send(&mut block, 1 - me, u64::from(me)), got)
            });
            let finished = wait(block);
            names_the_dead(&finished);
            if let Some(lost) = lost {
                assert_eq!(fault(&finished, &lost), Some(FaultCode::ProcessFailed));
            }
            let Some((sent, got)) = pair else { return };
            let is_whole = patience == Patience::Patient;
            assert_eq!(finished.failed_requests(Codes::Any).is_empty(), is_whole);
            if is_whole {
                assert_eq!(finished.take(sent).map(|it| it.len()), Ok(LONG));
                assert_eq!(finished.take(got), Ok(vec![u64::from(1 - me); LONG]));
            }
        });
    }
}

#[test]
fn what_a_living_rank_does_not_serve_is_ended_when_that_one_has_finished_its_part() {
    survive(|world, seed| {
        let me = world.rank().number();
        if world.rank() == DEAD {
            return sim::crash();
        }
        let mut block = start(world, Patience::Patient);
        // A chain: each waits for the one before, which gives up when it has lost the dead.
        let got = match me {
            0 => receive(&mut block, DEAD),
            _ if seed % 3 == 0 => receive(&mut block, Source::Any),
            _ => receive(&mut block, Rank::new(me - 1)),
        };
        let sent = (seed % 2 == 1).then(|| send(&mut block, (me + 1) % 3, 7));
        if block.wait_local(got.id(), Timeout::Never).is_ok() {
            assert!(sent.is_some(), "nobody has sent anything");
        }
        let finished = wait(block);
        names_the_dead(&finished);
        if me == 0 {
            assert_eq!(fault(&finished, &got), Some(FaultCode::ProcessFailed));
        }
    });
}

#[test]
fn ranks_that_wait_for_each_other_in_vain_do_not_wait_for_ever() {
    survive(|world, seed| {
        let me = world.rank().number();
        if world.rank() == DEAD {
            return sim::crash();
        }
        let mut block = start(world, Patience::Patient);
        let lost = receive(&mut block, DEAD);
        // Nobody sends, or nobody receives.
        let vain = match seed % 4 {
            0 => receive(&mut block, Rank::new((me + 1) % 3)),
            1 => send(&mut block, (me + 1) % 3, 7),
            2 => {
                block.irecv(vec![0; 4], Rank::new((me + 2) % 3), TagSelector::Any).expect("a rank")
            }
            _ => receive(&mut block, Source::Any),
        };
        let finished = wait(block);
        names_the_dead(&finished);
        assert_eq!(finished.failed_requests(Codes::Any).len(), 2);
        assert_eq!(fault(&finished, &lost), Some(FaultCode::ProcessFailed));
        if seed % 4 < 3 {
            assert_eq!(fault(&finished, &vain), Some(FaultCode::Interrupted));
        }
    });
}

/// Rank 2 asks, is asked, answers and has answers when it dies.
#[test]
fn a_second_death_before_any_step_of_asking_and_answering_leaves_nobody_waiting() {
    let mut deaths = 0;
    for effect in 4..90 {
        let simulation = Simulation::new(SIZE).seed(effect).crash(Crash::before_effect(2, effect));
        let report = simulation.time_limit(Duration::from_secs(100)).run_world(|world| {
            let me = world.rank().number();
            if world.rank() == DEAD {
                return sim::crash();
            }
            for round in 0..6 {
                let mut block = start(&world, Patience::Patient);
                // In turn, one of them loses the dead, and those behind it wait in vain.
                if round % 3 == me {
                    let _ = receive(&mut block, DEAD);
                } else {
                    let _ = receive(&mut block, Rank::new((me + 2) % 3));
                }
                let _ = send(&mut block, (me + 2) % 3, 7);
                assert!(!wait(block).is_committed());
            }
            world.finalize();
        });
        let died = matches!(report.processes[2].ending, Ending::Crashed);
        deaths += u32::from(died);
        for process in &report.processes[..if died { 2 } else { 3 }] {
            assert!(matches!(process.ending, Ending::Finished(())), "effect {effect}: {report}");
        }
    }
    assert!(deaths > 40, "the second rank died in {deaths} runs only");
}

#[test]
fn a_probe_for_a_message_that_a_living_rank_does_not_send_ends() {
    survive(|world, _| {
        let me = world.rank().number();
        if world.rank() == DEAD {
            return sim::crash();
        }
        let mut block = start(world, Patience::Patient);
        if me == 0 {
            let found = block.mprobe_local::<u64>(Rank::new(1), TAG, Timeout::Never);
            assert!(found.is_err());
        }
        names_the_dead(&wait(block));
    });
}

#[test]
fn an_inner_block_ends_when_a_rank_it_needs_has_left_the_outer_one() {
    survive(|world, seed| {
        let me = world.rank().number();
        let color = if world.rank() == DEAD { Color::None } else { Color::Of(0) };
        let half = world.isplit(color, 0).expect("one at a time").wait_local(Timeout::Never);
        let half = half.expect("all live").into_comm();
        if world.rank() == DEAD {
            return sim::crash();
        }
        let half = half.expect("a member");
        let mut outer = start(world, Patience::Patient);
        if me == 0 {
            // It loses the dead, and never comes to the inner block.
            let lost = receive(&mut outer, DEAD);
            assert!(outer.wait_local(lost.id(), Timeout::Never).is_err());
        } else {
            let mut inner = half.start(Level::Global).expect("in use");
            if seed % 2 == 0 {
                let _ = receive(&mut inner, Rank::new(0));
            }
            let inner = inner.finish(Timeout::Never);
            match inner.wait_local(Timeout::Never) {
                Ok(Outcome::Faulty(_)) | Err(_) => {}
                Ok(_) => panic!("an inner block that rank 0 never starts"),
            }
        }
        names_the_dead(&wait(outer));
        // The parts start afresh together.
        let next = start(&half, Patience::Patient);
        assert!(wait(next).is_committed());
    });
}

#[test]
fn blocks_go_on_for_ever_after_a_death() {
    survive(|world, seed| {
        if world.rank() == DEAD {
            return sim::crash();
        }
        let me = world.rank().number();
        let (before, next) = ((me + 2) % 3, (me + 1) % 3);
        let mut first = start(world, Patience::Patient);
        let _ = receive(&mut first, DEAD);
        names_the_dead(&wait(first));
        for round in 0..40 {
            let mut bad = start(world, Patience::Patient);
            // What nobody receives, under the tag of the good block.
            let _ = send(&mut bad, next, 99);
            match (seed + round) % 3 {
                0 if me == 1 => bad.raise_error(7),
                0 => {}
                _ => {
                    let _ = bad.irecv(vec![0_u64; 4], Rank::new(before), Tag(9)).expect("a rank");
                }
            }
            let bad = wait(bad);
            assert!(!bad.is_committed());
            let told = bad.report();
            let mut known = told.faults().iter().filter(|it| it.code != FaultCode::Interrupted);
            assert!((seed + round) % 3 != 0 || known.next().is_some(), "{told}");
            let mut good = start(world, Patience::Patient);
            let got = receive(&mut good, Rank::new(before));
            let _ = send(&mut good, next, u64::from(me));
            let good = wait(good);
            assert!(good.is_committed(), "round {round}: {}", good.report());
            assert_eq!(good.take(got), Ok(vec![u64::from(before); LONG]));
        }
    });
}
