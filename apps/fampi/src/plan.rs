//! Who is killed, and when: `2@1.5s` (after the launch) and `2@step:40` (by the process itself).

use std::str::FromStr;
use std::time::Duration;

use crate::refusal::Misuse;

/// What programs call a step.
const WORDS: [&str; 3] = ["step", "iteration", "cycle"];

/// When a rank is to die.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum When {
    /// So long after the launch; the tool sends the signal.
    After(Duration),
    /// In this step of a run; the rank kills itself, as only it can know.
    Iteration(u64),
}

/// The death of one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kill {
    pub(crate) rank: u32,
    pub(crate) when: When,
}

impl FromStr for Kill {
    type Err = Misuse;

    fn from_str(text: &str) -> Result<Self, Misuse> {
        let wrong = |why: &str| Misuse(format!("{why}: write RANK@1.5s or RANK@step:40"));
        let (rank, when) = text.split_once('@').ok_or_else(|| wrong("there is no @"))?;
        let rank = rank.parse().map_err(|_| wrong("the rank is not a number"))?;
        let step = when.split_once(':').filter(|(word, _)| WORDS.contains(word));
        let when = if let Some((_, step)) = step {
            let step = step.parse().ok().filter(|step| *step > 0);
            When::Iteration(step.ok_or_else(|| wrong("the step is no number from 1 on"))?)
        } else {
            When::After(duration(when).ok_or_else(|| wrong("the time cannot be read"))?)
        };
        Ok(Self { rank, when })
    }
}

/// `1.5s` or `300ms`; a bare number is not guessed at.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit_seconds) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * unit_seconds).ok()
}

/// Checks the plan against the ranks that are launched: `ranks` of the application, then `spares`.
/// Each can die once; its replacement is another process, which the plan cannot name.
pub(crate) fn check(kills: &[Kill], ranks: u32, spares: u32) -> Result<(), Misuse> {
    for (at, kill) in kills.iter().enumerate() {
        if kills[..at].iter().any(|other| other.rank == kill.rank) {
            return Err(Misuse(format!(
                "rank {0} is killed twice, and its replacement cannot be: give rank {0} one --kill",
                kill.rank
            )));
        }
        let (limit, of) = match kill.when {
            When::After(_) => (ranks + spares, "processes are launched"),
            When::Iteration(_) => (ranks, "ranks take part"),
        };
        if kill.rank >= limit {
            let last = limit.saturating_sub(1);
            return Err(Misuse(format!(
                "rank {} cannot be killed, as {limit} {of}: choose one from 0 to {last}",
                kill.rank
            )));
        }
    }
    Ok(())
}

/// The part of the plan that the application obeys, as it finds it in `FAMPI_KILL`.
pub(crate) fn for_application(kills: &[Kill]) -> Option<String> {
    let own: Vec<String> = kills
        .iter()
        .filter_map(|kill| match kill.when {
            When::Iteration(iteration) => Some(format!("{}@iteration:{iteration}", kill.rank)),
            When::After(_) => None,
        })
        .collect();
    (!own.is_empty()).then(|| own.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_names_a_rank_and_a_time_or_an_iteration() {
        let read = |text: &str| text.parse::<Kill>().expect("a plan");
        let after = |rank, milliseconds| Kill {
            rank,
            when: When::After(Duration::from_millis(milliseconds)),
        };
        assert_eq!(read("2@1.5s"), after(2, 1500));
        assert_eq!(read("0@300ms"), after(0, 300));
        for text in ["2@step:40", "2@iteration:40", "2@cycle:40"] {
            assert_eq!(read(text), Kill { rank: 2, when: When::Iteration(40) });
        }
    }

    #[test]
    fn a_plan_that_cannot_be_meant_says_how_to_write_one() {
        for text in
            ["2", "x@1s", "-1@1s", "2@", "2@1", "2@-1s", "2@NaNs", "2@step:x", "2@step:0", "2@x:4"]
        {
            let error = text.parse::<Kill>().expect_err(text).to_string();
            assert!(error.contains("RANK@step:40"), "{text}: {error}");
        }
    }

    #[test]
    fn only_what_is_launched_can_be_killed() {
        let kill = |text: &str| text.parse::<Kill>().expect("a plan");
        assert!(check(&[kill("3@1s"), kill("0@iteration:1")], 4, 0).is_ok());
        assert!(check(&[kill("5@1s")], 4, 2).is_ok());
        assert!(check(&[kill("6@1s")], 4, 2).is_err());
        let error = check(&[kill("2@1s"), kill("2@iteration:4")], 4, 2).expect_err("two deaths");
        assert!(error.to_string().contains("rank 2 is killed twice"), "{error}");
        let error = check(&[kill("4@iteration:1")], 4, 2).expect_err("a spare has no iteration");
        assert!(error.to_string().contains("from 0 to 3"), "{error}");
    }

    #[test]
    fn the_application_gets_the_iterations_only() {
        let plan: Vec<Kill> =
            ["1@1s", "2@iteration:40", "0@iteration:7"].map(|t| t.parse().expect("a plan")).into();
        assert_eq!(for_application(&plan).as_deref(), Some("2@iteration:40,0@iteration:7"));
        assert_eq!(for_application(&plan[..1]), None);
    }
}
