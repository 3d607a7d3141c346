//! `fampi top`: what the observers of this machine know, for a person.
//!
//! The program of the observers knows what they show, and prints it.

use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::workspace::Workspace;

#[derive(Args)]
pub(crate) struct Options {
    /// Print one table for each observer, and end
    #[arg(long)]
    once: bool,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let observer = workspace.built("fampi-observer")?;
    let mut command = Command::new(observer);
    command.arg("top").args(options.once.then_some("--once"));
    let status = command.status().context("cannot start the program of the observers")?;
    // Without one it was ended by a signal, as by Ctrl-C.
    Ok(status.code().unwrap_or(1) as u8)
}
