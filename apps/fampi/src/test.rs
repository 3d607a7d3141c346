//! `fampi test`: every test of the workspace, also those that launch and kill real ranks.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use fampi_kit::launch::OWN_LAUNCHER;
use fampi_kit::selection::AS_TESTS;

use crate::cargo::{self, Program};
use crate::installation::Family;
use crate::launcher::Kind;
use crate::refusal::Misuse;
use crate::setup;
use crate::test_programs::{self, MEASURING};
use crate::tests_under_node::{LAUNCHED, TESTED, left_out};
use crate::workspace::Workspace;

#[derive(Args)]
pub(crate) struct Options {
    /// What to optimise for: the simulations want `release`
    #[arg(long, default_value = "release", value_parser = profile)]
    profile: String,
    /// The MPI to test with: with MPICH, what launches ranks, but for some tests that are named
    #[arg(long, value_enum, default_value_t)]
    mpi: Family,
    /// Who starts the ranks: node, as always with --mpi mpich, runs what launches ranks itself, but
    /// for tests that are named
    #[arg(long, value_enum, default_value_t = Kind::Mpirun)]
    launcher: Kind,
    /// For `cargo test`: names of tests, and after another `--` flags of the test programs
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

fn profile(text: &str) -> Result<String, Misuse> {
    let known = ["release", "dev"].contains(&text);
    known.then(|| text.to_owned()).ok_or_else(|| Misuse("write release or dev".to_owned()))
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    if options.mpi == Family::Mpich || options.launcher == Kind::Node {
        return under_node(workspace, options);
    }
    setup::ensure(workspace)?;
    let cargo = || {
        let mut cargo = cargo::command(workspace);
        cargo.args(["test", "--workspace", "--profile", &options.profile]);
        if options.profile == "release" {
            // What tests build has this profile, too.
            cargo.env(AS_TESTS, "1");
        }
        cargo
    };
    if options.arguments.is_empty() {
        return test_programs::run(cargo);
    }
    status(cargo().args(&options.arguments))
}

fn status(cargo: &mut Command) -> Result<u8> {
    let status = cargo.status().context("cannot start cargo")?;
    Ok(status.code().unwrap_or(1) as u8)
}

/// Those that launch ranks, under our own launcher. What is left out is said at the end.
fn under_node(workspace: &Workspace, options: &Options) -> Result<u8> {
    let of_mpi = workspace.on(options.mpi);
    setup::ensure(&of_mpi)?;
    let launcher = cargo::build(workspace, Program::node())?;
    let cargo = || {
        let mut cargo = cargo::command(&of_mpi);
        cargo.args(["test", "--profile", &options.profile]).env(OWN_LAUNCHER, &launcher);
        cargo
    };
    if !options.arguments.is_empty() {
        return status(cargo().args(&options.arguments));
    }
    cargo::build(&of_mpi, Program::observer())?;
    let mut examples = cargo::command(&of_mpi);
    examples.args(["build", "--profile", &options.profile]).args(LAUNCHED);
    let built = status(&mut examples)?;
    if built != 0 {
        return Ok(built);
    }
    // What measures waits is alone.
    let selections = [&["--skip", MEASURING][..], &[MEASURING]];
    for ((words, what), selection) in TESTED.iter().flat_map(|it| selections.map(|how| (it, how))) {
        println!("{what}, on {} ({})", options.mpi, selection.join(" "));
        let mut cargo = cargo();
        cargo.args(*words).arg("--").args(selection);
        cargo.args(left_out(options.mpi).iter().flat_map(|(name, _)| ["--skip", name]));
        let status = status(&mut cargo)?;
        if status != 0 {
            return Ok(status);
        }
    }
    println!("Left out on {}:", options.mpi);
    for (name, why) in left_out(options.mpi) {
        println!("  {name}: {why}");
    }
    Ok(0)
}
