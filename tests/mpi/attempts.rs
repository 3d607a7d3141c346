//! Attempts of a rebuild that fail, one after the other.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, id},
};

use fampi::{Level, Placement, Rank, Timeout, World};
use mpi::environment::Universe;
use serial_test::serial;

use crate::{
    program,
    programs::{Ended, die, say, wait},
    said,
};

/// Where the ranks say their numbers, for the first process that is started later.
const NUMBERS: &str = "FOLDER_OF_NUMBERS";
/// Where new processes leave a trace.
const FOLDER: &str = "FOLDER_OF_ATTEMPTS";
/// So many of them die when MPI has started; a rebuild makes more attempts than that.
const FAILURES: usize = 8;
/// What `cargo fampi soak` allows after one rebuild, too.
const MOST: usize = 16 + 12;

/// One of four ranks dies, and so do the first that are started in its place.
pub(crate) fn fail(mut world: World) -> Ended {
    if !world.is_replacement() {
        if world.rank() == Rank::new(2) {
            die();
        }
        let finished = wait(world.start(Level::Global)?.finish(Timeout::Never))?;
        assert!(!finished.is_committed());
        world = world.rebuild(Placement::SameRanks)?;
    }
    let held = fampi::mpi::communicators();
    let finished = wait(world.start(Level::Global)?.finish(Timeout::Never))?;
    assert!(finished.is_committed());
    let many = if held > MOST { format!("{held}") } else { "few".to_owned() };
    say(world, &format!("{many} communicators"))
}

/// What a new process does before it takes its place.
pub(crate) fn die_early() {
    let Some(folder) = env::var_os(FOLDER).filter(|_| env::var_os("FAMPI_PARENT").is_some()) else {
        return;
    };
    let folder = PathBuf::from(folder);
    fs::write(folder.join(id().to_string()), []).expect("a folder");
    if fs::read_dir(&folder).expect("a folder").count() <= FAILURES {
        let started = mpi::initialize();
        assert!(started.is_some());
        die();
    }
}

/// One of four ranks dies. Another one dies when the new process has begun to meet the first
/// survivor, which has not.
pub(crate) fn overhear(mut world: World) -> Ended {
    let is_new = world.is_replacement();
    if !is_new {
        let folder = PathBuf::from(env::var_os(NUMBERS).expect("a folder"));
        fs::write(folder.join(world.rank().to_string()), id().to_string()).expect("a folder");
        let finished = wait(world.start(Level::Global)?.finish(Timeout::Never))?;
        assert!(finished.is_committed());
        if world.rank() == Rank::new(2) {
            die();
        }
    }
    while !wait(world.start(Level::Global)?.finish(Timeout::Never))?.is_committed() {
        world = world.rebuild(Placement::SameRanks)?;
    }
    say(world, if is_new { "new" } else { "old" })
}

/// What the first new process does when MPI has started it.
pub(crate) fn kill_another() -> Option<Universe> {
    let folder = PathBuf::from(env::var_os(NUMBERS)?);
    let starter = env::var("FAMPI_PARENT").ok()?;
    let (starter, _) = starter.split_once('@').expect("pid@node");
    File::create_new(folder.join("once")).ok()?;
    let universe = mpi::initialize();
    let victim = number_in(&folder, 3);
    let later = format!("sleep 0.3; kill -KILL {victim}; sleep 0.7; kill -CONT {starter}");
    let script = format!("kill -STOP {starter} && {{ ({later}) > /dev/null 2>&1 & }}");
    let stopped = Command::new("sh").args(["-c", &script]).status().expect("a shell");
    assert!(stopped.success(), "whoever started this process lives");
    universe
}

fn number_in(folder: &Path, rank: u32) -> String {
    fs::read_to_string(folder.join(rank.to_string())).expect("it was said before anybody died")
}

#[test]
#[serial]
fn a_new_process_that_hears_of_a_death_first_does_not_leave_who_has_started_it() {
    let folder = env::temp_dir().join(format!("fampi-overheard-{}", id()));
    fs::create_dir(&folder).expect("a temporary folder");
    let run = program("overheard", 4).variable(NUMBERS, &folder.display()).run();
    fs::remove_dir_all(&folder).expect("a folder");
    // Whoever waits in vain is ended by its watchdog, and replaced.
    let expected = ["rank 0: old", "rank 1: old", "rank 2: new", "rank 3: new"];
    assert_eq!(said(&run), expected, "{run}");
}

#[test]
#[serial]
fn attempts_that_fail_leave_no_communicators() {
    let folder = env::temp_dir().join(format!("fampi-attempts-{}", id()));
    fs::create_dir(&folder).expect("a temporary folder");
    let run = program("attempts", 4).variable(FOLDER, &folder.display()).run();
    let started = fs::read_dir(&folder).expect("a folder").count();
    fs::remove_dir_all(&folder).expect("a folder");
    let expected = [0, 1, 2, 3].map(|rank| format!("rank {rank}: few communicators"));
    assert_eq!(said(&run), expected, "{run}");
    assert_eq!(started, FAILURES + 1, "{run}");
}
