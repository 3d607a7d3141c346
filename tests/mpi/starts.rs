//! Processes that die before MPI knows of them.

use serial_test::serial;

use super::{Launch, built};

#[test]
#[serial]
fn a_death_before_mpi_has_started_ends_the_others_with_a_sentence() {
    for how in ["kill -KILL $$", "exit 0"] {
        let one = format!("if [ $PMIX_RANK = 2 ]; then {how}; fi; exec \"$0\"");
        let program = built("hello_block").display().to_string();
        let run = Launch::new("/bin/sh", 4).words(["-c".to_owned(), one, program]).run();
        assert_ne!(run.status, 0, "{how}: {run}");
        let said = "1 of 4 processes of this node died while MPI started: start the job again";
        assert!(run.errors.contains(said), "{how}: {run}");
    }
}
