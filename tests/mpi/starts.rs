//! What is so once MPI has started, and processes that die before.

use std::{fs, thread};

use fampi::World;

use super::{Launch, all_say, built, program};
use crate::programs::{Ended, say};

/// What a launched copy does: it says which of MPI's memory of this node has a name.
pub(crate) fn named_memory(world: World) -> Ended {
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
    let shared: Vec<_> = maps.lines().filter(|line| line.contains("/dev/shm/mpich_shm_")).collect();
    let version = mpi::environment::library_version().expect("MPI says who it is");
    assert_eq!(shared.is_empty(), !version.starts_with("MPICH"), "{version}: {maps}");
    let named: Vec<_> = shared.iter().filter(|line| !line.ends_with(" (deleted)")).collect();
    say(world, &format!("{named:?}"))
}

#[test]
fn what_mpich_shares_has_no_name_once_it_has_started() {
    all_say(&program("named memory", 4), 4, "[]");
}

#[test]
fn a_death_before_mpi_has_started_ends_the_others_with_a_sentence() {
    let program = built("hello_block").display().to_string();
    let start = |how: &str| {
        let one = format!("if [ $PMIX_RANK = 2 ]; then {how}; fi; exec \"$0\"");
        let run = Launch::new("/bin/sh", 4).words(["-c".to_owned(), one, program.clone()]).run();
        assert_ne!(run.status, 0, "{how}: {run}");
        let said = "1 of 4 processes of this node died while MPI started: start the job again";
        assert!(run.errors.contains(said), "{how}: {run}");
    };
    // The others wait for ten seconds: at the same time.
    thread::scope(|scope| {
        scope.spawn(|| start("kill -KILL $$"));
        start("exit 0");
    });
}
