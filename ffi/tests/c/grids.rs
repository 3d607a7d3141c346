//! Grids that lose one or two ranks more at each step of a recovery.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use fampi_kit::launch::Launch;

use crate::{
    build::{Link, program},
    expect,
};

/// Rows and columns, who dies in a good block, and who at a step of the recovery, and how.
struct Plan([u32; 2], &'static str, &'static str, &'static str);

/// A program, in a folder of its own, that is told who dies.
fn launch(name: &str, plan: &Plan, step: &str) -> Launch {
    static LAUNCHES: AtomicU32 = AtomicU32::new(0);
    let &Plan([rows, columns], dead, more, how) = plan;
    let source = format!("tests/programs/{name}.c");
    let grids = program(&[&source], Link::Shared, &[]);
    let name = format!("{name}-{rows}x{columns}-{}", LAUNCHES.fetch_add(1, Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let launch = Launch::new(grids, rows * columns).words([rows, columns].map(|it| it.to_string()));
    let launch = launch.variable("GRIDS_STEP", &step).variable("GRIDS_HOW", &how);
    let launch = launch.variable("GRIDS_DEAD", &dead).variable("GRIDS_MORE", &more);
    // Half of the ranks may leave with a status.
    launch.inside(&folder).ignoring_statuses()
}

/// Survivors, or new processes, that die at a step of the recovery.
const SURVIVORS: [Plan; 4] = [
    Plan([2, 4], "6", "2 4", "segv"),
    Plan([3, 3], "4", "3 1", "kill"),
    Plan([2, 2], "3", "0", "kill"),
    Plan([2, 2], "0 3", "1", "exit"),
];
const NEW: [Plan; 4] = [
    Plan([2, 2], "3", "3", "kill"),
    Plan([2, 2], "0 3", "0 3", "exit"),
    Plan([2, 4], "6 1", "1", "segv"),
    Plan([3, 3], "4 2", "4 2", "kill"),
];

#[track_caller]
fn expect_whole(name: &str, plans: &[Plan], step: &str) {
    for plan in plans {
        let Plan([rows, columns], ..) = plan;
        let run = expect(&launch(name, plan, step), (rows * columns) as usize, ": whole");
        // The watchdog ends a rank after some seconds in one call of MPI. It has to where a program
        // splits and one of two ranks dies: that call is the program's own.
        let splits = ["split", "between"].contains(&step);
        assert!(splits || !run.errors.contains("did not return"), "{run}");
    }
}

/// The steps of a program at which survivors die, and new processes.
type Steps = (&'static str, &'static [&'static str], &'static [&'static str]);

/// World, rows and columns are split anew from the world that has recovered.
const SPLIT: Steps =
    ("grids", &["split", "between", "use", "block", "recover", "recovered"], &["new"]);
/// They are rebuilt over one link.
const LINKED: Steps = (
    "links",
    &["shrunk", "spawned", "world", "row", "column", "checked"],
    &["new", "new in its row"],
);

/// Each step for one grid, in turn.
fn expect_each_step((name, old, new): Steps) {
    for (step, plan) in old.iter().zip(SURVIVORS.chunks(1).cycle()) {
        expect_whole(name, plan, step);
    }
    for (step, plan) in new.iter().zip(NEW.chunks(1).rev()) {
        expect_whole(name, plan, step);
    }
}

#[test]
fn a_grid_is_whole_again_whoever_else_dies_at_a_step_of_its_recovery() {
    expect_each_step(SPLIT);
}

#[test]
fn world_rows_and_columns_come_back_over_one_link_whoever_else_dies_at_a_step() {
    expect_each_step(LINKED);
}

#[test]
#[ignore = "as the two before, each step for each grid: 80 s"]
fn each_grid_is_whole_again_whoever_else_dies_at_whichever_step() {
    for (name, old, new) in [SPLIT, LINKED] {
        for step in old {
            expect_whole(name, &SURVIVORS, step);
        }
        for step in new {
            expect_whole(name, &NEW, step);
        }
    }
}
