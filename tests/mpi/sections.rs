//! Programs about sections of arrays on real ranks: shapes, costs, deaths.

use std::{ops::Range, time::Duration};

use fampi::{
    Array, Channel, Codes, Error, Finished, Level, Placement, Rank, RequestId, Tag, Timeout,
    TryBlock, World,
};
use stats_alloc::Region;

use crate::{
    all_say, program,
    programs::{Ended, die, say, wait},
};

/// The section that is the `number`-th in some order.
fn section(shape: [usize; 3], number: usize) -> [Range<usize>; 3] {
    let mut rest = number;
    shape.map(|length| {
        let mut draw = |count: usize| {
            let drawn = rest % count;
            rest /= count;
            drawn
        };
        let start = draw(length);
        start..start + 1 + draw(length - start)
    })
}

fn places(shape: [usize; 3], section: &[Range<usize>; 3]) -> Vec<usize> {
    let [k, j, i] = section.clone();
    let rows = k.flat_map(|k| j.clone().map(move |j| (k * shape[1] + j) * shape[2]));
    rows.flat_map(|row| i.clone().map(move |i| row + i)).collect()
}

/// In each block a section goes around the ring, into the same places, and packed.
pub(crate) fn all(world: World) -> Ended {
    let (me, size) = (world.rank().number(), world.size());
    let (left, right) = (Rank::new((me + size - 1) % size), Rank::new((me + 1) % size));
    for round in 0..600_usize {
        // Long ones go in pieces.
        let shape = if round % 10 == 9 { [40, 50, 60] } else { [3, 4, 5] };
        let section = section(shape, round.wrapping_mul(2_654_435_761) >> 4);
        let elements = shape.iter().product::<usize>();
        let value = |rank: Rank, at: usize| round + 1_000_000 * rank.index() + 7 * at;
        let sent = (0..elements).map(|at| value(world.rank(), at)).collect();
        let (sent, mut received) =
            (Array::new(shape, sent)?, Array::new(shape, vec![0; elements])?);
        let places = places(shape, &section);
        let mut block = world.start(Level::Global)?;
        let ghosts = block.irecv_section(&received, section.clone(), left, Tag(1))?;
        let packed = block.irecv(vec![0_usize; places.len() + 1], left, Tag(2))?;
        block.isend_section(&sent, section.clone(), right, Tag(1))?;
        block.isend_section(&sent, section.clone(), right, Tag(2))?;
        for id in [ghosts, packed.id()] {
            let status = block.wait_local(id, Timeout::Never)?;
            assert_eq!((status.source, status.elements), (Some(left), places.len()), "{section:?}");
        }
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(finished.is_committed(), "round {round}: {finished:?}");
        let mut expected = vec![0; elements];
        for at in &places {
            expected[*at] = value(left, *at);
        }
        assert_eq!(received.elements_mut()?, expected, "{section:?}");
        let packed = finished.take(packed)?;
        assert!(places.iter().zip(packed).all(|(at, found)| found == value(left, *at)));
    }
    cheap(&world, left, right)?;
    say(world, "all sections are right")
}

/// Two columns to and from each neighbour.
fn columns(
    block: &mut TryBlock,
    field: &Array<u64, 2>,
    [left, right]: [Rank; 2],
) -> Result<[RequestId; 4], Error> {
    let rows = field.shape()[0];
    let column = |at: usize| [0..rows, at..at + 1];
    Ok([
        block.irecv_section(field, column(0), left, Tag(4))?,
        block.irecv_section(field, column(5), right, Tag(5))?,
        block.isend_section(field, column(1), left, Tag(5))?,
        block.isend_section(field, column(4), right, Tag(4))?,
    ])
}

/// A request on a section allocates nothing, and its datatype is made once.
fn cheap(world: &World, left: Rank, right: Rank) -> Ended {
    let mut field = Array::new([50, 6], vec![0_u64; 300])?;
    for round in 0..200 {
        let region = Region::new(crate::ALLOCATOR);
        let mut block = world.start(Level::Global)?;
        columns(&mut block, &field, [left, right])?;
        assert!(wait(block.finish(Timeout::Never))?.is_committed());
        let allocations = region.change().allocations;
        assert!(round < 100 || allocations == 0, "round {round}: {allocations} allocations");
        field.elements_mut()?[1] += 1;
    }
    Ok(())
}

/// What has come is the neighbour's, what is not a ghost is as it was.
fn check(finished: &Finished, field: &mut Array<u64, 2>, ids: [RequestId; 4], ring: [Rank; 3]) {
    let complete = ids.map(|id| finished.status(id).is_some());
    let Ok(elements) = field.elements_mut() else {
        assert!(complete.contains(&false), "a request that is over has let go");
        return;
    };
    for row in elements.chunks(6) {
        let ghosts = [(0, complete[0], ring[0]), (5, complete[1], ring[2])];
        for (at, complete, from) in ghosts {
            assert!(!complete || row[at] == u64::from(from.number()), "{row:?}");
        }
        assert_eq!(row[1..5], [u64::from(ring[1].number()); 4]);
    }
}

/// Rank 1 leaves the exchange of columns, forgets it, or takes part.
fn with_deserter(world: &World, ring: [Rank; 3]) -> Ended {
    for way in ["leave", "forget", "take part"] {
        for rows in [3, 100_000] {
            let limit = match way {
                "forget" => Timeout::After(Duration::from_millis(30)),
                _ => Timeout::Never,
            };
            let mut field = Array::new([rows, 6], vec![u64::from(ring[1].number()); 6 * rows])?;
            let mut block = world.start(Level::Global)?;
            if ring[1] == Rank::new(1) && way != "take part" {
                let leaves = way == "leave";
                let pending =
                    if leaves { block.leave(&Error::Raised(5)) } else { block.finish(limit) };
                assert!(!wait(pending)?.is_committed());
                continue;
            }
            let ids = columns(&mut block, &field, [ring[0], ring[2]])?;
            let finished = wait(block.finish(limit))?;
            assert_eq!(finished.is_committed(), way == "take part", "{finished:?}");
            check(&finished, &mut field, ids, ring);
        }
    }
    Ok(())
}

/// In each generation a rank dies before or in an exchange of columns; in the end one deserts.
pub(crate) fn with_deaths(mut world: World) -> Ended {
    let size = world.size();
    loop {
        let (generation, me) = (world.generation(), world.rank());
        let ring = [size - 1, 0, 1].map(|step| Rank::new((me.number() + step) % size));
        if generation == 6 {
            with_deserter(&world, ring)?;
            return say(world, "all sections survived");
        }
        let bad = Rank::new(generation % size);
        let rows = if generation.is_multiple_of(2) { 3 } else { 100_000 };
        let mut field = Array::new([rows, 6], vec![u64::from(me.number()); 6 * rows])?;
        let mut block = world.start(Level::Global)?;
        if me == bad && generation < 3 {
            die();
        }
        let ids = columns(&mut block, &field, [ring[0], ring[2]])?;
        if me == bad {
            die();
        }
        let finished = wait(block.finish(Timeout::Never))?;
        let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
        assert!(!finished.is_committed() && dead.as_slice() == [bad], "{finished:?}");
        check(&finished, &mut field, ids, ring);
        drop(finished);
        world = world.rebuild(Placement::SameRanks)?;
    }
}

/// Channels around the ring, short and long: block by block, some aborted, through two deaths.
pub(crate) fn channels(mut world: World) -> Ended {
    let (me, size) = (world.rank(), world.size());
    let ring = [size - 1, 0, 1].map(|step| Rank::new((me.number() + step) % size));
    let made = || -> Vec<Channel<u64>> {
        let both = |(tag, elements)| {
            let received = Channel::recv_init(vec![0; elements], ring[0], tag);
            [received, Channel::send_init(vec![u64::MAX; elements], ring[2], tag)]
        };
        [(Tag(1), 2), (Tag(2), 70_000)].into_iter().flat_map(both).collect()
    };
    let mut channels = made();
    while world.generation() < 2 {
        quick_rounds(&world, ring, &mut channels)?;
        let bad = Rank::new(1 + world.generation());
        let mut block = world.start(Level::Global)?;
        for channel in &mut channels {
            block.start(channel)?;
        }
        if me == bad {
            die();
        }
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(!finished.is_committed());
        drop(finished);
        world = world.rebuild(Placement::SameRanks)?;
        // MPI never lets go of a long message whose receiver died while it fetched it.
        for (at, (channel, fresh)) in channels.iter_mut().zip(made()).enumerate() {
            if channel.elements_mut().is_err() {
                assert!(at >= 2, "a short message is over");
                *channel = fresh;
            }
        }
    }
    quick_rounds(&world, ring, &mut channels)?;
    for round in 0..20 {
        let mut block = world.start(Level::Global)?;
        for channel in &mut channels {
            block.start(channel)?;
        }
        if round % 2 == me.number() % 2 {
            block.raise_error(1);
        }
        assert!(!wait(block.finish(Timeout::Never))?.is_committed());
    }
    quick_rounds(&world, ring, &mut channels)?;
    say(world, "all channels are right")
}

/// Blocks that commit, and allocate nothing.
fn quick_rounds(world: &World, ring: [Rank; 3], channels: &mut [Channel<u64>]) -> Ended {
    for round in 0..200_u64 {
        let region = Region::new(crate::ALLOCATOR);
        for channel in &mut *channels {
            let mine = 1000 * round + u64::from(ring[1].number());
            channel.elements_mut()?.fill(mine);
        }
        let mut block = world.start(Level::Global)?;
        for channel in &mut *channels {
            block.start(channel)?;
        }
        assert!(wait(block.finish(Timeout::Never))?.is_committed());
        for (at, channel) in channels.iter_mut().enumerate() {
            let from = if at % 2 == 0 { ring[0] } else { ring[1] };
            let expected = 1000 * round + u64::from(from.number());
            assert!(channel.elements_mut()?.iter().all(|found| *found == expected));
        }
        let allocations = region.change().allocations;
        assert!(round < 100 || allocations == 0, "round {round}: {allocations} allocations");
    }
    Ok(())
}

#[test]
fn sections_of_arrays_are_exchanged_in_all_shapes() {
    for ranks in [1, 4] {
        all_say(&program("sections", ranks), ranks, "all sections are right");
    }
}

#[test]
fn channels_live_through_aborts_and_rebuilds_and_allocate_nothing() {
    all_say(&program("channels", 4), 4, "all channels are right");
}

#[test]
fn the_section_of_a_request_that_fails_is_given_back() {
    all_say(&program("sections with deaths", 4), 4, "all sections survived");
}
