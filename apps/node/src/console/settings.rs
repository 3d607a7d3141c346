//! What all processes of a job find in their environment.

use std::env;
use std::path::Path;

use anyhow::{Result, bail};

use crate::daemon::Language;

/// Variables of another launch, which are not handed on.
const FOREIGN: [&str; 5] = ["PMI_", "PMIX_", "PRTE_", "OMPI_COMM_WORLD_", "OMPI_PARENT_"];
/// The period of the signs of life between nodes.
const PERIOD: &str = "FAMPI_HEARTBEAT_MILLISECONDS";

/// That of the console, and what an MPI at this prefix needs.
pub(super) fn environment(mpi: &Path, language: Language) -> Vec<(String, String)> {
    let texts = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let own = |name: &str| !FOREIGN.iter().any(|foreign| name.starts_with(foreign));
    let mut all: Vec<(String, String)> = texts.filter(|(name, _)| own(name)).collect();
    for (name, folder) in [("PATH", "bin"), ("LD_LIBRARY_PATH", "lib")] {
        let before = all.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        let folder = mpi.join(folder).display().to_string();
        let value = before.map_or_else(|| folder.clone(), |before| format!("{folder}:{before}"));
        all.retain(|(other, _)| other != name);
        all.push((name.to_owned(), value));
    }
    if language == Language::Pmi {
        return all;
    }
    let mpi = mpi.display().to_string();
    for name in ["OPAL_PREFIX", "PMIX_PREFIX"] {
        all.push((name.to_owned(), mpi.clone()));
    }
    all
}

/// The milliseconds between signs of life, as the user wants it.
pub(super) fn beat_milliseconds() -> Result<u32> {
    let Ok(text) = env::var(PERIOD) else { return Ok(100) };
    match text.parse() {
        Ok(period @ 1..=60_000) => Ok(period),
        _ => bail!("{PERIOD} should be a number from 1 to 60000, and is {text}"),
    }
}
