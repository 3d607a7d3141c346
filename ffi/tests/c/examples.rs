//! The examples do what they say; those in which a process kills itself on purpose say so, and end
//! without what reads like a bug.

use std::{collections::BTreeSet, fs, path::Path};

use fampi_kit::{
    launch::{Launch, Run},
    traces::trace_in,
};

use crate::{
    build::{Link, here, program},
    expect,
};

#[test]
fn the_examples_do_what_they_say() {
    let halo = program(&["examples/halo.c"], Link::Shared, &[]);
    let run = expect(&Launch::new(&halo, 4), 3, ": done, 1.5000");
    says_that_one_dies_on_purpose(run.expect_orderly(3));
    let steps = program(&["examples/fused.c"], Link::Shared, &[]);
    let run = expect(&Launch::new(&steps, 4), 3, ": done at ");
    says_that_one_dies_on_purpose(run.expect_orderly(3));
    let mut ends = run.output.lines().filter_map(|line| line.split_once(": done at "));
    let (_, first) = ends.next().expect("three of them");
    assert!(ends.all(|(_, end)| end == first), "the same steps on all ranks: {run}");
    let object = program(&["examples/raii.cpp"], Link::Shared, &[]);
    let run = expect(&Launch::new(&object, 4), 3, "committed 3 of 5");
    says_that_one_dies_on_purpose(run.expect_orderly(3));
}

/// Examples in which the processes of a plan kill themselves, with such a plan.
const PLANNED: [(&str, &str); 5] = [
    ("cg.c", "30:2"),
    ("cycles.c", "5:1"),
    ("jacobi.c", "10:2"),
    ("ported.c", "10:2"),
    ("waves.c", "10:2"),
];

#[test]
fn a_planned_death_is_said_and_leaves_no_stack_trace() {
    for (example, plan) in PLANNED {
        let program = program(&[&format!("examples/{example}")], Link::Shared, &[]);
        let launch = Launch::new(&program, 4).words(["rebuild"]).variable("KILL_PLAN", &plan);
        says_that_one_dies_on_purpose(launch.run().expect_orderly(4));
    }
}

#[test]
fn no_example_that_kills_itself_is_forgotten() {
    let mut forgotten = BTreeSet::new();
    for file in fs::read_dir(here().join("examples")).expect("the examples").flatten() {
        let text = fs::read_to_string(file.path()).expect("a source");
        let name = file.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_none_or(|extension| extension == "h") {
            continue;
        }
        if ["raise(", "abort(", "die_if_planned("].iter().any(|call| text.contains(call)) {
            forgotten.insert(name);
        }
    }
    for name in ["halo.c", "fused.c", "raii.cpp"].into_iter().chain(PLANNED.map(|it| it.0)) {
        assert!(forgotten.remove(name), "{name}");
    }
    assert_eq!(forgotten, BTreeSet::new());
}

#[track_caller]
fn says_that_one_dies_on_purpose(run: &Run) {
    assert_eq!(run.errors.matches("kills itself, on purpose").count(), 1, "{run}");
    assert_eq!(trace_in(&run.errors).or(trace_in(&run.output)), None, "{run}");
}
