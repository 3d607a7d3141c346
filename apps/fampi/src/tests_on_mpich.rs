//! What `fampi test --mpi mpich` runs, and what it leaves out: by name, each with its reason.

/// The words for `cargo test`, and what they select.
pub(crate) const TESTED: [(&[&str], &str); 2] = [
    (&["--package", "fampi-ffi"], "programs in C"),
    (
        &["-p", "minife", "-p", "lulesh", "-p", "hyperquicksort", "--test", "resilience"],
        "the applications, by their last lines and digests",
    ),
];

const IN_CREATION: &str = "who dies inside MPI's own spawn holds up the others until the watchdog \
                           ends them";
const NO_ORIGIN: &str = "MPICH does not say on which communicator a request is, and with whom";
const MPIS_OWN: &str = "MPICH's own calls hear of no death and of no revocation";
const IN_FRONT: &str = "it stands in front of ULFM's functions, which MPICH's room does not call";
const NO_REVOCATION: &str = "a rank that alone is refused a rebuild holds up the others, as MPICH \
                             knows no revocation";
const LAUNCHER: &str = "it is about Open MPI's launcher, or its words";

/// Names of tests, or their beginnings, and why they do not run.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    ("a_death_while_a_replacement_starts", IN_CREATION),
    ("a_new_process_that_dies_before_it_has_started", IN_CREATION),
    ("a_death_at_each_step_of_the_link", IN_CREATION),
    ("a_rank_that_is_refused_a_communicator", IN_CREATION),
    ("a_wait_inside_of_a_patient_block", "MPICH ends no receive from the dead, and a wait for it"),
    ("no_strangers_death", NO_ORIGIN),
    ("all_ranks_of_a_block_are_told_what_was_wrong", NO_ORIGIN),
    ("after_a_death_mpis_own_calls_fail", MPIS_OWN),
    ("a_death_before_the_first_call", "nobody tells of who dies before its first call of fampi"),
    ("a_communicator_is_in_use_on_all_living_ranks", IN_FRONT),
    ("misuse_returns_the_code", NO_REVOCATION),
    ("programs_of_ours_touch_no_memory", NO_REVOCATION),
    ("a_thread_makes_communicators", "MPICH is too slow with two threads of each rank in it"),
    ("the_benchmark_of_agreements_runs", "it measures MPIX_Comm_agree, which MPICH has not"),
    ("a_rank_leaves_the_end_of_mpi_that_does_not_return", LAUNCHER),
];
