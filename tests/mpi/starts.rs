//! Processes that die before MPI knows of them.

use std::thread;

use super::{Launch, built};

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
