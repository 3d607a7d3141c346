//! `fampi figure detector` with few points: what is simulated, nodes that fall silent, ranks that
//! die, and operations of MPI beside heartbeats.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fampi_kit::processes::wait_until;

type Rows = Vec<HashMap<String, String>>;

/// The rows of a file, by the names of their columns.
fn rows(folder: &Path, name: &str) -> Rows {
    let text = fs::read_to_string(folder.join(name)).expect(name);
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row = |line: &str| {
        assert_eq!(line.split(',').count(), columns.len(), "{line}");
        columns.iter().map(ToString::to_string).zip(line.split(',').map(Into::into)).collect()
    };
    lines.map(row).collect()
}

fn number(row: &HashMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

/// All others take a silent node for lost, the first of them after a period, of 100 ms here, at the
/// earliest. Trials on a busy machine in which they took a living node for lost are not judged; the
/// row has their number.
#[track_caller]
fn silence_is_noticed(rows: &Rows, detector: &str) {
    let of: Vec<_> = rows.iter().filter(|row| row["detector"] == detector).collect();
    let cases: Vec<&str> = of.iter().map(|row| &*row["case"]).collect();
    assert_eq!(cases, ["node", "in a row"], "{detector}: {rows:?}");
    for row in of.iter().filter(|row| number(row, "false_reports") == 0.0) {
        let (seen, all_know) = (number(row, "detection_min_ms"), number(row, "all_know_ms"));
        assert!((90.0..=all_know).contains(&seen), "{row:?}");
        assert!(all_know.is_finite(), "somebody knows nothing: {row:?}");
    }
}

/// What the command writes, with few points of each figure.
#[track_caller]
fn draw(folder: &Path, words: &[&str]) -> String {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(["figure", "detector", "--quick"]).args(words).arg("--folder").arg(folder);
    let output = tool.output().expect("the tool starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    errors
}

#[track_caller]
fn is_drawn(folder: &Path, figure: u32, words: &str) {
    let svg = fs::read_to_string(folder.join(format!("figure-{figure}.svg"))).expect("drawn");
    assert!(svg.contains(words), "figure {figure} has no `{words}`");
    let png = fs::read(folder.join(format!("figure-{figure}.png"))).expect("drawn");
    assert!(png.starts_with(b"\x89PNG"));
}

#[test]
fn nodes_that_fall_silent_are_found_by_observers_and_by_the_heartbeat_of_mpi() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let errors = draw(folder.path(), &["--parts", "silence", "--trials", "2"]);
    let rows = rows(folder.path(), "detector.csv");
    silence_is_noticed(&rows, "mpi");
    if errors.contains("without nodes that are real") {
        println!("without observers in name spaces: {errors}");
    } else {
        silence_is_noticed(&rows, "real");
    }
    is_drawn(folder.path(), 13, "heartbeat, all know");
    is_drawn(folder.path(), 15, "heartbeat, in a row");
    assert!(!folder.path().join("figure-8.svg").exists(), "nothing was simulated");
}

#[test]
fn no_node_is_left_when_the_tool_is_killed_amid_its_trials() {
    let spaces = |words: &[&str]| {
        let output = Command::new("ip").arg("netns").args(words).output();
        output.ok().filter(|it| it.status.success()).map(|it| it.stdout)
    };
    let probe = format!("fampi-look-{}", std::process::id());
    if spaces(&["add", &probe]).is_none() {
        return println!("skipped: name spaces take root and iproute2");
    }
    spaces(&["delete", &probe]).expect("made just now");
    let runs_in = |name: &str, program: &str| {
        let pids = spaces(&["pids", name]).unwrap_or_default();
        let pids = String::from_utf8_lossy(&pids).into_owned();
        let comm = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        pids.split_whitespace().any(|pid| comm(pid).trim() == program)
    };
    let is_listed = |what: &str| {
        let listed = spaces(&["list"]).expect("ip works");
        String::from_utf8_lossy(&listed).contains(what)
    };
    // While it makes them, and in a trial. What makes one is in it, too, for a moment.
    for is_early in [true, false] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fampi"));
        command.args(["figure", "detector", "--quick", "--parts", "silence", "--trials", "9"]);
        command.arg("--folder").arg(folder.path()).env("TMPDIR", folder.path());
        let mut tool = command.stderr(Stdio::null()).spawn().expect("the tool starts");
        let name = |node: &str| format!("fampi-{}-{node}", tool.id());
        let (last, all) = (name("3"), name(""));
        if is_early {
            wait_until("its first name space is there", || is_listed(&all));
        } else {
            wait_until("an observer runs on the last of four nodes", || {
                runs_in(&last, "fampi-observer")
            });
        }
        tool.kill().expect("our child");
        tool.wait().expect("our child");
        wait_until("its name spaces are gone", || !is_listed(&all));
        let is_left = || fs::read_dir(folder.path()).expect("ours").flatten().next().is_some();
        wait_until("its files are gone", || !is_left());
    }
}

#[test]
#[ignore = "it builds three benchmarks, in minutes"]
fn the_figures_of_the_detector_have_points_of_each_kind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    draw(folder, &["--parts", "simulated,deaths,noise"]);

    let all = rows(folder, "detector.csv");
    let known = |detector: &str| all.iter().filter(|row| row["detector"] == detector).count();
    assert!(known("ring") > 40 && known("swim") > 30, "simulated: {all:?}");

    let deaths = rows(folder, "deaths.csv");
    for source in ["observer-seen", "watcher-seen", "mpi-seen", "mpi-first"] {
        let row = deaths.iter().find(|row| row["source"] == source).expect(source);
        assert!(number(row, "median_ms") > 0.0, "{row:?}");
    }

    let noise = rows(folder, "noise.csv");
    assert_eq!(noise.len(), 3 * 5 * 2, "three operations of five sizes: {noise:?}");
    for row in &noise {
        let [low, ratio, high] = ["ratio_low", "ratio", "ratio_high"].map(|it| number(row, it));
        assert!(0.0 < low && low <= ratio && ratio <= high, "{row:?}");
    }

    for (figure, words) in [
        (7, "δ = 10 ms"),
        (8, "SWIM, 1 % lost"),
        (9, "ring, all know"),
        (10, "SWIM, somebody knows"),
        (11, "MPI alone, one node"),
        (12, "ring, all know"),
        (13, "ring, all know"),
        (14, "ring, all know"),
        (15, "ring, anywhere"),
    ] {
        is_drawn(folder, figure, words);
    }
}
