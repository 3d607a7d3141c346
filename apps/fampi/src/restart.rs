//! `fampi restart`: goes on with a job that ended as a whole.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::refusal::Misuse;
use crate::run;
use crate::workspace::Workspace;

#[derive(Args)]
pub(crate) struct Options {
    /// The folder with the checkpoints
    folder: PathBuf,
    #[command(flatten)]
    run: run::Options,
}

/// Runs a program from its newest checkpoint.
pub(crate) fn main(workspace: &Workspace, mut options: Options) -> Result<u8> {
    let checkpoints = &mut options.run.checkpoints;
    if checkpoints.checkpoint.is_some() || checkpoints.restart.is_some() {
        let advice = "restart saves further checkpoints in the folder that it begins from; leave \
                      --checkpoint and --restart out";
        return Err(Misuse(advice.to_owned()).into());
    }
    checkpoints.restart = Some(options.folder);
    run::main(workspace, &options.run)
}
