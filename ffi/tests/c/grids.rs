//! Grids that lose one or two ranks more at each step of a recovery.

use std::{fs, path::Path};

use fampi_kit::launch::Launch;

use crate::{
    build::{Link, program},
    expect,
};

/// Rows and columns, who dies in a good block, and who at a step of the recovery, and how.
struct Plan([u32; 2], &'static str, &'static str, &'static str);

/// The program, in a folder of its own, with the words that follow the grid.
fn launch(plan: &Plan, step: &str, words: &[&str]) -> Launch {
    let &Plan([rows, columns], dead, more, how) = plan;
    let grids = program(&["tests/programs/grids.c"], Link::Shared, &[]);
    let name = format!("grids-{rows}x{columns}-{step}-{}", words.concat());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let launch = Launch::new(grids, rows * columns).words([rows, columns].map(|it| it.to_string()));
    let launch = launch.words(words.iter().copied());
    let launch = launch.variable("GRIDS_STEP", &step).variable("GRIDS_HOW", &how);
    let launch = launch.variable("GRIDS_DEAD", &dead).variable("GRIDS_MORE", &more);
    // Half of the ranks may leave with a status.
    launch.inside(&folder).ignoring_statuses()
}

#[test]
fn a_grid_is_whole_again_whoever_else_dies_at_a_step_of_its_recovery() {
    for step in ["split", "between", "use", "block", "recover", "recovered"] {
        for plan in [
            Plan([2, 2], "3", "0", "kill"),
            Plan([2, 2], "0 3", "1", "exit"),
            Plan([2, 4], "6", "2 4", "segv"),
            Plan([3, 3], "4", "3 1", "kill"),
        ] {
            let Plan([rows, columns], ..) = plan;
            expect(&launch(&plan, step, &[]), (rows * columns) as usize, ": whole");
        }
    }
    for plan in [
        Plan([2, 2], "3", "3", "kill"),
        Plan([2, 2], "0 3", "0 3", "exit"),
        Plan([2, 4], "6 1", "1", "segv"),
        Plan([3, 3], "4 2", "4 2", "kill"),
    ] {
        let Plan([rows, columns], ..) = plan;
        expect(&launch(&plan, "new", &[]), (rows * columns) as usize, ": whole");
    }
}
