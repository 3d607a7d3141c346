//! Programs that were written for ULFM, compiled with `fampi_ulfm.h`.

use fampi_kit::launch::Launch;

use crate::{
    build::{Link, compiles, program},
    expect,
};

#[test]
fn programs_written_for_ulfm_run_on_the_agreement_of_blocks() {
    let ulfm = program(&["tests/programs/ulfm.c"], Link::Shared, &[]);
    for what in ["agree", "iagree", "handler", "beside", "half", "loose"] {
        expect(&Launch::new(&ulfm, 4).words([what]), 3, "passed");
    }
}

#[test]
fn after_a_death_mpis_own_calls_fail_and_programs_written_for_ulfm_go_on() {
    let ulfm = program(&["tests/programs/ulfm.c"], Link::Shared, &[]);
    for (what, living) in [("revoke", 3), ("shrink", 1), ("any", 3), ("buddies", 2), ("unused", 2)]
    {
        expect(&Launch::new(&ulfm, 4).words([what]), living, "passed");
    }
}

#[test]
fn half_of_the_ranks_end_at_random_moments_of_agreements_and_shrinks() {
    let ulfm = program(&["tests/programs/ulfm.c"], Link::Shared, &[]);
    for seed in 1..=2 {
        expect(&Launch::new(&ulfm, 6).words(["storm".to_owned(), seed.to_string()]), 3, "passed");
    }
}

#[test]
#[ignore = "takes minutes"]
fn many_such_storms() {
    let ulfm = program(&["tests/programs/ulfm.c"], Link::Shared, &[]);
    for seed in 3..103 {
        expect(&Launch::new(&ulfm, 6).words(["storm".to_owned(), seed.to_string()]), 3, "passed");
    }
}

#[test]
fn the_benchmark_of_agreements_runs() {
    let agree = program(&["benches/agree.c"], Link::Shared, &["-O2", "-DBATCHES=3"]);
    expect(&Launch::new(&agree, 3), 1, "2,1,");
}

#[test]
fn the_names_of_ulfm_can_be_included_twice_and_by_cpp() {
    let text = "#include <mpi.h>\n#include <fampi_ulfm.h>\n#include <fampi_ulfm.h>\n\
                int (*agree)(MPI_Comm, int *) = MPIX_Comm_agree;\n\
                int codes[] = {MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, \
                MPIX_ERR_REVOKED};\n";
    compiles("ulfm.c", text);
    compiles("ulfm.cpp", text);
}
