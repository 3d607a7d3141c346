//! `fampi bench detect`: from a death to its agreed report, for each way to die, with the node
//! watcher and by MPI's own reports alone.
//!
//! The program `benches/detect.rs` kills some ranks in each launch and prints a row for each. It is
//! launched until there are enough rows: hundreds of deaths in one job say more about a launcher
//! that has lost hundreds of processes than about detection. A launch that breaks off early is told
//! and its rows count.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::{self, Program};
use crate::installation::Installation;
use crate::launcher::{self, Launcher};
use crate::progress::Step;
use crate::refusal::{Misuse, whole};
use crate::session::{self, Script};
use crate::setup;
use crate::sheet::{self, Csv, Row};
use crate::workspace::Workspace;

const COLUMNS: &str = "how,source,median_ms,p99_ms";
const HEADER: [&str; 4] = ["how", "seen by", "median/ms", "p99/ms"];
const WAYS: [&str; 5] = ["SIGKILL", "SIGSEGV", "exit(1)", "panic", "_exit(1)"];
/// Where the news of a death come from, and the switch of the node watcher.
const SOURCES: [(&str, &str); 2] = [("watcher", "on"), ("mpi", "off")];
/// Deaths in one launch: few, as the job changes with each of them.
const TRIALS_PER_LAUNCH: u32 = 8;
/// A launch takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct Options {
    /// Number of ranks to measure with, 4 or more
    #[arg(short = 'n', long, value_name = "N", default_value = "8",
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    ranks: u32,
    /// Deaths for each row
    #[arg(long, value_name = "T", default_value = "200",
          value_parser = whole(1_u32..=10_000_000, "a number of deaths, 1 or more"),
          allow_negative_numbers = true)]
    trials: u32,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    launcher::check_room(options.ranks)?;
    if options.ranks < 4 {
        return Err(Misuse("measure with 4 ranks or more, as one dies at a time".to_owned()).into());
    }
    let csv = Csv::open(options.csv.as_deref())?;
    let mpi = setup::ensure(workspace)?;
    let program = cargo::build(workspace, Program::benchmark("detect"))?;
    let mut rows: Vec<Row> = Vec::new();
    for way in WAYS {
        for (source, switch) in SOURCES {
            let step = Step::begin(format!("die by {way}, seen by the {source}"));
            let times = measure(&mpi, &program, options, way, switch)?;
            step.finish();
            let (median, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));
            let row = [way, source, &number(median), &number(p99)];
            rows.push(row.map(str::to_owned).to_vec());
        }
    }
    csv.write(COLUMNS, &rows)?;
    println!("{}", sheet::table(&HEADER, &rows));
    Ok(0)
}

/// The milliseconds of all trials, ascending; infinity when a death is never reported.
fn measure(
    mpi: &Installation,
    program: &Path,
    options: &Options,
    way: &str,
    switch: &str,
) -> Result<Vec<f64>> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let extra = launcher::ignore_statuses();
    let mut times: Vec<f64> = Vec::new();
    let most = 3 + 2 * options.trials.div_ceil(TRIALS_PER_LAUNCH);
    for launch in 0..most {
        let missing = options.trials - times.len() as u32;
        let trials = missing.min(TRIALS_PER_LAUNCH);
        let mut command = Launcher::with(mpi, &extra).command(options.ranks, program);
        command.args([way, &trials.to_string()]).arg(folder.path().join("death"));
        command.env("FAMPI_NODE_WATCHER", switch).env("RUST_BACKTRACE", "0");
        let errors = tempfile::tempfile().context("cannot make a temporary file")?;
        let script = Script {
            timeout: Some(LIMIT),
            collect: true,
            errors: Some(errors),
            ..Script::default()
        };
        let finished = session::run(&command, script)?;
        let new = times_of(&finished.lines, way);
        if new.len() < trials as usize && !new.contains(&f64::INFINITY) {
            eprintln!("fampi: launch {launch} broke off after {} of {trials} deaths", new.len());
        }
        times.extend(new);
        // One death that is never reported says it all.
        if times.len() >= options.trials as usize || times.contains(&f64::INFINITY) {
            times.sort_by(f64::total_cmp);
            return Ok(times);
        }
    }
    bail!("{most} launches gave {} of {} deaths by {way}", times.len(), options.trials)
}

/// The numbers in rows that begin with the way to die.
fn times_of(lines: &[String], way: &str) -> Vec<f64> {
    let rows = lines.iter().filter_map(|line| line.trim().strip_prefix(way)?.strip_prefix(','));
    rows.filter_map(|number| number.parse().ok()).collect()
}

/// The value below which this part of the sorted numbers is. One infinity makes all of them so.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    match sorted.last() {
        Some(last) if last.is_finite() => {
            sorted[((sorted.len() - 1) as f64 * part).round() as usize]
        }
        _ => f64::INFINITY,
    }
}

fn number(milliseconds: f64) -> String {
    if milliseconds.is_finite() { format!("{milliseconds:.2}") } else { "inf".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_way_are_told_from_noise() {
        let printed = ["exit(1),2.5", "noise", "_exit(1),1.5", "exit(1),inf", "exit(1),x"];
        let lines = printed.map(str::to_owned);
        assert_eq!(times_of(&lines, "exit(1)"), [2.5, f64::INFINITY]);
        assert_eq!(times_of(&lines, "_exit(1)"), [1.5]);
    }

    #[test]
    fn quantiles_of_sorted_numbers() {
        let numbers: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!((quantile(&numbers, 0.5), quantile(&numbers, 0.99)), (50.0, 99.0));
        assert_eq!(number(quantile(&[1.0, f64::INFINITY], 0.5)), "inf");
        assert_eq!(number(quantile(&[], 0.5)), "inf");
    }
}
