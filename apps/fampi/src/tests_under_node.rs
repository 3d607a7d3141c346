//! What `fampi test` runs under the launcher of our own, on either MPI, and what it leaves out: by
//! name, each with its reason.

use crate::installation::Family;

/// Words for `cargo test`, and what they select.
type Tested = (&'static [&'static str], &'static str);
/// A part of the name of a test, and why it does not run.
type LeftOut = (&'static str, &'static str);

const PROGRAMS: Tested = (&["--package", "fampi-ffi"], "programs in C");
const APPLICATIONS: Tested = (
    &["-p", "minife", "-p", "lulesh", "-p", "hyperquicksort", "--test", "resilience"],
    "the applications, by their last lines and digests",
);
const RANKS: Tested =
    (&["--package", "fampi", "--lib", "--test", "mpi"], "the library, on real ranks and alone");

/// What is run.
pub(crate) const TESTED: &[Tested] = &[RANKS, PROGRAMS, APPLICATIONS];
/// What builds the programs that these tests launch besides.
pub(crate) const LAUNCHED: &[&str] = &["--package", "fampi", "--examples"];

/// What of that is left out.
pub(crate) const fn left_out(mpi: Family) -> &'static [LeftOut] {
    match mpi {
        Family::OpenMpi => ON_OPEN_MPI,
        Family::Mpich => ON_MPICH,
    }
}

const IN_CREATION: &str = "who dies while the program itself has MPI make a communicator, or joins \
                           a world as a spare, holds up the others until the watchdog ends them";
const WATCHED: &str = "the library that names blocking calls takes the place before MPI that fampi \
                       needs on MPICH";
const NO_ORIGIN: &str = "MPICH does not say on which communicator a request is, and with whom";
const MPIS_OWN: &str = "MPICH's own calls hear of no death and of no revocation";
const IN_FRONT: &str = "it stands in front of ULFM's functions, which MPICH's room does not call";
const NO_REVOCATION: &str = "a rank that alone is refused a rebuild holds up the others, as MPICH \
                             knows no revocation";
const LAUNCHER: &str = "it is about Open MPI's launcher, or its words";
const DEFECT: &str = "it is about a defect of Open MPI";
const KEPT: &str =
    "MPICH ends no send to the dead, so a wait for it gives an error and the handle stays";
const PLACES: &str = "messages to the dead keep the 64 places that MPICH has for each sender of \
                      a node, and then the ranks wait for each other for ever";
const FORTRAN: &str = "the module for Fortran is built with Open MPI's compiler";

const OTHER_WORDS: &str = "our launcher says so itself, in other words, before a rank can";

const ON_OPEN_MPI: &[LeftOut] = &[
    ("a_rank_leaves_the_end_of_mpi_that_does_not_return", LAUNCHER),
    ("what_a_job_leaves_behind_is_seen", "our launcher chooses where MPI keeps its memory"),
    ("a_death_before_mpi_has_started", OTHER_WORDS),
    ("a_limit_that_makes_no_sense", OTHER_WORDS),
];

const ON_MPICH: &[LeftOut] = &[
    ("a_rank_that_is_refused_a_communicator", NO_REVOCATION),
    ("a_grid_is_whole_again_whoever_else_dies_at_a_step", IN_CREATION),
    ("world_rows_and_columns_come_back_over_one_link", IN_CREATION),
    ("a_spare_that_dies_is_one_spare_less", IN_CREATION),
    ("a_world_is_complete_again_whoever_dies_in_whichever_call", IN_CREATION),
    (
        "pending::the_failure_of_a_pending_rebuild",
        "a process that a rebuild was to take in is not told that the others gave it up",
    ),
    ("watch::", WATCHED),
    ("a_wait_inside_of_a_patient_block", "MPICH ends no receive from the dead, and a wait for it"),
    ("no_strangers_death", NO_ORIGIN),
    ("all_ranks_of_a_block_are_told_what_was_wrong", NO_ORIGIN),
    ("all_levels_and_kinds_of_requests_of_the_paper", NO_ORIGIN),
    ("a_shrink_is_a_request_of_a_block", NO_ORIGIN),
    ("after_a_death_mpis_own_calls_fail", MPIS_OWN),
    ("a_communicator_is_in_use_on_all_living_ranks", IN_FRONT),
    ("misuse_returns_the_code", NO_REVOCATION),
    ("programs_of_ours_touch_no_memory", NO_REVOCATION),
    ("a_thread_makes_communicators", "MPICH is too slow with two threads of each rank in it"),
    ("the_benchmark_of_agreements_runs", "it measures MPIX_Comm_agree, which MPICH has not"),
    ("a_rank_leaves_the_end_of_mpi_that_does_not_return", LAUNCHER),
    ("an_agreement_ends_where_the_answer_went", DEFECT),
    ("a_process_that_hears_nothing_more", DEFECT),
    ("copies_of_handles_outlive_a_death", KEPT),
    ("what_was_cut_short_comes_to_its_end", KEPT),
    ("copies_of_handles_touch_no_memory", KEPT),
    ("valgrind_finds_nothing", "under valgrind a job on MPICH was not over after 150 s"),
    ("the_others_say_so_when_the_first_rank_dies_at_the_start", IN_FRONT),
    ("without_the_flags_of_fault_tolerance", LAUNCHER),
    (
        "the_plain_program_has_the_same_bits",
        "the plain program adds in the order of MPI's own reductions, which is another in MPICH",
    ),
    (
        "a_death_by_any_signal_is_seen_with_the_node_watcher_and_without",
        "without the watcher of the node no death is seen",
    ),
    ("attempts_that_fail_leave_no_communicators", "they stay: late messages may come for them"),
    ("files::files_of_an_implementation_that_crashes", DEFECT),
    ("a_limit_that_makes_no_sense", OTHER_WORDS),
    ("interruption::a_hundred_leaves_end_the_large_operations", KEPT),
    ("interruption::deaths_end_the_large_operations_of_all", KEPT),
    (
        "channels_live_through_aborts_and_rebuilds",
        "after a death the list of the dead allocates in each round",
    ),
    ("a_death_before_mpi_has_started", LAUNCHER),
    ("of_hundreds_of_messages_none_is_lost", PLACES),
    ("conjugate_gradients_in_fortran", FORTRAN),
    ("handles_places_buffers_and_errors_are_those_of_fortran", FORTRAN),
    ("a_plate_in_fortran", FORTRAN),
];
