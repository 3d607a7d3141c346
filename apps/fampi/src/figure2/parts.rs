//! What the time of a run went into, from its trace.
//!
//! One process tells the story, the witness: of those that lived from the beginning to the end
//! the one with the lowest rank.
//!
//! ```text
//!  run begins … killed by plan ─── report agreed ── MPI shrink, MPI spawn ── recovered ──
//!                    │  detection     │        shrink, spawn, rebuild               │  data
//!  ── iteration resumed … run ends
//! ```
//!
//! What the witness has counted itself (ends of blocks, copies, iterations that had been done
//! before) comes with its last event. The rest is the application.

use plotters::style::RGBColor;

use crate::trace::{Event, Recording};

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

/// The name of the phase that all iterations are in.
const RUN: &str = "run";

/// Milliseconds of a slice.
fn took(event: &Event) -> f64 {
    event.dur / 1e3
}

/// Milliseconds that an event counts.
fn counted(event: &Event, name: &str) -> f64 {
    event.number::<u64>(name).unwrap_or_default() as f64 / 1e3
}

impl Parts {
    /// The parts of a run in which so many ranks were to die.
    pub(super) fn of(recording: &Recording, deaths: usize) -> Result<Self, String> {
        let events = || recording.events.iter();
        // Those who were killed have said so before.
        let killed = events().filter(|event| event.is_instant("killed by plan"));
        let mut killed: Vec<f64> = killed.map(|event| event.ts).collect();
        if killed.len() != deaths {
            return Err(format!("{} of {deaths} planned deaths happened", killed.len()));
        }
        killed.sort_by(f64::total_cmp);
        let lived = |event: &&Event| {
            let is_whole = event.number::<u64>("lost").is_some();
            event.is_slice("program")
                && event.name == RUN
                && is_whole
                && event.number::<u32>("replacement") == Some(0)
        };
        let witness = events().filter(lived).min_by_key(|event| event.number::<u32>("rank"));
        let witness = witness.ok_or("no rank wrote about the whole run")?.pid;
        let mut parts = Self::default();
        parts.hear(events().filter(|event| event.pid == witness), &killed);
        let spawned = events().filter(|event| event.name == "MPI spawn");
        parts.set(Part::Spawn, spawned.map(took).fold(0.0, |sum, took| sum + took));
        let regrouping =
            parts.of_part(Part::Rebuild) - parts.of_part(Part::Shrink) - parts.of_part(Part::Spawn);
        parts.set(Part::Rebuild, regrouping.max(0.0));
        let rest = parts.of_part(Part::Application) - parts.milliseconds[1..].iter().sum::<f64>();
        parts.set(Part::Application, rest.max(0.0));
        Ok(parts)
    }

    /// What the witness tells: all of the run as [`Part::Application`], and the whole way to a new
    /// world as [`Part::Rebuild`].
    fn hear<'a>(&mut self, witness: impl Iterator<Item = &'a Event>, killed: &[f64]) {
        let mut killed = killed.iter().copied().peekable();
        let (mut agreed, mut recovered) = (None, None);
        for event in witness {
            let now = event.ts;
            match event.name.as_str() {
                "report agreed" => {
                    let first = killed.next_if(|time| *time <= now);
                    while killed.next_if(|time| *time <= now).is_some() {}
                    let took = first.map_or(0.0, |first| now - first) / 1e3;
                    self.add(Part::Detection, took);
                    if agreed.is_some() {
                        self.add(Part::Rebuild, -took);
                    }
                    agreed = agreed.or(Some(now));
                }
                "MPI shrink" => self.add(Part::Shrink, took(event)),
                "recovered" => recovered = Some(now),
                "iteration resumed" => {
                    if let (Some(agreed), Some(recovered)) = (agreed.take(), recovered.take()) {
                        self.add(Part::Rebuild, (recovered - agreed) / 1e3);
                        self.add(Part::Data, (now - recovered) / 1e3);
                    }
                    while killed.next_if(|time| *time <= now).is_some() {}
                }
                RUN => {
                    self.set(Part::Application, took(event));
                    self.add(Part::Commit, counted(event, "blocks_us"));
                    self.add(Part::Copies, counted(event, "copies_us"));
                    self.add(Part::Lost, counted(event, "redone_us"));
                    self.lost = event.number("lost").unwrap_or_default();
                }
                _ => {}
            }
        }
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

    fn event(rank: u32, from: u32, to: u32, name: &str, args: &str) -> Event {
        let (kind, category) = if from == to { ("i", "") } else { ("X", "program") };
        let (from, took, row) = (from * 1000, (to - from) * 1000, rank + 1);
        let text = format!(
            "{{\"name\":\"{name}\",\"cat\":\"{category}\",\"ph\":\"{kind}\",\"ts\":{from},\
             \"dur\":{took},\"pid\":{row},\"args\":{{{args}}}}}"
        );
        serde_json::from_str(&text).expect("an event")
    }

    /// A death at 100, and another in the recovery from it.
    fn recording() -> Recording {
        let told = "\"rank\":0,\"replacement\":0,\"lost\":5,\"blocks_us\":40000,\
                    \"copies_us\":1000,\"redone_us\":20000";
        let instant = |rank, at, name| event(rank, at, at, name, "");
        let events = vec![
            event(0, 10, 510, RUN, told),
            event(1, 10, 100, RUN, r#""rank":1,"replacement":0,"end":"unfinished""#),
            event(2, 10, 120, RUN, r#""rank":2,"replacement":0,"end":"unfinished""#),
            instant(1, 100, "killed by plan"),
            instant(0, 104, "report agreed"),
            event(0, 108, 110, "MPI shrink", ""),
            instant(2, 120, "killed by plan"),
            instant(0, 125, "report agreed"),
            event(0, 127, 130, "MPI shrink", ""),
            event(0, 140, 170, "MPI spawn", ""),
            event(1, 170, 510, RUN, r#""rank":1,"replacement":1,"lost":5"#),
            instant(0, 180, "recovered"),
            instant(0, 187, "iteration resumed"),
        ];
        Recording { events, ..Recording::default() }
    }

    #[test]
    fn the_parts_of_a_run_add_up_to_its_time() {
        let parts = Parts::of(&recording(), 2).expect("a whole story");
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
        let mut recording = recording();
        let error = Parts::of(&recording, 3).expect_err("one is missing");
        assert_eq!(error, "2 of 3 planned deaths happened");
        recording.events.remove(0);
        assert!(Parts::of(&recording, 2).is_err());
    }
}
