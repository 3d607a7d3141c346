//! What happened after each death, in words.
//!
//! An *episode* begins with a death and ends with the next one after a recovery.

use std::collections::BTreeMap;
use std::fmt;

use super::{Event, Recording};

/// The phases of an episode, in the order in which a person expects them.
const PHASES: [&str; 7] = [DIED, DETECTED, REPORT, SHRUNK, REGROUPED, RECOVERED, RESUMED];
const DIED: &str = "died";
const DETECTED: &str = "death detected";
const REPORT: &str = "report agreed";
const SHRUNK: &str = "shrink";
const REGROUPED: &str = "regroup";
const RECOVERED: &str = "recovered";
const RESUMED: &str = "iteration resumed";

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

    /// True when a death was recorded and the ranks went on after it.
    pub(crate) fn tells_of_a_recovery(&self) -> bool {
        let is_known = |it: &[Moment]| it.iter().any(|moment| moment.event.name == DETECTED);
        self.episodes.iter().any(|episode| is_known(episode) && has_recovered(episode))
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
            _ => String::new(),
        }
    }
}

/// An application that had not begun its iterations resumes none.
fn has_recovered(episode: &[Moment]) -> bool {
    episode.iter().any(|moment| [SHRUNK, RECOVERED, RESUMED].contains(&&*moment.event.name))
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
