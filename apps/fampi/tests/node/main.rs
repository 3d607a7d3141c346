//! The launcher of our own: jobs that lose nodes, processes and their console, or have slow nodes,
//! launches that cannot succeed, and that nothing is left of any. Nodes are name spaces of
//! this machine, which take root.

mod alone;
mod causes;
mod cuts;
mod elsewhere;
mod ends;
mod graph;
mod joins;
mod loss;
mod mpich;
mod network;
mod newcomers;
mod slow_nodes;
mod start;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// `fampi run` by the launcher of our own.
fn fampi(options: &[&str]) -> Command {
    network::folders_before();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(["run", "--launcher", "node"]);
    if !options.contains(&"--timeout") {
        tool.args(["--timeout", "60"]);
    }
    tool.args(options);
    tool.env("XDG_STATE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("state"));
    tool.stdin(Stdio::null());
    tool
}

/// An application or an example, as the tests have built it; or its name, and the tool builds it.
fn application(name: &str) -> PathBuf {
    let tool = Path::new(env!("CARGO_BIN_EXE_fampi"));
    let built = [tool.with_file_name(name), tool.with_file_name("examples").join(name)];
    built.into_iter().find(|file| file.is_file()).unwrap_or_else(|| name.into())
}

/// A program in C of this folder, built with the compiler of the MPI.
fn in_c(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compiler = Command::new(root.join("target/mpi/bin/mpicc"));
    compiler.arg("-Wall").arg("-Werror").arg("-o").arg(&program);
    compiler.arg(root.join(format!("apps/fampi/tests/node/{name}.c")));
    assert!(compiler.status().expect("a compiler").success());
    program
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All that a run has said, for a person.
fn said(output: &Output) -> String {
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}
