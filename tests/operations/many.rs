//! Many messages at once: what a call takes, gives back, and refuses.

use std::time::Duration;

use fampi::{
    Error, Finished, Level, Outcome, Rank, Tag, Timeout, TryBlock, World,
    sim::{self, Ending, Simulation},
};

/// More than are started together.
const MANY: u32 = 100;

type Messages = Vec<(Vec<u64>, Rank, Tag)>;

fn list(content: impl Fn(u32) -> Vec<u64>, peer: Rank) -> Messages {
    (0..MANY).map(|tag| (content(tag), peer, Tag(tag))).collect()
}

fn wait(block: TryBlock) -> Finished {
    match block.finish(Timeout::Never).wait_local(Timeout::Never) {
        Ok(Outcome::Committed(finished) | Outcome::Faulty(finished)) => finished,
        _ => panic!("it is waited for without a limit"),
    }
}

/// Runs the same on three ranks, each with its neighbours on the left and on the right.
fn on_a_ring(program: fn(&World, Rank, Rank)) {
    for seed in 0..20 {
        let report = Simulation::new(3).seed(seed).run_world(move |world| {
            let (me, size) = (world.rank().number(), world.size());
            program(&world, Rank::new((me + size - 1) % size), Rank::new((me + 1) % size));
            world.finalize();
        });
        report.expect_orderly();
    }
}

/// More blocks than any table of a fixed size would hold.
const OPEN: u32 = 5000;

#[test]
fn thousands_of_blocks_are_open_and_end_in_any_order() {
    for backwards in [false, true] {
        let report = Simulation::new(3).run_world(move |world| {
            let start = |_| world.start(Level::Global).expect("in use");
            let mut blocks: Vec<_> = (0..OPEN).map(start).collect();
            if backwards {
                blocks.reverse();
            }
            for block in blocks {
                let outcome = block.finish(Timeout::Never).wait_local(Timeout::Never);
                assert!(matches!(outcome, Ok(Outcome::Committed(_))));
            }
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn votes_on_a_communicator_that_a_rank_does_not_have_yet_are_kept_however_many_they_are() {
    // In the second one a rank hears of many of them before it has the communicator.
    for seed in [0, 14] {
        let latency = Duration::from_micros(1)..=Duration::from_millis(40);
        let simulation = Simulation::new(8).seed(seed).latency(latency);
        let report = simulation.time_limit(Duration::from_secs(100)).run_world(|world| {
            let made = world.idup().expect("one at a time").wait_local(Timeout::Never);
            let comm = made.expect("nobody dies").into_comm().expect("everybody has one");
            let start = |_| comm.start(Level::Global).expect("in use");
            let pending: Vec<_> =
                (0..OPEN / 8).map(start).map(|block| block.finish(Timeout::Never)).collect();
            for block in pending {
                assert!(matches!(block.wait_local(Timeout::Never), Ok(Outcome::Committed(_))));
            }
            drop(comm);
            world.finalize();
        });
        report.expect_orderly();
    }
}

/// Blocks that the simulated world's tags tell apart, before a death and after one.
const TOLD_APART: [u32; 2] = [1 << 7, 1 << 5];

/// Rank 0 sends in many blocks that are open together, with one tag; rank 1 posts the receives,
/// all at once in the other order or each when the older blocks are decided. Rank 2 may be dead.
/// How many were refused here, and what was received in the order of the blocks.
fn messages_of_many_blocks(world: World, at_once: bool, dies: bool) -> (usize, Vec<u32>) {
    let (me, tag) = (world.rank().number(), Tag(1));
    if dies {
        let block = world.start(Level::Global).expect("in use");
        if me == 2 {
            sim::crash();
        }
        assert!(!wait(block).is_committed());
    }
    let start = |_| world.start(Level::Global).expect("in use");
    let mut blocks: Vec<_> = (0..3 * TOLD_APART[0]).map(start).collect();
    let post = |(number, block): (usize, &mut TryBlock)| match me {
        0 => block.isend(vec![number as u32], Rank::new(1), tag).map(Some),
        1 => block.irecv(vec![u32::MAX], Rank::new(0), tag).map(Some),
        _ => Ok(None),
    };
    let mut posted: Vec<_> = Vec::new();
    if at_once && me == 1 {
        posted.extend(blocks.iter_mut().enumerate().rev().map(post));
        posted.reverse();
    } else if at_once {
        posted.extend(blocks.iter_mut().enumerate().map(post));
    }
    let (mut refused, mut received) = (0, Vec::new());
    for (number, mut block) in blocks.into_iter().enumerate() {
        let posted = posted.get(number).cloned().unwrap_or_else(|| post((number, &mut block)));
        let finished = wait(block);
        assert!(finished.is_committed(), "{finished:?}");
        match posted {
            Ok(Some(request)) if me == 1 => received.extend(finished.take(request).expect("it")),
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, Error::TooManyOpen);
                refused += 1;
            }
        }
    }
    world.finalize();
    (refused, received)
}

#[test]
fn no_message_is_received_in_a_block_whose_number_has_the_same_tags() {
    for (dies, told_apart) in [false, true].into_iter().zip(TOLD_APART) {
        for at_once in [false, true] {
            let simulation = Simulation::new(3).time_limit(Duration::from_secs(1000));
            let report =
                simulation.run_world(move |world| messages_of_many_blocks(world, at_once, dies));
            let all = 3 * TOLD_APART[0];
            let sent = if at_once { told_apart } else { all };
            for process in &report.processes[..2] {
                let Ending::Finished((refused, received)) = &process.ending else {
                    panic!("{report}")
                };
                assert_eq!(*refused as u32, all - sent);
                assert!(received.is_empty() || received.iter().copied().eq(0..sent));
            }
        }
    }
}

#[test]
fn lists_serve_block_after_block() {
    on_a_ring(|world, left, right| {
        let me = world.rank().number();
        let number = |rank: Rank, tag: u32| u64::from(1000 * rank.number() + tag);
        // Some are shorter than the room for them.
        let content = |tag| vec![number(world.rank(), tag); 1 + tag as usize % 3];
        let mut sent = list(content, right);
        let mut received = list(|_| vec![0; 3], left);
        for _ in 0..3 {
            let mut block = world.start(Level::Global).expect("alive");
            let coming = block.irecv_all(&mut received).expect("right ranks");
            let going = block.isend_all(&mut sent).expect("right ranks");
            assert_eq!((coming.len(), going.len(), going.is_empty()), (100, 100, false));
            assert!(received.iter().chain(&sent).all(|(buffer, ..)| buffer.is_empty()));
            let last = coming.get(99).expect("one of a hundred");
            assert_eq!(coming.iter().last(), Some(last));
            assert_eq!(coming.get(100), None);
            let finished = wait(block);
            assert!(finished.is_committed());
            let status = finished.status(last).expect("it is complete");
            assert_eq!((status.source, status.tag, status.elements), (Some(left), Tag(99), 1));
            finished.take_all(coming, &mut received).expect("all are here");
            finished.take_all(going, &mut sent).expect("all are here");
            assert_eq!(sent, list(content, right), "of rank {me}");
            for (buffer, _, Tag(tag)) in &mut received {
                let count = 1 + *tag as usize % 3;
                assert_eq!(buffer[..count], vec![number(left, *tag); count]);
                buffer.fill(0);
            }
            let again = finished.take_all(coming, &mut received);
            assert_eq!(again, Err(Error::NoSuchRequest));
        }
    });
}

#[test]
fn a_wrong_rank_or_tag_leaves_everything_as_it_was() {
    on_a_ring(|world, left, right| {
        let mut block = world.start(Level::Global).expect("alive");
        let mut sent = list(|_| vec![7], right);
        (sent[50].1, sent[60].2) = (Rank::new(3), Tag(Tag::MAX.0 + 1));
        let no_rank = Error::NoSuchRank { rank: Rank::new(3), size: 3 };
        assert_eq!(block.isend_all(&mut sent).map(|_| ()), Err(no_rank));
        sent[50].1 = right;
        let no_tag = Error::TagTooLarge { tag: Tag::MAX.0 + 1, max: Tag::MAX.0 };
        assert_eq!(block.isend_all(&mut sent).map(|_| ()), Err(no_tag));
        assert!(sent.iter().all(|(buffer, ..)| *buffer == [7]));
        let none = block.irecv_all::<u64>(&mut []).expect("nothing is wrong");
        assert!(none.is_empty() && none.iter().len() == 0);
        let finished = wait(block);
        assert!(finished.is_committed(), "nothing was sent to {left}");
        finished.take_all(none, &mut []).expect("as many as there are");
    });
}

#[test]
fn what_is_not_over_stays_and_comes_later() {
    on_a_ring(|world, left, right| {
        let mut block = world.start(Level::Global).expect("alive");
        let mut received = list(|_| vec![0], left);
        let coming = block.irecv_all(&mut received).expect("right ranks");
        // Nobody sends before all have come to the barrier below.
        assert_eq!(block.take_all(coming, &mut received), Err(Error::NotComplete));
        assert_eq!(block.take_all(coming, &mut received[1..]), Err(Error::NoSuchRequest));
        let barrier = block.ibarrier();
        block.wait_local(barrier, Timeout::Never).expect("all come");
        let mut sent = list(|tag| vec![u64::from(tag)], right);
        block.isend_all(&mut sent).expect("right ranks");
        block.waitall_local(coming.iter(), Timeout::Never).expect("all were sent");
        block.take_all(coming, &mut received).expect("all are over");
        assert_eq!(received, list(|tag| vec![u64::from(tag)], left));
        assert!(wait(block).is_committed());
    });
}
