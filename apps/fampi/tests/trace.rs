//! The trace of a run on real ranks, one of which is killed in the middle.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn fampi(arguments: &[&str]) -> Command {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(arguments).stdin(Stdio::null());
    tool
}

/// An example as the tests of the workspace have built it; or its name, which the tool builds.
fn example(name: &str) -> String {
    let built = Path::new(env!("CARGO_BIN_EXE_fampi")).with_file_name("examples").join(name);
    if built.is_file() { built.display().to_string() } else { name.to_owned() }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn words<'a>(event: &'a Value, name: &str) -> &'a str {
    event[name].as_str().unwrap_or_default()
}

/// The example loses rank 1 by SIGKILL and puts another process in its place.
#[test]
fn the_trace_of_a_run_has_all_ranks_the_death_and_the_recovery() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("trace.json");
    let file = file.to_str().expect("plain letters");
    let program = example("rebuild");
    let run = ["run", "-n", "4", "--timeout", "120", "--trace", file, "--", &program];
    let output = fampi(&run).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let trace: Value = serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let of = |category: &str, name: &str, row: u64| {
        let meant = |event: &&Value| {
            let named = name.is_empty() || words(event, "name") == name;
            words(event, "cat") == category && event["pid"] == row && named
        };
        events.iter().filter(meant).collect::<Vec<_>>()
    };
    for row in 1..=4 {
        assert!(!of("block", "Global block", row).is_empty(), "row {row}");
        assert!(!of("commit", "", row).is_empty(), "row {row}");
        let lives = of("life", "", row).iter().filter(|event| event["ph"] == "X").count();
        assert_eq!(lives, if row == 2 { 2 } else { 1 }, "row {row}");
        if row != 2 {
            assert_eq!(of("fault", "death detected", row).len(), 1, "row {row}");
            assert!(!of("report", "report agreed", row).is_empty(), "row {row}");
            assert_eq!(of("recovery", "rebuild", row).len(), 1, "row {row}");
            assert_eq!(of("recovery", "regroup", row)[0]["args"]["spawned"], 1, "row {row}");
        }
    }
    let died = of("death", "", 2);
    assert!(died.len() == 1 && words(died[0], "name") == "died", "{died:?}");
    let joined = of("recovery", "join", 2);
    assert!(joined.len() == 1 && joined[0]["ts"].as_f64() > died[0]["ts"].as_f64(), "{joined:?}");
    // Nothing is left beside it.
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);

    let drawn = fampi(&["timeline", file]).output().expect("the tool starts");
    assert_eq!(drawn.status.code(), Some(0), "{}", said(&drawn));
    let told = String::from_utf8_lossy(&drawn.stdout).into_owned();
    for line in ["died               rank 1", "3 survivors, 1 replacement"] {
        assert!(told.contains(line), "{told}");
    }
    let picture = fs::read_to_string(folder.path().join("trace.svg")).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.contains("rank 3"));
}

/// The solver loses rank 1 in its iteration 9 and goes on.
#[test]
fn the_trace_of_an_application_has_its_phases_and_its_planned_death() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("trace.json");
    let file = file.to_str().expect("plain letters");
    let run = ["run", "-n", "4", "--timeout", "120", "--kill", "1@iteration:9", "--trace", file];
    let program = ["--", "minife", "nx=8", "yaml=none"];
    let output = fampi(&[&run[..], &program].concat()).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let trace: Value = serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let of = |name: &str, kind: &str| {
        let meant = |event: &&Value| words(event, "name") == name && words(event, "ph") == kind;
        events.iter().filter(meant).collect::<Vec<_>>()
    };
    let runs = of("run", "X");
    let ended = runs.iter().filter(|run| run["args"]["blocks_us"].is_number()).count();
    assert_eq!((runs.len(), ended), (5, 4), "{runs:?}");
    let killed = of("killed by plan", "i");
    assert!(killed.len() == 1 && killed[0]["pid"] == 2, "{killed:?}");
    for (name, kind) in [
        ("recovered", "i"),
        ("iteration resumed", "i"),
        ("rebuild", "X"),
        ("MPI shrink", "X"),
        ("leaves", "i"),
    ] {
        assert!(of(name, kind).len() >= 3, "{name}");
    }
}

#[test]
fn a_trace_that_cannot_be_written_does_not_stop_the_ranks() {
    let program = example("hello_block");
    // Instead of the folder that the tool gives them.
    let folder = ["--launcher-flag=-x", "--launcher-flag=FAMPI_TRACE_DIR=no-such-folder"];
    let words = [&["run", "-n", "2", "--timeout", "120"], &folder[..], &["--", &program]].concat();
    let output = fampi(&words).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let advice = "set it to a folder that every rank can write to";
    assert!(said(&output).contains(advice), "{}", said(&output));
    // Both ranks went on; what each of them says may be mixed by the launcher.
    let greeted = String::from_utf8_lossy(&output.stdout).matches("the sum is 1").count();
    assert_eq!(greeted, 2, "{output:?}");
}
