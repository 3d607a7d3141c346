//! New processes that die before they have begun, on another node than the one that starts them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::network::{alone, has_name_spaces};
use crate::{application, said, text};

/// What is preloaded.
fn fall() -> &'static Path {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("fall.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/fall.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(&library).arg(source);
        assert!(compiler.status().expect("a compiler").success());
        (folder, library)
    });
    library
}

/// `MiniFE` on two ranks of each of three nodes loses this rank, and the first process that is
/// started in its place.
fn minife(launcher: &str, kill: u32, how: &str, stuck: u32) -> Output {
    let traces = tempfile::tempdir().expect("a folder");
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(["run", "--timeout", "60", "--launcher", launcher, "--nodes", "3", "-n", "6"]);
    tool.args(["--kill", &format!("{kill}@iteration:20"), "--"]);
    tool.arg(application("minife")).args(["nx=20", "yaml=none"]).stdin(Stdio::null());
    tool.env("LD_PRELOAD", fall()).env("FAMPI_STUCK_SECONDS", stuck.to_string());
    tool.env("FALL", format!("{} 1 {how}", traces.path().display()));
    let _alone = alone();
    let output = tool.output().expect("the tool starts");
    assert_eq!(fs::read_dir(traces.path()).expect("a folder").count(), 1, "{}", said(&output));
    output
}

#[track_caller]
fn is_whole(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
    let told = text(&output.stderr);
    assert!(told.contains("1 process died as planned, and the others survived it"), "{told}");
    assert!(told.contains("whole again by 1 new process"), "{told}");
    assert!(!told.contains("did not return"), "{told}");
}

/// Without a watchdog nothing but the daemons ends the wait.
#[test]
fn our_own_launcher_answers_for_a_new_process_that_ends_before_it_has_begun() {
    if has_name_spaces() {
        for how in ["kill", "exit"] {
            // It is started on the node of rank 3; rank 0 waits for it.
            is_whole(&minife("node", 3, how, 0));
        }
    }
}

/// Rank 1, on another node, waits for it; the watchdog would end rank 1 later.
#[test]
fn under_the_launcher_of_open_mpi_the_wait_for_it_is_bounded() {
    if has_name_spaces() {
        is_whole(&minife("mpirun", 0, "kill", 5));
    }
}

/// Each rank looks at its parent, which is the launcher on the first node, and a daemon elsewhere.
#[test]
fn the_launcher_of_open_mpi_and_its_daemons_are_mended() {
    if has_name_spaces() {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
        tool.args(["run", "--timeout", "60", "--launcher", "mpirun", "--nodes", "2", "-n", "2"]);
        tool.args(["--", "sh", "-c"]);
        tool.arg("grep -q libfampi_prterun /proc/$PPID/maps && echo mended || echo not mended");
        let _alone = alone();
        let output = tool.stdin(Stdio::null()).output().expect("the tool starts");
        let lines: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
        assert_eq!(lines, ["mended", "mended"], "{}", said(&output));
    }
}
