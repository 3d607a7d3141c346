//! `fampi test`: every test of the workspace, also those that launch and kill real ranks.

use std::ffi::OsString;

use anyhow::{Context, Result};
use clap::Args;
use fampi_kit::selection::AS_TESTS;

use crate::cargo;
use crate::refusal::Misuse;
use crate::setup;
use crate::test_programs;
use crate::workspace::Workspace;

#[derive(Args)]
pub(crate) struct Options {
    /// What to optimise for: the simulations want `release`
    #[arg(long, default_value = "release", value_parser = profile)]
    profile: String,
    /// For `cargo test`: names of tests, and after another `--` flags of the test programs
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

fn profile(text: &str) -> Result<String, Misuse> {
    let known = ["release", "dev"].contains(&text);
    known.then(|| text.to_owned()).ok_or_else(|| Misuse("write release or dev".to_owned()))
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
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
    let status = cargo().args(&options.arguments).status().context("cannot start cargo")?;
    Ok(status.code().unwrap_or(1) as u8)
}
