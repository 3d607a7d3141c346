//! What the tool does with real launches: statuses, deaths on time, and nothing left behind. The
//! programs are shell scripts, so no MPI is called; the launcher is the real one.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fampi_kit::processes::{processes_with, sleeps, wait_until};

fn fampi(arguments: &[&str]) -> Command {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(arguments).stdin(Stdio::null());
    tool
}

const LAUNCHERS: [&str; 2] = ["node", "mpirun"];
/// Tests of what happens to it have the ranks as its children.
const MPIRUN: [&str; 2] = ["--launcher", "mpirun"];

fn run(options: &[&str], script: &str) -> Output {
    let program = ["--", "sh", "-c", script];
    let mut tool = fampi(&["run", "--timeout", "60"]);
    tool.args(options).args(program).output().expect("the tool starts")
}

fn run_by(launcher: &str, options: &[&str], script: &str) -> Output {
    run(&[&["--launcher", launcher], options].concat(), script)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How often the tests repeat what depends on chance.
fn rounds() -> u64 {
    std::env::var("FAMPI_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

#[test]
fn the_status_of_a_living_rank_is_passed_on() {
    for launcher in LAUNCHERS {
        assert_eq!(run_by(launcher, &["-n", "2"], "exit 0").status.code(), Some(0));
        assert_eq!(run_by(launcher, &["-n", "2"], "exit 5").status.code(), Some(5));
    }
}

#[test]
fn a_time_limit_ends_every_process() {
    for launcher in LAUNCHERS {
        let begun = Instant::now();
        let mut tool = fampi(&["run", "--launcher", launcher, "-n", "3", "--timeout", "1"]);
        let output = tool.args(["--", "sleep", "1000.125"]).output().expect("the tool starts");
        assert_eq!(output.status.code(), Some(124), "{}", said(&output));
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(!sleeps("1000.125"));
    }
}

#[test]
fn a_signal_ends_every_process_and_becomes_the_status() {
    for launcher in LAUNCHERS {
        let mut tool = fampi(&["run", "--launcher", launcher, "-n", "2", "--", "sleep", "1000.25"]);
        let mut tool = tool.stderr(Stdio::null()).spawn().expect("the tool starts");
        wait_until("the ranks run", || sleeps("1000.25"));
        let interrupt = Command::new("kill").args(["-INT", &tool.id().to_string()]).status();
        assert!(interrupt.expect("kill starts").success());
        assert_eq!(tool.wait().expect("waited for").code(), Some(130));
        assert!(!sleeps("1000.25"));
    }
}

#[test]
fn a_launcher_that_crashes_leaves_nothing_that_the_next_one_could_stumble_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = "echo $PMIX_SERVER_TMPDIR; sleep 0.5; kill -SEGV $PPID; sleep 1000.625";
    let mut tool = fampi(&[&["run"], &MPIRUN[..], &["-n", "1", "--timeout", "60"]].concat());
    tool.args(["--", "sh", "-c", script]);
    let output = tool.env("TMPDIR", folder.path()).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(139), "{}", said(&output));
    // Where it had its files: in a folder that no other launcher has.
    let place = String::from_utf8_lossy(&output.stdout);
    let own = format!("{}/fampi-launch-", folder.path().display());
    assert!(place.starts_with(&own), "{place}");
    assert_eq!(content(folder.path()), [""; 0]);
}

/// Starts a run whose processes can be told by their environment, kills the tool at a moment that
/// the test chooses, and waits until no process is left.
fn kill_the_tool(moment: impl FnOnce(&dyn Fn() -> Vec<String>)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let entry = format!("TMPDIR={}", folder.path().display());
    let mut tool = fampi(&["run"]);
    tool.args(MPIRUN).args(["-n", "2", "--", "sleep", "1000.5"]).env("TMPDIR", folder.path());
    let mut tool = tool.stderr(Stdio::null()).spawn().expect("the tool starts");
    moment(&|| processes_with(&entry));
    tool.kill().expect("killed");
    tool.wait().expect("waited for");
    wait_until("all processes are gone", || processes_with(&entry).is_empty());
    folder
}

fn content(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_end_of_the_tool_itself_is_the_end_of_its_ranks() {
    for _ in 0..rounds() {
        let folder = kill_the_tool(|processes| {
            wait_until("the ranks run", || {
                processes().iter().filter(|name| *name == "sleep").count() == 2
            });
            // The launcher itself needs a moment before it can be told to end them.
            thread::sleep(Duration::from_secs(1));
        });
        assert_eq!(content(folder.path()), [""; 0]);
    }
}

#[test]
fn the_tool_can_be_killed_in_the_middle_of_a_launch() {
    for round in 1..=rounds() {
        let milliseconds = 1500 * round / (rounds() + 1);
        let folder =
            kill_the_tool(|_| thread::sleep(Duration::from_millis(milliseconds.min(250 * round))));
        // What was made before it could be looked after has nothing in it.
        for left in content(folder.path()) {
            assert_eq!(content(&folder.path().join(&left)), [""; 0], "{left}");
        }
    }
}

/// The guard by itself, told this and then left alone.
fn guard(orders: &str) {
    let mut guard = fampi(&["__guard"]).stdin(Stdio::piped()).spawn().expect("the guard starts");
    let mut pipe = guard.stdin.take().expect("it is piped");
    pipe.write_all(orders.as_bytes()).expect("the guard listens");
    drop(pipe);
    assert!(guard.wait().expect("waited for").success());
}

#[test]
fn a_guard_ends_only_the_session_that_it_was_told_of_and_only_if_it_was_left_alone() {
    let mut leader = Command::new("setsid");
    let mut leader = leader.args(["sleep", "1000.875"]).spawn().expect("setsid starts");
    wait_until("the session is made", || sleeps("1000.875"));
    let pid = leader.id();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("alive");
    let began: u64 = stat.split(' ').nth(21).and_then(|ticks| ticks.parse().ok()).expect("ticks");
    guard(&format!("{pid} {began}\nover\n"));
    // The number belongs to another process by now.
    guard(&format!("{pid} {}\n", began - 1));
    guard("");
    assert!(leader.try_wait().expect("looked at").is_none());
    guard(&format!("{pid} {began}\n"));
    assert!(!leader.wait().expect("waited for").success());
}

#[test]
fn a_run_that_is_over_leaves_no_guard_and_no_folder() {
    for launcher in LAUNCHERS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut tool = fampi(&["run", "--launcher", launcher, "-n", "2", "--", "true"]);
        let output = tool.env("TMPDIR", folder.path()).output().expect("the tool starts");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let entry = format!("TMPDIR={}", folder.path().display());
        assert_eq!(processes_with(&entry), [""; 0]);
        assert_eq!(content(folder.path()), [""; 0]);
    }
}

#[test]
fn a_rank_dies_on_time_and_the_others_live() {
    for launcher in LAUNCHERS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().display();
        let script = report("ok", &format!("sleep 4; touch {path}/$PMIX_RANK"));
        let output = run_by(launcher, &["-n", "3", "--kill", "1@1s"], &script);
        let lived = |rank: &str| Path::new(folder.path()).join(rank).exists();
        assert!(lived("0") && !lived("1") && lived("2"), "{}", said(&output));
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn a_rank_that_is_to_die_at_once_does_and_without_a_report_the_run_has_failed() {
    let output = run(&["-n", "2", "--kill", "0@0s"], "sleep 2; echo rank $PMIX_RANK");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "rank 1\n", "{}", said(&output));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let sentence = "1 process was killed before any process had reported";
    assert!(said(&output).contains(sentence), "{}", said(&output));
}

#[test]
fn a_time_limit_ends_the_build_before_the_run_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cargo = folder.path().join("cargo");
    fs::write(&cargo, "#!/bin/sh\nsleep 40.0625\n").expect("written");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o700)).expect("ours");
    let begun = Instant::now();
    let mut tool = fampi(&["run", "-n", "2", "--timeout", "1", "--", "minife"]);
    let output = tool.env("CARGO", &cargo).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(124), "{}", said(&output));
    let sentence = " is not built yet, the time is over: give it more";
    assert!(said(&output).contains(sentence), "{}", said(&output));
    assert!(begun.elapsed() < Duration::from_secs(20) && !sleeps("40.0625"));
}

#[test]
fn ranks_are_told_of_spares_and_of_the_deaths_they_carry_out() {
    let options = ["-n", "2", "--spares", "1", "--kill", "1@iteration:7", "--kill", "0@50s"];
    let output = run(&options, "echo $FAMPI_SPARES $FAMPI_KILL");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.lines().collect::<Vec<_>>(), ["1 1@iteration:7"; 3]);
    assert!(said(&output).contains("rank 0 was not killed"), "{}", said(&output));
    assert!(said(&output).contains("rank 1 was not killed: the program"), "{}", said(&output));
}

/// A script that says how its process ended, as the library does, and then goes on as it likes.
fn report(word: &str, end: &str) -> String {
    format!("echo {word} > $FAMPI_STATUS_DIR/$$; {end}")
}

/// A script for each of two ranks. The second one waits until the first has reported.
fn two(first: &str, second: &str) -> String {
    let wait = "while [ -z \"$(ls $FAMPI_STATUS_DIR)\" ]; do sleep 0.01; done";
    format!("if [ $PMIX_RANK = 0 ]; then {first}; else {wait}; {second}; fi")
}

#[test]
fn a_run_in_which_nobody_finished_in_order_has_failed() {
    for launcher in LAUNCHERS {
        let run = |script: &str| run_by(launcher, &["-n", "2"], script);
        let output = run(&report("running", "kill -KILL $$"));
        // Open MPI's launcher calls that an orderly end.
        let status = if launcher == "mpirun" { 1 } else { 128 + 9 };
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        assert!(said(&output).contains("nobody survived"), "{}", said(&output));
        assert_eq!(run(&report("ok", "kill -KILL $$")).status.code(), Some(0));
        // Nor is a spare that was not needed a survivor.
        let script = two(&report("running", "kill -KILL $$"), &report("unused", "exit 0"));
        let output = run(&script);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("1 process was never needed"), "{}", said(&output));
    }
}

#[test]
fn a_survived_death_that_the_launcher_ends_with_is_no_failure() {
    for launcher in LAUNCHERS {
        let run = |script: &str| run_by(launcher, &["-n", "2"], script);
        let output = run(&two(&report("ok", "exit 0"), &report("running", "exit 137")));
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(said(&output).contains("1 process died without a --kill"), "{}", said(&output));
        let script = two(&report("'ok 3'", "exit 3"), &report("running", "exit 137"));
        assert_eq!(run(&script).status.code(), Some(3));
        // Without reports nothing better is known.
        assert_eq!(run("exit 137").status.code(), Some(137));
    }
}

#[test]
fn a_status_that_a_rank_chose_is_passed_on_also_among_reports() {
    for launcher in LAUNCHERS {
        let script = two(&report("ok", "exit 5"), &report("ok", "exit 0"));
        let output = run_by(launcher, &["-n", "2"], &script);
        assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    }
}

#[test]
fn a_launcher_that_crashes_at_the_very_end_does_not_spoil_the_run() {
    let script = two(&report("ok", "exit 0"), &report("ok", "sleep 0.5; kill -SEGV $PPID"));
    let output = run_by("mpirun", &["-n", "2"], &script);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("finished in order"), "{}", said(&output));
}

#[test]
fn a_launcher_that_does_not_end_when_its_ranks_have_is_ended() {
    // A launcher that is stopped learns of nothing; the one that locked itself up is the same.
    let stop = report("'ok 3'", "sleep 1; kill -STOP $PPID");
    let script = two(&report("ok", "sleep 0.5"), &stop);
    let begun = Instant::now();
    let output = run_by("mpirun", &["-n", "2"], &script);
    assert!(begun.elapsed() < Duration::from_secs(50), "the time limit had to end it");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("the launcher went on"), "{}", said(&output));
}

#[test]
fn a_launcher_whose_ranks_were_gone_before_they_were_seen_is_ended() {
    let begun = Instant::now();
    let output = run_by("mpirun", &["-n", "2"], "kill -STOP $PPID; exit 3");
    assert!(begun.elapsed() < Duration::from_secs(50), "the time limit had to end it");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("the launcher went on"), "{}", said(&output));
}

#[test]
fn a_launcher_that_crashes_in_the_middle_does() {
    let crash = report("ok", "sleep 0.5; kill -SEGV $PPID");
    let output = run_by("mpirun", &["-n", "2"], &two(&crash, &report("running", "sleep 1000.75")));
    assert_eq!(output.status.code(), Some(139), "{}", said(&output));
    assert!(said(&output).contains("1 process still ran"), "{}", said(&output));
    assert!(!sleeps("1000.75"));
}

#[test]
fn the_trace_of_a_run_tells_what_the_processes_have_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("trace.json");
    let file = file.to_str().expect("plain letters");
    let part = |events: &[(u32, &str, &str)]| {
        let clocks = r#""node":"n","monotonic":1000000000,"wall":1000000000"#;
        let begins = [(1, "process_name", clocks)];
        let event = |(second, name, numbers): &(u32, &str, &str)| {
            format!(
                "{{\"name\":\"{name}\",\"cat\":\"program\",\"ph\":\"i\",\"ts\":{second}000000,\
                 \"pid\":1,\"args\":{{{numbers}}}}},\n"
            )
        };
        begins.iter().chain(events).map(event).collect::<String>()
    };
    let dead = part(&[(2, "killed by plan", "\"rank\":1")]);
    let living = part(&[
        (1, "begins", "\"rank\":0"),
        (3, "death detected", "\"rank\":1"),
        (4, "iteration resumed", "\"iteration\":4"),
    ]);
    let folder = "$FAMPI_TRACE_DIR";
    let script =
        format!("echo '{dead}' > {folder}/1.trace; echo '{living}' > {folder}/2.trace; echo done");
    let output = run(&["-n", "1", "--trace", file], &script);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    let drawn = tool.args(["timeline", file]).output().expect("the tool starts");
    assert_eq!(drawn.status.code(), Some(0), "{}", said(&drawn));
    let told = String::from_utf8_lossy(&drawn.stdout);
    for line in [
        "+0.00 ms  died               rank 1",
        "+1000.00 ms  death detected     first by rank 0",
        "+2000.00 ms  iteration resumed  iteration 4",
    ] {
        assert!(told.contains(line), "{told}");
    }
    let silent = run(&["-n", "1", "--trace", file], "true");
    assert!(said(&silent).contains("no trace, as no process entered a job"), "{}", said(&silent));
}
