//! `fampi sim`: whole programs on simulated ranks, one for each seed.
//!
//! The work is done by a program of `tests/checkers` that links no MPI, so that this needs none.

use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::cargo::{self, Program};
use crate::detector::{simulated, slow};
use crate::refusal::{Misuse, whole};
use crate::scale;
use crate::workspace::Workspace;

/// Each simulated rank has a stack of its own.
const MOST_RANKS: u32 = 128;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    other: Option<Other>,
    /// How many seeds to run; the first that fails is made smaller and told
    #[arg(long, value_name = "N", default_value = "10000", allow_negative_numbers = true,
          value_parser = whole(1..=u64::MAX, "a number of seeds, 1 or more"))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = seed,
          allow_negative_numbers = true)]
    from: u64,
    /// Run this seed only, print all that was drawn from it, and tell its story
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from", "job"],
          value_parser = seed, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Numbers of ranks to draw from
    #[arg(long, value_name = "A-B", default_value = "2-16", conflicts_with = "job",
          value_parser = ranks, allow_hyphen_values = true)]
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
    Detector(simulated::Options),
    /// Tests of who is slow among busy hosts, and the group that comes of them: a table, and plots
    Diagnosis(slow::Options),
}

fn seed(text: &str) -> Result<u64, Misuse> {
    whole(0..=u64::MAX, "a seed, 0 or more")(text)
}

/// `4`, or `2-16`.
fn ranks(text: &str) -> Result<String, Misuse> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    match (from.parse::<u32>(), to.parse::<u32>()) {
        (Ok(from), Ok(to)) if 1 <= from && from <= to && to <= MOST_RANKS => Ok(text.to_owned()),
        _ => Err(Misuse(format!("write a number from 1 to {MOST_RANKS}, or a range as in 2-16"))),
    }
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
        Some(Other::Detector(options)) => return simulated::main(workspace, options),
        Some(Other::Diagnosis(options)) => return slow::main(workspace, options),
        None => {}
    }
    if options.from.checked_add(options.seeds).is_none() {
        let sentence = "seeds end at 18446744073709551615: write a lower --from, or fewer --seeds";
        return Err(Misuse(sentence.to_owned()).into());
    }
    let program = cargo::build(workspace, Program::swarm())?;
    let status = Command::new(&program).args(options.words()).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    Ok(status.code().map_or(1, |code| code as u8))
}
