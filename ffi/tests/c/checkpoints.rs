//! States of programs in C that outlive the job: in files, from which another job goes on, or the
//! same one, where a rank has died with the one that kept its state.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fampi_kit::launch::{Launch, Run};

use crate::{
    build::{Link, program},
    expect,
};

/// What `fampi run --checkpoint` sets.
const FOLDER: &str = "FAMPI_CHECKPOINT";
const RESTART: &str = "FAMPI_RESTART";

/// A folder of this name that is not there.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("checkpoints-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// The names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// Four ranks of `jacobi.c` that save every five steps.
fn jacobi(folder: &Path, files: &str) -> Launch {
    let program = program(&["examples/jacobi.c"], Link::Shared, &[]);
    let launch = Launch::new(program, 4).variable(FOLDER, &folder.display());
    launch.variable("FAMPI_CHECKPOINT_EVERY", &5).variable("FAMPI_CHECKPOINT_FILES", &files)
}

/// The lines of a run that nothing disturbs, which needs no checkpoints.
fn calm() -> Run {
    let program = program(&["examples/jacobi.c"], Link::Shared, &[]);
    let run = Launch::new(program, 4).run();
    assert_eq!(run.expect_orderly(4).output.lines().count(), 4, "{run}");
    run
}

/// The step of the checkpoint from which a run went on.
#[track_caller]
fn went_on_from(run: &Run) -> u32 {
    let said = run.errors.split_once("go on from the checkpoint of step ");
    let step = said.and_then(|(_, rest)| rest.lines().next()?.parse().ok());
    step.unwrap_or_else(|| panic!("it does not go on from a checkpoint: {run}"))
}

#[test]
fn a_state_that_is_lost_with_its_partner_comes_from_the_newest_checkpoint() {
    let calm = calm();
    for (kills, files, spares) in
        [("32:1 32:3", "rank", 0), ("32:0 32:2", "node", 2), ("32:1 32:3 -1:0", "job", 0)]
    {
        let folder = folder(&format!("lost-{files}"));
        let launch = jacobi(&folder, files).variable("KILL_PLAN", &kills).spares(spares);
        let run = launch.run();
        assert_eq!(run.sorted_lines(), calm.sorted_lines(), "{kills}: {run}");
        assert_eq!(went_on_from(run.expect_orderly(4)), 30, "{run}");
    }
}

#[test]
fn a_state_that_is_lost_before_the_first_checkpoint_is_made_again_from_the_beginning() {
    let (calm, folder) = (calm(), folder("early"));
    let run = jacobi(&folder, "rank").variable("KILL_PLAN", &"3:1 3:3").run();
    assert_eq!(run.expect_orderly(4).sorted_lines(), calm.sorted_lines(), "{run}");
    assert!(
        run.errors.contains("the state of rank") && !run.errors.contains("go on from"),
        "{run}"
    );
    // What is saved from then on is newer than whatever was saved before.
    assert!(names(&folder).iter().all(|name| name.starts_with("fampi-000002-")), "{run}");
}

#[test]
fn a_job_that_has_ended_goes_on_from_its_newest_checkpoint_with_the_same_digits() {
    let calm = calm();
    for (files, compress) in [("rank", "off"), ("node", "on"), ("job", "off")] {
        let folder = folder(&format!("ended-{files}"));
        let launch = jacobi(&folder, files).variable("FAMPI_CHECKPOINT_COMPRESS", &compress);
        let kills = "32:0 32:1 32:2 32:3";
        let ended = launch.clone().variable("KILL_PLAN", &kills).run();
        assert!(ended.output.is_empty() && !names(&folder).is_empty(), "{ended}");
        let saved = names(&folder);
        // By mistake it is started from the beginning: it says so, and touches nothing.
        let again = launch.clone().run();
        assert!(again.errors.contains("has checkpoints of an earlier job"), "{again}");
        assert_eq!((again.output.as_str(), names(&folder)), ("", saved), "{again}");
        // Ranks die in the job that goes on, and one that has none to take over is restarted.
        let second = launch.clone().variable(RESTART, &"on").variable("KILL_PLAN", &kills);
        let second = second.run();
        assert_eq!((went_on_from(&second), second.output.as_str()), (30, ""), "{second}");
        let last = launch.variable(RESTART, &"on").variable("KILL_PLAN", &"50:2").run();
        assert_eq!(went_on_from(last.expect_orderly(4)), 30, "{last}");
        assert_eq!(last.sorted_lines(), calm.sorted_lines(), "{last}");
    }
}

#[test]
fn a_job_that_is_to_go_on_where_no_checkpoint_is_says_so_and_ends() {
    let folder = folder("none");
    let run = jacobi(&folder, "rank").variable(RESTART, &"on").run();
    assert!(run.errors.contains("has no complete checkpoint of 4 ranks"), "{run}");
    assert_eq!((run.output.as_str(), names(&folder).len()), ("", 0), "{run}");
    assert_ne!(run.status, 0, "{run}");
}

#[test]
fn a_program_that_begins_by_itself_after_a_loss_finds_what_it_has_protected_since() {
    let checkpoints = program(&["tests/programs/checkpoints.c"], Link::Shared, &[]);
    let run = expect(&Launch::new(&checkpoints, 4).words(["own"]), 4, ": passed");
    assert_eq!(run.expect_orderly(4).output.matches(": begins by itself").count(), 4, "{run}");
    assert_eq!(run.output.matches(": has 8").count(), 4, "{run}");
}

#[test]
fn a_program_that_begins_again_saves_what_it_has_then() {
    let checkpoints = program(&["tests/programs/checkpoints.c"], Link::Shared, &[]);
    let folder = folder("anew");
    let launch =
        Launch::new(&checkpoints, 4).words(["anew", &folder.display().to_string(), "7", "0"]);
    let run = expect(&launch, 4, ": passed");
    assert_eq!(run.expect_orderly(4).output.matches(": has 8").count(), 4, "{run}");
    assert!(!run.errors.contains("cannot be saved"), "{run}");
    let of_step_14 = |name: &String| name.starts_with("fampi-000002-0000000014-");
    assert_eq!(names(&folder).iter().filter(|name| of_step_14(name)).count(), 4, "{run}");
}

#[test]
fn a_rank_that_dies_while_all_go_back_to_files_sends_them_there_again() {
    let checkpoints = program(&["tests/programs/checkpoints.c"], Link::Shared, &[]);
    for stage in ["1", "2", "3"] {
        let folder = folder(&format!("stage-{stage}"));
        let words = ["anew", &folder.display().to_string(), "2", stage];
        let run = expect(&Launch::new(&checkpoints, 4).words(words), 4, ": passed");
        // A rank that had heard of the commit before the death restores the state from memory.
        let brought_back = run.expect_orderly(4).output.matches(": has 4").count();
        assert!((4..=7).contains(&brought_back), "{stage}: {run}");
    }
}

#[test]
fn another_number_of_ranks_takes_what_it_needs() {
    let checkpoints = program(&["tests/programs/checkpoints.c"], Link::Shared, &[]);
    for files in ["rank", "node", "job"] {
        let folder = folder(&format!("resized-{files}"));
        let run = |ranks: u32, steps: u32, restart: &str| {
            let words = [files, &folder.display().to_string(), &steps.to_string(), restart];
            let run = Launch::new(&checkpoints, ranks).words(words).run();
            assert_eq!(run.expect_orderly(ranks as usize).status, 0, "{run}");
            run
        };
        let first = run(3, 9, "0");
        assert!(first.output.contains("from step 0 of 3 ranks"), "{first}");
        assert!(first.output.contains("9 steps, 4 saved"), "{first}");
        let more = run(5, 13, "1");
        assert!(more.output.contains("from step 8 of 3 ranks"), "{more}");
        let fewer = run(2, 16, "3");
        assert!(fewer.output.contains("from step 12 of 5 ranks"), "{fewer}");
        let same = run(2, 20, "1");
        assert!(same.output.contains("from step 14 of 2 ranks"), "{same}");
    }
}

#[test]
fn checkpoints_that_make_no_sense_are_refused_with_the_code_of_the_table() {
    let checkpoints = program(&["tests/programs/checkpoints.c"], Link::Shared, &[]);
    let folder = folder("misuse");
    for ranks in [1, 3] {
        let launch =
            Launch::new(&checkpoints, ranks).words(["misuse", &folder.display().to_string()]);
        let run = expect(&launch, ranks as usize, ": passed");
        let said = "cannot be saved: nothing is protected; the run goes on";
        assert_eq!(run.errors.matches(said).count(), ranks as usize, "{run}");
        assert!(names(&folder).is_empty(), "{run}");
    }
}
