//! A run as one file that trace viewers open: Perfetto, `chrome://tracing`, `fampi timeline`.
//!
//! Each process writes its own part while it runs, in the trace event format of Chrome ([`parts`]);
//! when the run is over, however it ended, they become one file in that format ([`merge`]):
//!
//! | in the file | is |
//! |---|---|
//! | process (row) | a rank, or a parked spare |
//! | slice `life` | a process that holds the rank: the replacement's follows that of the dead |
//! | slice `block` | a `TryBlock`, from its start to its verdict |
//! | slice `commit` | the end of a block, from the vote on |
//! | slice `agreement` | a step of a recovery, agreed by ranks and spares |
//! | slice `recovery` | launch, parked, join, shrink, rebuild, regroup, split, restore |
//! | slice `program` | a phase of the program |
//! | instant | `died`, `death detected`, `report agreed`, `recovered`, a moment of the program |
//!
//! Times are microseconds from the beginning of the first process on.

mod account;
mod merge;
mod parts;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tempfile::TempDir;

pub(crate) use account::Account;
use parts::Part;

/// Names the folder in which each process records itself.
pub(crate) const VARIABLE: &str = "FAMPI_TRACE_DIR";

/// `off`: without blocks.
pub(crate) const BLOCKS: &str = "FAMPI_TRACE_BLOCKS";

/// What to do about a file that is none.
const ADVICE: &str = "give a file that `cargo fampi run --trace FILE` has written";

/// One event of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) cat: String,
    /// `X` for a slice, `i` for an instant, `M` for the name of a row; in a part of a trace also
    /// `B` and `E` for the ends of a slice, `b`, `n` and `e` for the ends and the vote of a block.
    pub(crate) ph: String,
    /// In microseconds, as `dur`.
    #[serde(default)]
    pub(crate) ts: f64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) dur: f64,
    #[serde(default)]
    pub(crate) pid: u32,
    #[serde(default)]
    pub(crate) tid: u32,
    /// How far an instant reaches: `p` for the whole row.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) s: String,
    /// In a part of a trace, which block this is about.
    #[serde(default, skip_serializing)]
    pub(crate) id: Option<u64>,
    #[serde(default)]
    pub(crate) args: Map<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Event {
    pub(crate) fn end(&self) -> f64 {
        self.ts + self.dur
    }

    pub(crate) fn is_slice(&self, category: &str) -> bool {
        self.ph == "X" && self.cat == category
    }

    pub(crate) fn is_instant(&self, name: &str) -> bool {
        self.ph == "i" && self.name == name
    }

    /// A number that goes with the event.
    pub(crate) fn number<N: TryFrom<u64>>(&self, name: &str) -> Option<N> {
        self.args.get(name)?.as_u64()?.try_into().ok()
    }

    /// A word or a number that goes with the event, as it is shown.
    pub(crate) fn arg(&self, name: &str) -> Option<String> {
        self.args.get(name).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }
}

/// The folder into which the processes of one run write.
#[derive(Debug)]
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    pub(crate) fn below(folder: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("fampi-trace-").tempdir_in(folder);
        Ok(Self(folder.context("cannot make a temporary folder")?))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recording {
    #[serde(rename = "traceEvents")]
    pub(crate) events: Vec<Event>,
    #[serde(rename = "displayTimeUnit", default)]
    pub(crate) unit: String,
}

impl Recording {
    /// Merges the parts in a folder; `None` when no process has written one.
    pub(crate) fn of_folder(folder: &Path) -> Result<Option<Self>> {
        let parts = parts::read(folder)?;
        Ok((!parts.is_empty()).then(|| Self::of_parts(&parts)))
    }

    fn of_parts(parts: &[Part]) -> Self {
        Self { events: merge::events(parts), unit: "ms".to_owned() }
    }

    /// Deaths and what followed each.
    pub(crate) fn account(&self) -> Account {
        Account::of(self)
    }

    /// Reads a file that [`conclude`] has written, or a folder with the parts themselves.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        if path.is_dir() {
            let recording = Self::of_folder(path)?;
            return recording.with_context(|| format!("{ADVICE}, as {shown} holds no part of one"));
        }
        let bytes = fs::read(path).with_context(|| format!("{ADVICE}, as {shown} fails"))?;
        let read: Result<Self, _> = serde_json::from_slice(&bytes);
        let recording = read.with_context(|| format!("{ADVICE}, as {shown} is none"))?;
        let sane = |event: &Event| event.ts.is_finite() && event.end().is_finite();
        if !recording.events.iter().any(|event| event.is_slice("life"))
            || !recording.events.iter().all(sane)
        {
            bail!("{ADVICE}, as {shown} tells of no rank of fampi");
        }
        Ok(recording)
    }

    pub(crate) fn write(&self, target: &Target) -> Result<()> {
        target.write(&serde_json::to_vec(self)?)
    }

    /// The rows and their names, from the top.
    pub(crate) fn rows(&self) -> Vec<(u32, String)> {
        let names = self.events.iter().filter(|it| it.ph == "M" && it.name == "process_name");
        let mut rows: Vec<(u32, String)> =
            names.map(|it| (it.pid, it.arg("name").unwrap_or_default())).collect();
        rows.sort();
        rows.dedup_by_key(|row| row.0);
        rows
    }
}

/// The file that a trace goes to. What it holds stays until there is something better.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    folder: PathBuf,
}

impl Target {
    /// A file that cannot be written is no news for after the run.
    pub(crate) fn of(option: &str, path: &Path) -> Result<Self> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let refused = || format!("choose another file for {option}, as {} fails", path.display());
        // A program may change its folder before it writes its part beside the file.
        let folder = std::path::absolute(parent.unwrap_or(Path::new("."))).with_context(refused)?;
        if path.is_dir() {
            bail!("choose another file for {option}, as {} is a folder", path.display());
        }
        tempfile::tempfile_in(&folder).with_context(refused)?;
        Ok(Self { path: path.to_owned(), folder })
    }

    /// The folder that holds the file: ranks on other machines see it, if any.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// It is never seen half written.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<()> {
        let refused = || format!("cannot write {}", self.path.display());
        let mut file = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .tempfile_in(&self.folder)
            .with_context(refused)?;
        file.write_all(bytes).with_context(refused)?;
        file.persist(&self.path).with_context(refused)?;
        Ok(())
    }
}

/// Merges the parts in `folder` into the file.
pub(crate) fn conclude(folder: &Path, target: &Target) -> Result<()> {
    let recording = Recording::of_folder(folder)?.with_context(|| {
        format!("no trace, as no process entered a job: {} is unchanged", target.path.display())
    })?;
    recording.write(target)
}

#[cfg(test)]
mod tests;
