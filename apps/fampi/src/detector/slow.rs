//! `fampi sim diagnosis`: who is slow among busy hosts, simulated: the figures 7 to 13 of the paper
//! on groups of recommended processes, and a table of the hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::{self, Program};
use crate::csv::{self, Csv, Row};
use crate::plot::{Chart, Series, Upwards};
use crate::progress::Step;
use crate::workspace::{Workspace, shown};

const COLUMNS: &str = "figure,line,x,y";
const HEADER: [&str; 7] = [
    "host",
    "jobs",
    "removed",
    "removed by fewest",
    "suspicions as a tester",
    "ballots",
    "yes votes",
];
/// The lines of the table, as the program names them, in the order of the header.
const COUNTED: [&str; 6] =
    ["jobs", "removals", "removals by fewest", "suspicions as a tester", "ballots", "yes votes"];

#[derive(Args)]
pub(crate) struct Options {
    /// Hosts, each of which tests all others
    #[arg(long, value_name = "N", default_value_t = 18,
          value_parser = clap::value_parser!(u32).range(2..=64))]
    hosts: u32,
    /// Rounds of tests, one a second
    #[arg(long, value_name = "N", default_value_t = 30_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: u32,
    /// What chance is drawn from; the same gives the same rows
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u32,
    /// Instead of figures, how tests grow with these numbers of hosts
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with_all = ["hosts", "rounds",
          "plots"], value_parser = clap::value_parser!(u32).range(2..=65_536))]
    sizes: Vec<u32>,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the figures into this folder, as SVG and PNG
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let csv = Csv::open(options.csv.as_deref())?;
    if let Some(folder) = &options.plots {
        let made = fs::create_dir_all(folder);
        made.with_context(|| format!("choose another --plots than {}", folder.display()))?;
    }
    let program = cargo::build(workspace, Program::slow_hosts())?;
    if !options.sizes.is_empty() {
        return grow(&program, options, csv);
    }
    let step =
        Step::begin(format!("simulate {} rounds of {} hosts", options.rounds, options.hosts));
    let mut command = Command::new(&program);
    for (name, value) in
        [("hosts", options.hosts), ("rounds", options.rounds), ("seed", options.seed)]
    {
        command.args([name.to_owned(), value.to_string()]);
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("the simulation failed: see above");
    }
    let rows = rows_of(&String::from_utf8_lossy(&output.stdout));
    step.finish();
    csv.write(COLUMNS, &rows)?;
    println!("{}", csv::table(&HEADER, &hosts(&rows)));
    for row in rows.iter().filter(|row| row[0] == "shape") {
        let holds = if row[2] == "1" { "yes" } else { "no " };
        println!("{holds}  {} ({})", row[1], row[3]);
    }
    if let Some(folder) = &options.plots {
        for (name, chart) in charts(&rows) {
            for file in chart.write(folder, name)? {
                say!("fampi: {}", shown(&file));
            }
        }
    }
    Ok(0)
}

/// How tests grow with the number of hosts.
fn grow(program: &Path, options: &Options, csv: Csv) -> Result<u8> {
    let step = Step::begin("simulate testers among so many hosts".to_owned());
    let sizes: Vec<String> = options.sizes.iter().map(ToString::to_string).collect();
    let mut command = Command::new(program);
    command.args(["sizes", &sizes.join(","), &options.seed.to_string()]);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("the simulation failed: see above");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let columns = lines.next().unwrap_or_default();
    let row = |line: &str| line.split(',').map(str::to_owned).collect();
    let rows: Vec<Row> = lines.map(row).collect();
    step.finish();
    csv.write(columns, &rows)?;
    println!("{}", csv::table(&GROWTH, &rows));
    Ok(0)
}

/// What a person wants to see of how tests grow.
const GROWTH: [&str; 10] = [
    "hosts",
    "who tests",
    "loss/%",
    "tests/round",
    "testers",
    "accused/ms",
    "allowed/ms",
    "blind",
    "looked at",
    "false/10⁶",
];

/// What was printed, without the columns.
fn rows_of(text: &str) -> Vec<Row> {
    let rows = text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect());
    rows.filter(|row: &Row| row.len() == COLUMNS.split(',').count()).collect()
}

/// One row for each host.
fn hosts(rows: &[Row]) -> Vec<Row> {
    let of = |line: &str, host: &str| {
        let found = rows.iter().find(|row| row[0] == "table" && row[1] == line && row[2] == host);
        found.map_or_else(String::new, |row| row[3].clone())
    };
    let hosts = rows.iter().filter(|row| row[0] == "table" && row[1] == "jobs").map(|row| &row[2]);
    let row = |host: &String| {
        let counted = COUNTED.iter().map(|line| of(line, host));
        [host.clone()].into_iter().chain(counted).collect()
    };
    hosts.map(row).collect()
}

const MS: &str = "ms";
const DAYS: &str = "simulated; of rounds that fall together the slowest answer";
const BUSIEST: &str = "simulated; the busiest host";

/// File, figure, title, caption, axis upwards, and lines.
type Sketch =
    (&'static str, &'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const SKETCHES: [Sketch; 7] = [
    ("figure-7", "7", "Figure 7: a κ of 1.05", BUSIEST, MS, &["delay", "threshold"]),
    ("figure-8", "8", "Figure 8: whose tests it passed most", DAYS, MS, &["delay", "threshold"]),
    ("figure-9", "9", "Figure 9: whose tests it failed most", DAYS, MS, &["delay", "threshold"]),
    ("figure-10", "10", "Figure 10: the calmest host", DAYS, MS, &["delay", "threshold"]),
    ("figure-11", "11", "Figure 11: a part of figure 9", BUSIEST, MS, &["delay", "threshold"]),
    ("figure-12", "12", "Figure 12: good tests in a row", BUSIEST, "tests", &["streak"]),
    ("figure-13", "13", "Figure 13: members", "simulated; of rounds that fall together the least",
     "members", &["any", "fewest"]),
];

fn charts(rows: &[Row]) -> Vec<(&'static str, Chart<'static>)> {
    let chart = |(name, figure, title, caption, y, lines): Sketch| {
        let line = |line: &&str| {
            let meant = rows.iter().filter(|row| row[0] == figure && row[1] == *line);
            let number = |text: &String| text.parse().unwrap_or(f64::NAN);
            let points = meant.map(|row| (number(&row[2]), number(&row[3]))).collect();
            Series { name: (*line).to_owned(), points }
        };
        let series = lines.iter().map(line).collect();
        (name, Chart { title, caption, x: "round", y, upwards: Upwards::OverRounds, series })
    };
    SKETCHES.map(chart).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_and_every_column_has_its_rows() {
        let mut lines = vec![COLUMNS.to_owned()];
        for (_, figure, .., names) in SKETCHES {
            lines.extend(names.iter().map(|line| format!("{figure},{line},1,2")));
        }
        lines.extend(COUNTED.map(|line| format!("table,{line},0,3")));
        let rows = rows_of(&lines.join("\n"));
        for (name, chart) in charts(&rows) {
            assert!(chart.series.iter().all(|series| !series.points.is_empty()), "{name}");
        }
        let hosts = hosts(&rows);
        assert_eq!(hosts, [["0", "3", "3", "3", "3", "3", "3"]]);
        assert_eq!(hosts[0].len(), HEADER.len());
    }
}
