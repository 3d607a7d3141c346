//! Measures how long nodes that fall silent go unnoticed: until the first of the others takes them
//! for lost, and until all others do.
//!
//! ```text
//! real   observers in name spaces of this machine, one for each node; a session of its own runs
//!        them, so that nothing of them is left, however the tool ends
//! mpi    ranks of a job with Open MPI's own heartbeat, which is off otherwise (`silence.c`); each
//!        rank stands for a node
//! ```
//!
//! Both have the timing of the paper, η = 2 δ. Who falls silent is stopped: it says nothing any
//! more and closes no connection, as a node that has lost its power. An observer writes the moment
//! at which it took another one for lost beside that on its board.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fampi_detector::protocol::Timing;
use rustix::time::{ClockId, clock_gettime};

use super::detect::quantile;
use super::ring::{Board, Ring};
use super::simulated::{COLUMNS, MPI, REAL};
use crate::csv::{self, Row};
use crate::guard;
use crate::installation::Installation;
use crate::launcher::Launcher;
use crate::nodes::Nodes;
use crate::probe;
use crate::progress::Step;
use crate::session::{self, End, Script};

/// How this tool is called to do the trials with observers; the program of these, the number of
/// trials, whether few points will do and the name spaces follow.
const SILENCE: &str = "__silence";
const SOURCE: &str = include_str!("silence.c");

/// Numbers of name spaces, and of ranks. Figures with a fixed number have the greatest of them, or
/// the one before it; the simulated ones have 256 nodes and 64.
const NODES: [u32; 4] = [4, 8, 16, 32];
const RANKS: [u32; 3] = [4, 8, 16];
/// How long an observer waits for ranks of its node, of which none comes here.
const NOBODY_COMES: Duration = Duration::from_secs(600);
/// What starting takes beside the timeouts, and reaching all, on a machine that many share.
const LEEWAY: Duration = Duration::from_millis(500);
const REACHING: Duration = Duration::from_secs(2);
/// What takes so long beside that hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Some nodes that fall silent at once.
struct Experiment {
    /// The figure and the case of the simulation that it stands beside.
    figure: &'static str,
    case: &'static str,
    nodes: u32,
    period: Duration,
    failures: u32,
}

/// What one trial has shown.
enum Outcome {
    /// Milliseconds until at least one of the others knew of each silent node that it was lost, and
    /// until all of them did.
    Told { seen: f64, all_know: f64 },
    /// So many living nodes were declared dead, and no time says anything.
    False(usize),
}

/// A row for each experiment with observers, in the columns of the simulation; or the status when a
/// signal came.
pub(super) fn rows(observer: &Path, trials: u32, quick: bool) -> Result<Result<Vec<Row>, u8>> {
    let experiments = experiments(&NODES, quick);
    let most = experiments.iter().map(|it| it.nodes).max().unwrap_or_default();
    let nodes = match Nodes::new(most, &[]) {
        Ok(nodes) => nodes,
        Err(reason) => {
            say!("fampi: without nodes that are real: {reason:#}");
            return Ok(Ok(Vec::new()));
        }
    };
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let step = Step::begin(format!("silence nodes of {most} name spaces"));
    let one = |it: &Experiment| it.limit() + LEEWAY + it.period * 4;
    let limit = LIMIT + 2 * trials * experiments.iter().map(one).sum::<Duration>();
    let mut command = Command::new(guard::tool());
    command.arg(SILENCE).arg(observer).args([trials.to_string(), quick.to_string()]);
    command.args(nodes.names()).env("TMPDIR", folder.path());
    let (spaces, leftovers) = (nodes.spaces(), [folder.path()]);
    let script = Script {
        timeout: Some(limit),
        collect: true,
        spaces: &spaces,
        leftovers: &leftovers,
        ..Script::default()
    };
    let finished = session::run(&command, script)?;
    match finished.end {
        End::Exited(0) => step.finish(),
        End::Interrupted(_) => return Ok(Err(finished.end.status())),
        End::TimedOut => bail!("the trials with silent nodes were not over after {limit:?}"),
        _ => bail!("the trials with silent nodes failed: see above"),
    }
    Ok(Ok(csv::rows_of(&finished.lines, COLUMNS)))
}

/// Does the trials with observers if this process was called for them, and prints their rows.
pub(crate) fn run_if_asked() -> Option<Result<()>> {
    (env::args_os().nth(1)? == SILENCE).then(|| {
        let words: Vec<String> = env::args().skip(2).collect();
        let [observer, trials, quick, spaces @ ..] = &words[..] else { bail!("too few words") };
        let trials: u32 = trials.parse().context("a number of trials")?;
        for experiment in experiments(&NODES, quick.parse().context("true or false")?) {
            let outcomes = (0..trials).map(|_| experiment.run(Path::new(observer), spaces));
            println!("{}", experiment.row(REAL, &outcomes.collect::<Result<Vec<_>>>()?).join(","));
        }
        Ok(())
    })
}

/// A row for each experiment with ranks, which watch each other by Open MPI's own heartbeat; or the
/// status when a signal came.
pub(super) fn rows_of_mpi(
    mpi: &Installation,
    trials: u32,
    quick: bool,
) -> Result<Result<Vec<Row>, u8>> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let program = probe::compile(mpi, "silence", SOURCE, folder.path())?;
    let mut laboratory = Laboratory { mpi, program, folder: folder.path(), launches: 0 };
    let step = Step::begin("silence ranks that MPI watches".to_owned());
    let mut rows = Vec::new();
    let experiments = experiments(&RANKS, quick);
    for (at, experiment) in experiments.iter().enumerate() {
        let mut outcomes = Vec::new();
        for _ in 0..trials {
            step.say(&format!("experiment {} of {}", at + 1, experiments.len()));
            match laboratory.launch(experiment)? {
                Ok(outcome) => outcomes.push(outcome),
                Err(interrupted) => return Ok(Err(interrupted)),
            }
        }
        rows.push(experiment.row(MPI, &outcomes));
    }
    step.finish();
    Ok(Ok(rows))
}

/// The experiments of figures 9, 10 and 15, which are those of 13 and 14, too, with these numbers
/// of nodes; or two of them.
fn experiments(nodes: &[u32], quick: bool) -> Vec<Experiment> {
    let one = |figure, nodes, period| Experiment {
        figure,
        case: "node",
        nodes,
        period: Duration::from_millis(period),
        failures: 1,
    };
    let several = |nodes, case, failures| Experiment { case, failures, ..one("15", nodes, 100) };
    let [least, .., few, most] = *nodes else { return Vec::new() };
    if quick {
        return vec![one("10", least, 100), several(least, "in a row", 2)];
    }
    let by_nodes = nodes.iter().map(|nodes| one("9", *nodes, 500));
    let by_period = [20, 30, 50, 100, 200, 500].map(|period| one("10", few, period));
    let in_cases = [1, 2, 4, 8]
        .into_iter()
        .flat_map(|failures| ["in a row", "anywhere"].map(|case| several(most, case, failures)));
    by_nodes.chain(by_period).chain(in_cases).collect()
}

/// What launches of ranks have in common.
struct Laboratory<'a> {
    mpi: &'a Installation,
    program: PathBuf,
    /// For what ranks write, under the number of the launch.
    folder: &'a Path,
    launches: u32,
}

impl Laboratory<'_> {
    /// One launch; or the status when a signal came.
    fn launch(&mut self, experiment: &Experiment) -> Result<Result<Outcome, u8>> {
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        let parameters = [
            ("mpi_ft_detector", "1".to_owned()),
            ("mpi_ft_detector_period", seconds(experiment.period)),
            ("mpi_ft_detector_timeout", seconds(2 * experiment.period)),
        ];
        let extra: Vec<String> = parameters
            .into_iter()
            .flat_map(|(name, value)| ["--mca".to_owned(), name.to_owned(), value])
            .collect();
        let launcher = Launcher::with(self.mpi, &extra).of_failing();
        let mut command = launcher.command(experiment.nodes, &self.program);
        let silent = experiment.victims();
        self.launches += 1;
        command.arg(self.folder.join(self.launches.to_string()));
        for time in [experiment.calm(), experiment.limit()] {
            command.arg(time.as_millis().to_string());
        }
        command.args(silent.iter().map(ToString::to_string));
        let limit = LIMIT + experiment.limit();
        let finished = session::run(&command, Script::of_measurement(limit, &[self.folder])?)?;
        if let End::Interrupted(_) = finished.end {
            return Ok(Err(finished.end.status()));
        }
        let living = experiment.nodes as usize - silent.len();
        let outcome = outcome_of_mpi(&finished.lines, &silent, living);
        outcome.map(Ok).context("a launch with MPI's own heartbeat failed")
    }
}

impl Experiment {
    /// From the start on until a moment that no heartbeat knows, when all have heard each other.
    fn calm(&self) -> Duration {
        LEEWAY + self.period.mul_f64(3.0 + fastrand::f64())
    }

    /// Until all know: MPI takes two timeouts for each in a row but the first.
    fn limit(&self) -> Duration {
        4 * self.period * (self.failures + 1) + REACHING
    }

    /// One trial with observers.
    fn run(&self, observer: &Path, spaces: &[String]) -> Result<Outcome> {
        let timing = Timing { start: NOBODY_COMES, ..Timing::with_period(self.period) };
        let spaces = spaces.get(..self.nodes as usize).context("too few name spaces")?;
        let ring = Ring::across(observer, timing, spaces)?;
        let boards = (0..self.nodes).map(|node| ring.board(node)).collect::<Result<Vec<_>>>()?;
        thread::sleep(self.calm());
        let silent = self.victims();
        let since = now();
        for node in &silent {
            ring.silence(*node)?;
        }
        let living: Vec<&Board> = (0..self.nodes)
            .filter(|node| !silent.contains(node))
            .map(|node| &boards[node as usize])
            .collect();
        let begun = Instant::now();
        loop {
            let told = living.iter().map(|board| board.lost()).collect::<Result<Vec<_>>>()?;
            let all = told.iter().all(|lost| silent.iter().all(|it| knows(lost, *it).is_some()));
            if all || begun.elapsed() > self.limit() {
                return Ok(outcome(&told, &silent, since));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Who falls silent.
    fn victims(&self) -> BTreeSet<u32> {
        if self.case == "anywhere" {
            let mut nodes: Vec<u32> = (0..self.nodes).collect();
            fastrand::shuffle(&mut nodes);
            return nodes.into_iter().take(self.failures as usize).collect();
        }
        let first = fastrand::u32(0..self.nodes);
        (0..self.failures).map(|at| (first + at) % self.nodes).collect()
    }

    fn row(&self, detector: &str, outcomes: &[Outcome]) -> Row {
        let (mut seen, mut all_know, mut wrong) = (Vec::new(), Vec::new(), 0);
        for outcome in outcomes {
            match outcome {
                Outcome::Told { seen: first, all_know: last } => {
                    seen.push(*first);
                    all_know.push(*last);
                }
                Outcome::False(number) => wrong += number,
            }
        }
        for times in [&mut seen, &mut all_know] {
            times.sort_by(f64::total_cmp);
            // A node of which some never knew says it all.
            if times.last().is_some_and(|last| last.is_infinite()) {
                times.clear();
            }
        }
        let time = |of: &[f64], part| match quantile(of, part) {
            time if time.is_finite() => format!("{time:.3}"),
            _ => "inf".to_owned(),
        };
        let words = [self.figure, detector, self.case].map(str::to_owned);
        let numbers = [u128::from(self.nodes), self.period.as_millis(), u128::from(self.failures)];
        let times = [time(&seen, 0.0), time(&seen, 0.5), time(&seen, 1.0), time(&all_know, 0.5)];
        // Messages were not counted.
        let rest = [String::new(), String::new(), wrong.to_string()];
        let numbers = numbers.iter().map(ToString::to_string);
        words.into_iter().chain(numbers).chain(times).chain(rest).collect()
    }
}

/// When a board began to show this node as lost.
fn knows(lost: &[(u32, Duration)], node: u32) -> Option<Duration> {
    lost.iter().find(|(it, _)| *it == node).map(|(_, moment)| *moment)
}

/// What the boards of the living say of those who fell silent at this moment.
fn outcome(told: &[Vec<(u32, Duration)>], silent: &BTreeSet<u32>, since: Duration) -> Outcome {
    // Who was lost before it fell silent lived, too.
    let lived = told.iter().flatten().filter(|(node, at)| !silent.contains(node) || *at < since);
    let wrong: BTreeSet<u32> = lived.map(|(node, _)| *node).collect();
    if !wrong.is_empty() {
        return Outcome::False(wrong.len());
    }
    let passed = |moment: Option<Duration>| {
        moment.map_or(f64::INFINITY, |it| it.saturating_sub(since).as_secs_f64() * 1e3)
    };
    let times = silent
        .iter()
        .map(|node| told.iter().map(|lost| passed(knows(lost, *node))).collect::<Vec<f64>>());
    told_by(times)
}

/// Of each who fell silent the milliseconds until each of the others knew.
fn told_by(times: impl Iterator<Item = Vec<f64>>) -> Outcome {
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    let (seen, all_know) = times.fold((0.0_f64, 0.0_f64), |(seen, all_know), times| {
        (seen.max(least(&times)), all_know.max(most(&times)))
    });
    Outcome::Told { seen, all_know }
}

/// What `silence.c` says of a launch with so many living ranks; none if it says nothing. A rank
/// that says nothing was declared dead.
fn outcome_of_mpi(lines: &[String], silent: &BTreeSet<u32>, living: usize) -> Option<Outcome> {
    let rows = lines.iter().filter_map(|line| {
        let mut words = line.trim().split(',');
        let of: i64 = words.next()?.parse().ok()?;
        Some((of, words.next()?.parse::<u32>().ok()?, words.next()?.parse::<f64>().ok()?))
    });
    let rows: Vec<(i64, u32, f64)> = rows.collect();
    let times = |node: &u32| -> Vec<f64> {
        let of = rows.iter().filter(|(of, about, _)| *of >= 0 && about == node);
        of.map(|(.., time)| *time).collect()
    };
    let all: Vec<Vec<f64>> = silent.iter().map(times).collect();
    let most = all.iter().map(Vec::len).max().filter(|most| *most > 0)?;
    let named = rows.iter().find(|(of, ..)| *of < 0).map_or(0, |(.., number)| *number as usize);
    // One that was lost before it fell silent lived, too.
    let early = all.iter().flatten().filter(|time| **time < 0.0).count();
    let wrong = named.max(living - most.min(living)).max(early);
    Some(if wrong > 0 { Outcome::False(wrong) } else { told_by(all.into_iter()) })
}

/// The clock of the boards.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_know_when_the_last_board_shows_the_last_of_them() {
        let at = |milliseconds| Duration::from_millis(milliseconds);
        let told = [vec![(3, at(120)), (4, at(160))], vec![(4, at(150)), (3, at(130))]];
        let Outcome::Told { seen, all_know } = outcome(&told, &[3, 4].into(), at(100)) else {
            panic!("nobody else was named");
        };
        assert_eq!((seen, all_know), (50.0, 60.0));
        let Outcome::Told { all_know, .. } = outcome(&told, &[3, 4, 5].into(), at(100)) else {
            panic!("nobody else was named");
        };
        assert!(all_know.is_infinite(), "of one of them nobody knows");
        let wrong = outcome(&told, &[3].into(), at(100));
        assert!(matches!(wrong, Outcome::False(1)));
        let early = outcome(&told, &[3, 4].into(), at(125));
        assert!(matches!(early, Outcome::False(1)), "one was lost before it fell silent");
    }

    #[test]
    fn living_ranks_that_mpi_calls_dead_are_told_and_who_says_nothing_is_one() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let said = lines("0,3,40.5\nnoise\n1,3,41.5\n2,3,43.0");
        let of = |said: &[String], living| outcome_of_mpi(said, &[3].into(), living);
        let Some(Outcome::Told { seen, all_know }) = of(&said, 3) else {
            panic!("nobody else was named");
        };
        assert_eq!((seen, all_know), (40.5, 43.0));
        assert!(matches!(of(&said, 4), Some(Outcome::False(1))), "one says nothing");
        assert!(matches!(of(&lines("0,3,1.0\n-1,0,2"), 1), Some(Outcome::False(2))));
        assert!(
            matches!(of(&lines("0,3,-1.0"), 1), Some(Outcome::False(1))),
            "before it fell silent"
        );
        assert!(of(&lines("noise"), 3).is_none(), "nothing was launched");
        let Some(Outcome::Told { all_know, .. }) = of(&lines("0,3,40.0\n1,3,inf"), 2) else {
            panic!("nobody else was named");
        };
        assert!(all_know.is_infinite(), "one never heard of it");
    }
}
