//! What the processes of a run have written, each for itself.
//!
//! The library writes `<node>-<pid>.trace`, a line for each event (`src/seam/trace.rs`). A
//! process that was killed may leave half a line, which is skipped.
//!
//! **Clocks.** The processes of a node share a monotonic clock, so that their order is right.
//! Nodes are brought together by their wall clocks: as well as these agree, and no better.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Event;

/// What one process has written.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) pid: u32,
    /// When it began, in microseconds of the clock that all parts have in common.
    pub(crate) begun: f64,
    /// Its events, at times of that clock.
    pub(crate) events: Vec<Event>,
}

/// Reads all parts in a folder.
pub(crate) fn read(folder: &Path) -> Result<Vec<Part>> {
    let refused = || format!("cannot read the folder {}", folder.display());
    let mut files: Vec<_> = fs::read_dir(folder)
        .with_context(refused)?
        .map(|file| file.map(|file| file.path()))
        .collect::<Result<_, _>>()
        .with_context(refused)?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "trace"));
    files.sort();
    let mut clocks = Clocks::default();
    let mut parts = Vec::new();
    for path in files {
        let bytes = fs::read(&path).with_context(refused)?;
        parts.extend(parts_of(&String::from_utf8_lossy(&bytes), &mut clocks));
    }
    Ok(parts)
}

/// Usually one; a number of a process that ended can be another's.
fn parts_of(text: &str, clocks: &mut Clocks) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut offset = 0.0;
    let lines = text.lines().map(|line| line.trim_end_matches(','));
    for mut event in lines.filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        if let Some(begins) = clocks.offset(&event) {
            offset = begins;
            let begun = event.ts + offset;
            parts.push(Part { pid: event.pid, begun, events: Vec::new() });
        } else if let Some(part) = parts.last_mut() {
            event.ts += offset;
            part.events.push(event);
        }
    }
    parts
}

/// How far the clocks of the nodes are from the wall clock, in nanoseconds.
#[derive(Default)]
struct Clocks {
    first: Option<i128>,
    nodes: BTreeMap<String, i128>,
}

impl Clocks {
    /// From the first event of a part: the microseconds that its times are behind those of the
    /// first node. None for other events.
    fn offset(&mut self, event: &Event) -> Option<f64> {
        let nanoseconds = |name: &str| Some(i128::from(event.args.get(name)?.as_u64()?));
        let difference = nanoseconds("wall")? - nanoseconds("monotonic")?;
        let node = event.args.get("node").and_then(Value::as_str)?;
        // The wall clock may be set meanwhile: one look is for all processes of the node.
        let difference = *self.nodes.entry(node.to_owned()).or_insert(difference);
        Some((difference - *self.first.get_or_insert(difference)) as f64 / 1e3)
    }
}
