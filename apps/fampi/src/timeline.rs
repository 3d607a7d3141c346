//! What happened when: the events that the processes of a run wrote, merged into one account.
//!
//! Each process appends one JSON object per event to a file of its own in the folder
//! `FAMPI_TRACE_DIR`. All run on one clock, so the merge is by time; a process that was killed may
//! leave half a line, which is skipped. An *episode* begins with a death and ends with the next one
//! after a recovery.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};
use tempfile::TempDir;

pub(crate) const VARIABLE: &str = "FAMPI_TRACE_DIR";

/// The phases in the order in which a person expects them.
const PHASES: [&str; 7] =
    [KILLED, DETECTED, "report agreed", "spawned", "recovered", "data restored", RESUMED];
const KILLED: &str = "killed by plan";
const DETECTED: &str = "fault detected";
const RECOVERED: &str = "recovered";
const RESUMED: &str = "iteration resumed";

/// The folder into which the processes of one run write.
#[derive(Debug)]
pub(crate) struct Trace {
    folder: TempDir,
}

impl Trace {
    pub(crate) fn new() -> Result<Self> {
        Self::in_folder(&std::env::temp_dir())
    }

    pub(crate) fn in_folder(folder: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("fampi-trace-").tempdir_in(folder);
        Ok(Self { folder: folder.context("cannot make a temporary folder")? })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Merges what is there.
    pub(crate) fn read(&self) -> Result<Timeline> {
        let mut text = String::new();
        let mut recorded = false;
        for file in fs::read_dir(self.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "trace") {
                // What the library writes for trace viewers.
                continue;
            }
            let bytes = fs::read(path)?;
            text.push_str(&String::from_utf8_lossy(&bytes));
            text.push('\n');
            recorded = true;
        }
        Ok(Timeline { recorded, ..Timeline::merge(&text) })
    }
}

/// An event, as a program in Rust writes it.
#[derive(Deserialize)]
pub(crate) struct Line {
    pub(crate) timestamp: String,
    pub(crate) target: String,
    pub(crate) fields: Map<String, Value>,
}

/// One event of one process.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    time: SystemTime,
    phase: &'static str,
    fields: Map<String, Value>,
}

impl Event {
    fn parse(line: &str) -> Option<Self> {
        let line: Line = serde_json::from_str(line).ok()?;
        let message = line.fields.get("message")?.as_str()?;
        // Other programs may use the same words for something else.
        let ours = line.target == "fampi" || line.target.starts_with("fampi::");
        let phase = PHASES.into_iter().find(|phase| ours && *phase == message)?;
        let time = humantime::parse_rfc3339(&line.timestamp).ok()?;
        Some(Self { time, phase, fields: line.fields })
    }

    /// A field as it is shown: numbers, words and lists alike.
    fn field(&self, name: &str) -> Option<String> {
        let text = match self.fields.get(name)? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let plain = text.trim_matches(|c| "[]{}".contains(c)).replace(',', " ");
        Some(plain.split_whitespace().collect::<Vec<_>>().join(", "))
    }
}

/// The merged account of a run.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Some process wrote a file, if only an empty one.
    recorded: bool,
    episodes: Vec<Vec<Event>>,
}

impl Timeline {
    fn merge(text: &str) -> Self {
        let mut events: Vec<Event> = text.lines().filter_map(Event::parse).collect();
        events.sort_by_key(|event| event.time);
        let mut episodes: Vec<Vec<Event>> = Vec::new();
        for event in events {
            let over = episodes.last().is_none_or(|now| has_recovered(now));
            if over && matches!(event.phase, KILLED | DETECTED) {
                episodes.push(vec![event]);
            } else if let Some(now) = episodes.last_mut() {
                now.push(event);
            }
        }
        Self { recorded: true, episodes }
    }

    /// True when a death was recorded and the ranks went on after it.
    pub(crate) fn tells_of_a_recovery(&self) -> bool {
        let detected = |episode: &[Event]| episode.iter().any(|event| event.phase == DETECTED);
        self.episodes.iter().any(|episode| detected(episode) && has_recovered(episode))
    }
}

/// An application that had not begun its iterations resumes none.
fn has_recovered(episode: &[Event]) -> bool {
    episode.iter().any(|event| matches!(event.phase, RECOVERED | RESUMED))
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.recorded {
            return writeln!(f, "  no timeline: the program does not record events in {VARIABLE}");
        }
        if self.episodes.is_empty() {
            return writeln!(f, "  no death was recorded");
        }
        for episode in &self.episodes {
            let killed = episode.iter().find(|event| event.phase == KILLED);
            let origin = killed.unwrap_or(&episode[0]).time;
            for phase in PHASES {
                let of_phase: Vec<&Event> = episode.iter().filter(|e| e.phase == phase).collect();
                if let (Some(first), Some(last)) = (of_phase.first(), of_phase.last()) {
                    let at = milliseconds(since(origin, first.time));
                    let what = sentence(phase, &of_phase);
                    let spread = spread(&of_phase, since(first.time, last.time));
                    writeln!(f, "  {at:>10}  {phase:<17}  {what}{spread}")?;
                }
            }
        }
        Ok(())
    }
}

fn since(earlier: SystemTime, later: SystemTime) -> Duration {
    later.duration_since(earlier).unwrap_or_default()
}

fn milliseconds(duration: Duration) -> String {
    format!("+{:.2} ms", duration.as_secs_f64() * 1e3)
}

/// What a phase means in this run.
fn sentence(phase: &str, events: &[&Event]) -> String {
    let field = |name: &str| events.iter().find_map(|event| event.field(name));
    match phase {
        KILLED => format!("rank {}, by SIGKILL", ranks(events).join(", ")),
        DETECTED => {
            let first = events[0].field("rank").unwrap_or_default();
            format!("death of rank {}, first by rank {first}", field("dead").unwrap_or_default())
        }
        "report agreed" => {
            format!("by all ranks: rank {} is dead", field("dead").unwrap_or_default())
        }
        "spawned" => {
            let count = field("count").unwrap_or_default();
            format!("{count} new process{}", if count == "1" { "" } else { "es" })
        }
        RECOVERED => format!("communicator whole again: {}", roles(events)),
        "data restored" => {
            let iteration = field("iteration").unwrap_or_default();
            format!("as of iteration {iteration}")
        }
        _ => format!("iteration {}", field("iteration").unwrap_or_default()),
    }
}

/// `3 survivors, 1 replacement`.
fn roles(events: &[&Event]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for role in events.iter().filter_map(|event| event.field("role")) {
        *counts.entry(role.to_lowercase()).or_default() += 1;
    }
    let mut text = String::new();
    for (role, count) in counts.iter().rev() {
        let (comma, plural) = (if text.is_empty() { "" } else { ", " }, ["", "s"]);
        let _ = write!(text, "{comma}{count} {role}{}", plural[usize::from(*count > 1)]);
    }
    if text.is_empty() { format!("{} ranks", events.len()) } else { text }
}

/// The ranks that recorded these events, each once.
fn ranks(events: &[&Event]) -> Vec<String> {
    let mut ranks: Vec<String> = events.iter().filter_map(|event| event.field("rank")).collect();
    ranks.sort_by_key(|rank| rank.parse::<u32>().ok());
    ranks.dedup();
    ranks
}

fn spread(events: &[&Event], duration: Duration) -> String {
    match ranks(events).len() {
        0 | 1 => String::new(),
        n => format!(" ({n} ranks within {:.2} ms)", duration.as_secs_f64() * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(milliseconds: u32, message: &str, fields: &str) -> String {
        format!(r#"{{"timestamp":"2026-01-02T03:04:05.{milliseconds:03}000Z","level":"INFO","#)
            + &format!(r#""target":"fampi::recovery","fields":{{"message":"{message}"{fields}}}}}"#)
    }

    fn episode(offset: u32) -> Vec<String> {
        vec![
            line(offset + 45, "iteration resumed", r#","rank":0,"iteration":40"#),
            line(offset + 47, "iteration resumed", r#","rank":2,"iteration":40"#),
            line(offset + 3, "fault detected", r#","rank":1,"dead":"[2]""#),
            line(offset + 2, "fault detected", r#","rank":0,"dead":"[2]""#),
            line(offset, "killed by plan", r#","rank":2"#),
            line(offset + 4, "report agreed", r#","rank":0,"dead":[2]"#),
            line(offset + 5, "spawned", r#","count":1"#),
            line(offset + 40, "recovered", r#","rank":0,"role":"survivor""#),
            line(offset + 40, "recovered", r#","rank":1,"role":"survivor""#),
            line(offset + 41, "recovered", r#","rank":2,"role":"replacement""#),
            line(offset + 42, "data restored", r#","rank":2,"iteration":39"#),
        ]
    }

    #[test]
    fn the_events_of_all_processes_become_one_account() {
        let text = episode(100).join("\n") + "\n{\"timestamp\":\"2026-01-02T0";
        let timeline = Timeline::merge(&text);
        assert!(timeline.tells_of_a_recovery());
        let expected = "    \
               +0.00 ms  killed by plan     rank 2, by SIGKILL
    +2.00 ms  fault detected     death of rank 2, first by rank 0 (2 ranks within 1.00 ms)
    +4.00 ms  report agreed      by all ranks: rank 2 is dead
    +5.00 ms  spawned            1 new process
   +40.00 ms  recovered          communicator whole again: 2 survivors, 1 replacement \
               (3 ranks within 1.00 ms)
   +42.00 ms  data restored      as of iteration 39
   +45.00 ms  iteration resumed  iteration 40 (2 ranks within 2.00 ms)
";
        assert_eq!(timeline.to_string(), expected);
    }

    #[test]
    fn each_death_after_a_recovery_is_an_episode_of_its_own() {
        let text = [episode(100), episode(500)].concat().join("\n");
        let timeline = Timeline::merge(&text);
        assert_eq!(timeline.episodes.len(), 2);
        assert_eq!(timeline.to_string().matches("+0.00 ms").count(), 2);
    }

    #[test]
    fn a_recovery_before_the_first_iteration_resumes_none() {
        let mut lines = episode(100);
        lines.retain(|line| !line.contains("resumed"));
        assert!(Timeline::merge(&lines.join("\n")).tells_of_a_recovery());
        lines.retain(|line| !line.contains("\"recovered\""));
        assert!(
            !Timeline::merge(&lines.join(
                "
"
            ))
            .tells_of_a_recovery()
        );
    }

    #[test]
    fn events_of_others_and_torn_lines_are_left_out() {
        let foreign = line(1, "killed by plan", "").replace("fampi::recovery", "other");
        let timeline = Timeline::merge(&format!("{foreign}\nnot json\n\n"));
        assert!(timeline.episodes.is_empty());
        assert!(!timeline.tells_of_a_recovery());
        assert_eq!(timeline.to_string(), "  no death was recorded\n");
    }
}
