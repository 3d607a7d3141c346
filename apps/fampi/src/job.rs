//! `fampi jobs`, `fampi attach` and `fampi add-host`: jobs that go on without their console, and
//! those that get more nodes.
//!
//! The launcher knows them. To attach, this process becomes the launcher: signals are for that one
//! alone, and when it is killed the job goes on again.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::cargo::{self, Program};
use crate::workspace::Workspace;

#[derive(Args)]
pub(crate) struct Listing {
    /// Remove what is left of jobs that have ended, their output included
    #[arg(long)]
    remove: bool,
}

#[derive(Args)]
#[command(after_help = "\
Ctrl-C ends the job. To leave it running, close the terminal, or end this command by Ctrl-\\. Of a
job that has ended, its output is printed. Exit status: that of the job.")]
pub(crate) struct Attachment {
    /// The job, as `fampi jobs` names it; the only one without it
    #[arg(value_name = "JOB")]
    job: Option<String>,
}

#[derive(Args)]
#[command(after_help = "\
Replacements of ranks that fail from now on are started there, too; one may be a host that was lost
and is back. To be called on a host of the job.")]
pub(crate) struct Growth {
    /// The job, as `fampi jobs` names it; the only one without it
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// The hosts, and how many ranks each takes
    #[arg(long, value_name = "HOST:N,…", required = true)]
    hosts: String,
    /// Starts a daemon: called as `CMD HOST COMMAND ARGS…`; what has started the others without it
    #[arg(long, value_name = "CMD")]
    agent: Option<String>,
}

/// Becomes the launcher, which is told this.
fn become_launcher<'a>(
    workspace: &Workspace,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<u8> {
    let launcher = cargo::build(workspace, Program::node())?;
    Err(Command::new(launcher).args(words).exec()).context("cannot start the launcher")
}

pub(crate) fn list(workspace: &Workspace, options: &Listing) -> Result<u8> {
    become_launcher(workspace, ["jobs"].into_iter().chain(options.remove.then_some("--remove")))
}

pub(crate) fn attach(workspace: &Workspace, options: &Attachment) -> Result<u8> {
    become_launcher(workspace, ["attach"].into_iter().chain(options.job.as_deref()))
}

pub(crate) fn add_hosts(workspace: &Workspace, options: &Growth) -> Result<u8> {
    let hosts = format!("--hosts={}", options.hosts);
    let agent = options.agent.as_ref().map(|agent| format!("--agent={agent}"));
    let words = options.job.iter().chain([&hosts]).chain(&agent).map(String::as_str);
    become_launcher(workspace, ["add-host"].into_iter().chain(words))
}
