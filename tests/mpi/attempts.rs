//! Attempts of a rebuild that fail, one after the other.

use std::{env, fs, path::PathBuf};

use fampi::{Level, Placement, Rank, Timeout, World};
use serial_test::serial;

use crate::{
    program,
    programs::{Ended, die, say, wait},
    said,
};

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
    fs::write(folder.join(std::process::id().to_string()), []).expect("a folder");
    if fs::read_dir(&folder).expect("a folder").count() <= FAILURES {
        let started = mpi::initialize();
        assert!(started.is_some());
        die();
    }
}

#[test]
#[serial]
fn attempts_that_fail_leave_no_communicators() {
    let folder = env::temp_dir().join(format!("fampi-attempts-{}", std::process::id()));
    fs::create_dir(&folder).expect("a temporary folder");
    let run = program("attempts", 4).variable(FOLDER, &folder.display()).run();
    let started = fs::read_dir(&folder).expect("a folder").count();
    fs::remove_dir_all(&folder).expect("a folder");
    let expected = [0, 1, 2, 3].map(|rank| format!("rank {rank}: few communicators"));
    assert_eq!(said(&run), expected, "{run}");
    assert_eq!(started, FAILURES + 1, "{run}");
}
