//! What the processes of a run have written, each for itself.
//!
//! The library writes `<node>-<pid>.trace`, see `engine/trace.rs` there; our applications add
//! `<pid>.jsonl` with what they say themselves. A process that was killed may leave half a line,
//! which is skipped.
//!
//! **Clocks.** The processes of a node share a monotonic clock, so that their order is right.
//! Nodes are brought together by their wall clocks: as well as these agree, and no better.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::timeline::Line;

/// Nanoseconds on a clock that all parts have in common.
pub(crate) type Time = i128;

/// What one process has written.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) pid: u32,
    pub(crate) begun: Time,
    pub(crate) entries: Vec<(Time, What)>,
    /// What the program itself said, with its fields.
    pub(crate) words: Vec<(Time, String, serde_json::Map<String, serde_json::Value>)>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    at: u64,
    #[serde(flatten)]
    what: What,
}

/// An entry, as the library writes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub(crate) enum What {
    Process { node: String, pid: u32, monotonic: u64, wall: u64 },
    Placed { process: Option<u32>, rank: Option<u32>, origin: Option<u32>, role: String },
    Started { block: u64, number: u64, level: String, comm: String },
    Voted { block: u64 },
    Ended { block: u64, committed: bool },
    Interrupted { block: u64 },
    Died { process: Option<u32>, rank: u32 },
    Agreed { comm: String, report: String },
    Begun { work: String, spawn: u32 },
    Done { work: String },
    Left,
}

/// Reads all parts in a folder.
pub(crate) fn read(folder: &Path) -> Result<Vec<Part>> {
    let refused = || format!("cannot read the folder {}", folder.display());
    let (mut parts, mut words) = (Vec::new(), BTreeMap::new());
    let mut wall_clocks = BTreeMap::new();
    let mut files: Vec<_> = fs::read_dir(folder)
        .with_context(refused)?
        .map(|file| file.map(|file| file.path()))
        .collect::<Result<_, _>>()
        .with_context(refused)?;
    files.sort();
    for path in files {
        let kind = path.extension().and_then(|extension| extension.to_str());
        let pid = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok());
        if !matches!((kind, pid), (Some("trace"), _) | (Some("jsonl"), Some(_))) {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path).with_context(refused)?).into_owned();
        match pid {
            Some(pid) if kind == Some("jsonl") => drop(words.insert(pid, words_of(&text))),
            _ => parts.extend(parts_of(&text, &mut wall_clocks)),
        }
    }
    for part in &mut parts {
        part.words = words.remove(&part.pid).unwrap_or_default();
    }
    Ok(parts)
}

/// Usually one; a number of a process that ended can be another's.
fn parts_of(text: &str, wall_clocks: &mut BTreeMap<String, Time>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut offset = 0;
    for entry in text.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok()) {
        if let What::Process { node, pid, monotonic, wall } = entry.what {
            let difference = Time::from(wall) - Time::from(monotonic);
            // The wall clock may be set meanwhile: one look is for all processes of the node.
            let difference = *wall_clocks.entry(node).or_insert(difference);
            offset = Time::from(monotonic) - Time::from(entry.at) + difference;
            let begun = offset + Time::from(entry.at);
            parts.push(Part { pid, begun, ..Part::default() });
        } else if let Some(part) = parts.last_mut() {
            part.entries.push((offset + Time::from(entry.at), entry.what));
        }
    }
    parts
}

fn words_of(text: &str) -> Vec<(Time, String, serde_json::Map<String, serde_json::Value>)> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let ours = lines.filter(|line| line.target == "fampi::app");
    let word = |mut line: Line| {
        let time = humantime::parse_rfc3339(&line.timestamp).ok()?;
        let time = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos() as Time;
        let word = line.fields.remove("message")?.as_str()?.to_owned();
        Some((time, word, line.fields))
    };
    ours.filter_map(word).collect()
}
