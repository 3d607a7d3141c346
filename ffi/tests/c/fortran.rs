//! Programs in Fortran lose ranks, and have the digits of C. Where there is no gfortran nothing is
//! tested, and the reason is printed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Once,
};

use fampi_kit::launch::Launch;

use crate::{
    build::{Link, compilers, here, libraries, program, run},
    expect,
};

/// The module, and what a program of this project needs beside it, in their order.
const MODULES: [&str; 4] = ["mpi_f08.f90", "fampi_base.f90", "fampi.f90", "examples/plan.f90"];

/// Builds a program; nothing where there is no compiler.
#[track_caller]
fn fortran(source: &str) -> Option<PathBuf> {
    static BUILT: Once = Once::new();
    if Command::new("gfortran").arg("--version").output().is_err() {
        eprintln!("skipped: there is no gfortran");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fortran");
    let compiler = || {
        let mut compiler = Command::new("gfortran");
        compiler.args(["-std=f2018", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
        compiler.arg("-I").arg(&folder).arg("-J").arg(&folder);
        compiler
    };
    let object = |module: &str| folder.join(module.replace('/', "-")).with_extension("o");
    BUILT.call_once(|| {
        std::fs::create_dir_all(&folder).expect("a folder");
        for module in MODULES {
            let source = here().join("fortran").join(module);
            run(compiler().arg("-c").arg(source).arg("-o").arg(object(module)));
        }
    });
    let made = folder.join(Path::new(source).file_stem().expect("a name"));
    let mut linker = compiler();
    linker.arg(here().join(source)).args(MODULES.map(object)).arg("-o").arg(&made);
    for (folder, library) in
        [(libraries().to_owned(), "fampi"), (compilers().join("../lib"), "mpi")]
    {
        linker.arg("-L").arg(&folder).arg(format!("-l{library}"));
        linker.arg(format!("-Wl,-rpath,{}", folder.display()));
    }
    run(&mut linker);
    Some(made)
}

/// What four ranks print when those of a plan die, in the order of ranks.
#[track_caller]
fn digits(program: &Path, plan: &str, spares: u32) -> Vec<String> {
    let launch = Launch::new(program, 4).spares(spares).variable("KILL_PLAN", &plan);
    let done = launch.run();
    assert!(plan.is_empty() || done.errors.contains("kills itself, on purpose"), "{done}");
    // A spare that is not needed, and one that takes a place, end in order as ranks do.
    let lines = done.expect_orderly(4);
    let lines: Vec<String> = lines.sorted_lines().into_iter().map(str::to_owned).collect();
    assert_eq!(lines.len(), 4, "{done}");
    lines
}

#[test]
fn a_plate_in_fortran_has_the_digits_of_c_whoever_dies() {
    let Some(of_fortran) = fortran("fortran/examples/jacobi.f90") else { return };
    let of_c = program(&["examples/jacobi.c"], Link::Shared, &[]);
    let calm = digits(&of_c, "", 0);
    assert!(calm[0].contains("300 steps"), "{calm:?}");
    // A rank; another one while all restore; the first; two partners at once, and all begin again.
    let plans = [("", 0), ("20:1", 0), ("20:1 -1:2", 2), ("40:0", 1), ("30:1 30:3", 0)];
    for (plan, spares) in plans {
        assert_eq!(digits(&of_fortran, plan, spares), calm, "{plan}");
    }
    assert_eq!(digits(&of_c, "20:1", 0), calm);
    // From files, where two partners die at once.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("checkpoints-fortran");
    let _ = fs::remove_dir_all(&folder);
    let launch = Launch::new(&of_fortran, 4).variable("FAMPI_CHECKPOINT", &folder.display());
    let launch = launch.variable("FAMPI_CHECKPOINT_EVERY", &5).variable("KILL_PLAN", &"32:1 32:3");
    let run = launch.run();
    assert!(run.errors.contains("all go on from the checkpoint of step 30"), "{run}");
    assert_eq!(run.expect_orderly(4).sorted_lines(), calm);
}

#[test]
fn conjugate_gradients_in_fortran_lose_ranks_and_no_digit() {
    let Some(cg) = fortran("fortran/examples/cg.f90") else { return };
    let calm = digits(&cg, "", 0);
    for line in &calm {
        let left = line.rsplit_once("left").and_then(|(_, left)| left.trim().parse::<f64>().ok());
        assert!(left.is_some_and(|left| left < 1e-9), "{line}");
    }
    for (plan, spares) in [("5:1", 0), ("7:0 -1:2", 2), ("0:3", 1)] {
        assert_eq!(digits(&cg, plan, spares), calm, "{plan}");
    }
}

#[test]
fn handles_places_buffers_and_errors_are_those_of_fortran() {
    let Some(calls) = fortran("tests/programs/calls.f90") else { return };
    let launch = Launch::new(&calls, 4).variable("KILL_PLAN", &"0:2");
    expect(&launch, 3, ": done").expect_orderly(3);
    let unasked = Launch::new(&calls, 4).words(["unasked"]).ignoring_statuses().run();
    let sentence = "FAMPI_Set_redundancy: not a request of the kind that is needed";
    assert_eq!(unasked.errors.matches(sentence).count(), 4, "{unasked}");
    assert!(unasked.output.is_empty(), "nothing went on: {unasked}");
}
