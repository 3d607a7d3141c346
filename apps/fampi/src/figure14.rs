//! `fampi figure14`: the sort in the situations of figure 14 of Camargo and Duarte 2018, as rows,
//! as a table and as the figure.
//!
//! In each situation none, one, half, or all but one of the ranks become unfit for work, in rounds
//! that are drawn from the number of the run. Where only deaths are seen they are killed; where
//! tests see who is slow they are stopped for a while, and come back to work, or do not. All of one
//! run are unfit in the same round in each way, and what is slow is slow for one round, so the cost
//! of that round is the same in all bars.
//!
//! One run of each way after the other, so that what changes on the machine meanwhile touches all.
//! A run counts if its digest is that of all others of as many keys.

mod drawing;
mod shape;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use fastrand::Rng;

use crate::cargo::{self, Program};
use crate::csv::{self, Csv, Row};
use crate::installation::Installation;
use crate::launcher::{self, Launcher};
use crate::median::around_median;
use crate::progress::Step;
use crate::refusal::whole;
use crate::session::{self, End, Script};
use crate::setup;
use crate::status::{self, Kills, Reports};
use crate::workspace::{Workspace, shown};

/// The paper's larger number of keys, for machines with as much memory.
const FULL: u64 = 1_000_000_000;
/// With at least so many keys a sort lasts long enough for tests to know what is usual before a
/// rank is stopped, and a round for a benched rank to come back.
const LONG: u64 = 100_000_000;

#[derive(Args)]
pub(crate) struct Options {
    /// Runs of each way in each situation
    #[arg(long, value_name = "R", default_value = "10", allow_negative_numbers = true,
          value_parser = whole(1_u32..=1000, "a number of runs, from 1 to 1000"))]
    runs: u32,
    /// Ranks; the paper has 16
    #[arg(short = 'n', long, value_name = "N", default_value = "16", allow_negative_numbers = true,
          value_parser = whole(4_u32..=4096, "a number of ranks, 4 or more"))]
    ranks: u32,
    /// Numbers of keys
    #[arg(long, value_name = "K,…", value_delimiter = ',', default_value = "1024000,100000000",
          value_parser = whole(1_u64..=FULL, "numbers of keys from 1 to 1000000000"),
          allow_negative_numbers = true)]
    keys: Vec<u64>,
    /// 10⁹ keys, too, which take 12 GB
    #[arg(long)]
    full: bool,
    /// Milliseconds between tests
    #[arg(long, value_name = "MS", default_value = "10", allow_negative_numbers = true,
          value_parser = whole(10_u32..=60_000, "milliseconds from 10 to 60000"))]
    interval: u32,
    /// Milliseconds for which the slow are stopped
    #[arg(long, value_name = "MS", default_value = "150", allow_negative_numbers = true,
          value_parser = whole(1_u32..=60_000, "milliseconds from 1 to 60000"))]
    stopped: u32,
    /// The folder for `figure14.csv`, `figure14.svg`, `figure14.png` and what failed runs said
    /// [default: `figure14` below the folder of builds]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// End a run after so many seconds: it has failed
    #[arg(long, value_name = "SECONDS", default_value = "300", allow_negative_numbers = true,
          value_parser = whole(1_u64..=1_000_000, "seconds, 1 or more"))]
    timeout: u64,
}

/// How a sort goes on without who is unfit for work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// Only deaths are seen, as with ULFM.
    Deaths,
    /// Tests see who is slow, who does not come back.
    Benched,
    /// Who is slow comes back.
    Back,
}

const WAYS: [(Way, &str); 3] =
    [(Way::Deaths, "deaths alone"), (Way::Benched, "tests"), (Way::Back, "tests and back")];

/// How many of so many ranks become unfit.
type Unfit = fn(u32) -> u32;

const SITUATIONS: [(&str, Unfit); 4] = [
    ("nobody", |_| 0),
    ("one", |_| 1),
    ("half", |ranks| ranks / 2),
    ("all but one", |ranks| ranks - 1),
];

/// The runs of one way in one situation.
struct Cell {
    keys: u64,
    situation: &'static str,
    unfit: u32,
    way: (Way, &'static str),
    runs: Vec<Result<Sorted, String>>,
}

/// The end of one run.
enum Ended {
    Interrupted(u8),
    /// It counts, or it has failed for this reason.
    Judged(Result<Sorted, String>),
}

/// What one run came to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sorted {
    milliseconds: f64,
    benched: u32,
    back: u32,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    launcher::check_room(options.ranks)?;
    let folder = options.folder.clone().unwrap_or_else(|| workspace.target().join("figure14"));
    let made = fs::create_dir_all(&folder);
    made.with_context(|| format!("choose another --folder than {}", folder.display()))?;
    let csv_path = folder.join("figure14.csv");
    let csv = Csv::open(Some(&csv_path))?;
    let mpi = setup::ensure(workspace)?;
    let program = cargo::build(workspace, Program::application("hyperquicksort"))?;
    let observer = cargo::build(workspace, Program::observer())?;
    let study = Study { options, mpi: &mpi, program, observer };
    let mut cells = Vec::new();
    let full = options.full.then_some(FULL);
    for keys in options.keys.iter().copied().chain(full) {
        match study.sort(keys, &folder)? {
            Ok(new) => cells.extend(new),
            Err(status) => return Ok(status),
        }
    }
    csv.write(COLUMNS, &rows(options.ranks, &cells))?;
    report(options, &cells, &folder, &csv_path)
}

struct Study<'a> {
    options: &'a Options,
    mpi: &'a Installation,
    program: PathBuf,
    observer: PathBuf,
}

impl Study<'_> {
    /// All runs with so many keys, or the status of an interruption.
    fn sort(&self, keys: u64, folder: &Path) -> Result<Result<Vec<Cell>, u8>> {
        let (ranks, runs) = (self.options.ranks, self.options.runs);
        let cell = |(situation, unfit): (&'static str, Unfit)| {
            let unfit = unfit(ranks);
            WAYS.map(move |way| Cell { keys, situation, unfit, way, runs: Vec::new() })
        };
        let mut cells: Vec<Cell> = SITUATIONS.into_iter().flat_map(cell).collect();
        let mut digest = None;
        for run in 1..=runs {
            let step = Step::begin(format!("run {run} of {runs} with {keys} keys"));
            for cell in &mut cells {
                let name = format!("{}, {}", cell.situation, cell.way.1);
                step.say(&name);
                let log = folder.join(format!("{keys}-{name}-{run}.log").replace([' ', ','], "-"));
                let sorted = match self.run(cell, run, &mut digest, &log)? {
                    Ended::Interrupted(status) => return Ok(Err(status)),
                    Ended::Judged(sorted) => sorted,
                };
                if let Err(reason) = &sorted {
                    say!("fampi: {keys} keys, {name}, run {run} failed: {reason}");
                    say!("fampi: what it said is in {}", shown(&log));
                } else {
                    let _ = fs::remove_file(&log);
                }
                cell.runs.push(sorted);
            }
            step.finish();
        }
        Ok(Ok(cells))
    }

    /// One run; what it says about its work goes to `log`.
    fn run(&self, cell: &Cell, run: u32, digest: &mut Option<String>, log: &Path) -> Result<Ended> {
        let Self { options, mpi, program, observer } = self;
        let (ranks, way) = (options.ranks, cell.way.0);
        let reports = Reports::new()?;
        let errors = File::create(log).with_context(|| format!("cannot write {}", shown(log)))?;
        let mut command = Launcher::with(mpi, &[]).command(ranks, program);
        command.arg(format!("n={}", cell.keys)).args(cell.words(options, run));
        command.env(status::VARIABLE, reports.path()).env("FAMPI_SPARES", "0");
        command.env_remove("FAMPI_KILL");
        if way != Way::Deaths {
            command.env("FAMPI_OBSERVER", observer);
            command.env("FAMPI_DIAGNOSIS", format!("{}ms:2.5:5", options.interval));
        }
        let script = Script {
            ranks: Some(ranks),
            timeout: Some(Duration::from_secs(options.timeout)),
            collect: true,
            errors: Some(errors),
            leftovers: &[reports.path()],
            ..Script::default()
        };
        let finished = session::run(&command, script)?;
        let count = reports.count(&finished.outlived);
        let planned = if way == Way::Deaths { cell.unfit as usize } else { 0 };
        let kills = Kills { planned, done: finished.killed };
        let status = status::verdict(finished.end, count, kills).status;
        Ok(match finished.end {
            End::Interrupted(_) => Ended::Interrupted(status),
            End::TimedOut => {
                Ended::Judged(Err(format!("it did not end within {} s", options.timeout)))
            }
            _ if status != 0 => Ended::Judged(Err(format!("it ended with status {status}"))),
            _ => Ended::Judged(judge(&finished.lines, digest)),
        })
    }
}

impl Cell {
    /// The words that make ranks unfit.
    fn words(&self, options: &Options, run: u32) -> Vec<String> {
        let mut words = match self.way.0 {
            Way::Deaths => vec!["membership=failures".to_owned()],
            Way::Benched => vec!["membership=tests".to_owned(), "rejoin=off".to_owned()],
            Way::Back => vec!["membership=tests".to_owned()],
        };
        let rounds = options.ranks.next_power_of_two().ilog2();
        let mut draw = Rng::with_seed(run.into());
        let first = draw.u32(..options.ranks);
        for at in 0..self.unfit {
            let (rank, round) = ((first + at) % options.ranks, draw.u32(1..=rounds));
            words.push(match self.way.0 {
                Way::Deaths => format!("kill={rank}@merge:{round}"),
                Way::Benched | Way::Back => {
                    format!("slow={rank}@round:{round}:{}", options.stopped)
                }
            });
        }
        words
    }

    fn times(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.runs.iter().flatten().map(|run| run.milliseconds).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// The median time, and an interval that has the true one with a probability of 95 %, or all
    /// that was seen if that is too little; nothing if all runs failed.
    fn median(&self) -> Option<[f64; 3]> {
        let times = self.times();
        let (low, high) = around_median(times.len());
        Some([*times.get(times.len() / 2)?, times[low], times[high]])
    }

    fn sum(&self, of: impl Fn(&Sorted) -> u32) -> u32 {
        self.runs.iter().flatten().map(of).sum()
    }
}

/// What a run has printed, if its digest is the usual one.
fn judge(lines: &[String], digest: &mut Option<String>) -> Result<Sorted, String> {
    let last = lines.iter().rfind(|line| line.starts_with("hyperquicksort: "));
    let own = last.and_then(|line| line.rsplit_once("digest=")).map(|(_, digest)| digest);
    let own = own.ok_or("it printed no result")?;
    let expected = digest.get_or_insert_with(|| own.to_owned());
    if own != expected {
        return Err(format!("its digest is {own} and not {expected}"));
    }
    let after = |word: &str| {
        let told = lines.iter().find_map(|line| line.split_once(word));
        let end =
            |text: &str| text.split([' ', ',']).next().unwrap_or_default().parse::<f64>().ok();
        told.and_then(|(_, rest)| end(rest))
    };
    let seconds = after("sorted in ").ok_or("it printed no time")?;
    let [benched, back] = ["benched: ", "back: "].map(|it| after(it).unwrap_or_default() as u32);
    Ok(Sorted { milliseconds: seconds * 1e3, benched, back })
}

const COLUMNS: &str = "ranks,keys,situation,way,run,outcome,sort_ms,benched,back";

/// A row for each run; those that failed have no times.
fn rows(ranks: u32, cells: &[Cell]) -> Vec<Row> {
    let row = |(cell, at): (&Cell, usize)| {
        let told = match &cell.runs[at] {
            Ok(Sorted { milliseconds, benched, back }) => [
                "right".into(),
                format!("{milliseconds:.1}"),
                benched.to_string(),
                back.to_string(),
            ],
            Err(_) => ["failed".into(), String::new(), String::new(), String::new()],
        };
        let run = (at + 1).to_string();
        let names = [ranks.to_string(), cell.keys.to_string(), cell.situation.into()];
        names.into_iter().chain([cell.way.1.into(), run]).chain(told).collect()
    };
    let runs = cells.iter().flat_map(|cell| (0..cell.runs.len()).map(move |at| (cell, at)));
    runs.map(row).collect()
}

/// A row for each way in each situation.
fn table(cells: &[Cell]) -> String {
    let header = [
        "keys",
        "situation",
        "way",
        "runs",
        "failed",
        "median/ms",
        "from",
        "to",
        "to deaths",
        "benched",
        "back",
    ];
    let row = |cell: &Cell| {
        let deaths = cells.iter().find(|it| is_beside(cell, it, Way::Deaths));
        let number = |number: Option<f64>| number.map_or("-".to_owned(), |it| format!("{it:.1}"));
        let ratio = ratio(Some(cell), deaths).map_or("-".to_owned(), |it| format!("{it:.3}"));
        let failed = cell.runs.iter().filter(|run| run.is_err()).count();
        let [median, low, high] = [0, 1, 2].map(|at| number(cell.median().map(|it| it[at])));
        vec![
            cell.keys.to_string(),
            cell.situation.to_owned(),
            cell.way.1.to_owned(),
            (cell.runs.len() - failed).to_string(),
            failed.to_string(),
            median,
            low,
            high,
            ratio,
            cell.sum(|run| run.benched).to_string(),
            cell.sum(|run| run.back).to_string(),
        ]
    };
    csv::table(&header, &cells.iter().map(row).collect::<Vec<Row>>())
}

fn is_beside(cell: &Cell, other: &Cell, way: Way) -> bool {
    (other.keys, other.situation, other.way.0) == (cell.keys, cell.situation, way)
}

fn ratio(one: Option<&Cell>, other: Option<&Cell>) -> Option<f64> {
    Some(one?.median()?[0] / other?.median()?[0])
}

/// Prints and draws what there is, and says what is missing.
fn report(options: &Options, cells: &[Cell], folder: &Path, csv: &Path) -> Result<u8> {
    println!("{}", table(cells));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    for (claim, verdict) in shape::of(cells, processors < options.ranks as usize) {
        println!("{claim}: {verdict}");
    }
    let caption = format!(
        "HyperQuickSort on {} ranks, medians of {} runs with intervals of 95 %; tests every {} ms, \
         the slow are stopped for {} ms",
        options.ranks, options.runs, options.interval, options.stopped
    );
    say!("fampi: {}", shown(csv));
    for file in drawing::write(cells, &caption, folder)? {
        say!("fampi: {}", shown(&file));
    }
    let failed = cells.iter().any(|cell| cell.runs.iter().any(Result::is_err));
    Ok(u8::from(failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn cell(situation: &'static str, way: Way, times: &[f64]) -> Cell {
        let name = WAYS.iter().find(|(known, _)| *known == way).expect("one of three");
        let run = |time: &f64| Ok(Sorted { milliseconds: *time, benched: 1, back: 0 });
        Cell { keys: LONG, situation, unfit: 1, way: *name, runs: times.iter().map(run).collect() }
    }

    #[test]
    fn what_a_run_prints_is_read_and_its_digest_compared() {
        let lines = |digest: &str| {
            vec![
                "sorted in 0.0250 s, 2.5 ns for each key; here local 0.1 s".to_owned(),
                "benched: 7, back: 3, epoch: 9".to_owned(),
                format!("hyperquicksort: ranks=16 digest={digest}"),
            ]
        };
        let mut digest = None;
        let sorted = Sorted { milliseconds: 25.0, benched: 7, back: 3 };
        assert_eq!(judge(&lines("ab"), &mut digest), Ok(sorted));
        assert!(judge(&lines("ac"), &mut digest).is_err());
        assert!(judge(&[], &mut digest).is_err());
    }

    #[test]
    fn the_same_ranks_are_unfit_in_the_same_rounds_in_each_way() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let options = <Line as clap::Parser>::parse_from(["figure14"]).options;
        // The rank and the round of each.
        let words = |way| {
            let words = Cell { unfit: 15, ..cell("all but one", way, &[]) }.words(&options, 3);
            let unfit = |word: String| {
                let words: Vec<&str> = word.split(['=', '@', ':']).collect();
                (words.len() > 3).then(|| (words[1].to_owned(), words[3].to_owned()))
            };
            words.into_iter().filter_map(unfit).collect::<Vec<_>>()
        };
        let mut deaths = words(Way::Deaths);
        assert_eq!((deaths.len(), &words(Way::Back)), (15, &deaths));
        deaths.sort();
        deaths.dedup_by_key(|(rank, _)| rank.clone());
        assert_eq!(deaths.len(), 15);
    }
}
