//! What launched copies of the test program do, each until a last line on standard output.

mod driven;
mod fused;

use std::{
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use fampi::{
    BlockOptions, Codes, Color, Error, FaultCode, Finished, Level, Outcome, Patience, Pending,
    Placement, Rank, ReduceOp, Tag, Timeout, Tried, TryBlock, World,
};
use fampi_kit::programs::{
    aftermath::{self, Receive},
    through::run_through,
};
use mpi::{
    collective::SystemOperation,
    traits::{Communicator as _, CommunicatorCollectives as _},
};
use signal_hook::{
    consts::{SIGABRT, SIGSEGV},
    low_level,
};
use stats_alloc::Region;

use crate::{
    adopted, attempts, farewells, files, forming, hung, interruption, limits, operations, rebuilt,
    requests, sections, starts, wildcards, windows,
};

const SOFT: i32 = 7;
const SIGKILL: i32 = 9;
pub(crate) const FOREVER: BlockOptions = BlockOptions::global(Timeout::Never);

pub(crate) type Ended = Result<(), Error>;

/// Runs the program of this name.
pub(crate) fn run(name: &str) -> Ended {
    attempts::die_early();
    let _universe = attempts::kill_another();
    match std::env::var(adopted::COMM) {
        Ok(comm) => adopted::run(&comm, |world| run_in(world, name)),
        Err(_) => run_in(fampi::init()?, name),
    }
}

fn run_in(world: World, name: &str) -> Ended {
    match name {
        "rsmpi" => rsmpi(world),
        "named memory" => starts::named_memory(world),
        "attempts" => attempts::fail(world),
        "overheard" => attempts::overhear(world),
        "refused" => adopted::refused(world),
        "spares" => adopted::spares(world),
        "rounds" => rounds(world),
        "deaths" => deaths(world),
        "aftermath" => after_a_death(world),
        "through" => through(world),
        "fused" => fused::deaths(world),
        "leaves" => farewells::leaves(world),
        "stopped by a policy" => farewells::stopped(world),
        "codes" => farewells::codes(world),
        "again" => farewells::again(world),
        "innocents" => farewells::innocents(world),
        "driven" => driven::deaths(world),
        "shrinking" => driven::shrinking(world),
        "exits" => exits(world),
        "rows" => rows(world),
        "limits" => limits::with_a_late_rank(world),
        "rebuilt" => rebuilt::with_deaths(world),
        "lattice" => driven::lattice(world),
        "changed" => driven::changed(world),
        "planes" => driven::planes(world),
        "groups" => groups(world),
        "partners" => partners(world),
        "broken" => broken(world),
        "allocations" => allocations(world),
        "with collective" => with_collective(world),
        "stopped" => stopped(world),
        "hung in a block" => hung::in_a_block(world),
        "slow" => hung::slow(world),
        "duplicates" => duplicates(world),
        "idup" => idup(world),
        "operations" => operations::all(world),
        "operations without elements" => operations::without_elements(world),
        "operations with deaths" => operations::with_deaths(world),
        "operations with deserters" => operations::with_deserters(world),
        "files" => files::all(world),
        "refused files" => files::refused(world),
        "files with deaths" => files::with_deaths(world),
        "sections" => sections::all(world),
        "channels" => sections::channels(world),
        "sections with deaths" => sections::with_deaths(world),
        "requests" => requests::all(world),
        "many requests" => requests::many(world),
        "interruption by leaves" => interruption::by_leaves(world),
        "interruption before reading" => interruption::before_the_message_is_read(world),
        "interruption by deaths" => interruption::by_deaths(world),
        "wildcards" => wildcards::from_the_dead(world),
        "requests left over" => requests::left_over(world),
        "requests with deaths" => requests::with_deaths(world),
        "mixed requests with deaths" => requests::mixed_with_deaths(world),
        "forming" => forming::with_a_death(world),
        "windows" => windows::all(world),
        "windows of the living" => windows::going_on(world),
        "windows with deaths" => windows::with_deaths(world),
        other => panic!("there is no program {other}"),
    }
}

/// The last words of a program; a `Result`, so that programs can end with it.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn say(world: World, what: &str) -> Ended {
    println!("rank {}: {what}", world.rank());
    world.finalize();
    Ok(())
}

pub(crate) fn wait(mut pending: Pending) -> Result<Finished, Error> {
    loop {
        pending = match pending.wait_local(Timeout::Never)? {
            Outcome::Committed(finished) | Outcome::Faulty(finished) => return Ok(finished),
            Outcome::TimedOut(pending) => pending,
        };
    }
}

/// Rank after rank dies, and the collectives of the others go on.
fn through(world: World) -> Ended {
    let patient = std::env::var_os("PATIENT").is_some();
    world.set_patience(if patient { Patience::Patient } else { Patience::Prompt });
    run_through(&world, 0, || die());
    say(world, "alone")
}

/// One of four ranks dies, and the others go on.
fn after_a_death(world: World) -> Ended {
    let duplicate = world.idup()?.wait_local(Timeout::Never)?.into_comm().expect("for all");
    if world.rank().number() == 3 {
        die();
    }
    let mut block = world.start(Level::Global)?;
    let _ = block.irecv(vec![0_u8], Rank::new(3), Tag(1))?;
    assert!(!aftermath::end(block).is_committed());
    for comm in [&world, &duplicate] {
        for way in [Receive::Exact, Receive::AnySource] {
            assert!(aftermath::go_on(&world, comm, &[0, 1, 2], way) <= 2);
        }
        for way in [Receive::AnyTag, Receive::Probed] {
            aftermath::go_on(&world, comm, &[0, 1, 2], way);
        }
    }
    drop(duplicate);
    say(world, "went on")
}

/// Shell commands of this process's own number, which it does not wait for.
pub(crate) fn command(script: &str) {
    let script = script.replace("PID", &std::process::id().to_string());
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let shell = shell.spawn().expect("a shell");
    // It ends by itself; whoever is killed by it cannot wait for it.
    drop(shell);
}

/// This process dies by SIGKILL, now.
pub(crate) fn die() -> ! {
    let _ = Command::new("sh").args(["-c", "kill -KILL $PPID"]).status();
    unreachable!("this process is dead");
}

/// This process ends in the way of this name.
pub(crate) fn end(way: &str) -> ! {
    let signal = match way {
        "exit" => std::process::exit(0),
        "exit(1)" => std::process::exit(1),
        "_exit(1)" => low_level::exit(1),
        "panic" => panic!("nobody catches this but the test harness"),
        "SIGKILL" => SIGKILL,
        "SIGSEGV" => SIGSEGV,
        "SIGABRT" => SIGABRT,
        other => unreachable!("there is no way {other}"),
    };
    let _ = low_level::raise(signal);
    unreachable!("this process is dead");
}

/// Messages around a ring in every round; every seventh time some rank objects at first.
fn rounds(world: World) -> Ended {
    let (me, size) = (world.rank().number(), world.size());
    let (left, right) = (Rank::new((me + size - 1) % size), Rank::new((me + 1) % size));
    for round in 0..200_u32 {
        for attempt in 0..2 {
            let stamp = |rank: Rank| vec![round * 2 + attempt, rank.number()];
            let mut block = world.start(Level::Global)?;
            let received = block.irecv(vec![0_u32; 2], left, Tag(1))?;
            block.isend(stamp(world.rank()), right, Tag(1))?;
            if round % 7 == 0 && attempt == 0 && round % size == me {
                block.raise_error(SOFT);
            }
            let finished = wait(block.finish(Timeout::Never))?;
            assert_eq!(finished.take(received)?, stamp(left));
            assert_eq!(finished.is_committed(), round % 7 != 0 || attempt == 1);
            if finished.is_committed() {
                break;
            }
        }
    }
    say(world, "200 rounds")
}

/// One more step of a count that is protected, or the count as it was.
pub(crate) fn count(block: &mut TryBlock, outdated: bool, count: u64) -> Result<Vec<u64>, Error> {
    if outdated {
        return block.restore(0);
    }
    let ranks = block.iallreduce(vec![1_u64], ReduceOp::Sum)?;
    block.wait_local(ranks, Timeout::Never)?;
    let next = vec![count + block.take(ranks)?[0]];
    block.protect(0, &next)?;
    Ok(next)
}

/// Some other process ends a rank of each generation, at a moment that nobody knows.
fn deaths(mut world: World) -> Ended {
    let deaths: u32 = std::env::var("DEATHS").expect("told").parse().expect("a number");
    let twice = std::env::var("TWICE").is_ok();
    let (mut sum, mut outdated) = (0, world.is_replacement());
    let mut threatened = false;
    loop {
        let generation = world.generation();
        if !outdated && generation >= deaths && sum > 0 {
            break;
        }
        let victim = generation % world.size();
        let second = (generation + 1) % world.size();
        let me = world.rank().number();
        let dies = generation < deaths && !outdated && !threatened;
        if dies && (me == victim || twice && me == second) {
            threatened = true;
            let microseconds = (generation.wrapping_mul(7_919) + std::process::id()) % 20_000;
            // The second dies while the first is being replaced, or a little before or after.
            let later = if me == second { std::process::id() * 7 % 120 * 1000 } else { 0 };
            let delay = microseconds + later;
            match std::env::var("WAY") {
                Ok(way) => drop(thread::spawn(move || {
                    thread::sleep(Duration::from_micros(delay.into()));
                    end(&way)
                })),
                Err(_) => command(&format!("sleep 0.{delay:06}; kill -KILL PID")),
            }
        }
        match world.try_block(FOREVER, |block| count(block, outdated, sum))? {
            Tried::Committed(state, _) => (sum, outdated) = (state[0], false),
            Tried::Faulty(_, Some(Error::NothingProtected)) => (sum, outdated) = (0, false),
            Tried::Faulty(_, Some(error @ Error::StateLost { .. })) => return Err(error),
            Tried::Faulty(..) => {
                world = world.rebuild(Placement::SameRanks)?;
                outdated = true;
            }
        }
    }
    assert!(sum > 0 && sum.is_multiple_of(u64::from(world.size())));
    say(world, "all counted")
}

/// One rank leaves without a word.
fn exits(mut world: World) -> Ended {
    let way = std::env::var("WAY").expect("told");
    let mut complete = false;
    while !complete {
        if world.generation() == 0 && world.rank() == Rank::new(2) {
            end(&way);
        }
        complete = wait(world.start(Level::Global)?.finish(Timeout::Never))?.is_committed();
        if !complete {
            world = world.rebuild(Placement::SameRanks)?;
        }
    }
    say(world, "complete again")
}

/// Two rows of ranks, made before a death and used after it.
fn rows(mut world: World) -> Ended {
    if !world.is_replacement() {
        let color = Color::Of(world.rank().number() / 3);
        let row = world.isplit(color, 0)?.wait_local(Timeout::Never)?.into_comm();
        assert_eq!(row.expect("everybody has a colour").size(), 3);
        if world.rank() == Rank::new(4) {
            die();
        }
        let finished = wait(world.start(Level::Global)?.finish(Timeout::Never))?;
        let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
        assert!(!dead.is_empty() && !finished.is_committed());
        world = world.rebuild(Placement::SameRanks)?;
    }
    let rows = world.children();
    let row = rows.first().and_then(Option::as_ref).expect("the row was derived again");
    let mut block = row.start(Level::Global)?;
    let sum = block.iallreduce(vec![world.rank().number()], ReduceOp::Sum)?;
    let finished = wait(block.finish(Timeout::Never))?;
    let first = world.rank().number() / 3 * 3;
    assert_eq!(finished.take(sum)?, [3 * first + 3]);
    let what = format!("my row has {} ranks", row.size());
    // Nobody leaves before all rows are done.
    let _ = wait(world.start(Level::Global)?.finish(Timeout::Never))?;
    say(world, &what)
}

/// Two groups that have nobody in common, in an order of their own.
fn groups(world: World) -> Ended {
    let (me, all) = (world.rank().number(), world.group());
    let mine: Vec<Rank> = (0..6).rev().filter(|rank| rank % 2 == me % 2).map(Rank::new).collect();
    let mine = all.incl(&mine)?;
    let made = world.icreate(&mine)?.wait_local(Timeout::Never)?.into_comm();
    let made = made.expect("everybody is in its own group");
    assert_eq!(made.group(), mine);
    let mut block = made.start(Level::Global)?;
    let all = block.iallgather([me].repeat(3))?;
    let finished = wait(block.finish(Timeout::Never))?;
    assert_eq!(finished.take(all)?, [4 + me % 2, 2 + me % 2, me % 2]);
    say(world, &format!("my group has {} ranks", made.size()))
}

/// A rank and the one that holds its copy die in the same step.
fn partners(mut world: World) -> Ended {
    let (mut steps, mut outdated) = (0, world.is_replacement());
    loop {
        if world.generation() == 0 && steps >= 40 && world.rank().number() % 2 == 1 {
            die();
        }
        match world.try_block(FOREVER, |block| count(block, outdated, steps))? {
            Tried::Committed(state, _) => (steps, outdated) = (state[0], false),
            Tried::Faulty(_, Some(Error::NothingProtected)) => (steps, outdated) = (0, false),
            Tried::Faulty(_, Some(error @ Error::StateLost { .. })) => {
                return say(world, &error.to_string());
            }
            Tried::Faulty(..) => {
                world = world.rebuild(Placement::SameRanks)?;
                outdated = true;
            }
        }
    }
}

/// Nobody repairs the world after a death, and blocks go on.
fn broken(world: World) -> Ended {
    if world.rank() == Rank::new(3) {
        die();
    }
    assert!(!wait(world.start(Level::Global)?.finish(Timeout::Never))?.is_committed());
    let mut committed = 0;
    for _ in 0..10_000 {
        let finished = wait(world.start(Level::Global)?.finish(Timeout::Never))?;
        committed += u32::from(finished.is_committed());
    }
    say(world, &format!("{committed} committed"))
}

/// Blocks that promise a collective: one rank forgets it now and then, and at last one dies.
fn with_collective(world: World) -> Ended {
    let (me, size) = (world.rank(), world.size());
    for round in 0..40 {
        let forgetful = (round % 4 == 3).then_some(Rank::new(round % size));
        if round == 39 && me == Rank::new(0) {
            die();
        }
        let mut block = world.start(Level::WithCollective)?;
        if forgetful != Some(me) {
            let sum = block.iallreduce(vec![1_u32; 1 << 16], ReduceOp::Sum)?;
            // Nobody waits for ever for the one who forgets it, or is dead.
            let _ = block.wait_local(sum, Timeout::Never);
        }
        let finished = wait(block.finish(Timeout::Never))?;
        let codes = Codes::Of(&[FaultCode::NoCollective]);
        let lacking = finished.failed_group(codes, &world);
        assert_eq!(finished.is_committed(), forgetful.is_none(), "round {round}: {finished:?}");
        if round < 39 {
            assert!(lacking.iter().eq(forgetful), "round {round}: {finished:?}");
        } else {
            let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
            assert_eq!(dead.as_slice(), [Rank::new(0)], "{finished:?}");
        }
    }
    say(world, "all agreed")
}

/// After a while the engine has all the memory that commits need.
fn allocations(world: World) -> Ended {
    let commits = |count: u32| -> Ended {
        for _ in 0..count {
            let finished = wait(world.start(Level::Global)?.finish(Timeout::Never))?;
            assert!(finished.is_committed());
        }
        Ok(())
    };
    commits(1000)?;
    let region = Region::new(crate::ALLOCATOR);
    commits(1000)?;
    let change = region.change();
    let what = format!("{} allocations", change.allocations + change.reallocations);
    say(world, &what)
}

/// One rank is silent for a second, as under a debugger.
fn stopped(world: World) -> Ended {
    for round in 0..100 {
        if round == 50 && world.rank() == Rank::new(1) {
            // Its observer has tested it before, if any is to.
            thread::sleep(Duration::from_millis(100));
            command("kill -STOP PID; sleep 1; kill -CONT PID");
        }
        let mut block = world.start(Level::Global)?;
        block.iallreduce(vec![round], ReduceOp::Max)?;
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(finished.is_committed(), "{finished:?}");
    }
    say(world, "nobody died")
}

/// A rank dies while the others make a communicator for rsmpi.
fn duplicates(mut world: World) -> Ended {
    if world.generation() == 0 {
        if world.rank() == Rank::new(2) {
            die();
        }
        let made = world.to_rsmpi();
        assert!(matches!(made, Err(Error::CreationFailed)), "it needs everybody");
        assert!(!wait(world.start(Level::Global)?.finish(Timeout::Never))?.is_committed());
        world = world.rebuild(Placement::SameRanks)?;
    }
    let size = world.to_rsmpi()?.size();
    let _ = wait(world.start(Level::Global)?.finish(Timeout::Never))?;
    say(world, &format!("a duplicate of {size}"))
}

/// In each generation a rank dies: before it asks for a duplicate, after that, after the commit.
fn idup(mut world: World) -> Ended {
    while world.generation() < 6 {
        let (generation, before) = (world.generation(), world.children().len());
        let bad = world.rank() == Rank::new(generation % world.size());
        let dies = |when| bad && generation % 3 == when;
        let mut block = world.start(Level::Global)?;
        if dies(0) {
            die();
        }
        let asked = block.idup()?;
        if dies(1) {
            die();
        }
        let finished = wait(block.finish(Timeout::Never))?;
        if dies(2) {
            die();
        }
        let committed = finished.is_committed();
        // Who decides and dies at once does not bind the others.
        assert!(!committed || generation % 3 == 2);
        let made = finished.duplicate(asked, &world).and_then(|it| it.wait_local(Timeout::Never));
        let error = if committed { Error::CreationFailed } else { Error::NotCommitted };
        assert_eq!(made.err(), Some(error));
        drop(finished);
        world = world.rebuild(Placement::SameRanks)?;
        assert_eq!(world.children().len(), before + usize::from(committed), "if and only if");
    }
    let mut block = world.start(Level::Global)?;
    let asked = block.idup()?;
    let finished = wait(block.finish(Timeout::Never))?;
    drop(finished.duplicate(asked, &world)?.wait_local(Timeout::Never)?);
    for duplicate in world.children().iter().flatten() {
        let mut block = duplicate.start(Level::Global)?;
        let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum)?;
        let finished = wait(block.finish(Timeout::Never))?;
        assert_eq!(finished.take(sum)?, [world.size()]);
    }
    say(world, "all duplicates work")
}

/// The world gives a communicator of rsmpi, and goes on.
fn rsmpi(world: World) -> Ended {
    let (rank, size) = (world.rank().number(), world.size());
    let there = world.to_rsmpi()?;
    let mut sum = 0_u32;
    there.all_reduce_into(&rank, &mut sum, SystemOperation::sum());
    assert_eq!((there.rank().cast_unsigned(), sum), (rank, size * (size - 1) / 2));
    drop(there);
    let mut block = world.start(Level::Global)?;
    let again = block.iallreduce(vec![rank], ReduceOp::Sum)?;
    let finished = wait(block.finish(Timeout::Never))?;
    assert_eq!(finished.take(again)?, [sum]);
    drop(finished);
    say(world, "the same sum")
}
