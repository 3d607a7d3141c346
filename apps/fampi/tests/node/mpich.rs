//! Plain programs of MPICH, which has no fault tolerance of its own: they start, lose processes and
//! nodes, and end. Skipped where `cargo fampi setup --mpi mpich` has set up none.
//!
//! Programs with blocks take a build for MPICH, of minutes, so their tests are asked for:
//! `cargo fampi test -- -p fampi-cli --test node mpich -- --ignored --test-threads 1`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::network::{Job, What, alone, has_name_spaces};
use crate::{fampi, said, text};

/// The program, where there is an MPICH.
fn survive() -> Option<&'static str> {
    static BUILT: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a checkout");
        let compiler = root.join("target/mpich/mpi/bin/mpicc");
        if !compiler.is_file() {
            eprintln!("skipped: there is no MPICH; `cargo fampi setup --mpi mpich` installs one");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("survive");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/survive.c");
        let mut compiler = Command::new(compiler);
        compiler.args(["-Wall", "-Werror", "-o"]).arg(&program).arg(source);
        assert!(compiler.status().expect("a compiler").success());
        // Whatever has to be built for a launch is built here, outside of any time limit.
        let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
        tool.args(["run", "--mpi", "mpich", "--observer", "-n", "1", "--", "true"]);
        assert!(tool.stdin(Stdio::null()).status().expect("the tool starts").success());
        Some((folder, program))
    });
    built.as_ref().map(|(_, program)| program.to_str().expect("a path"))
}

/// A file that is not there yet, in a folder of its own.
fn place() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lost").display().to_string();
    (folder, file)
}

/// The file appears with its contents.
fn name_lost(file: &str, ranks: &str) {
    let unfinished = format!("{file}.unfinished");
    fs::write(&unfinished, ranks).expect("written");
    fs::rename(unfinished, file).expect("renamed");
}

/// The living ranks have gone on, each of them.
#[track_caller]
fn went_on(output: &Output, lives: usize, size: usize) {
    assert!(output.status.success(), "{}", said(output));
    let line = format!("{lives} of {size} live, cancelled 1, and are {size} again");
    assert_eq!(text(&output.stdout).matches(&line).count(), lives, "{}", said(output));
}

/// The names of what processes of MPICH share.
fn shared() -> BTreeSet<OsString> {
    let all = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|it| it.file_name());
    all.filter(|name| name.to_string_lossy().starts_with("mpich_")).collect()
}

#[test]
fn a_rank_of_mpich_is_killed_and_the_others_go_on_and_leave_no_shared_memory() {
    let Some(program) = survive() else { return };
    for rank in ["0", "2"] {
        let (_folder, file) = place();
        name_lost(&file, rank);
        let _alone = alone();
        let before = shared();
        let mut tool = fampi(&["--mpi", "mpich", "-n", "4", "--", program, &file, rank]);
        went_on(&tool.output().expect("the tool starts"), 3, 4);
        assert!(shared().is_subset(&before), "{:?}", shared());
    }
}

#[test]
fn a_node_of_mpich_is_lost_the_first_included_and_the_others_go_on() {
    let Some(program) = survive() else { return };
    if !has_name_spaces() {
        return;
    }
    for (node, lost) in [(0, "0 1"), (1, "2 3")] {
        let (_folder, file) = place();
        let mut job = Job::start(3, 6, &["--mpi", "mpich"], &[program, &file]);
        job.read_until("ready");
        job.lose(node, What::Everything);
        // Before that its launcher would place new processes there.
        job.wait_for_loss();
        name_lost(&file, lost);
        went_on(&job.finish(), 4, 6);
    }
}

#[test]
fn programs_of_mpich_end_with_their_status_and_one_that_cannot_start_says_so() {
    let Some(program) = survive() else { return };
    let _alone = alone();
    let run = |program: &[&str]| {
        let mut tool = fampi(&["--mpi", "mpich", "-n", "2", "--"]);
        tool.args(program).output().expect("the tool starts")
    };
    let output = run(&[program, "none", "abort"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(text(&output.stderr).contains("rank 0 has aborted the job"), "{}", said(&output));
    let script = "[ $PMI_RANK = 1 ] && exit 4; exec \"$0\" none";
    let output = run(&["sh", "-c", script, program]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let told = text(&output.stderr);
    assert!(told.contains("the job did not start: rank 1 ended with status 4"), "{told}");
    let mut tool = fampi(&["--mpi", "mpich", "-n", "2", "--kill", "1@0.2s", "--", "sleep", "1"]);
    let output = tool.output().expect("the tool starts");
    assert!(text(&output.stderr).contains("1 process was killed"), "{}", said(&output));
}

/// The last line of a run that ended in order, with the digits of its result.
#[track_caller]
fn digits(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    text(&output.stdout).lines().last().unwrap_or_else(|| panic!("{}", said(output))).to_owned()
}

/// An application of ours on so many ranks of MPICH; builds it.
fn on_mpich(ranks: &str, options: &[&str], program: &[&str]) -> Output {
    let _alone = alone();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(["run", "--mpi", "mpich", "--timeout", "600", "-n", ranks]).args(options);
    tool.arg("--").args(program).stdin(Stdio::null()).output().expect("the tool starts")
}

const MINIFE: [&str; 3] = ["minife", "nx=30", "yaml=none"];
const LULESH: [&str; 3] = ["lulesh", "s=10", "i=100"];

#[test]
#[ignore = "builds the applications for MPICH"]
fn whoever_is_killed_on_mpich_no_digit_changes() {
    for (ranks, program, moment) in [("4", &MINIFE[..], "iteration"), ("8", &LULESH, "cycle")] {
        let expected = digits(&on_mpich(ranks, &[], program));
        for (rank, spares) in [(0, "0"), (2, "0"), (0, "1"), (3, "1")] {
            let kill = format!("{rank}@{moment}:20");
            let output = on_mpich(ranks, &["--spares", spares, "--kill", &kill], program);
            assert_eq!(digits(&output), expected, "{kill}, {spares} spares");
            let told = text(&output.stderr);
            assert!(told.contains("1 process died as planned, and the others survived"), "{told}");
        }
    }
}

#[test]
#[ignore = "builds MiniFE for MPICH"]
fn whichever_node_is_lost_on_mpich_no_digit_of_minife_changes() {
    if !has_name_spaces() {
        return;
    }
    let expected = digits(&on_mpich("6", &["--nodes", "3"], &MINIFE));
    for node in 0..3 {
        let stop = format!("kill={}@iteration:20:stop", 2 * node);
        let mut program = MINIFE.to_vec();
        program.push(&stop);
        let job = Job::start(3, 6, &["--mpi", "mpich"], &program);
        job.wait_for_stop(node);
        job.lose(node, What::Everything);
        assert_eq!(digits(&job.finish()), expected, "node {node}");
    }
}

/// A program in C from outside of this project, one rank of which dies in a block.
const OUTSIDER: &str = r#"
#include <fampi.h>
#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm world, living;
    MPI_Request block, sum;
    int rank, ranks, one = 1, all = 0, code;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(world, &rank);
    FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block);
    if (rank == 2)
        raise(SIGKILL);
    MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, world, &sum);
    FAMPI_TryBlock_finish(block, 1, &sum, FAMPI_TIMEOUT_NEVER);
    code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
    FAMPI_Request_free(&sum);
    FAMPI_Request_free(&block);
    FAMPI_Comm_shrink(world, &living);
    MPI_Comm_size(living, &ranks);
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, living);
    if (code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS && ranks == 3 && all == 3)
        printf("outsider: survived\n");
    MPI_Finalize();
    return 0;
}
"#;

/// The C library for MPICH, installed, and what pkg-config says of it.
struct Installed {
    root: &'static Path,
    folder: TempDir,
    flags: String,
}

impl Installed {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a checkout");
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = folder.path().join("installed");
        let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
        tool.args(["install", "--mpi", "mpich", "--profile", "release", "--prefix"]);
        run(tool.arg(&prefix));
        let mut query = Command::new("pkg-config");
        query.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let flags = run(query.args(["--cflags", "--libs", "fampi-mpich"]));
        Self { root, folder, flags }
    }

    /// A program in C, built.
    fn build(&self, source: &Path) -> PathBuf {
        let program = self.folder.path().join("program");
        let mut compiler = Command::new(self.root.join("target/mpich/mpi/bin/mpicc"));
        compiler.arg(source).arg("-o").arg(&program).args(self.flags.split_whitespace());
        run(&mut compiler);
        program
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("installed/lib/mpich")
    }
}

/// What a command says that succeeds.
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    text(&output.stdout)
}

#[test]
#[ignore = "builds the C library for MPICH"]
fn nobody_waits_on_mpich_for_who_dies_on_another_node_in_the_link_of_old_and_new_processes() {
    if !has_name_spaces() {
        return;
    }
    let installed = Installed::new();
    let program = installed.build(&installed.root.join("ffi/tests/programs/spawns.c"));
    let program = program.to_str().expect("a path");
    let library = installed.library().display().to_string();
    let steps = |who, number: u32| (1..=number).map(move |step| format!("{who}link{step}"));
    for who in steps("root", 3).chain(steps("new", 3)).chain(steps("other", 2)) {
        // The new process comes to the node of the first that died; the root is on another one.
        let variables = [("LD_LIBRARY_PATH", library.as_str())];
        let job = Job::start_with(4, 4, &variables, &["--mpi", "mpich"], &[program, &who]);
        let output = job.finish();
        let complete = text(&output.stdout).matches(": complete again").count();
        assert!(output.status.success() && complete == 4, "{who}: {}", said(&output));
    }
}

#[test]
#[ignore = "builds the C library for MPICH"]
fn a_program_in_c_that_pkg_config_builds_survives_on_mpich() {
    let installed = Installed::new();
    let source = installed.folder.path().join("outsider.c");
    fs::write(&source, OUTSIDER).expect("written");
    let program = installed.build(&source);
    let _alone = alone();
    for _ in 0..5 {
        let mut tool = fampi(&["--mpi", "mpich", "-n", "4", "--"]);
        let output = tool.env("LD_LIBRARY_PATH", installed.library()).arg(&program).output();
        let output = output.expect("the tool starts");
        let survived = text(&output.stdout).matches("outsider: survived").count();
        assert!(output.status.success() && survived == 3, "{}", said(&output));
    }
}
