//! Hosts that share no temporary folder with the console: what processes write there for the tool
//! is brought to it.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use fampi_kit::processes::wait_until;
use serde_json::Value;

use crate::network::{alone, is_stopped, signal};
use crate::{application, fampi};

/// Starts a daemon here. That of the second host has a temporary folder of its own, and is named in
/// a file.
const AGENT: &str = r#"
host=$1
shift
test "$host" = localhost && exec sh -c "$*"
echo $$ > "$0.pid"
exec unshare --mount sh -c "mount -t tmpfs -o size=24m none '$TMPDIR' && exec $*"
"#;

/// True where a process can have a file system of its own; otherwise the reason is printed.
fn has_file_systems() -> bool {
    let tried = Command::new("unshare").args(["--mount", "true"]).output();
    let can = tried.is_ok_and(|it| it.status.success());
    if !can {
        eprintln!("skipped: a file system of its own takes root and unshare");
    }
    can
}

/// What a job on two hosts has said, and its trace.
struct Told {
    said: String,
    events: Vec<Value>,
}

impl Told {
    /// How many events have this name and kind.
    fn count(&self, name: &str, kind: &str) -> usize {
        self.events.iter().filter(|it| it["name"] == name && it["ph"] == kind).count()
    }
}

/// `MiniFE` on two ranks of each host; the daemon of the second one is handed over.
fn minife(options: &[&str], words: &[&str], meanwhile: impl FnOnce(&str, &Path)) -> Told {
    let (folder, _alone) = (tempfile::tempdir().expect("a folder"), alone());
    let at = |name: &str| folder.path().join(name);
    fs::write(at("agent"), AGENT).expect("written");
    fs::create_dir(at("temporary")).expect("made");
    let mut command = fampi(&["-n", "4", "--hosts", "localhost:2,127.0.0.1:2", "--timeline"]);
    command.args(options).arg("--agent").arg(format!("sh {}", at("agent").display()));
    command.arg("--trace").arg(at("trace.json")).env("TMPDIR", at("temporary"));
    command.arg("--").arg(application("minife")).args(["nx=30", "yaml=none"]).args(words);
    let all = File::create(at("said")).expect("made");
    command.stderr(all.try_clone().expect("a file")).stdout(all);
    let mut tool = command.spawn().expect("the tool starts");
    let daemon = || fs::read_to_string(at("agent.pid")).ok().filter(|it| it.ends_with('\n'));
    wait_until("the daemon is named", || daemon().is_some());
    meanwhile(daemon().expect("a number").trim(), &at("temporary"));
    let ended = tool.wait().expect("it ends");
    let said = fs::read_to_string(at("said")).expect("a file");
    assert!(ended.success(), "{said}");
    // What ranks cannot write they would complain of.
    assert!(!said.contains("no trace by"), "{said}");
    let trace = fs::read(at("trace.json")).expect("a trace");
    let mut trace: Value = serde_json::from_slice(&trace).expect("JSON");
    let Value::Array(events) = trace["traceEvents"].take() else { panic!("no list") };
    assert_eq!(fs::read_dir(at("temporary")).expect("a folder").count(), 0, "{said}");
    Told { said, events }
}

/// A child of this process that is stopped.
fn stopped_child(process: &str) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().find(|child| is_stopped(child)).map(str::to_owned)
}

#[test]
fn what_ranks_on_another_host_report_and_record_reaches_the_tool() {
    if !has_file_systems() {
        return;
    }
    let told = minife(&["--strict", "--kill", "3@iteration:20"], &[], |_, _| {});
    let said = &told.said;
    assert!(said.contains("1 process died as planned, and the others survived it"), "{said}");
    assert!(said.contains("rank 3"), "{said}");
    assert_eq!((told.count("run", "X"), told.count("killed by plan", "i")), (5, 1), "{said}");
}

#[test]
fn a_lost_host_leaves_what_its_ranks_had_reported_and_recorded() {
    if !has_file_systems() {
        return;
    }
    let told = minife(&[], &["kill=3@iteration:20:stop"], |daemon, _| {
        wait_until("rank 3 stops", || stopped_child(daemon).is_some());
        // What is new is brought ten times a second.
        thread::sleep(Duration::from_millis(500));
        signal("-KILL", &[daemon.to_owned()]);
    });
    let said = &told.said;
    assert!(said.contains("127.0.0.1 is lost, with 2 processes"), "{said}");
    assert!(said.contains("2 processes died"), "{said}");
    assert_eq!(told.count("run", "X"), 6, "{said}");
}

/// Daemons died with a bus error, and their ranks with them, when a replacement was started.
#[test]
fn a_host_is_not_lost_when_its_folder_for_temporary_files_is_full() {
    if !has_file_systems() {
        return;
    }
    let told = minife(&[], &["kill=3@iteration:20:stop"], |daemon, folder| {
        wait_until("rank 3 stops", || stopped_child(daemon).is_some());
        let fill = format!("cat /dev/zero > {}/fill", folder.display());
        let filled = Command::new("nsenter").args(["-m", "-t", daemon, "sh", "-c", &fill]).output();
        assert!(!filled.expect("nsenter").status.success(), "it is full now");
        signal("-KILL", &stopped_child(daemon).into_iter().collect::<Vec<_>>());
    });
    let said = &told.said;
    assert!(said.contains("1 process died as planned, and the others survived"), "{said}");
    assert!(!said.contains("is lost"), "{said}");
}
