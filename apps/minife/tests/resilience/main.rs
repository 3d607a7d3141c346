//! `MiniFE` on real ranks that really die: the numbers of the specification, and the digits of the
//! failure-free run after every plan of deaths.
//!
//! `FAMPI_PLANS=50 cargo test --release -p minife --test resilience -- random_plans --nocapture`
//! runs more random plans; each failure prints the line that repeats it.

mod final_line;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fampi_kit::launch::{Launch, Run};
use final_line::FinalLine;
use harness::random_plan::{Choice, RandomPlan};

/// Large enough for 65 iterations, small enough for dozens of runs.
const MESH: &str = "nx=20";

const PLANS: Choice = Choice {
    ranks: &[3, 4, 4, 5, 6, 8],
    phases: &["iteration", "exchange", "spmv", "dot", "finish", "update"],
    last_iteration: 60,
};

fn minife(ranks: u32, words: &[&str]) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_minife"), ranks);
    launch.words(["yaml=none"]).words(words.iter().copied())
}

/// The standard output of the failure-free run on so many ranks: history, verification, digest.
fn undisturbed(ranks: u32) -> String {
    static KNOWN: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let run = || minife(ranks, &[MESH]).run().expect_orderly(ranks as usize).output.clone();
    known.entry(ranks).or_insert_with(run).clone()
}

/// Runs with deaths and compares every printed digit with the failure-free run.
#[track_caller]
fn survives(launch: &Launch, ranks: u32) -> Run {
    let run = launch.run();
    // The launcher remembers the death of a process that was spawned; the living ranks decide.
    let remembered = run.line.contains("@join:") && run.status == 137;
    assert!(run.status == 0 || remembered, "{run}");
    assert_eq!(without_losses(&run.output), undisturbed(ranks), "{run}");
    assert!(run.orderly >= ranks as usize, "{run}");
    run
}

/// Without what a run says of its recoveries, which an undisturbed one has not.
fn without_losses(output: &str) -> String {
    let lines = output.lines().filter(|line| !line.contains(" had been lost and were done again"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[track_caller]
fn survives_kills(kills: &[&str]) {
    survives(&minife(4, &[MESH]).words(kills.iter().map(|kill| format!("kill={kill}"))), 4);
}

/// Nothing but one sentence and an exit status.
#[track_caller]
fn is_refused(launch: &Launch, complaint: &str) {
    let run = launch.run();
    assert!(run.status != 0, "{run}");
    assert_eq!(run.output, "", "{run}");
    let mut said = run.errors.lines().filter(|line| line.starts_with("minife: "));
    assert!(said.next().is_some_and(|line| line.contains(complaint)), "{run}");
    assert_eq!(said.next(), None, "{run}");
}

/// A library to be preloaded, with which rank 0 dies after MPI has started, before it has told the
/// others of itself.
fn death_at_the_start() -> PathBuf {
    let folder = empty_folder("death-at-the-start");
    let (source, library) = (folder.join("death.c"), folder.join("death.so"));
    let text = r#"
        #include <signal.h>
        #include <stdlib.h>
        #include <unistd.h>
        int PMPI_Comm_dup(void *, void **);
        int MPI_Comm_dup(void *comm, void **made)
        {
            const char *rank = getenv("OMPI_COMM_WORLD_RANK");
            if (rank != NULL && atoi(rank) == 0)
                kill(getpid(), SIGKILL);
            return PMPI_Comm_dup(comm, made);
        }"#;
    std::fs::write(&source, text).expect("written");
    let mut compiler = std::process::Command::new("cc");
    let done = compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(done.expect("a C compiler").success());
    library
}

fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn files_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("the folder").count()
}

#[test]
fn the_numbers_of_the_specification_come_out_of_real_ranks() {
    for ranks in [1, 2, 4, 8] {
        for expected in &final_line::EXPECTED {
            let [x, y, z] = expected.elements;
            let words = [format!("nx={x}"), format!("ny={y}"), format!("nz={z}")];
            let run = minife(ranks, &["verify_solution=1"]).words(words).run();
            let line = FinalLine::of(run.expect_orderly(ranks as usize));
            line.check(expected, ranks, &run);
        }
    }
}

#[test]
fn the_others_say_so_when_the_first_rank_dies_at_the_start() {
    let launch = minife(4, &[MESH]).ignoring_statuses();
    let run = launch.variable("LD_PRELOAD", &death_at_the_start().display()).run();
    let sentence = "minife: a process died while the job started; start it again";
    let told = run.errors.lines().filter(|line| *line == sentence).count();
    assert!(told > 0 && run.orderly == 0 && run.output.is_empty(), "{run}");
}

#[test]
fn without_the_source_the_verification_means_something() {
    for (ranks, nx, most) in [(1, 10, 4.9e-3), (4, 10, 4.9e-3), (2, 20, 1.3e-3), (8, 30, 5.4e-4)] {
        let words = [&format!("nx={nx}"), "source=0", "verify_solution=1"];
        let run = minife(ranks, &words).run();
        let line = FinalLine::of(run.expect_orderly(ranks as usize));
        assert!(line.max_error <= most, "{run}");
        assert!(line.max_error <= 0.6 / f64::from(nx * nx), "{run}");
    }
}

#[test]
fn a_solution_that_is_not_converged_fails_the_verification() {
    let words = ["nx=10", "source=0", "verify_solution=1", "iterations=2"];
    let run = minife(2, &words).run();
    assert_eq!(run.status, 1, "{run}");
    assert!(run.output.contains("NOT within"), "{run}");
}

#[test]
fn the_plain_program_has_the_same_bits_on_any_number_of_ranks() {
    for ranks in 1..=9 {
        let [plain, tolerant] = ["fault-tolerance=off", "fault-tolerance=on"]
            .map(|way| minife(ranks, &["nx=12", way]).run().output);
        assert_eq!(plain, tolerant);
    }
}

#[test]
fn sums_that_are_requests_survive_too() {
    let fused_off = [MESH, "fused=off"];
    let expected = minife(4, &fused_off).run().output;
    for phase in ["iteration", "dot", "finish", "update"] {
        let run = minife(4, &fused_off).words([format!("kill=1@{phase}:25")]).run();
        assert_eq!((run.status, without_losses(&run.output)), (0, expected.clone()), "{run}");
    }
}

#[test]
fn a_death_at_the_first_a_middle_and_the_last_iteration_changes_no_digit() {
    let line = FinalLine::parse(&undisturbed(4)).expect("a final line");
    for k in [1, line.iterations / 2, line.iterations] {
        survives_kills(&[&format!("2@iteration:{k}")]);
    }
}

#[test]
fn every_rank_may_die_the_first_and_the_last_too() {
    for rank in 0..4 {
        survives_kills(&[&format!("{rank}@iteration:30")]);
    }
}

#[test]
fn a_death_at_any_point_of_an_iteration_changes_no_digit() {
    for phase in ["exchange", "spmv", "dot", "finish", "update"] {
        survives_kills(&[&format!("1@{phase}:25")]);
    }
}

#[test]
fn every_way_to_die_is_noticed() {
    for mode in ["kill", "segv", "exit", "panic"] {
        survives_kills(&[&format!("3@dot:21:{mode}")]);
        survives_kills(&[&format!("0@iteration:33:{mode}")]);
    }
}

#[test]
fn two_that_are_not_partners_may_die_at_once() {
    // The partner of rank r is r + 2 of 4.
    survives_kills(&["0@iteration:30", "1@iteration:30"]);
    survives_kills(&["2@dot:30", "3@dot:30"]);
    let eight = minife(8, &[MESH, "kill=0@dot:30", "kill=2@dot:30", "kill=7@dot:30"]);
    survives(&eight, 8);
}

#[test]
fn with_a_code_over_a_group_partners_may_die_at_once() {
    let words = [MESH, "redundancy=4:2", "kill=1@dot:30", "kill=3@dot:30"];
    survives(&minife(4, &words), 4);
}

#[test]
fn partners_may_die_one_after_the_other() {
    survives_kills(&["1@iteration:20", "3@iteration:22", "1@iteration:40"]);
}

#[test]
fn a_survivor_may_die_in_the_recovery() {
    survives_kills(&["2@iteration:30", "1@recovery:1"]);
    survives_kills(&["2@iteration:30", "3@recovery:1"]);
    survives_kills(&["1@dot:11", "0@recovery:1"]);
}

#[test]
fn a_replacement_may_die_while_it_joins() {
    survives_kills(&["2@iteration:30", "2@join:1"]);
    survives_kills(&["0@iteration:30", "0@join:1", "0@join:2"]);
}

#[test]
fn spares_take_the_places_of_the_dead() {
    for kills in [
        &["kill=2@iteration:30"][..],
        &["kill=0@dot:1", "kill=1@dot:1"],
        &["kill=3@iteration:10", "kill=1@iteration:30:segv"],
        // The third replacement has to be spawned.
        &["kill=0@iteration:10", "kill=1@iteration:20", "kill=2@iteration:30"],
        &["kill=2@iteration:30", "kill=2@join:1", "kill=3@recovery:1"],
    ] {
        survives(&minife(4, &[MESH]).spares(2).words(kills.iter().copied()), 4);
    }
}

#[test]
fn spares_that_nobody_needs_are_dismissed() {
    let run = survives(&minife(4, &[MESH]).spares(2), 4);
    run.expect_orderly(6);
}

#[test]
fn a_state_that_is_protected_seldom_is_restored_from_farther_back() {
    survives_kills(&["2@iteration:39"]);
    for (every, lost) in [("5", "9 iterations"), ("1000", "89 iterations")] {
        let every = format!("protect-every={every}");
        let launch = minife(4, &[MESH, &every, "kill=2@iteration:39", "kill=0@dot:50"]);
        let run = survives(&launch, 4);
        let said = format!("After 2 recoveries, {lost} had been lost and were done again.");
        assert!(run.output.contains(&said), "{run}");
    }
    let auto = [MESH, "protect-every=auto", "mtbf=100", "kill=2@iteration:39"];
    let run = minife(4, &auto).run();
    let chosen = "had been lost and were done again; copies were ";
    assert!(run.status == 0 && run.output.contains(chosen), "{run}");
    assert_eq!(FinalLine::of(&run).digest, FinalLine::parse(&undisturbed(4)).unwrap().digest);
    // No copy at all: the solve starts again.
    survives(&minife(4, &[MESH, "protect-every=0", "kill=2@iteration:39"]), 4);
}

#[test]
fn odd_numbers_of_ranks_and_the_overlapped_exchange_survive() {
    for ranks in [3, 5] {
        survives(&minife(ranks, &[MESH, "kill=1@iteration:20", "kill=2@dot:41"]), ranks);
    }
    let overlap = [MESH, "mv_overlap_comm_comp=1"];
    let expected = minife(4, &overlap).run().output;
    let run = minife(4, &overlap).words(["kill=1@exchange:20", "kill=2@spmv:20"]).run();
    assert_eq!((run.status, without_losses(&run.output)), (0, expected), "{run}");
}

#[test]
fn the_survivors_may_merge_with_a_new_process_instead() {
    let expected = FinalLine::parse(&undisturbed(4)).expect("a final line");
    for kills in [&["kill=1@iteration:30"][..], &["kill=0@dot:20", "kill=3@iteration:40"]] {
        for spares in [0, 1] {
            let launch = minife(4, &[MESH, "recovery=merge"]).spares(spares);
            let run = launch.words(kills.iter().copied()).run();
            assert_eq!(run.status, 0, "{run}");
            let line = FinalLine::of(&run);
            assert!(line.iterations.abs_diff(expected.iterations) <= 2, "{run}");
            assert!((line.centre / expected.centre - 1.0).abs() < 1e-9, "{run}");
            assert!((line.max_error / expected.max_error - 1.0).abs() < 1e-9, "{run}");
        }
    }
}

#[test]
fn partners_that_die_together_end_the_run_with_one_sentence() {
    for kills in [["1@iteration:30", "3@iteration:30"], ["0@dot:7", "2@dot:7"]] {
        let words = kills.map(|kill| format!("kill={kill}"));
        is_refused(&minife(4, &[MESH]).words(words), "is lost: it and its partner");
    }
}

#[test]
fn what_cannot_be_done_is_refused_in_one_sentence_and_nothing_is_written() {
    let folder = empty_folder("refused");
    for (ranks, words, complaint) in [
        (2, "nx=ten", "nx"),
        (2, "lunch=1", "there is no option 'lunch=1'"),
        (2, "nx", "needs a value"),
        (4, "kill=4@iteration:3", "names a rank that does not exist, there are 4 ranks"),
        (4, "kill=1@lunch:3", "'lunch' is not a phase"),
        (2, "input_file=nowhere.txt", "the input file 'nowhere.txt' cannot be read"),
        (8, "nx=1", "one or more processors have 0 equations"),
        (2, "load_imbalance=9999", "cannot be reached"),
        (2, "recovery=prayer", "rebuild or merge"),
    ] {
        let launch = Launch::new(env!("CARGO_BIN_EXE_minife"), ranks).words([words]);
        is_refused(&launch.inside(&folder), complaint);
    }
    let off = Launch::new(env!("CARGO_BIN_EXE_minife"), 2).words(["fault-tolerance=off"]);
    is_refused(&off.words(["kill=1@iteration:3"]).inside(&folder), "a kill needs blocks");
    assert_eq!(files_in(&folder), 0);
    std::fs::write(folder.join("itself"), "nx=4 input_file=itself").expect("written");
    let itself = Launch::new(env!("CARGO_BIN_EXE_minife"), 2).words(["input_file=itself"]);
    is_refused(&itself.inside(&folder), "it is one of more than 16 that name others");
}

#[test]
fn a_report_that_was_asked_for_and_cannot_be_written_is_an_error() {
    let launch = Launch::new(env!("CARGO_BIN_EXE_minife"), 2).words(["nx=4", "yaml=no/such/file"]);
    let run = launch.run();
    assert!(run.status == 1 && run.output.contains("digest="), "{run}");
    assert!(run.errors.contains("the report no/such/file cannot be written"), "{run}");
}

#[test]
fn the_report_is_written_once_and_whole_also_after_a_death() {
    let folder = empty_folder("report");
    let launch = Launch::new(env!("CARGO_BIN_EXE_minife"), 4);
    let run = launch.words(["nx=10", "kill=0@iteration:12"]).inside(&folder).run();
    assert_eq!((run.status, files_in(&folder)), (0, 1), "{run}");
    let file = std::fs::read_dir(&folder).expect("the folder").next();
    let path = file.expect("one file").expect("readable").path();
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(
        name.starts_with("miniFE.10x10x10.P4.") && path.extension().is_some_and(|it| it == "yaml"),
        "{name}"
    );
    let text = std::fs::read_to_string(&path).expect("text");
    assert!(text.contains("Global Nrows: 1331"), "{text}");
}

#[test]
fn without_the_flags_of_fault_tolerance_it_says_so() {
    let launch = minife(2, &["nx=4"]).without_fault_tolerance();
    is_refused(&launch, "fault tolerance");
}

#[test]
fn random_plans() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let plans = number("FAMPI_PLANS").unwrap_or(8);
    // A new one each time would make the ordinary run a lottery.
    let first = number("FAMPI_PLAN_SEED").unwrap_or(1);
    for seed in first..first + plans {
        let plan = RandomPlan::drawn_from(seed, &PLANS);
        println!("plan {seed}: {plan}");
        let launch = minife(plan.ranks, &[MESH]).spares(plan.spares).words(plan.words());
        let again = format!(
            "FAMPI_PLANS=1 FAMPI_PLAN_SEED={seed} cargo test --release -p minife --test \
             resilience -- random_plans --nocapture"
        );
        let run = std::panic::catch_unwind(|| survives(&launch, plan.ranks));
        let Ok(run) = run else { panic!("plan {seed} failed; REPRODUCE WITH: {again}") };
        println!("plan {seed}: the same digits after {:?}", run.took);
    }
}
