//! The daemon of a node: drives the machine of `protocol`, serves the ranks of its node, and is
//! linked with the daemons of all others.
//!
//! ```text
//! wait for events or the next deadline
//! what other daemons have sent   ─▶ machine
//! requests of ranks (PMIx, PMI)  ─▶ machine      before the ends of processes: who is done says so
//! ends of processes              ─▶ machine
//! silence                        ─▶ machine      not after a turn that came late
//! ```
//!
//! A daemon that serves a job goes on without its console. Its processes end with it, as the kernel
//! sees to. It runs at once whenever something happens, if its user may ask the kernel for that.

mod children;
mod collected;
mod console;
mod deaths;
mod guests;
mod input;
mod job;
mod links;
mod output;
mod pmi;
mod pmix;
mod ranks;
mod runtime;
mod service;
mod shares;

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use fampi_detector::protocol::envelope::Secret;

pub(crate) use links::host;
pub use runtime::Language;

/// What a daemon is told when it is started.
#[derive(Args, Debug)]
pub struct Options {
    /// Where the console listens
    #[arg(long)]
    pub console: SocketAddr,
    /// The number of this node
    #[arg(long, required_unless_present_any = ["slurm", "joins"])]
    pub node: Option<u32>,
    /// The number of this node is that of the task of Slurm that this is
    #[arg(long)]
    pub slurm: bool,
    /// This node joins a job that runs, and is told its number
    #[arg(long, conflicts_with_all = ["slurm", "node"])]
    pub joins: bool,
    /// The prefix of the MPI
    #[arg(long)]
    pub mpi: PathBuf,
    /// Holds the secret of the job; where there is no such file, it comes on standard input
    #[arg(long)]
    pub key: PathBuf,
    /// What the processes of this node speak
    #[arg(long, value_enum, default_value_t)]
    pub language: Language,
    /// Processors that the processes of this node may use; all of them without it
    #[arg(long)]
    pub cores: Option<u32>,
    /// Let the system move these processes between processors
    #[arg(long)]
    pub unbound: bool,
}

impl Options {
    /// True when processes are to be bound to processors: not to those that they may not all use.
    fn binds(&self) -> bool {
        !self.unbound && self.cores.is_none()
    }

    /// The number of this node, unless it joins a job.
    fn number(&self) -> Result<Option<u32>> {
        if self.joins {
            return Ok(None);
        }
        let task = || std::env::var("SLURM_PROCID").ok()?.parse().ok();
        let number = self.node.or_else(task);
        Ok(Some(number.context("Slurm does not say which of its tasks this is")?))
    }
}

/// Bytes of a secret, in hexadecimal digits.
const DIGITS: usize = 64;

/// A secret, as it is written down.
pub fn write_secret(secret: &Secret) -> String {
    let digits = secret.reveal().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// The secret that is written so.
pub(crate) fn parse_secret(text: &str) -> Option<Secret> {
    let mut secret = [0; DIGITS / 2];
    if text.len() != DIGITS || !text.is_ascii() {
        return None;
    }
    for (at, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(Secret::new(secret))
}

fn read_secret(path: &Path) -> Result<Secret> {
    let mut text = String::new();
    // A file of another user does not hold our secret.
    let is_own = |file: &File| {
        file.metadata().is_ok_and(|known| known.uid() == rustix::process::geteuid().as_raw())
    };
    match File::open(path).ok().filter(is_own) {
        Some(file) => file.take(DIGITS as u64).read_to_string(&mut text),
        None => io::stdin().take(DIGITS as u64).read_to_string(&mut text),
    }
    .with_context(|| format!("cannot read {}", path.display()))?;
    parse_secret(&text).with_context(|| {
        format!(
            "{} is not there, and no secret comes on standard input: let the command that starts \
             daemons hand on its standard input, or set TMPDIR to a folder that all hosts share",
            path.display()
        )
    })
}

/// Serves until the job is over.
pub fn main(options: &Options) -> Result<()> {
    let secret = read_secret(&options.key)?;
    if options.joins {
        // No other daemon reads this file, and `add-host` may be killed before it removes it.
        let _ = std::fs::remove_file(&options.key);
    }
    let service = service::Service::start(options, &secret)?;
    // Ranks that wait by turning take all of a processor, and who has to wait for it for seconds is
    // silent: others would take it for dead. Where it may not it waits as others do.
    let _ = fampi_pmix::run_at_once();
    service.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written() {
        let secret = Secret::new(std::array::from_fn(|at| (at * 7) as u8));
        let path = std::env::temp_dir().join(format!("fampi-node-key-{}", std::process::id()));
        std::fs::write(&path, write_secret(&secret)).expect("written");
        let read = read_secret(&path);
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(read.expect("a secret").reveal(), secret.reveal());
    }
}
