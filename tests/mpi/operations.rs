//! Programs that do every operation on real ranks.

use std::iter;
use std::time::Duration;

use fampi::{
    Codes, Error, Exchange, Finished, Level, Placement, Rank, ReduceOp, Request, Tag, Timeout,
    World,
};
use fampi_kit::programs::every::{Call, KINDS, Kind, post_all};

use crate::{
    all_say, program,
    programs::{Ended, die, say, wait},
    said,
};

/// All operations at once in each block, with every root and messages of all sizes.
pub(crate) fn all(world: World) -> Ended {
    for seed in 0..12 {
        for root in 0..world.size() as usize {
            check_all(&world, root, seed)?;
        }
    }
    say(world, "all operations are right")
}

/// Operations in which some ranks, or all, have no bytes: their vectors have no memory.
pub(crate) fn without_elements(world: World) -> Ended {
    let (me, size) = (world.rank(), world.size() as usize);
    // What a rank gives or takes, when only the odd ones have something.
    let odd = |rank: usize| rank % 2;
    let counts: Vec<usize> = (0..size).map(odd).collect();
    let (own, total) = (odd(me.index()), counts.iter().sum());
    for root in (0..size).map(Rank::from) {
        let nothing = Vec::<u8>::new;
        let of = |count, content| vec![content; if me == root { count } else { 0 }];
        let mut block = world.start(Level::Global)?;
        // The root gives its own part in its place among all.
        let mine = if me == root { of(total, 7) } else { vec![7; own] };
        let gathered = block.igatherv(mine, &counts, root)?;
        let room = if me == root { of(total, 8) } else { vec![0; own] };
        let scattered = block.iscatterv(room, &counts, root)?;
        let (none, all) = (vec![0; size], vec![5_u8; own * size]);
        let each = vec![own; size];
        let empty = [
            block.ibcast(nothing(), root)?,
            block.ireduce(nothing(), ReduceOp::Sum, root)?,
            block.iallreduce(nothing(), ReduceOp::Sum)?,
            block.iscan(nothing(), ReduceOp::Sum)?,
            block.iexscan(nothing(), ReduceOp::Sum)?,
            block.ireduce_scatter_block(nothing(), ReduceOp::Sum)?,
            block.igather(nothing(), root)?,
            block.iscatter(nothing(), root)?,
            block.iallgather(nothing())?,
            block.ialltoall(nothing())?,
            block.iallgatherv(nothing(), &none)?,
            block.isend(nothing(), root, Tag(1))?,
        ];
        let exchange = Exchange { sent: &each, received: &counts };
        let exchanged = block.ialltoallv([all, vec![0; total]].concat(), exchange)?;
        let received: Vec<_> = if me == root { (0..size).collect() } else { Vec::new() };
        for from in received.into_iter().map(Rank::from) {
            block.irecv(nothing(), from, Tag(1))?;
        }
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(finished.is_committed(), "root {root}: {finished:?}");
        let everything = finished.take(gathered)?;
        assert!(me != root || everything == vec![7; total], "{everything:?}");
        assert!(finished.take(scattered)?.iter().all(|byte| *byte == 8));
        for request in empty {
            assert_eq!(finished.take(request)?, nothing());
        }
        let exchanged = finished.take(exchanged)?;
        assert_eq!(exchanged[exchanged.len() - total..], vec![5; total]);
    }
    say(world, "nothing went everywhere")
}

fn check_all(world: &World, root: usize, seed: u64) -> Ended {
    let (me, size) = (world.rank().index(), world.size() as usize);
    let longest = [3, 1, 40, 6000][seed as usize % 4];
    let mut block = world.start(Level::Global)?;
    let posted = post_all(&mut block, (me, size), root, seed, longest)?;
    let finished = wait(block.finish(Timeout::Never))?;
    assert!(finished.is_committed(), "seed {seed}, root {root}: {finished:?}");
    for (call, request) in posted {
        if let Err(wrong) = call.verify(me, &finished.take(request)?) {
            panic!("{wrong}");
        }
    }
    Ok(())
}

/// The call of this kind in a round, with a root for which it matters what one rank does.
fn disturbed_call(kind: Kind, size: u32, bad: u32, seed: u64) -> Call {
    let gives = matches!(kind, Kind::Bcast | Kind::Scatter | Kind::Scatterv);
    let root = if gives { bad } else { (bad + 1) % size } as usize;
    Call {
        kind,
        size: size as usize,
        root,
        left_out: 0,
        seed,
        longest: if seed.is_multiple_of(2) { 9000 } else { 5 },
    }
}

/// What is complete in a block is right; the rest comes back, or is in quarantine.
fn check_disturbed(
    finished: &Finished,
    call: Call,
    me: usize,
    request: Request<u64>,
) -> Result<(), Error> {
    let complete = finished.status(request).is_some();
    match finished.take(request) {
        Ok(found) if complete => call.verify(me, &found).map_err(|wrong| panic!("{wrong}")),
        Ok(_) => Ok(()),
        Err(error) => {
            assert!(!complete && error == Error::Quarantined, "{error}");
            Ok(())
        }
    }
}

/// In each generation a rank dies in another operation, and is replaced.
pub(crate) fn with_deaths(mut world: World) -> Ended {
    let size = world.size();
    while let Some(kind) = KINDS.get(world.generation() as usize) {
        let (me, generation) = (world.rank(), world.generation());
        let bad = generation % size;
        let call = disturbed_call(*kind, size, bad, u64::from(generation));
        let mut block = world.start(Level::Global)?;
        if me == Rank::new(bad) && generation.is_multiple_of(3) {
            die();
        }
        let request = call.post(&mut block, me.index())?;
        if me == Rank::new(bad) {
            die();
        }
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(!finished.is_committed(), "{call:?}");
        let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
        assert_eq!(dead.as_slice(), [Rank::new(bad)], "{call:?}");
        check_disturbed(&finished, call, me.index(), request)?;
        drop(finished);
        world = world.rebuild(Placement::SameRanks)?;
    }
    check_all(&world, 0, 3)?;
    say(world, "all operations survived")
}

/// A rank forgets each operation, or leaves it; the next block does it on the same communicator.
pub(crate) fn with_deserters(world: World) -> Ended {
    let (me, size) = (world.rank(), world.size());
    for (round, kind) in (0_u32..).zip([KINDS, KINDS].concat()) {
        let bad = round % size;
        let call = disturbed_call(kind, size, bad, u64::from(round / 2));
        let leaves = round < KINDS.len() as u32;
        let limit = if leaves { Timeout::Never } else { Timeout::After(Duration::from_millis(20)) };
        let mut block = world.start(Level::Global)?;
        let posted = (me != Rank::new(bad)).then(|| call.post(&mut block, me.index()));
        let pending = match posted {
            None if leaves => block.leave(&Error::Raised(5)),
            _ => block.finish(limit),
        };
        let finished = wait(pending)?;
        if leaves {
            assert!(!finished.is_committed(), "{call:?}");
        }
        if let Some(request) = posted {
            check_disturbed(&finished, call, me.index(), request?)?;
        }
        drop(finished);
        check_all(&world, bad as usize, u64::from(round))?;
    }
    say(world, "all operations ended and worked again")
}

#[test]
fn operations_without_elements_are_operations_all_the_same() {
    for ranks in 1..=4 {
        let program = program("operations without elements", ranks);
        all_say(&program, ranks, "nothing went everywhere");
    }
}

#[test]
fn collectives_go_on_over_the_living_until_one_rank_is_left() {
    // Without a communicator for shared contexts alone one of 20 that are not patient hung.
    for patient in iter::repeat_n(false, 12).chain([true]) {
        let launch = program("through", 5).limit(120);
        let run = if patient { launch.variable("PATIENT", &1) } else { launch }.run();
        let said = said(&run);
        assert!(said.len() == 1 && said[0].ends_with(": alone"), "{said:?}, {run}");
    }
}

#[test]
fn survivors_go_on_through_any_number_of_aborts_without_shrinking() {
    let run = program("aftermath", 4).limit(60).run();
    assert_eq!(said(&run), [0, 1, 2].map(|rank| format!("rank {rank}: went on")), "{run}");
}
