//! Worlds made from communicators of a program that owns its MPI.

use fampi::{Error, Flow, Placement, Timeout, Tried, World, policy};
use mpi::{
    topology::{Color, SimpleCommunicator},
    traits::Communicator as _,
};

use crate::{
    Launch, Run, all_say, program,
    programs::{Ended, FOREVER, die, say},
    said,
};

/// The variable that names the communicator.
pub(crate) const COMM: &str = "FAMPI_TEST_COMM";
const DEATHS: &str = "DEATHS";
const BY_POLICY: &str = "BY_POLICY";

/// Runs a program in the world of the communicator with this name.
pub(crate) fn run(name: &str, program: impl FnOnce(World) -> Ended) -> Ended {
    let universe = mpi::initialize().expect("nobody has initialised MPI");
    let all = universe.world();
    let ended = fampi::init_from(&communicator(name, &all)).and_then(program);
    if let Err(error) = &ended {
        println!("rank {}: {error}", all.rank());
    }
    drop(universe);
    ended
}

fn communicator(name: &str, all: &SimpleCommunicator) -> SimpleCommunicator {
    let part = |color: i32, key| all.split_by_color_with_key(Color::with_value(color), key);
    match name {
        "all" => all.duplicate(),
        "backwards" => part(0, all.size() - all.rank()).expect("a colour"),
        "half" => part(all.rank() % 2, all.rank()).expect("a colour"),
        "broken" if all.rank() == 1 => die(),
        "the world" | "broken" => mpi::topology::SimpleCommunicator::world(),
        other => panic!("there is no communicator {other}"),
    }
}

/// Some ranks die in one block, and there are too few spares for them.
pub(crate) fn refused(mut world: World) -> Ended {
    let deaths: u32 = std::env::var(DEATHS).expect("told").parse().expect("a number");
    let me = world.rank().number();
    let dies = (1..=deaths).contains(&me);
    let refused = if std::env::var_os(BY_POLICY).is_some() {
        let ended = world.run(&policy::Rebuild::default(), &mut vec![0_u64], |step, _| {
            if step.number() == 5 && dies { die() } else { Ok(Flow::Continue) }
        });
        ended.map(|_| ())
    } else {
        let tried = world.try_block(FOREVER, |block| {
            let all = block.ibarrier();
            if dies { die() } else { block.wait_local(all, Timeout::Never) }
        })?;
        assert!(matches!(tried, Tried::Faulty(..)), "somebody died");
        world.rebuild(Placement::SameRanks).map(drop)
    };
    world.finalize();
    refused
}

/// Says what the world has.
pub(crate) fn spares(world: World) -> Ended {
    let all = format!("one of {}, {} spares", world.size(), world.spares());
    say(world, &all)
}

fn adopted(name: &str, comm: &str, ranks: u32, spares: u32) -> Launch {
    program(name, ranks).spares(spares).variable(COMM, &comm)
}

/// All that is left has ended in order, and so many processes have not.
#[track_caller]
fn orderly_but(run: &Run, died: usize) {
    assert_eq!((run.status, run.processes - run.orderly), (0, died), "{run}");
}

#[test]
fn communicators_of_rsmpi_come_in_and_go_out() {
    for comm in ["the world", "all", "backwards"] {
        all_say(&adopted("rsmpi", comm, 4, 0), 4, "the same sum");
    }
}

#[test]
fn spares_take_the_places_of_the_dead_in_a_world_of_any_communicator() {
    let expected = [0, 1, 2, 3].map(|rank| format!("rank {rank}: all counted"));
    for comm in ["the world", "all", "backwards"] {
        for name in ["driven", "deaths"] {
            let run = adopted(name, comm, 4, 3).variable(DEATHS, &2).run();
            assert_eq!(said(&run), expected, "{run}");
            orderly_but(&run, 2);
        }
    }
}

#[test]
fn a_world_has_the_spares_that_were_asked_for_whoever_started_its_mpi() {
    for (ranks, spares) in [(4, 0), (3, 2)] {
        let what = format!("one of {ranks}, {spares} spares");
        all_say(&program("spares", ranks).spares(spares), ranks, &what);
        for comm in ["the world", "all", "backwards"] {
            all_say(&adopted("spares", comm, ranks, spares), ranks, &what);
        }
    }
}

#[test]
fn each_part_of_the_processes_is_a_job_with_spares_of_its_own() {
    let run = adopted("driven", "half", 9, 1).variable(DEATHS, &1).run();
    let expected = [0, 0, 1, 1, 2, 2, 3, 3].map(|rank| format!("rank {rank}: all counted"));
    assert_eq!(said(&run), expected, "{run}");
    orderly_but(&run, 2);
}

#[test]
fn a_rebuild_with_too_few_spares_is_the_same_error_on_all_ranks_and_starts_nothing() {
    for (spares, deaths, survivors) in [(0, 1, &[0, 2, 3][..]), (1, 2, &[0, 3])] {
        for by in [DEATHS, BY_POLICY] {
            let launch = adopted("refused", "the world", 4, spares);
            let run = launch.variable(by, &deaths).variable(DEATHS, &deaths).run();
            let error = Error::TooFewSpares { dead: deaths, spares };
            let expected: Vec<String> =
                survivors.iter().map(|rank| format!("rank {rank}: {error}")).collect();
            assert_eq!(said(&run), expected, "{run}");
            assert_eq!(run.processes, 4 + spares as usize, "nothing was started: {run}");
            assert_ne!(run.status, 0, "{run}");
        }
    }
}

#[test]
fn a_world_without_spares_can_shrink() {
    let run = adopted("shrinking", "the world", 5, 0).run();
    let lines = said(&run);
    assert!(lines.len() >= 3 && lines.iter().all(|line| line.ends_with(": all work")), "{run}");
    orderly_but(&run, 5 - lines.len());
}

#[test]
fn a_death_before_the_world_is_there_is_the_same_error_on_all_ranks() {
    let run = adopted("rsmpi", "broken", 4, 0).run();
    let expected = [0, 2, 3].map(|rank| format!("rank {rank}: {}", Error::DiedAtStart));
    assert_eq!(said(&run), expected, "{run}");
    // Nobody ends in order, which says more than the launcher's status: it forgives a signal.
    assert_eq!((run.processes, run.orderly), (3, 0), "{run}");
}
