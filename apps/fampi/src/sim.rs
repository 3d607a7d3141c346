//! `fampi sim`: whole programs on simulated ranks, one for each seed.
//!
//! The work is done by a program of the library that links no MPI, so that this needs none.

use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::cargo::{self, Program};
use crate::scale;
use crate::sim_detector;
use crate::workspace::Workspace;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    other: Option<Other>,
    /// How many seeds to run; the first that fails is made smaller and told
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Run this seed only, print all that was drawn from it, and tell its story
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from", "job"])]
    seed: Option<u64>,
    /// Numbers of ranks to draw from
    #[arg(long, value_name = "A-B", default_value = "2-16", conflicts_with = "job")]
    ranks: String,
    /// Run this job, as a failure or `--seed` prints it, and tell its story
    #[arg(long, value_name = "LINE", conflicts_with_all = ["seeds", "from"])]
    job: Option<String>,
}

#[derive(Subcommand)]
enum Other {
    /// Agreements on up to a million ranks, by a cost model: a table, and plots
    Scale(scale::Options),
    /// Detection of failures on up to 65,536 nodes, beside SWIM: a table, and plots
    Detector(sim_detector::Options),
}

impl Options {
    fn words(&self) -> Vec<String> {
        let ranks = ["ranks".to_owned(), self.ranks.clone()];
        match (&self.job, self.seed) {
            (Some(job), _) => vec!["job".to_owned(), job.clone()],
            (None, Some(seed)) => {
                [vec!["seed".to_owned(), seed.to_string()], ranks.into()].concat()
            }
            (None, None) => {
                let seeds = ["seeds".to_owned(), self.seeds.to_string()];
                let from = ["from".to_owned(), self.from.to_string()];
                [seeds, from, ranks].concat()
            }
        }
    }
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    match &options.other {
        Some(Other::Scale(options)) => return scale::main(workspace, options),
        Some(Other::Detector(options)) => return sim_detector::main(workspace, options),
        None => {}
    }
    let program = cargo::build(workspace, Program::without_mpi("swarm"))?;
    let status = Command::new(&program).args(options.words()).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    Ok(status.code().map_or(1, |code| code as u8))
}
