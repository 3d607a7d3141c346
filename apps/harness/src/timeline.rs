//! Events of the run in a file per process, for those who draw timelines.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::filter::LevelFilter;

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
