//! What all processes of a job find in their environment.

use std::env;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::hosts::IN_MESSAGES;
use crate::daemon::Language;
use crate::protocol::graph::MESH;

/// Variables of another launch, which are not handed on.
const FOREIGN: [&str; 5] = ["PMI_", "PMIX_", "PRTE_", "OMPI_COMM_WORLD_", "OMPI_PARENT_"];
/// The period of the signs of life between nodes.
const PERIOD: &str = "FAMPI_HEARTBEAT_MILLISECONDS";

/// Up to how many nodes all daemons are linked with each other.
const LARGEST_MESH: &str = "FAMPI_MESH_NODES";

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
    let (name, value) = IN_MESSAGES;
    all.push((name.to_owned(), value.to_owned()));
    all
}

/// The milliseconds between signs of life, as the user wants it.
pub(super) fn beat_milliseconds() -> Result<u32> {
    number(PERIOD, 100, 1..=60_000)
}

/// Up to how many nodes all daemons are linked with each other, as the user wants it.
pub(super) fn mesh() -> Result<u32> {
    number(LARGEST_MESH, MESH, 1..=1024)
}

fn number(name: &str, usual: u32, allowed: RangeInclusive<u32>) -> Result<u32> {
    let Ok(text) = env::var(name) else { return Ok(usual) };
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    let (least, most) = allowed.into_inner();
    number
        .with_context(|| format!("{name} should be a number from {least} to {most}, and is {text}"))
}
