//! Channels through many blocks: committed, aborted, after a rebuild, and twice at once.

use fampi::{
    Channel, Error, Level, Outcome, Placement, Rank, Tag, Timeout, TryBlock, World,
    sim::{Ending, Simulation},
};

fn committed(block: TryBlock) -> bool {
    let outcome = block.finish(Timeout::Never).wait_local(Timeout::Never);
    matches!(outcome, Ok(Outcome::Committed(_)))
}

/// A message around the ring, which it takes over if the block commits.
fn round(
    world: &World,
    [sent, received]: &mut [Channel<u64>; 2],
    fails: bool,
) -> Result<bool, Error> {
    let mut block = world.start(Level::Global)?;
    block.start(received)?;
    block.start(sent)?;
    if fails {
        block.raise_error(1);
    }
    let committed = committed(block);
    // After an abort the message may have come or not.
    if committed {
        let next = received.elements_mut()?[0];
        sent.elements_mut()?[0] = next;
    }
    received.elements_mut()?[0] = u64::MAX;
    Ok(committed)
}

fn channels(world: &World) -> [Channel<u64>; 2] {
    let (me, size) = (world.rank().number(), world.size());
    let (left, right) = (Rank::new((me + size - 1) % size), Rank::new((me + 1) % size));
    let sent = Channel::send_init(vec![u64::from(me)], right, Tag(1));
    [sent, Channel::recv_init(vec![u64::MAX], left, Tag(1))]
}

#[test]
fn a_channel_lives_through_aborted_blocks_and_never_meets_what_they_left() {
    for seed in 0..20 {
        let report = Simulation::new(4).seed(seed).run_world(move |world| {
            let mut channels = channels(&world);
            for number in 0..40_u64 {
                let fails = (number + seed).is_multiple_of(5);
                let bad = u64::from(world.rank().number()) == number % 4;
                assert_eq!(round(&world, &mut channels, fails && bad), Ok(!fails));
            }
            let [mut sent, _] = channels;
            let last = sent.elements_mut().expect("all is over")[0];
            let steps = (0..40).filter(|number| !(number + seed).is_multiple_of(5)).count() as u64;
            assert_eq!((last + steps) % 4, u64::from(world.rank().number()));
            world.finalize();
        });
        report.expect_orderly();
    }
}

#[test]
fn a_channel_of_a_survivor_is_good_after_a_rebuild() {
    for seed in 0..20 {
        let report = Simulation::new(4).seed(seed).run_world(move |mut world| {
            let mut channels = channels(&world);
            if !world.is_replacement() {
                assert_eq!(round(&world, &mut channels, false), Ok(true));
                if world.rank() == Rank::new(2) {
                    fampi::sim::crash();
                }
                let committed = committed(world.start(Level::Global).expect("in use"));
                assert!(!committed);
                world = world.rebuild(Placement::SameRanks).expect("spawned");
                let me = u64::from(world.rank().number());
                channels[0].elements_mut().expect("all is over")[0] = me;
            }
            for _ in 0..4 {
                assert_eq!(round(&world, &mut channels, false), Ok(true));
            }
            let last = channels[0].elements_mut().expect("all is over")[0];
            assert_eq!(last, u64::from(world.rank().number()));
            world.finalize();
        });
        for process in &report.processes {
            let well = matches!(process.ending, Ending::Finished(()) | Ending::Crashed);
            assert!(well, "{report}");
        }
    }
}

#[test]
fn a_channel_is_started_once_at_a_time_and_gives_its_buffer_back() {
    let report = Simulation::new(2).run_world(|world| {
        let other = Rank::new(1 - world.rank().number());
        let mut received = Channel::recv_init(vec![0_u8; 3], other, Tag(1));
        let mut sent = Channel::ssend_init(vec![7_u8; 3], other, Tag(1));
        let mut nobody = Channel::send_init(vec![7_u8; 3], Rank::new(2), Tag(1));
        let mut block = world.start(Level::Global).expect("in use");
        let missing = Error::NoSuchRank { rank: Rank::new(2), size: 2 };
        assert_eq!(block.start(&mut nobody), Err(missing));
        assert!(nobody.elements_mut().is_ok());
        let posted = block.start(&mut received).expect("not started");
        assert_eq!(block.start(&mut received), Err(Error::ArrayInUse));
        assert_eq!(received.elements_mut().err(), Some(Error::ArrayInUse));
        let received = received.into_vec().expect_err("in use");
        block.start(&mut sent).expect("not started");
        assert_eq!(block.wait_local(posted, Timeout::Never).expect("received").elements, 3);
        assert_eq!(received.into_vec().expect("it is over"), [7; 3]);
        assert!(committed(block));
        assert_eq!(sent.into_vec().expect("it is over"), [7; 3]);
        world.finalize();
    });
    report.expect_orderly();
}
