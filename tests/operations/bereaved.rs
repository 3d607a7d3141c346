//! A communicator that has lost a member goes on: any number of aborts among the living, each
//! followed by a block in which nothing of the aborted one is met.

use std::time::Duration;

use fampi::{
    Color, Comm, Error, Finished, Level, Outcome, Rank, Request, Source, Tag, TagSelector, Timeout,
    TryBlock, World,
    sim::{self, Ending, Simulation},
};

/// Ranks, of which the last dies.
const SIZE: u32 = 4;
/// More aborts than the tags of simulated messages can tell apart.
const ROUNDS: u32 = 20;
const SEEDS: u64 = 25;
/// Longer than messages that go without their receiver.
const LONG: usize = 3000;
/// What is received in good blocks, and sent in bad ones, too.
const SMALL: Tag = Tag(5);
const LARGE: Tag = Tag(6);

/// How receives of good blocks name their messages.
#[derive(Clone, Copy, Debug)]
enum Receive {
    Exact,
    AnySource,
    AnyTag,
    Probed,
}

fn end(block: TryBlock) -> Finished {
    match block.finish(Timeout::Never).wait_local(Timeout::Never).expect("no outer block") {
        Outcome::Committed(finished) | Outcome::Faulty(finished) => finished,
        Outcome::TimedOut(_) => unreachable!("it waits for ever"),
    }
}

/// The living ranks before and after this one.
fn neighbours(comm: &Comm, living: &[u32]) -> (Rank, Rank) {
    let me = comm.rank().number();
    let at = living.iter().position(|rank| *rank == me).expect("alive");
    let of = |at: usize| Rank::new(living[at % living.len()]);
    (of(at + living.len() - 1), of(at + 1))
}

/// A block that one of the living leaves or raises a code in, after all have sent what nobody
/// receives.
fn abort(comm: &Comm, living: &[u32], round: u32) {
    let (before, next) = neighbours(comm, living);
    let mut block = comm.start(Level::Global).expect("in use");
    let _ = block.isend(vec![u64::MAX], next, SMALL).expect("a rank");
    if round.is_multiple_of(3) {
        let _ = block.isend(vec![u64::MAX; LONG], next, LARGE).expect("a rank");
    }
    let bad = living[round as usize % living.len()] == comm.rank().number();
    let outcome = if bad && round.is_multiple_of(2) {
        block.leave(&Error::Raised(7)).wait_local(Timeout::Never)
    } else {
        if bad {
            block.raise_error(7);
        }
        if round.is_multiple_of(2) {
            // Nobody sends it: the one that leaves ends the wait.
            let _ = block.irecv(vec![0_u64], before, Tag(9)).expect("a rank");
            block.finish(Timeout::Never).wait_local(Timeout::Never)
        } else {
            block.finish(Timeout::After(Duration::from_millis(3))).wait_local(Timeout::Never)
        }
    };
    assert!(matches!(outcome, Ok(Outcome::Faulty(_))));
}

/// A message to the next rank and one from the rank before: the verdict, and what came.
fn exchange(comm: &Comm, living: &[u32], way: Receive, mine: u64) -> (bool, Option<u64>) {
    let (before, next) = neighbours(comm, living);
    let (tag, elements) = if mine.is_multiple_of(3) { (LARGE, LONG) } else { (SMALL, 1) };
    let mut block = comm.start(Level::Global).expect("in use");
    let _ = block.isend(vec![mine; elements], next, tag).expect("a rank");
    let room = vec![0_u64; elements];
    let received: Option<Request<u64>> = match way {
        Receive::Exact => block.irecv(room, before, tag).ok(),
        Receive::AnySource => block.irecv(room, Source::Any, tag).ok(),
        Receive::AnyTag => block.irecv(room, before, TagSelector::Any).ok(),
        Receive::Probed => {
            let found = block.mprobe_local::<u64>(before, TagSelector::Any, Timeout::Never);
            found.ok().and_then(|message| block.imrecv(room, message).ok())
        }
    };
    let finished = end(block);
    let came = received.and_then(|received| finished.take(received).ok());
    (finished.is_committed(), came.map(|came| came[elements - 1]))
}

/// Rounds of an aborted block and of good ones until one commits; how many it took at most.
fn go_on(world: &World, comm: &Comm, living: &[u32], way: Receive) -> u32 {
    let mut most = 0;
    for round in 0..ROUNDS {
        abort(comm, living, round);
        if !std::ptr::eq(&**world, comm) && round % 4 == 1 {
            abort(world, &[0, 1, 2], round);
        }
        for attempt in 1.. {
            assert!(attempt < 30, "no block commits any more");
            let (committed, came) = exchange(comm, living, way, u64::from(round));
            if committed {
                assert_eq!(came, Some(u64::from(round)), "of this attempt");
                most = most.max(attempt);
                break;
            }
        }
    }
    most
}

/// Runs it on a communicator that is made of the world before its last rank dies.
fn bereaved(
    way: Receive,
    living: &'static [u32],
    attempts: u32,
    make: impl Fn(&World) -> Option<Comm> + Send + Sync + Clone + 'static,
) {
    for seed in 0..SEEDS {
        let make = make.clone();
        let limit = Duration::from_secs(100);
        let report = Simulation::new(SIZE).seed(seed).time_limit(limit).run_world(move |world| {
            let made = make(&world);
            let comm = made.as_ref().unwrap_or(&world);
            let mut early = comm.start(Level::Global).expect("in use");
            if seed % 2 == 0 && world.rank().number() == 0 {
                // The spare context is used up, and the next one is not made, when the death comes.
                early.raise_error(3);
                assert!(!end(early).is_committed());
            } else {
                drop(end(early));
            }
            if world.rank().number() == SIZE - 1 {
                sim::crash();
            }
            let mut block = world.start(Level::Global).expect("in use");
            let _ = block.irecv(vec![0_u64], Rank::new(SIZE - 1), SMALL).expect("a rank");
            assert!(!end(block).is_committed());
            let most = go_on(&world, comm, living, way);
            world.finalize();
            most
        });
        for process in &report.processes[..SIZE as usize - 1] {
            let Ending::Finished(most) = process.ending else { panic!("{way:?} {seed}: {report}") };
            assert!(most <= attempts, "{way:?}, seed {seed}: {most} attempts");
        }
    }
}

#[test]
fn aborts_after_a_death_leave_nothing_for_the_next_block() {
    bereaved(Receive::Exact, &[0, 1, 2], 1, |_| None);
}

#[test]
fn receives_of_any_source_work_after_a_death() {
    bereaved(Receive::AnySource, &[0, 1, 2], 1, |_| None);
}

#[test]
fn receives_and_probes_of_any_tag_never_give_what_an_aborted_block_sent() {
    bereaved(Receive::AnyTag, &[0, 1, 2], 8, |_| None);
    bereaved(Receive::Probed, &[0, 1, 2], 8, |_| None);
}

#[test]
fn a_duplicate_goes_on_through_aborts_of_its_own_and_of_the_world() {
    bereaved(Receive::Exact, &[0, 1, 2], 2, |world| {
        let made = world.idup().expect("one at a time").wait_local(Timeout::Never);
        made.expect("nobody dies").into_comm()
    });
}

#[test]
fn a_part_without_the_dead_goes_on_and_so_does_that_with_it() {
    bereaved(Receive::Exact, &[0, 1, 2], 2, |world| {
        // The parts of rank 3 is its own; the others lost nobody.
        let color = Color::Of(u32::from(world.rank().number() == SIZE - 1));
        let made = world.isplit(color, 0).expect("one at a time").wait_local(Timeout::Never);
        made.expect("nobody dies").into_comm()
    });
}
