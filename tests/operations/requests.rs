//! Requests one by one: what they tell, the next of many, ends before their time, and messages that
//! are matched before they are received.

use std::{
    panic::{self, AssertUnwindSafe},
    time::Duration,
};

use fampi::{
    BlockOptions, Codes, Error, FaultCode, Finished, Level, Message, Outcome, Rank, ReduceOp,
    Source, Tag, TagSelector, Timeout, Tried, TryBlock, World,
    sim::{self, Simulation},
};

const FEW: Timeout = Timeout::After(Duration::from_millis(2));

fn rank(number: u32) -> Rank {
    Rank::new(number)
}

fn start(world: &World) -> TryBlock {
    world.start(Level::Global).expect("a living communicator")
}

fn wait(block: TryBlock) -> Finished {
    match block.finish(Timeout::Never).wait_local(Timeout::Never) {
        Ok(Outcome::Committed(finished) | Outcome::Faulty(finished)) => finished,
        _ => panic!("it is waited for without a limit"),
    }
}

/// Runs the same on some ranks with some seeds; nothing of it may be left over.
fn on_ranks(ranks: u32, program: fn(&World)) {
    for seed in 0..20 {
        let report = Simulation::new(ranks).seed(seed).run_world(move |world| {
            program(&world);
            world.finalize();
        });
        let crashed = |it: &&sim::ProcessReport<()>| it.ending.finished().is_some();
        for process in report.processes.iter().filter(crashed) {
            assert_eq!((process.open_posts, process.quarantined_buffers), (0, 0), "{report}");
        }
        if report.processes.iter().all(|it| it.ending.finished().is_some()) {
            report.expect_orderly();
        }
    }
}

#[test]
fn a_status_tells_source_tag_and_count_during_and_after_the_block() {
    on_ranks(3, |world| {
        let mut block = start(world);
        if world.rank() != rank(0) {
            let me = world.rank().number();
            block.isend(vec![1_u16; me as usize], rank(0), Tag(40 + me)).expect("sent");
            assert!(wait(block).is_committed());
            return;
        }
        let one = block.irecv(vec![0_u16; 9], Source::Any, TagSelector::Any).expect("posted");
        let other = block.irecv(vec![0_u16; 9], Source::Any, TagSelector::Any).expect("posted");
        let early = block.wait_local(one, Timeout::Never).expect("received");
        let finished = wait(block);
        assert_eq!(finished.status(one), Some(early));
        let late = finished.status(other.id()).expect("it is complete");
        let mut seen = [early, late].map(|it| (it.source, it.tag.0, it.elements, it.cancelled));
        seen.sort_unstable();
        let expected = |from| (Some(rank(from)), 40 + from, from as usize, false);
        assert_eq!(seen, [1, 2].map(expected));
        assert_eq!(finished.fault(one), None);
    });
}

#[test]
fn the_fault_of_a_request_is_told_during_and_after_the_block() {
    on_ranks(2, |world| {
        let mut block = start(world);
        if world.rank() == rank(1) {
            block.isend(vec![1_u8; 4], rank(0), Tag(1)).expect("sent");
            assert!(!wait(block).is_committed());
            return;
        }
        let short = block.irecv(vec![0_u8; 2], rank(1), Tag(1)).expect("posted");
        let truncated = FaultCode::Mpi(15);
        assert_eq!(block.fault(short), None);
        assert_eq!(block.wait_local(short, Timeout::Never), Err(Error::Request(truncated)));
        assert_eq!(block.fault(short), Some(truncated));
        let finished = wait(block);
        assert_eq!((finished.fault(short), finished.status(short)), (Some(truncated), None));
        assert_eq!(finished.failed_requests(Codes::Of(&[truncated])), [short.index()]);
    });
}

#[test]
fn waitany_gives_one_after_the_other_until_the_list_is_empty() {
    on_ranks(4, |world| {
        let mut block = start(world);
        let others: Vec<u32> = (0..4).filter(|it| rank(*it) != world.rank()).collect();
        let mut open = Vec::new();
        for other in &others {
            open.push(block.irecv(vec![0_u32; 1], rank(*other), Tag(0)).expect("posted"));
        }
        let timed_out = block.waitany_local(&mut open, Timeout::Poll);
        assert!(timed_out == Err(Error::WaitTimedOut) || open.len() == 2);
        for other in &others {
            block.isend(vec![*other], rank(*other), Tag(0)).expect("sent");
        }
        let mut seen: Vec<u32> = Vec::new();
        if let Ok(Some((_, status))) = timed_out {
            seen.extend(status.source.map(Rank::number));
        }
        while let Some((request, status)) =
            block.waitany_local(&mut open, Timeout::Never).expect("received")
        {
            seen.extend(status.source.map(Rank::number));
            assert_eq!(block.take(request).expect("complete"), [world.rank().number()]);
        }
        seen.sort_unstable();
        assert_eq!(seen, others);
        assert!(wait(block).is_committed());
    });
}

#[test]
fn waitsome_gives_all_that_are_over_and_first_of_all_what_failed() {
    on_ranks(3, |world| {
        let mut block = start(world);
        let me = world.rank();
        if me != rank(0) {
            block.isend(vec![me.number(); 3], rank(0), Tag(0)).expect("sent");
            block.isend(vec![me.number(); 3], rank(0), Tag(1)).expect("sent");
            assert!(!wait(block).is_committed());
            return;
        }
        let mut open = Vec::new();
        for (from, length) in [(1, 3), (2, 3), (1, 1), (2, 3)] {
            let tag = Tag(open.len() as u32 / 2);
            open.push(block.irecv(vec![0_u32; length], rank(from), tag).expect("posted"));
        }
        let (mut seen, mut failures) = (0, 0);
        while !open.is_empty() {
            match block.waitsome_local(&mut open, Timeout::Never) {
                Ok(some) => {
                    assert!(!some.is_empty());
                    seen += some.len();
                }
                Err(error) => {
                    assert_eq!(error, Error::Request(FaultCode::Mpi(15)));
                    failures += 1;
                }
            }
        }
        assert_eq!((seen, failures), (3, 1));
        assert_eq!(block.waitsome_local(&mut open, Timeout::Never).map(|some| some.len()), Ok(0));
        assert!(!wait(block).is_committed());
    });
}

#[test]
fn a_cancelled_receive_is_no_fault_and_what_is_no_receive_cannot_be_cancelled() {
    on_ranks(2, |world| {
        let mut block = start(world);
        let other = rank(1 - world.rank().number());
        let receive = block.irecv(vec![5_u8; 3], other, Tag(1)).expect("posted");
        assert_eq!(block.cancel(receive), Ok(true));
        assert_eq!(block.cancel(receive), Ok(false), "it is over");
        let status = block.test(receive).expect("no fault").expect("over");
        assert!(status.cancelled && status.elements == 0 && status.source.is_none());
        let send = block.isend(vec![1_u8; 9000], other, Tag(2)).expect("posted");
        let barrier = block.ibarrier();
        assert_eq!(block.cancel(send), Ok(false));
        assert!(block.cancel(barrier) == Ok(false), "whether it is over or not");
        block.irecv(vec![0_u8; 9000], other, Tag(2)).expect("posted");
        let finished = wait(block);
        assert!(finished.is_committed());
        assert_eq!(finished.take(receive).expect("it is ours"), [5; 3]);
    });
}

/// A message of any length from rank 1.
fn next_message(block: &mut TryBlock, timeout: Timeout) -> Result<Message<u32>, Error> {
    block.mprobe_local(Source::Any, Tag(7), timeout)
}

#[test]
fn messages_of_unknown_length_are_probed_and_received() {
    on_ranks(3, |world| {
        let mut block = start(world);
        let me = world.rank().number();
        if me != 0 {
            for length in [me as usize, 4000 + me as usize] {
                block.isend(vec![me; length], rank(0), Tag(7)).expect("sent");
            }
            assert!(wait(block).is_committed());
            return;
        }
        let mut received = Vec::new();
        for _ in 0..4 {
            let message = next_message(&mut block, Timeout::Never).expect("four are sent");
            let from = message.status().source.expect("somebody").number();
            assert_eq!(message.elements() % 4000, from as usize);
            let buffer = vec![0; message.elements()];
            received.push((from, block.imrecv(buffer, message).expect("of this block")));
        }
        assert!(block.improbe::<u32>(Source::Any, Tag(7)).expect("no fault").is_none());
        let finished = wait(block);
        assert!(finished.is_committed());
        for (from, request) in received {
            assert_eq!(finished.status(request).expect("complete").source, Some(rank(from)));
            assert!(finished.take(request).expect("complete").iter().all(|it| *it == from));
        }
    });
}

#[test]
fn a_message_that_is_matched_and_not_received_is_dropped_and_met_by_nobody() {
    on_ranks(2, |world| {
        for length in [2, 5000] {
            let mut block = start(world);
            if world.rank() == rank(1) {
                let sent = block.isend(vec![1_u32; length], rank(0), Tag(7)).expect("sent");
                let finished = wait(block);
                assert!(finished.is_committed() && finished.status(sent).is_some());
            } else {
                let message = next_message(&mut block, Timeout::Never).expect("one is sent");
                assert_eq!(message.elements(), length);
                assert!(wait(block).is_committed());
                let mut later = start(world);
                assert_eq!(
                    later.imrecv(vec![0; length], message).err(),
                    Some(Error::NoSuchRequest)
                );
                assert!(
                    later
                        .improbe::<u32>(Source::Any, TagSelector::Any)
                        .expect("no fault")
                        .is_none()
                );
                assert!(wait(later).is_committed());
                continue;
            }
            assert!(wait(start(world)).is_committed());
        }
    });
}

#[test]
fn a_probe_ends_with_its_timeout_and_is_no_fault_then() {
    on_ranks(2, |world| {
        let mut block = start(world);
        assert_eq!(next_message(&mut block, FEW).err(), Some(Error::WaitTimedOut));
        assert!(wait(block).is_committed());
    });
}

#[test]
fn a_probe_ends_when_the_sender_is_dead_or_dies_or_the_block_is_doomed() {
    for way in 0..4 {
        for seed in 0..20 {
            let report = Simulation::new(3).seed(seed).run_world(move |world| {
                let mut block = start(&world);
                let from = if way == 1 { Source::Any } else { Source::Rank(rank(1)) };
                let pending = match (world.rank().number(), way) {
                    (1, 0 | 1) => {
                        sim::crash();
                        return Vec::new();
                    }
                    (1, 2) => block.leave(&Error::Raised(3)),
                    (1, _) => {
                        block.isend(vec![1_u32; 5000], rank(0), Tag(7)).expect("sent");
                        sim::compute(Duration::from_micros(100));
                        sim::crash();
                        return Vec::new();
                    }
                    (0, 3) => {
                        // The sender dies between the match and the receive.
                        let message = next_message(&mut block, Timeout::Never);
                        sim::compute(Duration::from_millis(2));
                        if let Ok(message) = message {
                            let received = block.imrecv(vec![0; 5000], message);
                            let over = block.wait_local(received.expect("its own"), Timeout::Never);
                            assert!(matches!(over, Err(Error::Request(_))));
                        }
                        block.finish(Timeout::Never)
                    }
                    (0, _) => {
                        let probe = block.mprobe_local::<u32>(from, Tag(7), Timeout::Never);
                        let Err(Error::Request(code)) = probe else { panic!("{probe:?}") };
                        assert!(code.is_process_failure() || code == FaultCode::Interrupted);
                        block.leave(&Error::Request(code))
                    }
                    _ => block.finish(Timeout::Never),
                };
                let Ok(Outcome::Faulty(finished)) = pending.wait_local(Timeout::Never) else {
                    panic!("the block is doomed")
                };
                let survivors = if way == 2 { None } else { world.shrink().ok() };
                let comm = survivors.as_ref().unwrap_or(&world);
                let next = comm.start(Level::Global).expect("in use");
                assert!(wait(next).is_committed());
                let group = finished.failed_group(Codes::Any, &world).as_slice().to_vec();
                drop(finished);
                world.finalize();
                group
            });
            let mut groups = report.results();
            let first = groups.next().expect("somebody lives");
            assert!(first.contains(&rank(1)) && groups.all(|it| it == first), "{way}: {report}");
        }
    }
}

/// At the deadline of a block a message comes for the first of many receives that are cancelled.
#[test]
fn what_comes_late_does_not_meet_a_later_receive() {
    for seed in 0..400 {
        let report = Simulation::new(2).seed(seed).run_world(move |world| {
            let mut block = start(&world);
            let limit = Timeout::After(Duration::from_micros(60));
            if world.rank() == rank(0) {
                let posted: Vec<_> = (0..16)
                    .map(|_| block.irecv(vec![0_u8], rank(1), Tag(1)).expect("posted"))
                    .collect();
                let pending = block.finish(limit);
                let Ok(Outcome::Faulty(finished)) = pending.wait_local(Timeout::Never) else {
                    panic!("most of them get nothing")
                };
                for later in &posted[1..] {
                    assert!(finished.status(*later).is_none(), "it is the first one's message");
                }
            } else {
                sim::compute(Duration::from_micros(45 + seed % 10));
                block.isend(vec![1_u8], rank(0), Tag(1)).expect("sent");
                assert!(!wait(block).is_committed());
            }
            world.finalize();
        });
        report.expect_orderly();
    }
}

/// Whether messages can start is found out once, and again after news.
#[test]
fn what_is_posted_after_a_death_that_was_seen_fails_at_once() {
    on_ranks(3, |world| {
        let mut block = world.start(Level::Local).expect("a living communicator");
        let (me, dead) = (world.rank().number(), rank(1));
        if me == 1 {
            sim::compute(Duration::from_micros(100));
            sim::crash();
            return;
        }
        let other = rank(2 - me);
        block.isend(vec![me], other, Tag(1)).expect("sent");
        let first = block.irecv(vec![0_u32], dead, Tag(1)).expect("posted");
        let seen = block.wait_local(first, Timeout::Never);
        assert!(matches!(seen, Err(Error::Request(code)) if code.is_process_failure()));
        let second = block.irecv(vec![0_u32], dead, Tag(2)).expect("posted");
        let at_once = block.test(second);
        assert!(matches!(at_once, Err(Error::Request(code)) if code.is_process_failure()));
        let sent = block.isend(vec![me], dead, Tag(2)).expect("posted");
        let at_once = block.test(sent);
        assert!(matches!(at_once, Err(Error::Request(code)) if code.is_process_failure()));
        let alive = block.irecv(vec![7_u32], other, Tag(1)).expect("posted");
        assert!(block.wait_local(alive, Timeout::Never).is_ok());
        assert_eq!(block.take(alive), Ok(vec![other.number()]));
        assert!(!wait(block).is_committed());
    });
}

#[test]
fn a_rank_that_catches_its_panic_has_left_the_block() {
    for seed in 0..20 {
        let report = Simulation::new(3).seed(seed).run_world(|world| {
            let bad = Rank::new(1);
            let tried = panic::catch_unwind(AssertUnwindSafe(|| {
                world.try_block(BlockOptions::global(Timeout::Never), |block| {
                    let sum = block.iallreduce(vec![1_u8], ReduceOp::Sum)?;
                    if world.rank() == bad {
                        panic::resume_unwind(Box::new("a bug of the application"));
                    }
                    block.wait_local(sum, Timeout::Never)
                })
            }));
            assert_eq!(tried.is_err(), world.rank() == bad);
            if let Ok(tried) = tried {
                let Ok(Tried::Faulty(finished, _)) = tried else { panic!("one rank has left") };
                let who = finished.failed_group(Codes::Of(&[FaultCode::LeftBlock]), &world);
                assert_eq!(who.as_slice(), [bad]);
            }
            // It came to the next block without having waited for the end of this one.
            let next = || world.try_block(BlockOptions::global(Timeout::Never), |_| Ok(()));
            let mut two = [(); 2].map(|()| next()).into_iter();
            assert!(two.any(|tried| matches!(tried, Ok(Tried::Committed(..)))));
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn handles_that_outlive_the_world_are_refused() {
    let report = Simulation::new(2).run_world(|world| {
        let comm = world.idup().expect("one").wait_local(Timeout::Never).expect("alive");
        let comm = comm.into_comm().expect("everybody has one");
        let (other, mut block) = (Rank::new(1), comm.start(Level::Local).expect("in use"));
        block.isend(vec![1_u8], other, Tag(1)).expect("a rank");
        world.finalize();
        let request = block.isend(vec![1_u8], other, Tag(1)).expect("a rank");
        assert_eq!(block.fault(request), Some(FaultCode::Abandoned));
        assert_eq!(block.take(request), Ok(vec![1]));
        assert!(matches!(comm.start(Level::Global), Err(Error::HasLeft)));
        drop((block, comm));
    });
    report.expect_orderly();
}
