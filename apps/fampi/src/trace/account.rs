//! What happened after each death, in words.
//!
//! An *episode* begins with a death and ends with the next one after a recovery.

use std::collections::BTreeMap;
use std::fmt;

use super::{Event, Recording};

/// The phases of an episode, in the order in which a person expects them.
const PHASES: [&str; 8] =
    [DIED, DETECTED, REPORT, SHRUNK, REGROUPED, RECOVERED, STEP_RESUMED, RESUMED];
const DIED: &str = "died";
const DETECTED: &str = "death detected";
const REPORT: &str = "report agreed";
const SHRUNK: &str = "shrink";
const REGROUPED: &str = "regroup";
const RECOVERED: &str = "recovered";
const RESUMED: &str = "iteration resumed";
const STEP_RESUMED: &str = "step resumed";
/// More deaths than these are counted, not told.
const TOLD: usize = 12;

/// Something that happened on a row, in milliseconds.
#[derive(Debug, Clone)]
struct Moment {
    at: f64,
    event: Event,
}

/// The episodes of a run.
#[derive(Debug, Default)]
pub(crate) struct Account {
    rows: BTreeMap<u32, String>,
    episodes: Vec<Vec<Moment>>,
}

impl Account {
    pub(super) fn of(recording: &Recording) -> Self {
        let meant = |event: &&Event| {
            let is_phase = event.ph == "i" || event.is_slice("recovery");
            is_phase && PHASES.contains(&&*event.name)
        };
        let phases = recording.events.iter().filter(meant);
        // A slice counts when it is over.
        let moment = |event: &Event| Moment { at: event.end() / 1e3, event: event.clone() };
        let mut moments: Vec<Moment> = phases.map(moment).collect();
        moments.sort_by(|one, other| one.at.total_cmp(&other.at));
        let mut episodes: Vec<Vec<Moment>> = Vec::new();
        for moment in moments {
            let is_over = episodes.last().is_none_or(|now| has_recovered(now));
            if is_over && [DIED, DETECTED].contains(&&*moment.event.name) {
                episodes.push(vec![moment]);
            } else if let Some(now) = episodes.last_mut() {
                now.push(moment);
            }
        }
        Self { rows: recording.rows().into_iter().collect(), episodes }
    }

    /// How many processes have said that they would kill themselves by plan.
    pub(crate) fn planned_by_ranks(&self) -> usize {
        let said = |it: &&Moment| it.event.arg("known to process").as_deref() == Some("itself");
        self.episodes.iter().flat_map(|episode| all(episode, DIED)).filter(said).count()
    }

    /// True when a death was recorded and the ranks went on after it.
    pub(crate) fn tells_of_a_recovery(&self) -> bool {
        let is_known = |it: &[Moment]| it.iter().any(|moment| moment.event.name == DETECTED);
        self.episodes.iter().any(|episode| is_known(episode) && has_recovered(episode))
    }

    /// How many processes recoveries have started.
    pub(crate) fn started(&self) -> u32 {
        let last = |it: &Vec<Moment>| all(it, REGROUPED).last().and_then(started);
        self.episodes.iter().filter_map(last).sum()
    }

    /// A line for each death: who died when and how, who noticed it, and what the others did.
    pub(crate) fn lines(&self) -> Vec<String> {
        let deaths: usize = self.episodes.iter().map(|it| all(it, DIED).count()).sum();
        let mut lines: Vec<String> =
            self.episodes.iter().flat_map(|episode| self.lines_of(episode)).collect();
        if lines.len() > TOLD {
            lines.truncate(TOLD);
            lines.push(format!("{deaths} deaths in all: --timeline tells of the others"));
        }
        lines
    }

    fn lines_of(&self, episode: &[Moment]) -> Vec<String> {
        let last_death = all(episode, DIED).map(|it| it.at).fold(0.0, f64::max);
        let mut lines: Vec<String> = all(episode, DIED)
            .map(|death| {
                let who = self.rows(&[death]).concat();
                let planned = death.event.arg("known to process").as_deref() == Some("itself");
                let how = if planned { ", by plan" } else { "" };
                let noticed = all(episode, DETECTED).find(|it| it.at >= death.at);
                let noticed = noticed.map(|it| {
                    let by = self.rows(&[it]).concat();
                    format!(": noticed by {by} after {}", time(it.at - death.at))
                });
                let at = time(death.at);
                format!("{who} died at {at}{how}{}", noticed.unwrap_or_default())
            })
            .collect();
        if let Some(line) = lines.last_mut() {
            line.push_str(&outcome(episode, last_death));
        }
        lines
    }

    /// The rows on which these moments are, each once.
    fn rows(&self, moments: &[&Moment]) -> Vec<String> {
        let mut rows: Vec<u32> = moments.iter().map(|moment| moment.event.pid).collect();
        rows.sort_unstable();
        rows.dedup();
        rows.iter().map(|row| self.rows.get(row).cloned().unwrap_or_default()).collect()
    }

    /// What a phase means in this run.
    fn sentence(&self, phase: &str, moments: &[&Moment]) -> String {
        let first = &moments[0].event;
        let arg = |name: &str| first.arg(name).unwrap_or_default();
        match phase {
            DIED => self.rows(moments).join(", "),
            DETECTED => format!("first by {}", self.rows(&moments[..1]).concat()),
            REPORT => arg("report"),
            REGROUPED => match first.number::<u32>("spawned") {
                Some(1) => "1 new process".to_owned(),
                count => format!("{} new processes", count.unwrap_or_default()),
            },
            RECOVERED => format!("communicator whole again: {}", roles(moments)),
            RESUMED => format!("iteration {}", arg("iteration")),
            STEP_RESUMED => format!("step {}", arg("step")),
            _ => String::new(),
        }
    }
}

/// The moments of this name.
fn all<'a>(episode: &'a [Moment], name: &'a str) -> impl Iterator<Item = &'a Moment> {
    episode.iter().filter(move |moment| moment.event.name == name)
}

/// How many processes were started in a phase.
fn started(moment: &Moment) -> Option<u32> {
    moment.event.number("spawned")
}

/// How the ranks went on after the last death of an episode, and what it cost.
fn outcome(episode: &[Moment], death: f64) -> String {
    let last = |name| all(episode, name).last();
    let started = last(REGROUPED).and_then(started);
    let how = match (last(RECOVERED), last(SHRUNK)) {
        (Some(it), _) => {
            let by = match started {
                Some(0) | None => "by spares".to_owned(),
                Some(1) => "by 1 new process".to_owned(),
                Some(count) => format!("by {count} new processes"),
            };
            format!("; whole again {by} {} after the death", time(it.at - death))
        }
        (None, Some(it)) => format!("; without it {} after the death", time(it.at - death)),
        (None, None) => return "; no recovery followed".to_owned(),
    };
    let again = last(STEP_RESUMED).and_then(|it| it.event.number::<u64>("again"));
    match again {
        Some(1) => how + ", 1 step again",
        Some(steps) => format!("{how}, {steps} steps again"),
        None => how,
    }
}

/// Milliseconds as a person reads them.
fn time(milliseconds: f64) -> String {
    let milliseconds = milliseconds.max(0.0);
    if milliseconds < 1e3 {
        format!("{milliseconds:.1} ms")
    } else {
        format!("{:.2} s", milliseconds / 1e3)
    }
}

/// An application that had not begun its iterations resumes none.
fn has_recovered(episode: &[Moment]) -> bool {
    let ends = [SHRUNK, RECOVERED, RESUMED, STEP_RESUMED];
    episode.iter().any(|moment| ends.contains(&&*moment.event.name))
}

/// `3 survivors, 1 replacement`.
fn roles(moments: &[&Moment]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for role in moments.iter().filter_map(|moment| moment.event.arg("role")) {
        *counts.entry(role).or_default() += 1;
    }
    let counted = |(role, count): (&String, &usize)| {
        format!("{count} {role}{}", if *count == 1 { "" } else { "s" })
    };
    counts.iter().rev().map(counted).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for episode in &self.episodes {
            let died = episode.iter().find(|moment| moment.event.name == DIED);
            let death = died.unwrap_or(&episode[0]).at;
            writeln!(f, "  at {death:.2} ms")?;
            for phase in PHASES {
                let of_phase: Vec<&Moment> =
                    episode.iter().filter(|moment| moment.event.name == phase).collect();
                let (Some(first), Some(last)) = (of_phase.first(), of_phase.last()) else {
                    continue;
                };
                let at = format!("+{:.2} ms", (first.at - death).max(0.0));
                let what = self.sentence(phase, &of_phase);
                let spread = match self.rows(&of_phase).len() {
                    0 | 1 => String::new(),
                    n => format!(" ({n} ranks within {:.2} ms)", last.at - first.at),
                };
                let line = format!("  {at:>10}  {phase:<17}  {what}{spread}");
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(row: u32, at: f64, name: &str, args: &str) -> Event {
        let (kind, category) = if name == REGROUPED { ("X", "recovery") } else { ("i", "") };
        let text = format!(
            r#"{{"name":"{name}","ph":"{kind}","cat":"{category}","ts":{},"pid":{row},"#,
            at * 1e3
        );
        serde_json::from_str(&format!("{text}\"args\":{args}}}")).expect("an event")
    }

    fn row(rank: u32) -> Event {
        let name = format!(r#"{{"name":"rank {rank}"}}"#);
        let mut event = event(rank, 0.0, "process_name", &name);
        "M".clone_into(&mut event.ph);
        event
    }

    fn episode(offset: f64) -> Vec<Event> {
        let survivor = r#"{"role":"survivor"}"#;
        [
            (0, 45.0, RESUMED, r#"{"iteration":40}"#),
            (2, 47.0, RESUMED, r#"{"iteration":40}"#),
            (1, 3.0, DETECTED, "{}"),
            (0, 2.0, DETECTED, "{}"),
            (2, 0.0, DIED, "{}"),
            (0, 4.0, REPORT, r#"{"report":"rank 2: the process failed"}"#),
            (0, 5.0, REGROUPED, r#"{"spawned":1}"#),
            (0, 40.0, RECOVERED, survivor),
            (1, 40.0, RECOVERED, survivor),
            (2, 41.0, RECOVERED, r#"{"role":"replacement"}"#),
        ]
        .map(|(row, at, name, args)| event(row, offset + at, name, args))
        .into()
    }

    fn account(events: impl IntoIterator<Item = Event>) -> Account {
        let events = (0..3).map(row).chain(events).collect();
        Recording { events, ..Recording::default() }.account()
    }

    #[test]
    fn the_events_of_all_ranks_become_one_account() {
        let account = account(episode(100.0));
        assert!(account.tells_of_a_recovery());
        let expected = "  at 100.00 ms
    +0.00 ms  died               rank 2
    +2.00 ms  death detected     first by rank 0 (2 ranks within 1.00 ms)
    +4.00 ms  report agreed      rank 2: the process failed
    +5.00 ms  regroup            1 new process
   +40.00 ms  recovered          communicator whole again: 2 survivors, 1 replacement \
               (3 ranks within 1.00 ms)
   +45.00 ms  iteration resumed  iteration 40 (2 ranks within 2.00 ms)
";
        assert_eq!(account.to_string(), expected);
    }

    #[test]
    fn each_death_is_one_line() {
        let mut events = episode(100.0);
        events.push(event(0, 1150.0, "died", r#"{"known to process":"itself"}"#));
        events.push(event(1, 1151.0, DETECTED, "{}"));
        let expected = [
            "rank 2 died at 100.0 ms: noticed by rank 0 after 2.0 ms; whole again by 1 new process \
             41.0 ms after the death",
            "rank 0 died at 1.15 s, by plan: noticed by rank 1 after 1.0 ms; no recovery followed",
        ];
        assert_eq!(account(events).lines(), expected);
        let many: Vec<Event> = (0..40).flat_map(|at| episode(100.0 * f64::from(at))).collect();
        let lines = account(many).lines();
        assert_eq!(lines.len(), TOLD + 1);
        assert_eq!(lines[TOLD], "40 deaths in all: --timeline tells of the others");
    }

    #[test]
    fn each_death_after_a_recovery_is_an_episode_of_its_own() {
        let account = account([episode(100.0), episode(500.0)].concat());
        assert_eq!(account.episodes.len(), 2);
        assert_eq!(account.to_string().matches("+0.00 ms").count(), 2);
    }

    #[test]
    fn a_recovery_before_the_first_iteration_resumes_none() {
        let mut events = episode(100.0);
        events.retain(|event| event.name != RESUMED);
        assert!(account(events.clone()).tells_of_a_recovery());
        events.retain(|event| event.name != RECOVERED);
        assert!(!account(events).tells_of_a_recovery());
        let empty = account([]);
        assert!(!empty.tells_of_a_recovery() && empty.to_string().is_empty());
    }
}
