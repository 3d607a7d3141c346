//! What the tool does with real launches: statuses, deaths on time, and nothing left behind. The
//! programs are shell scripts, so no MPI is called; the launcher is the real one.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn fampi(arguments: &[&str]) -> Command {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(arguments).stdin(Stdio::null());
    tool
}

fn run(options: &[&str], script: &str) -> Output {
    let program = ["--", "sh", "-c", script];
    let mut tool = fampi(&["run", "--timeout", "60"]);
    tool.args(options).args(program).output().expect("the tool starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether `sleep` is alive with this argument.
fn sleeps(time: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    processes
        .map(|process| process.path())
        .filter(|path| {
            fs::read_to_string(path.join("stat")).is_ok_and(|stat| !stat.contains(") Z"))
        })
        .filter_map(|path| fs::read(path.join("cmdline")).ok())
        .any(|line| line == format!("sleep\0{time}\0").as_bytes())
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "still waiting until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_status_of_a_living_rank_is_passed_on() {
    assert_eq!(run(&["-n", "2"], "exit 0").status.code(), Some(0));
    assert_eq!(run(&["-n", "2"], "exit 5").status.code(), Some(5));
}

#[test]
fn a_time_limit_ends_every_process() {
    let begun = Instant::now();
    let mut tool = fampi(&["run", "-n", "3", "--timeout", "1", "--", "sleep", "1000.125"]);
    let output = tool.output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(124), "{}", said(&output));
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(!sleeps("1000.125"));
}

#[test]
fn a_signal_ends_every_process_and_becomes_the_status() {
    let mut tool = fampi(&["run", "-n", "2", "--", "sleep", "1000.25"]);
    let mut tool = tool.stderr(Stdio::null()).spawn().expect("the tool starts");
    wait_until("the ranks run", || sleeps("1000.25"));
    let interrupt = Command::new("kill").args(["-INT", &tool.id().to_string()]).status();
    assert!(interrupt.expect("kill starts").success());
    assert_eq!(tool.wait().expect("waited for").code(), Some(130));
    assert!(!sleeps("1000.25"));
}

#[test]
#[ignore = "mpirun 5.0.9 leaves its ranks behind after one SIGTERM in about four"]
fn the_end_of_the_tool_itself_is_the_end_of_its_ranks() {
    let leftovers = tempfile::tempdir().expect("a temporary folder");
    // What an earlier run may have left behind is not ours.
    let time = format!("1000.{}", std::process::id());
    let mut tool = fampi(&["run", "-n", "2", "--", "sleep", &time]);
    tool.env("TMPDIR", leftovers.path());
    let mut tool = tool.stderr(Stdio::null()).spawn().expect("the tool starts");
    wait_until("the ranks run", || sleeps(&time));
    // The launcher itself needs a moment before it can be told to end them.
    thread::sleep(Duration::from_secs(1));
    tool.kill().expect("killed");
    tool.wait().expect("waited for");
    wait_until("the ranks are gone", || !sleeps(&time));
}

#[test]
fn a_rank_dies_on_time_and_the_others_live() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().display();
    let script = format!("sleep 4; touch {path}/$PMIX_RANK");
    let output = run(&["-n", "3", "--kill", "1@1s"], &script);
    let lived = |rank: &str| Path::new(folder.path()).join(rank).exists();
    assert!(lived("0") && !lived("1") && lived("2"), "{}", said(&output));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn ranks_are_told_of_spares_and_of_the_deaths_they_carry_out() {
    let options = ["-n", "2", "--spares", "1", "--kill", "1@iteration:7", "--kill", "0@50s"];
    let output = run(&options, "echo $FAMPI_SPARES $FAMPI_KILL");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.lines().collect::<Vec<_>>(), ["1 1@iteration:7"; 3]);
    assert!(said(&output).contains("rank 0 was not killed"), "{}", said(&output));
}

#[test]
fn a_run_in_which_nobody_finished_in_order_has_failed() {
    let report = |word: &str| format!("echo {word} > $FAMPI_STATUS_DIR/$$; kill -KILL $$");
    let output = run(&["-n", "2"], &report("running"));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("nobody survived"), "{}", said(&output));
    assert_eq!(run(&["-n", "2"], &report("ok")).status.code(), Some(0));
}
