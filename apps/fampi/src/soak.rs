//! `fampi soak`: applications that lose ranks at random moments, round after round, for as long as
//! asked; each round is judged by its result.
//!
//! A round is one launch. Every other one is `ring`, whose processes end themselves by random
//! signals and exits, also while they recover, join, or are parked; the rest are `minife` with a
//! drawn plan of deaths at iterations and in its phases, and deaths by the clock. The seed of the
//! first round is told and each round's follows from it, as far as time can be repeated.
//!
//! | outcome | meaning |
//! |---|---|
//! | undisturbed | nobody died; the result is right |
//! | recovered | somebody died; the result is right |
//! | refused | the run ended with a sentence that says why, and with no result |
//! | unstarted | the launcher could not start a job |
//! | hang, wrong, crash, leak | a bug: no end in time, another result, no reason, too much left |

use std::fmt;
use std::fs;
use std::io::Read as _;
use std::io::Seek as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use fastrand::Rng;

use crate::cargo::{self, Program};
use crate::installation::Installation;
use crate::launcher::{self, Launcher};
use crate::plan::{Kill, When};
use crate::refusal::{Misuse, whole};
use crate::session::{self, End, Script};
use crate::setup;
use crate::sheet::{Csv, Row};
use crate::status::{self, Reports};
use crate::workspace::Workspace;

const COLUMNS: &str = "round,program,ranks,spares,seed,deaths,seconds,outcome,reason";
/// Below the greatest number, as each round takes the next seed.
const SEEDS_END: u64 = u64::MAX >> 1;
/// What the library's watchdog says of a rank that MPI does not let go.
const HELD_UP: &str = "a call of MPI did not return";
/// A round takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(90);
/// Communicators that a process may hold after so many rebuilds: those of old worlds stay.
const COMMUNICATORS: (u64, u64) = (16, 12);
/// Memory that a process may take beside its work, in KiB, and for each rebuild.
const GROWTH_KIB: (u64, u64) = (16 << 10, 4 << 10);
const MODES: [&str; 4] = ["kill", "segv", "exit", "panic"];
const PHASES: [&str; 6] = ["iteration", "exchange", "spmv", "dot", "finish", "update"];
/// The greatest iteration of a plan; `minife nx=20` takes 65.
const ITERATIONS: u64 = 60;

#[derive(Args)]
pub(crate) struct Options {
    /// How long to go on; the round under way is finished
    #[arg(long, value_name = "M", default_value = "60", value_parser = minutes,
          allow_negative_numbers = true)]
    minutes: Duration,
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "N", default_value = "8",
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    ranks: u32,
    /// The seed of the first round; a new one each time if not given
    #[arg(long, value_name = "SEED", value_parser = whole(0..=SEEDS_END, "a seed, 0 or more"),
          allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Write a row for each round to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

fn minutes(text: &str) -> Result<Duration, Misuse> {
    let wrong = || Misuse("write a number of minutes above 0".to_owned());
    let number: f64 = text.trim().parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(number * 60.0).map_err(|_| wrong())?;
    if time.is_zero() { Err(wrong()) } else { Ok(time) }
}

/// How a round ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    Undisturbed,
    Recovered,
    Refused,
    Unstarted,
    Hang,
    Wrong,
    Crash,
    Leak,
}

const OUTCOMES: [(Outcome, &str); 8] = [
    (Outcome::Undisturbed, "undisturbed"),
    (Outcome::Recovered, "recovered"),
    (Outcome::Refused, "refused"),
    (Outcome::Unstarted, "unstarted"),
    (Outcome::Hang, "hang"),
    (Outcome::Wrong, "wrong"),
    (Outcome::Crash, "crash"),
    (Outcome::Leak, "leak"),
];

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = OUTCOMES.iter().find(|(outcome, _)| outcome == self).map_or("?", |(_, n)| n);
        f.pad(name)
    }
}

impl Outcome {
    fn is_a_bug(self) -> bool {
        matches!(self, Self::Hang | Self::Wrong | Self::Crash | Self::Leak)
    }
}

/// What a round does.
struct Round {
    program: &'static str,
    words: Vec<String>,
    spares: u32,
    kills: Vec<Kill>,
}

/// What became of a round.
struct Judged {
    outcome: Outcome,
    deaths: usize,
    seconds: f64,
    reason: String,
}

/// The programs, and what they print when nobody dies.
struct Soak<'a> {
    mpi: &'a Installation,
    ranks: u32,
    ring: PathBuf,
    minife: PathBuf,
    minife_digest: String,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    launcher::check_room(options.ranks.saturating_add(MOST_SPARES))?;
    let csv = Csv::open(options.csv.as_deref())?;
    let mpi = setup::ensure(workspace)?;
    let ring = cargo::build(workspace, Program::application("ring"))?;
    let minife = cargo::build(workspace, Program::application("minife"))?;
    let mut soak =
        Soak { mpi: &mpi, ranks: options.ranks, ring, minife, minife_digest: String::new() };
    soak.minife_digest = soak.undisturbed()?;
    let first = options.seed.unwrap_or_else(|| Rng::new().u64(..1 << 32));
    println!("soak: {} ranks, seed {first}", options.ranks);
    let (begun, mut rows, mut all) = (Instant::now(), Vec::<Row>::new(), Vec::<Judged>::new());
    while begun.elapsed() < options.minutes {
        let seed = first + all.len() as u64;
        let round = Round::drawn_from(seed, options.ranks);
        let Some(judged) = soak.play(&round)? else { break };
        println!(
            "round {} (seed {seed}): {} {} with {} spares: {} after {} deaths, {:.1} s{}{}",
            all.len(),
            round.program,
            round.words.join(" "),
            round.spares,
            judged.outcome,
            judged.deaths,
            judged.seconds,
            if judged.reason.is_empty() { "" } else { ": " },
            judged.reason,
        );
        rows.push(row(all.len(), seed, options.ranks, &round, &judged));
        all.push(judged);
    }
    csv.write(COLUMNS, &rows)?;
    let status = sum_up(&all, begun.elapsed());
    if begun.elapsed() < options.minutes {
        println!("soak: interrupted before its time");
        return Ok(status.max(1));
    }
    Ok(status)
}

/// Warm spares of a round, at most.
const MOST_SPARES: u32 = 3;

fn row(number: usize, seed: u64, ranks: u32, round: &Round, judged: &Judged) -> Row {
    let Judged { outcome, deaths, seconds, reason } = judged;
    let reason = reason.replace([',', '"'], ";");
    let numbers = [number.to_string(), round.program.to_owned(), ranks.to_string()];
    let more = [round.spares.to_string(), seed.to_string(), deaths.to_string()];
    let end = [format!("{seconds:.1}"), outcome.to_string(), reason];
    numbers.into_iter().chain(more).chain(end).collect()
}

fn sum_up(all: &[Judged], took: Duration) -> u8 {
    let deaths: usize = all.iter().map(|judged| judged.deaths).sum();
    println!(
        "soak: {} rounds, {deaths} deaths in {:.1} minutes",
        all.len(),
        took.as_secs_f64() / 60.
    );
    for (outcome, name) in OUTCOMES {
        let number = all.iter().filter(|judged| judged.outcome == outcome).count();
        if number > 0 {
            println!("soak: {number} {name}");
        }
    }
    u8::from(all.iter().any(|judged| judged.outcome.is_a_bug()))
}

impl Round {
    fn drawn_from(seed: u64, ranks: u32) -> Self {
        let mut rng = Rng::with_seed(seed);
        let spares = rng.u32(..=MOST_SPARES);
        if seed.is_multiple_of(2) {
            let words = vec!["--deaths".to_owned(), seed.to_string()];
            return Self { program: "ring", words, spares, kills: Vec::new() };
        }
        let mut words = vec!["nx=20".to_owned(), "yaml=none".to_owned()];
        let mut victims: Vec<u32> = (0..ranks).collect();
        rng.shuffle(&mut victims);
        for _ in 0..rng.u32(1..=2) {
            let Some(rank) = victims.pop() else { break };
            let (phase, count) = match rng.u32(..8) {
                0 => ("recovery", 1),
                _ => (PHASES[rng.usize(..PHASES.len())], rng.u64(1..=ITERATIONS)),
            };
            let mode = MODES[rng.usize(..MODES.len())];
            words.push(format!("kill={rank}@{phase}:{count}:{mode}"));
        }
        let mut kills = Vec::new();
        if rng.bool()
            && let Some(rank) = victims.pop()
        {
            let after = Duration::from_millis(rng.u64(300..2000));
            kills.push(Kill { rank, when: When::After(after) });
        }
        Self { program: "minife", words, spares, kills }
    }
}

impl Soak<'_> {
    /// The digest that `minife` prints when nobody dies.
    fn undisturbed(&self) -> Result<String> {
        let words = ["nx=20", "yaml=none"].map(str::to_owned).to_vec();
        let round = Round { program: "minife", words, spares: 0, kills: Vec::new() };
        let (end, lines, errors, _) = self.launch(&round)?;
        match (end, digest(&lines)) {
            (End::Exited(0), Some(digest)) => Ok(digest.to_owned()),
            _ => bail!("minife fails already when nobody dies: {}", reason(&errors)),
        }
    }

    /// Nothing when it was interrupted.
    fn play(&self, round: &Round) -> Result<Option<Judged>> {
        let begun = Instant::now();
        let (end, lines, errors, count) = self.launch(round)?;
        let deaths = count.reported.saturating_sub(count.finished);
        let seconds = begun.elapsed().as_secs_f64();
        let (outcome, reason) = match end {
            End::TimedOut => (Outcome::Hang, format!("no end in {} s", LIMIT.as_secs())),
            End::Interrupted(_) => return Ok(None),
            End::Exited(_) | End::Deserted => self.judge(round, end, &lines, &errors, count),
        };
        let outcome = match outcome {
            Outcome::Recovered if deaths == 0 => Outcome::Undisturbed,
            other => other,
        };
        Ok(Some(Judged { outcome, deaths, seconds, reason }))
    }

    fn judge(
        &self,
        round: &Round,
        end: End,
        lines: &[String],
        errors: &str,
        count: status::Count,
    ) -> (Outcome, String) {
        if errors.contains("ring: WRONG") {
            return (Outcome::Wrong, "another digest than the whole ring's".to_owned());
        }
        if let Some(digest) = digest(lines) {
            if round.program == "minife" && digest != self.minife_digest {
                return (Outcome::Wrong, format!("digest {digest}, not {}", self.minife_digest));
            }
            return leak(lines)
                .map_or((Outcome::Recovered, String::new()), |leak| (Outcome::Leak, leak));
        }
        let reason = reason(errors);
        if count.cut_short > 0 && count.finished == 0 && reason.is_empty() {
            // It took them with it.
            let (status, left) = (end.status(), count.cut_short);
            let reason = format!("the launcher ended with status {status}, {left} ranks still ran");
            (Outcome::Refused, reason)
        } else if count.reported == 0 {
            let said = if reason.is_empty() { last_line(errors) } else { reason };
            (Outcome::Unstarted, said)
        } else if count.finished > 0 && reason.is_empty() {
            // The rank that prints died when all was done.
            (Outcome::Recovered, "nobody was left to print the result".to_owned())
        } else if reason.is_empty() && count.finished == 0 && errors.contains(HELD_UP) {
            // Each that it held up has said so and counted as dead, until nobody was left.
            (
                Outcome::Refused,
                format!("{HELD_UP} on {} processes", errors.matches(HELD_UP).count()),
            )
        } else if reason.is_empty() {
            (Outcome::Crash, last_line(errors))
        } else {
            (Outcome::Refused, reason)
        }
    }

    fn launch(&self, round: &Round) -> Result<(End, Vec<String>, String, status::Count)> {
        let program: &Path = if round.program == "ring" { &self.ring } else { &self.minife };
        let extra = launcher::ignore_statuses();
        let launcher = Launcher::with(self.mpi, &extra);
        let reports = Reports::new()?;
        let mut command = launcher.command(self.ranks + round.spares, program);
        command.args(&round.words);
        command.env("FAMPI_SPARES", round.spares.to_string()).env("RUST_BACKTRACE", "0");
        command.env(status::VARIABLE, reports.path());
        let mut errors = tempfile::tempfile().context("cannot make a temporary file")?;
        let script = Script {
            ranks: Some(self.ranks + round.spares),
            timeout: Some(LIMIT),
            collect: true,
            kills: &round.kills,
            errors: Some(errors.try_clone().context("cannot use a temporary file")?),
            leftovers: &[reports.path()],
        };
        let finished = session::run(&command, script)?;
        let mut text = Vec::new();
        errors.rewind().context("cannot read a temporary file")?;
        errors.read_to_end(&mut text).context("cannot read a temporary file")?;
        let text = String::from_utf8_lossy(&text).into_owned();
        if let Some(folder) = std::env::var_os("FAMPI_SOAK_LOGS") {
            let _ =
                fs::write(Path::new(&folder).join(format!("{}.log", round.words.join("_"))), &text);
        }
        Ok((finished.end, finished.lines, text, reports.count(&finished.outlived)))
    }
}

/// The word after this one and `=` in the last line of a program.
fn word<'a>(lines: &'a [String], name: &str) -> Option<&'a str> {
    let last = |line: &&String| line.starts_with("ring: ") || line.starts_with("minife: ");
    let line = lines.iter().rev().find(last)?;
    line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn digest(lines: &[String]) -> Option<&str> {
    word(lines, "digest")
}

/// What a process holds too much of, if it tells.
fn leak(lines: &[String]) -> Option<String> {
    let number = |name| word(lines, name).and_then(|word| word.parse::<u64>().ok());
    let generations = number("generations")?;
    let limit = |(base, each): (u64, u64)| base + each * generations;
    let (communicators, growth) = (number("communicators")?, number("growth_kib")?);
    if communicators > limit(COMMUNICATORS) {
        return Some(format!("{communicators} communicators after {generations} rebuilds"));
    }
    let leaks = growth > limit(GROWTH_KIB);
    leaks.then(|| format!("{growth} KiB more after {generations} rebuilds"))
}

/// The sentences with which processes said why they gave up.
fn reason(errors: &str) -> String {
    let told = |line: &&str| {
        ["ring: ", "minife: ", "Error: "].iter().any(|name| line.starts_with(name))
            || line.contains("listener thread failed")
    };
    errors.lines().map(str::trim).find(told).unwrap_or_default().to_owned()
}

fn last_line(errors: &str) -> String {
    errors.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn rounds_are_drawn_from_their_seeds() {
        for seed in 0..200 {
            let (one, other) = (Round::drawn_from(seed, 8), Round::drawn_from(seed, 8));
            assert_eq!((one.words.clone(), one.spares), (other.words, other.spares));
            assert_eq!(one.program == "ring", seed % 2 == 0);
            assert!(one.spares <= MOST_SPARES && one.kills.iter().all(|kill| kill.rank < 8));
        }
    }

    #[test]
    fn what_was_printed_is_found() {
        let ring =
            lines("noise\nring: ranks=4 digest=ab generations=2 communicators=41 growth_kib=1");
        assert_eq!(digest(&ring), Some("ab"));
        assert_eq!(leak(&ring), Some("41 communicators after 2 rebuilds".to_owned()));
        let grown = lines("ring: digest=ab generations=0 communicators=4 growth_kib=999999");
        assert!(leak(&grown).is_some_and(|leak| leak.contains("KiB")));
        assert_eq!(leak(&lines("minife: ranks=4 digest=cd")), None);
        assert_eq!(
            reason("noise\nring: rank 3 and its partner died\n"),
            "ring: rank 3 and its partner died"
        );
        assert_eq!(last_line("one\ntwo\n\n"), "two");
    }

    #[test]
    fn times_that_cannot_be_meant_are_refused() {
        assert_eq!(minutes("0.5").expect("half a minute"), Duration::from_secs(30));
        for text in ["0", "-1", "x", "NaN", ""] {
            assert!(minutes(text).is_err(), "{text}");
        }
    }
}
