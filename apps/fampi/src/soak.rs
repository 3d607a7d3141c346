//! `fampi soak`: applications that lose ranks at random moments, round after round, for as long as
//! asked; each round is judged by its result.
//!
//! A round is one launch. Every other one is `ring`, whose processes end themselves by random
//! signals and exits in random steps, also while they recover or join; the rest are `minife` with a
//! drawn plan of deaths at iterations and in its phases, and deaths by the clock, which are aimed
//! by the time that a run without deaths takes once MPI has started ([`round`]). The seed of the
//! first round is told and each round's follows from it, as far as time can be repeated. Of a round
//! without a right result everything that was said is kept, in a file that its line names.
//!
//! With `--nodes` whole nodes are lost and come back ([`losses`]).
//!
//! | outcome | meaning |
//! |---|---|
//! | undisturbed | no process died; the result is right |
//! | recovered | a process died; the result is right |
//! | refused | the run ended with a sentence that says why, and with no result |
//! | held up | MPI did not return from calls, so that each process counted as dead and said so |
//! | unstarted | the launcher could not start a job, or a process died before MPI had started |
//! | hang, wrong, crash, leak | a bug: no end in time, another result, no reason, too much left |

mod losses;
mod round;

use std::fmt::{self, Write as _};
use std::fs;
use std::io::Read as _;
use std::io::Seek as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use fastrand::Rng;

use crate::cargo::Program;
use crate::csv::{Csv, Row};
use crate::installation::Family;
use crate::launcher;
use crate::ready::Ready;
use crate::refusal::{Misuse, whole};
use crate::session::{self, End, Script};
use crate::status::{self, Reports};
use crate::workspace::{self, Workspace};

use losses::Losses;
use round::{MOST_SPARES, Round};

const COLUMNS: &str = "round,program,ranks,spares,seed,deaths,seconds,outcome,reason";
/// Below the greatest number, as each round takes the next seed.
const SEEDS_END: u64 = u64::MAX >> 1;
/// What `--rounds` is to be.
const ROUNDS: &str = "a number of rounds, 1 or more";
/// What the library's watchdog says of a rank that MPI does not let go.
const HELD_UP: &str = "a call of MPI did not return";
/// A round takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(90);
const DEATHS: &str = "deaths";
/// Communicators that a process may hold after so many rebuilds: those of old worlds stay.
const COMMUNICATORS: (u64, u64) = (16, 12);
/// Memory that a process may take beside its work, in KiB, and for each rebuild.
const GROWTH_KIB: (u64, u64) = (16 << 10, 4 << 10);

#[derive(Args)]
pub(crate) struct Options {
    /// How long to go on; the round under way is finished
    #[arg(long, value_name = "M", default_value = "60", value_parser = minutes,
          allow_negative_numbers = true)]
    minutes: Duration,
    /// How many rounds to play at most
    #[arg(long, value_name = "R", value_parser = whole(1..=SEEDS_END, ROUNDS),
          allow_negative_numbers = true)]
    rounds: Option<u64>,
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "N", default_value = "8",
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    ranks: u32,
    /// The seed of the first round; a new one each time if not given
    #[arg(long, value_name = "SEED", value_parser = whole(0..=SEEDS_END, "a seed, 0 or more"),
          allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Lose whole nodes of so many, 3 or more, which come back: name spaces, which take root
    #[arg(long, value_name = "K", allow_negative_numbers = true,
          value_parser = whole(3_u32..=63, "a number of nodes from 3 to 63"))]
    nodes: Option<u32>,
    /// Between two losses of nodes
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds,
          requires = "nodes", allow_negative_numbers = true)]
    every: Duration,
    /// Play the round of this seed again and again
    #[arg(long, requires = "seed")]
    same: bool,
    /// Write a row for each round to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The MPI, which `cargo fampi setup` has set up
    #[arg(long, value_enum, default_value_t)]
    mpi: Family,
}

fn minutes(text: &str) -> Result<Duration, Misuse> {
    time(text, 60.0, "minutes")
}

fn seconds(text: &str) -> Result<Duration, Misuse> {
    time(text, 1.0, "seconds")
}

/// So many units of so many seconds.
fn time(text: &str, unit: f64, name: &str) -> Result<Duration, Misuse> {
    let wrong = || Misuse(format!("write a number of {name} above 0"));
    let number: f64 = text.trim().parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())?;
    if time.is_zero() { Err(wrong()) } else { Ok(time) }
}

/// How a round ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    Undisturbed,
    Recovered,
    Refused,
    HeldUp,
    Unstarted,
    Hang,
    Wrong,
    Crash,
    Leak,
}

const OUTCOMES: [(Outcome, &str); 9] = [
    (Outcome::Undisturbed, "undisturbed"),
    (Outcome::Recovered, "recovered"),
    (Outcome::Refused, "refused"),
    (Outcome::HeldUp, "held up"),
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

    /// True when the job ended with the right result.
    fn is_right(self) -> bool {
        matches!(self, Self::Undisturbed | Self::Recovered)
    }
}

/// What became of a round.
struct Judged {
    outcome: Outcome,
    deaths: usize,
    /// What these are deaths of.
    what: &'static str,
    seconds: f64,
    reason: String,
}

/// A round that is over.
struct Played {
    program: &'static str,
    spares: u32,
    /// What was to happen, for a person.
    plan: String,
    judged: Judged,
    /// All that was said in it.
    account: String,
}

/// What plays rounds.
trait Play {
    /// Plays the round of a seed; nothing when it was interrupted.
    fn play(&self, seed: u64) -> Result<Option<Played>>;
}

/// A launch that is over.
struct Launched {
    end: End,
    /// Standard output.
    lines: Vec<String>,
    /// Standard error.
    errors: String,
    count: status::Count,
    took: Duration,
    /// How much of that came after the start of MPI.
    ran: Duration,
}

/// The programs, and what they print when no process dies.
struct Soak<'a> {
    ready: &'a Ready,
    ranks: u32,
    ring: PathBuf,
    minife: PathBuf,
    minife_digest: String,
    /// How long a run of `minife` without deaths takes once MPI has started.
    minife_took: Duration,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    launcher::check_room(options.ranks.saturating_add(MOST_SPARES))?;
    let csv = Csv::open(options.csv.as_deref())?;
    let folder = workspace.scratch("soak")?;
    if let Some(nodes) = options.nodes {
        let losses = Losses::prepare(workspace, options, nodes)?;
        return losses.map_or(Ok(1), |losses| go_on(options, csv, &folder, &losses));
    }
    let ready = Ready::with(workspace, options.mpi)?;
    let ring = ready.build(Program::application("ring"))?;
    let minife = ready.build(Program::application("minife"))?;
    let mut soak = Soak {
        ready: &ready,
        ranks: options.ranks,
        ring,
        minife,
        minife_digest: String::new(),
        minife_took: Duration::ZERO,
    };
    (soak.minife_digest, soak.minife_took) = soak.undisturbed()?;
    go_on(options, csv, &folder, &soak)
}

/// Plays round after round, and sums them up. What was said in one without a right result goes to
/// a file in this folder.
fn go_on(options: &Options, csv: Csv, folder: &Path, rounds: &dyn Play) -> Result<u8> {
    let first = options.seed.unwrap_or_else(|| Rng::new().u64(..1 << 32));
    println!("soak: {} ranks, seed {first}", options.ranks);
    let (begun, mut rows, mut all) = (Instant::now(), Vec::<Row>::new(), Vec::<Judged>::new());
    let is_over = |rounds: usize| {
        let enough = options.rounds.is_some_and(|most| rounds as u64 >= most);
        enough || begun.elapsed() >= options.minutes
    };
    while !is_over(all.len()) {
        let seed = first + if options.same { 0 } else { all.len() as u64 };
        let Some(mut played) = rounds.play(seed)? else { break };
        let (number, judged) = (all.len(), &mut played.judged);
        if !judged.outcome.is_right() {
            let file = folder.join(format!("seed-{seed}-round-{number}.log"));
            let shown = workspace::shown(&file);
            fs::write(&file, &played.account).with_context(|| format!("cannot write {shown}"))?;
            let _ = write!(judged.reason, "; all that was said is in {shown}");
        }
        let Judged { outcome, deaths, what, seconds, reason } = &played.judged;
        println!(
            "round {number} (seed {seed}): {}: {outcome} after {deaths} {what}, {seconds:.1} s{}{}",
            played.plan,
            if reason.is_empty() { "" } else { ": " },
            reason,
        );
        rows.push(row(number, seed, options.ranks, &played));
        all.push(played.judged);
    }
    csv.write(COLUMNS, &rows)?;
    let status = sum_up(&all, begun.elapsed());
    if !is_over(all.len()) {
        println!("soak: interrupted before its time");
        return Ok(status.max(1));
    }
    Ok(status)
}

fn row(number: usize, seed: u64, ranks: u32, played: &Played) -> Row {
    let Judged { outcome, deaths, seconds, reason, .. } = &played.judged;
    let reason = reason.replace([',', '"'], ";");
    let numbers = [number.to_string(), played.program.to_owned(), ranks.to_string()];
    let more = [played.spares.to_string(), seed.to_string(), deaths.to_string()];
    let end = [format!("{seconds:.1}"), outcome.to_string(), reason];
    numbers.into_iter().chain(more).chain(end).collect()
}

fn sum_up(all: &[Judged], took: Duration) -> u8 {
    let deaths: usize = all.iter().map(|judged| judged.deaths).sum();
    let what = all.first().map_or(DEATHS, |judged| judged.what);
    println!(
        "soak: {} rounds, {deaths} {what} in {:.1} minutes",
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

impl Soak<'_> {
    /// The digest that a run of `minife` without deaths prints, and how long that run takes.
    fn undisturbed(&self) -> Result<(String, Duration)> {
        let launched = self.launch(&Round::undisturbed())?;
        match (launched.end, digest(&launched.lines)) {
            (End::Exited(0), Some(digest)) => Ok((digest.to_owned(), launched.ran)),
            _ => bail!("minife fails already when nobody dies: {}", reason(&launched.errors)),
        }
    }
}

impl Play for Soak<'_> {
    fn play(&self, seed: u64) -> Result<Option<Played>> {
        let round = Round::drawn_from(seed, self.ranks);
        let launched = self.launch(&round)?;
        let deaths = launched.count.deaths();
        let (outcome, reason) = match launched.end {
            End::TimedOut => (Outcome::Hang, format!("no end in {} s", LIMIT.as_secs())),
            End::Interrupted(_) => return Ok(None),
            End::Exited(_) | End::Crashed(_) | End::Deserted => self.judge(&round, &launched),
        };
        let outcome = match outcome {
            Outcome::Recovered if deaths == 0 => Outcome::Undisturbed,
            other => other,
        };
        let seconds = launched.took.as_secs_f64();
        Ok(Some(Played {
            program: round.program,
            spares: round.spares,
            plan: round.to_string(),
            judged: Judged { outcome, deaths, what: DEATHS, seconds, reason },
            account: launched.account(&round, self.ranks),
        }))
    }
}

impl Soak<'_> {
    fn judge(&self, round: &Round, launched: &Launched) -> (Outcome, String) {
        let Launched { end, lines, errors, count, .. } = launched;
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
        if count.was_lost_in_the_start((self.ranks + round.spares) as usize) {
            let said = if reason.is_empty() { last_line(errors) } else { reason };
            (Outcome::Unstarted, said)
        } else if let (End::Crashed(signal), 0, "") = (*end, count.finished, &*reason) {
            (Outcome::Refused, status::crash(signal))
        } else if count.cut_short > 0 && count.finished == 0 && reason.is_empty() {
            // It took them with it.
            let (status, left) = (end.status(), count.cut_short);
            let reason = format!("the launcher ended with status {status}, {left} ranks still ran");
            (Outcome::Refused, reason)
        } else if count.finished > 0 && reason.is_empty() {
            // The rank that prints died when all was done.
            (Outcome::Recovered, "nobody was left to print the result".to_owned())
        } else if reason.is_empty() && count.finished == 0 && errors.contains(HELD_UP) {
            // Each that it held up has said so and counted as dead, until none was left.
            let processes = errors.matches(HELD_UP).count();
            (Outcome::HeldUp, format!("{HELD_UP} on {processes} processes"))
        } else if reason.is_empty() {
            (Outcome::Crash, last_line(errors))
        } else {
            (Outcome::Refused, reason)
        }
    }

    fn launch(&self, round: &Round) -> Result<Launched> {
        let begun = Instant::now();
        let program: &Path = if round.program == "ring" { &self.ring } else { &self.minife };
        let ranks = self.ranks + round.spares;
        let reports = Reports::new()?;
        let mut command = self.ready.launcher().of_failing().command(ranks, program);
        command.args(&round.words);
        command.env("FAMPI_SPARES", round.spares.to_string()).env("RUST_BACKTRACE", "0");
        command.env(status::VARIABLE, reports.path());
        let mut errors = tempfile::tempfile().context("cannot make a temporary file")?;
        let has_begun = || reports.count(&[]).running() >= ranks as usize;
        let script = Script {
            ranks: Some(ranks),
            elsewhere: self.ready.is_elsewhere(),
            timeout: Some(LIMIT),
            collect: true,
            kills: &round.kills(self.minife_took),
            has_begun: Some(&has_begun),
            errors: Some(errors.try_clone().context("cannot use a temporary file")?),
            leftovers: &[reports.path()],
            ..Script::default()
        };
        let finished = session::run(&command, script)?;
        let errors = text_of(&mut errors)?;
        Ok(Launched {
            end: finished.end,
            lines: finished.lines,
            errors,
            count: reports.count(&finished.outlived),
            took: begun.elapsed(),
            ran: finished.took,
        })
    }
}

impl Launched {
    /// All that is known of it, for a person.
    fn account(&self, round: &Round, ranks: u32) -> String {
        let Self { end, lines, errors, count, .. } = self;
        format!(
            "{ranks} ranks: {round}\nthe launcher: {end:?}\nthe processes: {count:?}\n\n\
             standard output:\n{}\n\nstandard error:\n{errors}",
            lines.join("\n")
        )
    }
}

/// What was written to a temporary file.
fn text_of(file: &mut fs::File) -> Result<String> {
    let mut text = Vec::new();
    file.rewind().context("cannot read a temporary file")?;
    file.read_to_end(&mut text).context("cannot read a temporary file")?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// How programs begin what they say.
const PROGRAMS: [&str; 3] = ["ring: ", "minife: ", "lulesh: "];

/// The word after this one and `=` in the last line of a program.
fn word<'a>(lines: &'a [String], name: &str) -> Option<&'a str> {
    let last = |line: &&String| PROGRAMS.iter().any(|program| line.starts_with(program));
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
        PROGRAMS.iter().chain(&["Error: "]).any(|name| line.starts_with(name))
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
