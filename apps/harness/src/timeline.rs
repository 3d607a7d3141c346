//! Events of the run in a file per process, for those who draw timelines and figures.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Mutex;

use fampi::Rank;
use tracing_subscriber::filter::LevelFilter;

use crate::account::Account;

/// Writes events to `<directory>/<process>.jsonl`, one JSON object per line, if the environment
/// variable `FAMPI_TRACE_DIR` names a directory.
///
/// # Errors
/// A sentence, when the file cannot be made.
pub fn record() -> Result<(), String> {
    let Some(directory) = std::env::var_os("FAMPI_TRACE_DIR") else { return Ok(()) };
    let path = Path::new(&directory).join(format!("{}.jsonl", std::process::id()));
    let file =
        OpenOptions::new().create(true).append(true).open(&path).map_err(|error| {
            format!("the trace file {} cannot be made: {error}", path.display())
        })?;
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(LevelFilter::INFO)
        .with_writer(Mutex::new(file))
        .finish();
    tracing::subscriber::set_global_default(subscriber).map_err(|error| error.to_string())
}

/// The run begins, on the rank that had this number at the launch.
pub fn run_begins(rank: u32, replacement: bool) {
    tracing::info!(target: "fampi::app", rank, replacement, "run begins");
}

/// The run is over: what it cost, in microseconds of this rank.
pub fn run_ends(rank: u32, replacement: bool, account: &Account) {
    let Account { lost, blocks, copies, recovery, redone, .. } = account;
    let [blocks_us, copies_us, recovery_us, redone_us] =
        [blocks, copies, recovery, redone].map(|time| time.as_micros() as u64);
    tracing::info!(
        target: "fampi::app", rank, replacement, lost, blocks_us, copies_us, recovery_us, redone_us,
        "run ends"
    );
}

/// This process is about to end by plan.
pub(crate) fn killed(rank: u32) {
    tracing::info!(target: "fampi::app", rank, "killed by plan");
}

/// The state is that after this iteration, and the next one begins.
pub(crate) fn resumed(rank: Rank, iteration: u32) {
    tracing::info!(target: "fampi::app", %rank, iteration, "data restored");
    tracing::info!(target: "fampi::app", %rank, iteration = iteration + 1, "iteration resumed");
}
