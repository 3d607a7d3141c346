//! What the user may set: who observes, how often observers say that they are there, how long a
//! rank may make no progress, and how it is found out who is slow.

use std::{
    env,
    ffi::{OsStr, OsString},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

use crate::protocol::{Timing, diagnosis::schedule::Schedule};

/// The path of the program that observes.
const PROGRAM: &str = "FAMPI_OBSERVER";
/// The limit of a rank without progress.
const HUNG: &str = "FAMPI_HUNG_SECONDS";
/// How ranks and observers are tested.
const DIAGNOSIS: &str = "FAMPI_DIAGNOSIS";
/// The time between two heartbeats.
const HEARTBEAT: &str = "FAMPI_HEARTBEAT_MILLISECONDS";
const HEARTBEAT_MILLISECONDS: RangeInclusive<u64> = 1..=60_000;
/// The limits that can be set: less is no patience with a machine that does other things, too; more
/// is some thirty years.
const HUNG_SECONDS: RangeInclusive<f64> = 0.1..=1e9;

/// The value of a variable, if it has one; an empty value counts as none.
fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|text| !text.is_empty())
}

/// The program of observers, if there are to be any.
pub fn program() -> Option<PathBuf> {
    set(PROGRAM).map(PathBuf::from)
}

/// Looks whether what was set makes sense.
///
/// # Errors
///
/// A sentence about the first variable that does not.
pub fn check() -> Result<(), String> {
    let refused = |name: &str, advice: &str| {
        let text = set(name).unwrap_or_default();
        format!("{name} is '{}'; {advice}", text.display())
    };
    let Some(limit) = hung() else {
        let advice = "set it to a number of seconds, at least 0.1, or to 0 for none";
        return Err(refused(HUNG, advice));
    };
    if heartbeat().is_none() {
        return Err(refused(HEARTBEAT, "set it to a number of milliseconds from 1 to 60000"));
    }
    if !limit.is_zero() && program().is_none() {
        let advice = format!("set {PROGRAM}, or use `cargo fampi run --hung`");
        return Err(format!("{HUNG} needs an observer to look: {advice}"));
    }
    let is_asked = set(DIAGNOSIS).is_some();
    if is_asked && diagnosis().is_none() {
        return Err(refused(DIAGNOSIS, Schedule::ADVICE));
    }
    if is_asked && program().is_none() {
        let advice = format!("set {PROGRAM}, or use `cargo fampi run --diagnosis`");
        return Err(format!("{DIAGNOSIS} needs observers that test: {advice}"));
    }
    Ok(())
}

/// How the user wants observers to test processes; `None` if the variable is not set, or makes no
/// sense.
fn diagnosis() -> Option<Schedule> {
    Schedule::parse(set(DIAGNOSIS)?.to_str()?.trim())
}

/// How long a rank may make no progress, zero for no limit; `None` for what makes no sense.
fn hung() -> Option<Duration> {
    set(HUNG).map_or(Some(Duration::ZERO), |text| limit_of(&text))
}

fn limit_of(text: &OsStr) -> Option<Duration> {
    let seconds: f64 = text.to_str()?.trim().parse().ok()?;
    let makes_sense = seconds == 0.0 || HUNG_SECONDS.contains(&seconds);
    makes_sense.then(|| Duration::from_secs_f64(seconds))
}

/// Between two heartbeats; `None` for what makes no sense.
fn heartbeat() -> Option<Duration> {
    set(HEARTBEAT).map_or(Some(Timing::OF_JOBS.period), |text| heartbeat_of(&text))
}

fn heartbeat_of(text: &OsStr) -> Option<Duration> {
    let milliseconds = text.to_str()?.trim().parse().ok()?;
    let makes_sense = HEARTBEAT_MILLISECONDS.contains(&milliseconds);
    makes_sense.then(|| Duration::from_millis(milliseconds))
}

/// Words of a timing.
pub(super) const WORDS: usize = 5;

/// What the user wants, in this order: the time between two heartbeats, the limit without progress
/// and the time between two tests, each in microseconds and 0 for none; how many hundredths of the
/// usual time an answer may take; and how many tests a slow process passes until it counts as well.
pub(super) fn timing_to_words() -> [u64; WORDS] {
    let tests = diagnosis();
    let times = [heartbeat(), hung(), tests.map(|it| it.interval)];
    let [heartbeat, hung, interval] = times.map(|time| time.unwrap_or_default().as_micros() as u64);
    let [kappa, zeta] = tests.map_or([0; 2], |it| [it.kappa_percent, it.zeta].map(u64::from));
    [heartbeat, hung, interval, kappa, zeta]
}

/// The timing that rank 0 asks for by these words.
pub(super) fn timing_of_words([heartbeat, hung, interval, kappa, zeta]: [u64; WORDS]) -> Timing {
    let time = |word: u64| (word > 0).then(|| Duration::from_micros(word));
    let diagnosis = time(interval).map(|interval| Schedule {
        interval,
        kappa_percent: kappa as u32,
        zeta: zeta as u32,
    });
    let usual = Timing::of_jobs_with(Duration::from_micros(heartbeat));
    Timing { hung: time(hung), diagnosis, ..usual }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_milliseconds_apart() {
        let period = |text: &str| heartbeat_of(OsStr::new(text));
        assert_eq!(period("10"), Some(Duration::from_millis(10)));
        for nonsense in ["", "often", "0", "-1", "1.5", "60001"] {
            assert_eq!(period(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn a_limit_is_a_number_of_seconds_that_leaves_ranks_some_time() {
        let limit = |text: &str| limit_of(OsStr::new(text));
        assert_eq!(limit("0"), Some(Duration::ZERO));
        assert_eq!(limit(" 2.5 "), Some(Duration::from_millis(2500)));
        for nonsense in ["", "soon", "-1", "0.01", "1e10", "inf", "NaN", "10s"] {
            assert_eq!(limit(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn the_timing_goes_to_the_others_as_words() {
        let timing = timing_of_words([10_000, 2_500_000, 1_000_000, 250, 5]);
        assert_eq!(timing.diagnosis, Schedule::parse("1s:2.5:5"));
        assert_eq!(timing.period, Duration::from_millis(10));
        assert_eq!(timing.hung, Some(Duration::from_millis(2500)));
        assert_eq!(timing_of_words([100_000, 0, 0, 0, 0]), Timing::OF_JOBS);
    }
}
