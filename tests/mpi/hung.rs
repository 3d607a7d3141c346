//! A rank that makes no progress, without and with a limit that the user sets.

use std::{thread, time::Duration};

use fampi::{Codes, Color, Error, Placement, Rank, ReduceOp, Tag, Timeout, Tried, TryBlock, World};
use serial_test::serial;
use signal_hook::{consts::SIGSTOP, low_level};

use crate::{
    Launch, Run, all_say, example, observer, program,
    programs::{Ended, FOREVER, command, count, say},
    said,
};

/// Who hangs.
const HUNG: Rank = Rank::new(2);
/// When, in the middle.
const MIDDLE: u64 = 80;
/// Counted by all ranks together, in steps of as many as there are ranks.
const ENOUGH: u64 = 400;

/// One rank hangs in a block; the others learn who, and count on with a replacement. So many of
/// the replacements hang as well, each in its first block.
pub(crate) fn in_a_block(mut world: World) -> Ended {
    let told = |name| std::env::var(name).expect("told");
    let (way, at, replacements) = (told("WAY"), told("AT"), told("REPLACEMENTS"));
    let (at, replacements): (u64, u32) = (number(&at), number(&replacements));
    let (mut sum, mut outdated) = (0, world.is_replacement());
    while outdated || sum < ENOUGH {
        let generation = world.generation();
        let hangs = if generation == 0 { sum == at } else { generation <= replacements };
        let is_hung = hangs && world.rank() == HUNG && (outdated || generation == 0);
        // Nobody but the hung rank could end this one.
        let waits_in_vain = hangs && world.rank() == Rank::new(1);
        if hangs && way.ends_with("behind a call of MPI") {
            drop(world.to_rsmpi()?);
        }
        let step = |block: &mut TryBlock| {
            if is_hung {
                hang(&way);
            }
            if waits_in_vain {
                let request = block.irecv(vec![0_u64], HUNG, Tag(1))?;
                block.wait_local(request, Timeout::Never)?;
            }
            count(block, outdated, sum)
        };
        match world.try_block(FOREVER, step)? {
            Tried::Committed(state, _) => (sum, outdated) = (state[0], false),
            Tried::Faulty(_, Some(error @ Error::StateLost { .. })) => return Err(error),
            // They hang in the first block: all begin again.
            Tried::Faulty(_, Some(Error::NothingProtected)) => outdated = false,
            Tried::Faulty(finished, _) => {
                let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
                drop(finished);
                if generation <= replacements {
                    assert_eq!(dead.as_slice(), [HUNG], "the report names it");
                }
                world = world.rebuild(Placement::SameRanks)?;
                outdated = true;
            }
        }
    }
    say(world, &format!("{sum}"))
}

/// This rank makes no progress any more. Some ways come back from that, too late.
fn hang(way: &str) {
    match way {
        "stopped" => low_level::raise(SIGSTOP).expect("a signal"),
        "spinning" => loop {
            std::hint::spin_loop();
        },
        "sleeping" | "sleeping behind a call of MPI" => thread::sleep(Duration::from_secs(3600)),
        "stopped while it waits" => command("kill -STOP PID"),
        "stopped for a while" => {
            command("sleep 1.4; kill -CONT PID");
            low_level::raise(SIGSTOP).expect("a signal");
        }
        other => unreachable!("there is no way {other}"),
    }
}

fn number<N: std::str::FromStr<Err = std::num::ParseIntError>>(text: &str) -> N {
    text.parse().expect("a number")
}

/// Everybody is slow before its first block, and one rank after it, but never for the limit.
pub(crate) fn slow(world: World) -> Ended {
    drop(world.isplit(Color::Of(0), 0)?.wait_local(Timeout::Never)?);
    if world.rank() != Rank::new(0) {
        thread::sleep(Duration::from_secs(3));
    }
    for step in 0..6 {
        if step % 2 == 1 && world.rank() == HUNG {
            thread::sleep(Duration::from_millis(700));
        }
        let step = |block: &mut TryBlock| {
            let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum)?;
            block.wait_local(sum, Timeout::Never)?;
            Ok(block.take(sum)?[0])
        };
        let Tried::Committed(4, _) = world.try_block(FOREVER, step)? else {
            panic!("somebody died")
        };
    }
    say(world, "nobody died")
}

fn limited(launch: Launch, seconds: &str) -> Launch {
    observer::observed(launch, &observer::observer()).variable("FAMPI_HUNG_SECONDS", &seconds)
}

fn hanging(way: &str, spares: u32) -> Run {
    hanging_at(MIDDLE, 0, way, spares)
}

fn hanging_at(at: u64, replacements: u32, way: &str, spares: u32) -> Run {
    let launch = program("hung in a block", 4).spares(spares).variable("WAY", &way);
    let launch = launch.variable("AT", &at).variable("REPLACEMENTS", &replacements);
    limited(launch.variable("FAMPI_TEST_LOG", &1), "1").run()
}

/// All have counted to the end, so many of the processes without having ended in order.
#[track_caller]
fn all_count(run: &Run, died: usize) {
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank}: {ENOUGH}")).collect();
    assert_eq!(said(run), expected, "{run}");
    assert_eq!((run.processes, run.processes - run.orderly), (4 + died, died), "{run}");
}

#[test]
#[serial]
fn a_rank_that_hangs_in_any_way_is_replaced_and_the_count_is_right() {
    for (way, spares) in
        [("stopped", 0), ("stopped", 1), ("spinning", 0), ("spinning", 1), ("sleeping", 1)]
    {
        let run = hanging(way, spares);
        // Of the processes all others ended in order, spares too.
        all_count(&run, 1);
        let told = |line: &&str| line.contains("told of a death") && line.contains("cause=Hung");
        assert!(run.errors.lines().any(|line| told(&line)), "{way}: {run}");
        let metrics = |what: &str| {
            let ours = |line: &&str| line.contains("fampi::metrics: ") && line.contains(what);
            run.errors.lines().filter(ours).count()
        };
        // A spare hears of it, too.
        let hear = 1..=3 + spares as usize;
        assert!(hear.contains(&metrics("death process=2 source=\"observer\"")), "{way}: {run}");
        assert_eq!(metrics("left rank=") + metrics("left blocks="), 4, "{way}: {run}");
        assert_eq!(metrics("observer of this node"), 4, "{way}: {run}");
    }
}

#[test]
#[serial]
fn a_rank_that_hangs_in_its_first_block_is_replaced() {
    for spares in [0, 1] {
        all_count(&hanging_at(0, 0, "sleeping", spares), 1);
    }
}

#[test]
#[serial]
fn a_replacement_that_hangs_in_its_first_block_is_replaced() {
    for spares in [0, 2] {
        all_count(&hanging_at(MIDDLE, 1, "sleeping", spares), 2);
    }
}

#[test]
#[serial]
fn a_rank_that_hangs_behind_a_call_of_mpi_that_may_last_is_replaced() {
    all_count(&hanging("sleeping behind a call of MPI", 1), 1);
}

#[test]
#[serial]
fn a_rank_that_goes_on_when_it_has_been_replaced_does_no_harm() {
    for spares in [0, 1] {
        all_count(&hanging("stopped for a while", spares), 1);
    }
}

#[test]
#[serial]
fn a_rank_that_is_stopped_while_it_waits_is_replaced() {
    all_count(&hanging("stopped while it waits", 1), 1);
}

#[test]
#[serial]
fn who_is_slow_for_less_than_the_limit_or_before_its_first_block_is_not_hung() {
    all_say(&limited(program("slow", 4), "2"), 4, "nobody died");
}

#[test]
#[serial]
fn without_a_limit_nobody_is_hung_and_with_a_long_one_a_short_stop_is_none() {
    for seconds in ["0", "10"] {
        all_say(&limited(program("stopped", 4), seconds), 4, "nobody died");
    }
}

#[test]
#[serial]
fn with_a_limit_recoveries_are_not_taken_for_hangs() {
    let deaths = program("deaths", 4).spares(6).variable("DEATHS", &12).limit(120);
    let run = limited(deaths.variable("FAMPI_TEST_LOG", &1), "1").run();
    assert_eq!(said(&run).len(), 4, "{run}");
    assert!(!run.errors.contains("cause=Hung"), "{run}");
}

#[test]
#[serial]
fn a_limit_that_makes_no_sense_or_that_nobody_looks_after_is_refused() {
    let refused = |launch: Launch, sentence: &str| {
        let run = launch.run();
        assert!(run.status != 0 && run.output.is_empty(), "{run}");
        assert!(run.errors.contains(sentence), "{run}");
    };
    refused(limited(example("hello_block", 2), "soon"), "FAMPI_HUNG_SECONDS is 'soon'; set it to");
    let often =
        limited(example("hello_block", 2), "5").variable("FAMPI_HEARTBEAT_MILLISECONDS", &"often");
    refused(often, "FAMPI_HEARTBEAT_MILLISECONDS is 'often'; set it to");
    let tested = limited(example("hello_block", 2), "5").variable("FAMPI_DIAGNOSIS", &"1s:2.5");
    refused(tested, "FAMPI_DIAGNOSIS is '1s:2.5'; write the time between tests from 10ms");
    let untested = example("hello_block", 2).variable("FAMPI_DIAGNOSIS", &"1s:2.5:5");
    refused(untested, "FAMPI_DIAGNOSIS needs observers that test: set FAMPI_OBSERVER");
    let alone = example("hello_block", 2).variable("FAMPI_HUNG_SECONDS", &5);
    refused(alone, "FAMPI_HUNG_SECONDS needs an observer to look: set FAMPI_OBSERVER");
}
