//! What the time of a run went into, from the events that its processes wrote.
//!
//! One process tells the story, the witness: of those that lived from the beginning to the end
//! the one with the lowest rank.
//!
//! ```text
//!  run begins … killed by plan ─── report agreed ── shrunk, processes started ── recovered ──
//!                    │  detection     │        shrink, spawn, rebuild               │  data
//!  ── iteration resumed … run ends
//! ```
//!
//! What the witness has counted itself (ends of blocks, copies, iterations that had been done
//! before) comes with its last event. The rest is the application.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use plotters::style::RGBColor;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A part of a run's time; also its place among the [`PARTS`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Application,
    Commit,
    Copies,
    Detection,
    Shrink,
    Spawn,
    Rebuild,
    Data,
    Lost,
}

/// Their names and colours, which people who see colours differently can tell apart.
pub(super) const PARTS: [(&str, RGBColor); 9] = [
    ("application", RGBColor(187, 197, 208)),
    ("commit", RGBColor(0, 114, 178)),
    ("partner copies", RGBColor(86, 180, 233)),
    ("detection", RGBColor(230, 159, 0)),
    ("shrink", RGBColor(240, 228, 66)),
    ("spawn", RGBColor(213, 94, 0)),
    ("merge or rebuild", RGBColor(204, 121, 167)),
    ("data recovery", RGBColor(0, 158, 115)),
    ("lost work", RGBColor(70, 70, 70)),
];

/// The time of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parts {
    pub(super) milliseconds: [f64; PARTS.len()],
    /// Iterations that had begun and were done again.
    pub(super) lost: u64,
}

#[derive(Deserialize)]
struct Line {
    timestamp: String,
    target: String,
    fields: Map<String, Value>,
}

/// One event of a process.
#[derive(Debug)]
struct Event {
    time: SystemTime,
    what: String,
    fields: Map<String, Value>,
}

impl Event {
    fn parse(line: &str) -> Option<Self> {
        let line: Line = serde_json::from_str(line).ok()?;
        // Other programs may use the same words for something else.
        let ours = line.target.starts_with("fampi::");
        let what = line.fields.get("message").filter(|_| ours)?.as_str()?.to_owned();
        let time = humantime::parse_rfc3339(&line.timestamp).ok()?;
        Some(Self { time, what, fields: line.fields })
    }

    fn number(&self, name: &str) -> u64 {
        self.fields.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    fn took(&self) -> f64 {
        self.number("took_us") as f64 / 1e3
    }
}

/// The events of one process, in their order.
type Process = Vec<Event>;

fn find<'a>(process: &'a Process, what: &str) -> Option<&'a Event> {
    process.iter().find(|event| event.what == what)
}

/// Milliseconds from one moment to a later one.
fn between(earlier: SystemTime, later: SystemTime) -> f64 {
    later.duration_since(earlier).unwrap_or(Duration::ZERO).as_secs_f64() * 1e3
}

impl Parts {
    /// Reads what the processes of a run wrote into a folder.
    pub(super) fn read(folder: &Path, deaths: usize) -> Result<Self, String> {
        let files = fs::read_dir(folder).map_err(|error| error.to_string())?;
        let texts = files.flatten().filter_map(|file| fs::read(file.path()).ok());
        let texts: Vec<String> =
            texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect();
        Self::of(&texts, deaths)
    }

    /// Of the texts that the processes wrote.
    fn of(texts: &[String], deaths: usize) -> Result<Self, String> {
        let processes: Vec<Process> =
            texts.iter().map(|text| text.lines().filter_map(Event::parse).collect()).collect();
        let events = || processes.iter().flatten();
        let mut killed: Vec<SystemTime> = events()
            .filter(|event| event.what == "killed by plan")
            .map(|event| event.time)
            .collect();
        if killed.len() != deaths {
            return Err(format!("{} of {deaths} planned deaths happened", killed.len()));
        }
        killed.sort_unstable();
        let lived = |process: &&Process| {
            find(process, "run ends").is_some()
                && find(process, "run begins")
                    .is_some_and(|event| event.fields.get("replacement") == Some(&false.into()))
        };
        let rank = |process: &&Process| find(process, "run begins").map(|it| it.number("rank"));
        let witness = processes.iter().filter(lived).min_by_key(rank);
        let witness = witness.ok_or("no rank wrote about the whole run")?;
        let mut parts = Self::told_by(witness, &killed);
        let spawned = events().filter(|event| event.what == "processes started");
        parts.set(Part::Spawn, spawned.map(Event::took).fold(0.0, |sum, took| sum + took));
        let regrouping =
            parts.of_part(Part::Rebuild) - parts.of_part(Part::Shrink) - parts.of_part(Part::Spawn);
        parts.set(Part::Rebuild, regrouping.max(0.0));
        let rest = parts.of_part(Part::Application) - parts.milliseconds[1..].iter().sum::<f64>();
        parts.set(Part::Application, rest.max(0.0));
        Ok(parts)
    }

    /// What the witness tells: all of the run as [`Part::Application`], and the whole way to a new
    /// world as [`Part::Rebuild`].
    fn told_by(witness: &Process, killed: &[SystemTime]) -> Self {
        let mut parts = Self::default();
        let mut killed = killed.iter().copied().peekable();
        let (mut agreed, mut recovered) = (None, None);
        for event in witness {
            let now = event.time;
            match event.what.as_str() {
                "report agreed" => {
                    let first = killed.next_if(|time| *time <= now);
                    while killed.next_if(|time| *time <= now).is_some() {}
                    let took = first.map_or(0.0, |first| between(first, now));
                    parts.add(Part::Detection, took);
                    if agreed.is_some() {
                        parts.add(Part::Rebuild, -took);
                    }
                    agreed = agreed.or(Some(now));
                }
                "shrunk" => parts.add(Part::Shrink, event.took()),
                "recovered" => recovered = Some(now),
                "iteration resumed" => {
                    if let (Some(agreed), Some(recovered)) = (agreed.take(), recovered.take()) {
                        parts.add(Part::Rebuild, between(agreed, recovered));
                        parts.add(Part::Data, between(recovered, now));
                    }
                    while killed.next_if(|time| *time <= now).is_some() {}
                }
                "run ends" => {
                    let began = find(witness, "run begins").map_or(now, |event| event.time);
                    parts.set(Part::Application, between(began, now));
                    parts.add(Part::Commit, event.number("blocks_us") as f64 / 1e3);
                    parts.add(Part::Copies, event.number("copies_us") as f64 / 1e3);
                    parts.add(Part::Lost, event.number("redone_us") as f64 / 1e3);
                    parts.lost = event.number("lost");
                }
                _ => {}
            }
        }
        parts
    }

    fn add(&mut self, part: Part, milliseconds: f64) {
        self.milliseconds[part as usize] += milliseconds;
    }

    fn set(&mut self, part: Part, milliseconds: f64) {
        self.milliseconds[part as usize] = milliseconds;
    }

    pub(super) fn of_part(&self, part: Part) -> f64 {
        self.milliseconds[part as usize]
    }

    /// All parts together.
    pub(super) fn total(&self) -> f64 {
        self.milliseconds.iter().sum()
    }

    /// A run that did nothing else.
    #[cfg(test)]
    pub(super) fn of_application(milliseconds: f64) -> Self {
        let mut parts = Self::default();
        parts.set(Part::Application, milliseconds);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(milliseconds: u32, what: &str, fields: &str) -> String {
        format!(
            "{{\"timestamp\":\"2026-01-02T03:04:05.{milliseconds:03}000Z\",\
             \"target\":\"fampi::app\",\"fields\":{{\"message\":\"{what}\"{fields}}}}}\n"
        )
    }

    /// A death at 100, and another in the recovery from it.
    fn processes() -> [String; 3] {
        let witness = [
            line(10, "run begins", r#","rank":0,"replacement":false"#),
            line(104, "report agreed", ""),
            line(110, "shrunk", r#","took_us":2000"#),
            line(125, "report agreed", ""),
            line(130, "shrunk", r#","took_us":3000"#),
            line(170, "processes started", r#","took_us":30000"#),
            line(180, "recovered", r#","role":"survivor""#),
            line(187, "iteration resumed", ""),
            line(
                510,
                "run ends",
                r#","rank":0,"lost":5,"blocks_us":40000,"copies_us":1000,"redone_us":20000"#,
            ),
        ];
        let dead = |rank: u32, time| {
            line(10, "run begins", &format!(",\"rank\":{rank},\"replacement\":false"))
                + &line(time, "killed by plan", "")
        };
        [dead(1, 100), witness.concat() + "{\"timest", dead(2, 120)]
    }

    #[test]
    fn the_parts_of_a_run_add_up_to_its_time() {
        let parts = Parts::of(&processes(), 2).expect("a whole story");
        let expected = [
            (Part::Commit, 40.0),
            (Part::Copies, 1.0),
            (Part::Detection, 4.0 + 5.0),
            (Part::Shrink, 5.0),
            (Part::Spawn, 30.0),
            (Part::Rebuild, 76.0 - 5.0 - 5.0 - 30.0),
            (Part::Data, 7.0),
            (Part::Lost, 20.0),
        ];
        for (part, milliseconds) in expected {
            assert!((parts.of_part(part) - milliseconds).abs() < 1e-6, "{part:?} {parts:?}");
        }
        assert!((parts.total() - 500.0).abs() < 1e-6, "{parts:?}");
        assert_eq!(parts.lost, 5);
    }

    #[test]
    fn a_story_without_its_deaths_or_its_witness_is_none() {
        let [one, witness, other] = processes();
        let error = Parts::of(&[one.clone(), witness], 2).expect_err("one is missing");
        assert_eq!(error, "1 of 2 planned deaths happened");
        assert!(Parts::of(&[one, other], 2).is_err());
    }
}
