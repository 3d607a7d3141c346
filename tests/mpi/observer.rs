//! Ranks whose deaths an observer tells, while the watcher in the ranks is switched off.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serial_test::serial;

use super::{Launch, all_say, example, program, said};

/// The program that the observers are started by.
pub(crate) fn observer() -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    let built = own.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
    let observer = built.join("fampi-observer");
    let advice = "`cargo test --test mpi` needs `cargo build --package fampi-detector` before it";
    assert!(observer.is_file(), "{advice}");
    observer
}

pub(crate) fn observed(launch: Launch, by: &Path) -> Launch {
    launch.variable("FAMPI_OBSERVER", &by.display())
}

/// Makes a program of this text.
fn write_script(program: &Path, text: &str) {
    fs::write(program, text).expect("a folder below target");
    fs::set_permissions(program, fs::Permissions::from_mode(0o700)).expect("our file");
}

/// MPI reports none of these: without an observer the survivors would wait for ever.
#[test]
#[serial]
fn an_end_that_mpi_never_reports_is_told_by_the_observer() {
    for (ranks, spares) in [(4, 0), (4, 1), (8, 2)] {
        let launch = program("exits", ranks).spares(spares).variable("WAY", &"_exit(1)");
        let launch = launch.variable("FAMPI_NODE_WATCHER", &"off");
        all_say(&observed(launch, &observer()), ranks, "complete again");
    }
}

#[test]
#[serial]
fn deaths_are_survived_with_watcher_and_observer_at_once() {
    let deaths = program("deaths", 4).spares(6).variable("DEATHS", &8).limit(120);
    all_say(&observed(deaths, &observer()), 4, "all counted");
    let unreported = program("deaths", 4).spares(12).ignoring_statuses().limit(120);
    let unreported = unreported.variable("DEATHS", &10).variable("WAY", &"_exit(1)");
    all_say(&observed(unreported, &observer()), 4, "all counted");
}

/// From the fifth death on it is a replacement that dies.
#[test]
#[serial]
fn a_replacement_has_an_observer_and_its_end_is_told_with_its_incarnation() {
    let deaths = program("deaths", 4).ignoring_statuses().limit(120).variable("DEATHS", &10);
    let deaths = deaths.variable("WAY", &"_exit(1)").variable("FAMPI_NODE_WATCHER", &"off");
    let run = observed(deaths.variable("FAMPI_TEST_LOG", &1), &observer()).run();
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank}: all counted")).collect();
    assert_eq!(said(&run), expected, "{run}");
    let told = |life: u32| {
        let life = format!("life={life} ");
        let of_life = |line: &&str| line.contains("told of a death") && line.contains(&life);
        run.errors.lines().filter(of_life).count()
    };
    assert!(told(0) > 0 && (1..=6).all(|life| told(life) > 0), "{run}");
    assert!(!run.errors.contains("no observers"), "{run}");
}

#[test]
#[serial]
fn who_leaves_in_order_is_not_told_dead() {
    for ranks in [1, 2, 5, 8] {
        let run = observed(example("hello_block", ranks), &observer()).run();
        let lines = run.expect_orderly(ranks as usize).sorted_lines().len();
        assert_eq!(lines, ranks as usize, "{run}");
    }
    let run = observed(program("operations", 4), &observer()).variable("FAMPI_TEST_LOG", &1).run();
    assert_eq!(run.status, 0, "{run}");
    let told = |text: &str| run.output.contains(text) || run.errors.contains(text);
    assert!(!told("no observers") && !told("the observer told of a death"), "{run}");
}

/// Tests are 10 ms apart, and the rank is stopped for a second.
#[test]
#[serial]
fn a_rank_that_was_stopped_has_failed_tests_and_is_not_dead() {
    let launch = program("stopped", 4).variable("FAMPI_TEST_LOG", &1);
    let launch = launch.variable("FAMPI_DIAGNOSIS", &"10ms:2.5:5");
    let run = observed(launch, &observer()).run();
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank}: nobody died")).collect();
    assert_eq!(said(&run), expected, "{run}");
    let told = run.errors.lines().filter(|line| line.contains("observer of this node"));
    let told: Vec<&str> = told.collect();
    let counted = |line: &&str| line.contains("failed_tests=") && !line.contains("failed_tests=0");
    assert!(told.len() == 4 && told.iter().all(counted), "{run}");
}

#[test]
#[serial]
fn a_replacement_is_tested_and_tests_end_no_rank() {
    let deaths = program("deaths", 4).spares(2).variable("DEATHS", &6).limit(120);
    let deaths = deaths.variable("FAMPI_DIAGNOSIS", &"10ms:2.5:5");
    all_say(&observed(deaths, &observer()), 4, "all counted");
}

#[test]
#[serial]
fn without_an_observer_the_run_goes_on_and_says_so() {
    let launch = program("exits", 4).variable("WAY", &"SIGKILL").variable("FAMPI_TEST_LOG", &1);
    let run = observed(launch, Path::new("/no/such/program")).run();
    assert_eq!(run.output.matches("complete again").count(), 4, "{run}");
    assert!(run.errors.contains("no observers"), "{run}");
}

#[test]
#[serial]
fn the_run_goes_on_when_the_observer_is_killed() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (mortal, ready) = (folder.join("mortal-observer"), folder.join("mortal-observer.ready"));
    let script = format!(
        "#!/bin/sh\n\
         rm -f '{ready}'\n\
         exec 3<&0\n\
         '{real}' --foreground \"$@\" <&3 >'{ready}' 2>&1 &\n\
         observer=$!\n\
         while ! grep -q ready '{ready}'; do kill -0 $observer || exit 1; sleep 0.01; done\n\
         (sleep 0.3; kill -KILL $observer) >/dev/null 2>&1 &\n",
        ready = ready.display(),
        real = observer().display(),
    );
    write_script(&mortal, &script);
    for tests in ["", "10ms:2.5:5"] {
        let deaths = program("deaths", 4).spares(6).variable("DEATHS", &8).limit(120);
        let deaths = deaths.variable("FAMPI_DIAGNOSIS", &tests);
        all_say(&observed(deaths, &mortal), 4, "all counted");
    }
}

/// One that had to wait for a processor, behind ranks that wait by turning, was silent for
/// seconds, and its node was taken for lost.
#[test]
#[serial]
fn an_observer_is_run_at_once() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (prompt, stat) = (folder.join("prompt-observer"), folder.join("prompt-observer.stat"));
    let script = format!(
        "#!/bin/sh\ncat /proc/$$/stat > '{}'\nexec '{}' \"$@\"\n",
        stat.display(),
        observer().display(),
    );
    write_script(&prompt, &script);
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: real time takes root, or a limit for it");
    }
    let launch = program("exits", 4).variable("WAY", &"SIGKILL");
    let run = observed(launch, &prompt).run();
    assert_eq!(run.output.matches("complete again").count(), 4, "{run}");
    let stat = fs::read_to_string(stat).expect("written");
    let behind_the_name = stat.rsplit(')').next().expect("a name");
    // `SCHED_RR`, of which a process that is started without more has what its parent has.
    assert_eq!(behind_the_name.split_whitespace().nth(38), Some("2"), "{stat}");
}
