//! `fampi figure2`: both applications in all the situations of the paper's figure 2 and some more,
//! as rows, as a table and as the figure.
//!
//! One round runs each situation of each application once, so that what changes on the machine
//! meanwhile touches all of them. A run counts if its result is right and its plan of deaths was
//! carried out; others are told, and are rows without times.

mod drawing;
mod options;
mod parts;
mod situation;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cargo::{self, Program};
use crate::csv::{self, Csv, Row};
use crate::installation::Installation;
use crate::launcher::{self, Launcher};
use crate::progress::Step;
use crate::session::{self, End, Finished, Script};
use crate::setup;
use crate::status::{self, Kills, Reports};
use crate::trace::{self, Folder, Recording};
use crate::workspace::{Workspace, shown};

use self::drawing::{Figure, Panel};
pub(crate) use self::options::Options;
use self::parts::{PARTS, Parts};
use self::situation::{Application, SITUATIONS, Situation};

/// One application, and what its runs came to.
struct Study {
    application: Application,
    program: PathBuf,
    /// The last line of the first run whose sums had the usual order.
    digits: Option<String>,
    cells: Vec<Cell>,
}

/// The runs of one situation: their parts, or why they failed.
struct Cell {
    situation: &'static Situation,
    runs: Vec<Result<Parts, String>>,
}

/// The end of one run.
enum Ended {
    Interrupted(u8),
    /// It counts, or it has failed for this reason.
    Judged(Result<Parts, String>),
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let applications = options.applications();
    if options.launcher_flags.is_empty() {
        // Otherwise there may be more machines.
        let most = applications.iter().map(|application| application.ranks).max();
        launcher::check_room(most.unwrap_or_default())?;
    }
    let folder = options.folder.clone().unwrap_or_else(|| workspace.target().join("figure2"));
    let made = fs::create_dir_all(&folder);
    made.with_context(|| format!("choose another --folder than {}", folder.display()))?;
    let csv_path = folder.join("figure2.csv");
    let csv = Csv::open(Some(&csv_path))?;
    let mpi = setup::ensure(workspace)?;
    let mut studies = Vec::new();
    for application in applications {
        let program = cargo::build(workspace, Program::application(application.name))?;
        let cell = |situation| Cell { situation, runs: Vec::new() };
        let cells = SITUATIONS.iter().map(cell).collect();
        studies.push(Study { application, program, digits: None, cells });
    }
    for round in 1..=options.runs {
        for study in &mut studies {
            let title = study.application.title;
            let step = Step::begin(format!("round {round} of {}: {title}", options.runs));
            for at in 0..study.cells.len() {
                step.say(study.cells[at].situation.name);
                let log = folder.join(study.log_name(at, round));
                match study.run(at, options, &mpi, &log)? {
                    Ended::Interrupted(status) => return Ok(status),
                    Ended::Judged(run) => study.cells[at].note(run, title, round, &log),
                }
            }
            step.finish();
        }
    }
    csv.write(&columns(), &rows(&studies))?;
    report(options, &studies, &folder, &csv_path)
}

impl Study {
    fn log_name(&self, at: usize, round: u32) -> String {
        let situation = self.cells[at].situation.name.to_lowercase().replace(' ', "-");
        format!("{}-{situation}-{round}.log", self.application.name)
    }

    /// One run of a situation; what it says about its work goes to `log`. A launcher that could not
    /// start at all, which happens on a machine with much to do, gets another chance.
    fn run(
        &mut self,
        at: usize,
        options: &Options,
        mpi: &Installation,
        log: &Path,
    ) -> Result<Ended> {
        let situation = self.cells[at].situation;
        let mut chances = 2;
        loop {
            let trace = Folder::new()?;
            let (finished, status) = self.launch(situation, options, mpi, &trace, log)?;
            chances -= 1;
            let failed = match finished.end {
                End::Interrupted(_) => return Ok(Ended::Interrupted(status)),
                End::TimedOut => {
                    format!("it did not end within {} s", options.timeout.as_secs())
                }
                End::Exited(_) | End::Crashed(_) | End::Deserted if status == 0 => {
                    let right = self.check(situation, options, &finished.lines);
                    let recording = Recording::of_folder(trace.path())?.unwrap_or_default();
                    let parts = right.and_then(|()| Parts::of(&recording, situation.deaths()));
                    return Ok(Ended::Judged(parts));
                }
                End::Exited(_) | End::Crashed(_) | End::Deserted => {
                    format!("it ended with status {status}")
                }
            };
            let started = fs::read_dir(trace.path())?.next().is_some();
            if started || chances == 0 {
                return Ok(Ended::Judged(Err(failed)));
            }
        }
    }

    /// Launches a run; how it ended, and the status that it has.
    fn launch(
        &self,
        situation: &Situation,
        options: &Options,
        mpi: &Installation,
        trace: &Folder,
        log: &Path,
    ) -> Result<(Finished, u8)> {
        let reports = Reports::new()?;
        let errors = File::create(log).with_context(|| format!("cannot write {}", shown(log)))?;
        let application = &self.application;
        let launcher = Launcher::with(mpi, &options.launcher_flags);
        let mut command = launcher.command(application.ranks, &self.program);
        command.args(application.words.split(' '));
        command.args(situation.words(application.phase, options.iterations));
        command.arg(format!("protect-every={}", options.protect_every));
        command.env(status::VARIABLE, reports.path()).env(trace::VARIABLE, trace.path());
        command.env("FAMPI_SPARES", "0").env_remove("FAMPI_KILL");
        let script = Script {
            ranks: Some(application.ranks),
            elsewhere: !options.launcher_flags.is_empty(),
            timeout: Some(options.timeout),
            collect: true,
            errors: Some(errors),
            leftovers: &[reports.path(), trace.path()],
            ..Script::default()
        };
        let finished = session::run(&command, script)?;
        let count = reports.count(&finished.outlived);
        let kills = Kills { planned: situation.deaths(), done: finished.killed };
        let status = status::verdict(finished.end, count, kills).status;
        Ok((finished, status))
    }

    /// Whether the result is right: that of the other runs.
    fn check(
        &mut self,
        situation: &Situation,
        options: &Options,
        lines: &[String],
    ) -> Result<(), String> {
        let Application { name, .. } = self.application;
        let line = lines.iter().rfind(|line| line.starts_with(&format!("{name}: ")));
        let line = line.ok_or_else(|| "it printed no result".to_owned())?;
        let done = value(line, "iterations").or_else(|| value(line, "cycles"));
        if done != Some(f64::from(options.iterations)) {
            let done = done.unwrap_or_default();
            return Err(format!("it was over after {done} of {} iterations", options.iterations));
        }
        let expected = match &self.digits {
            Some(digits) => digits,
            // After a merge the ranks are in another order, and so are the terms of sums, which
            // shows in all digits that have not converged.
            None if situation.merges() => return Ok(()),
            None => self.digits.insert(line.clone()),
        };
        let same = if situation.merges() {
            ["centre", "energy"].iter().all(|name| {
                match (value(line, name), value(expected, name)) {
                    (Some(one), Some(other)) => (one / other - 1.0).abs() < 1e-6,
                    (one, other) => one == other,
                }
            })
        } else {
            line == expected
        };
        if same { Ok(()) } else { Err(format!("its result is `{line}` and not `{expected}`")) }
    }
}

/// A number of the last line that a run prints.
fn value(line: &str, name: &str) -> Option<f64> {
    let values = line.split(' ').filter_map(|word| word.split_once('='));
    values.filter(|(known, _)| *known == name).find_map(|(_, value)| value.parse().ok())
}

impl Cell {
    fn note(&mut self, run: Result<Parts, String>, title: &str, round: u32, log: &Path) {
        match &run {
            Ok(_) => {
                let _ = fs::remove_file(log);
            }
            Err(reason) => {
                let name = self.situation.name;
                say!("fampi: {title}, {name}, run {round} failed: {reason}");
                say!("fampi: what it said is in {}", shown(log));
            }
        }
        self.runs.push(run);
    }

    /// The runs that count, the fastest first.
    fn good(&self) -> Vec<&Parts> {
        let mut good: Vec<&Parts> = self.runs.iter().flatten().collect();
        good.sort_by(|one, other| one.total().total_cmp(&other.total()));
        good
    }

    /// The run in the middle.
    fn median(&self) -> Option<&Parts> {
        let good = self.good();
        // Of two in the middle the faster one: a sum of parts is to be one that has been seen.
        good.len().checked_sub(1).map(|last| good[last / 2])
    }
}

fn columns() -> String {
    let parts = PARTS.map(|(name, _)| format!("{}_ms", name.replace(' ', "_"))).join(",");
    format!("application,situation,ranks,run,outcome,total_ms,{parts},lost_iterations")
}

/// A row for each run; those that failed have no times.
fn rows(studies: &[Study]) -> Vec<Row> {
    let mut rows = Vec::new();
    for Study { application, cells, .. } in studies {
        for Cell { situation, runs } in cells {
            for (at, run) in runs.iter().enumerate() {
                let mut row = vec![
                    application.name.to_owned(),
                    situation.name.to_owned(),
                    application.ranks.to_string(),
                    (at + 1).to_string(),
                ];
                if let Ok(parts) = run {
                    row.extend(["right".to_owned(), format!("{:.3}", parts.total())]);
                    row.extend(parts.milliseconds.iter().map(|part| format!("{part:.3}")));
                    row.push(parts.lost.to_string());
                } else {
                    row.push("failed".to_owned());
                    row.resize(columns().split(',').count(), String::new());
                }
                rows.push(row);
            }
        }
    }
    rows
}

/// What a person wants to see of it.
const HEADER: [&str; 11] = [
    "application",
    "situation",
    "runs",
    "failed",
    "median/ms",
    "to plain",
    "to fault-free",
    "detection",
    "regrouping",
    "data",
    "lost work",
];

/// A row for each situation.
fn table(studies: &[Study]) -> String {
    let mut rows = Vec::new();
    for Study { application, cells, .. } in studies {
        let total = |cell: &Cell| cell.median().map(Parts::total);
        let [plain, calm] = [0, 1].map(|at| total(&cells[at]));
        for cell in cells {
            let failed = cell.runs.iter().filter(|run| run.is_err()).count();
            let ratio = |to: Option<f64>| match (total(cell), to) {
                (Some(time), Some(to)) => format!("{:.3}", time / to),
                _ => "-".to_owned(),
            };
            let of = |parts: &[parts::Part]| {
                let sum = |run: &Parts| parts.iter().map(|part| run.of_part(*part)).sum::<f64>();
                cell.median().map_or("-".to_owned(), |run| format!("{:.1}", sum(run)))
            };
            rows.push(vec![
                application.title.to_owned(),
                cell.situation.name.to_owned(),
                (cell.runs.len() - failed).to_string(),
                failed.to_string(),
                total(cell).map_or("-".to_owned(), |time| format!("{time:.1}")),
                ratio(plain),
                ratio(calm),
                of(&[parts::Part::Detection]),
                of(&[parts::Part::Shrink, parts::Part::Spawn, parts::Part::Rebuild]),
                of(&[parts::Part::Data]),
                of(&[parts::Part::Lost]),
            ]);
        }
    }
    csv::table(&HEADER, &rows)
}

/// Prints and draws what there is, and says what is missing.
fn report(options: &Options, studies: &[Study], folder: &Path, csv: &Path) -> Result<u8> {
    println!("{}", table(studies));
    let panel = |study: &Study| {
        let bar = |cell: &Cell| {
            let good = cell.good();
            let range =
                good.first().zip(good.last()).map(|(one, last)| (one.total(), last.total()));
            drawing::Bar { name: cell.situation.name, median: cell.median().cloned(), range }
        };
        let Application { title, size, .. } = &study.application;
        Panel { title: format!("{title}, {size}"), bars: study.cells.iter().map(bar).collect() }
    };
    let figure = Figure { panels: studies.iter().map(panel).collect(), caption: options.caption() };
    say!("fampi: {}", shown(csv));
    for file in figure.write(folder)? {
        say!("fampi: {}", shown(&file));
    }
    let cells = || studies.iter().flat_map(|study| &study.cells);
    let failed = cells().flat_map(|cell| &cell.runs).filter(|run| run.is_err()).count();
    let all = cells().map(|cell| cell.runs.len()).sum::<usize>();
    if failed > 0 {
        say!("fampi: {failed} of {all} runs failed, see above");
    }
    Ok(u8::from(cells().any(|cell| cell.median().is_none())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(times: &[f64]) -> Cell {
        let runs = times.iter().map(|time| Ok(Parts::of_application(*time)));
        let failed = std::iter::once(Err("it hung".to_owned()));
        Cell { situation: &SITUATIONS[0], runs: runs.chain(failed).collect() }
    }

    #[test]
    fn a_failed_run_is_a_row_without_times_and_no_part_of_the_median() {
        let cells = vec![cell(&[30.0, 10.0, 20.0]), cell(&[])];
        assert_eq!(cells[0].median().map(Parts::total), Some(20.0));
        assert!(cells[1].median().is_none());
        let application = Options::parse_from(&[]).applications()[0].clone();
        let study = Study { application, program: PathBuf::new(), digits: None, cells };
        let rows = rows(std::slice::from_ref(&study));
        assert_eq!(rows.len(), 5);
        let width = columns().split(',').count();
        assert!(rows.iter().all(|row| row.len() == width), "{rows:?}");
        assert_eq!(rows[3][4..7], ["failed", "", ""]);
        let table = table(&[study]);
        assert!(table.contains("20.0") && table.contains('-'), "{table}");
    }

    #[test]
    fn results_are_compared_by_all_digits_or_after_a_merge_by_six() {
        let application = Options::parse_from(&[]).applications()[0].clone();
        let cells = Vec::new();
        let mut study = Study { application, program: PathBuf::new(), digits: None, cells };
        let options = Options::parse_from(&[]);
        let [plain, merged] = [0, 2].map(|at| &SITUATIONS[at]);
        assert!(merged.merges() && !plain.merges());
        let mut check = |situation: &Situation, line: &str| {
            study.check(situation, &options, &["noise".to_owned(), line.to_owned()])
        };
        assert_eq!(check(plain, "minife: iterations=200 centre=0.25 digest=a"), Ok(()));
        assert_eq!(check(merged, "minife: iterations=200 centre=0.25000001 digest=b"), Ok(()));
        for line in ["iterations=200 centre=0.25 digest=b", "iterations=3 centre=0.25 digest=a"] {
            assert!(check(plain, &format!("minife: {line}")).is_err());
        }
        assert!(check(merged, "minife: iterations=200 centre=0.26 digest=b").is_err());
        assert!(check(plain, "no result").is_err());
    }
}
