//! `fampi sim detector`: detection of failures on up to 65,536 simulated nodes, as a table and as
//! the plots of the paper on the detector.

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

pub(super) const COLUMNS: &str = "figure,detector,case,nodes,period_ms,failures,detection_min_ms,\
                       detection_ms,detection_max_ms,all_know_ms,calm_messages,news_messages,\
                       false_reports";
pub(super) const HEADER: [&str; 13] = [
    "figure",
    "detector",
    "case",
    "nodes",
    "δ/ms",
    "failures",
    "seen/ms: least",
    "median",
    "most",
    "all know/ms",
    "calm messages",
    "of news",
    "false",
];

/// What nodes are found silent by that are not simulated: observers, and MPI's own heartbeat.
pub(super) const REAL: &str = "real";
pub(super) const MPI: &str = "mpi";

/// Columns by their place in a row.
const CASE: usize = 2;
const NODES: usize = 3;
const PERIOD: usize = 4;
const FAILURES: usize = 5;
const SEEN_LEAST: usize = 6;
const SEEN: usize = 7;
const SEEN_MOST: usize = 8;
const ALL_KNOW: usize = 9;
const CALM: usize = 10;
const NEWS: usize = 11;
const FALSE: usize = 12;

#[derive(Args)]
pub(crate) struct Options {
    /// Numbers of nodes
    #[arg(long, value_name = "N,…", value_delimiter = ',',
          default_value = "8,64,256,1024,4096,16384,65536",
          value_parser = clap::value_parser!(u32).range(4..=1 << 16))]
    nodes: Vec<u32>,
    /// SWIM beside ours on up to so many; each of its members keeps a list of all others
    #[arg(long, value_name = "N", default_value_t = 256)]
    swim: u32,
    /// Failures for each point; fewer on very many nodes
    #[arg(long, value_name = "T", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// What chance is drawn from; the same gives the same rows
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u32,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the figures into this folder, as SVG and PNG
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

impl Options {
    /// What the figures of the paper take, and more nodes; or few of them.
    pub(super) fn of_the_paper(quick: bool) -> Self {
        let many = [8, 64, 256, 1024, 4096, 16_384, 65_536];
        let (nodes, trials) = if quick { (&many[..2], 3) } else { (&many[..], 10) };
        Self { nodes: nodes.to_vec(), swim: 256, trials, seed: 1, csv: None, plots: None }
    }

    fn words(&self) -> Vec<String> {
        let nodes = self.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let numbers = [("swim", self.swim), ("trials", self.trials), ("seed", self.seed)];
        let numbers = numbers.map(|(name, number)| (name, number.to_string()));
        let all = [("nodes", nodes)].into_iter().chain(numbers);
        all.flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let csv = Csv::open(options.csv.as_deref())?;
    if let Some(folder) = &options.plots {
        let made = fs::create_dir_all(folder);
        made.with_context(|| format!("choose another --plots than {}", folder.display()))?;
    }
    let rows = rows(workspace, options)?;
    csv.write(COLUMNS, &rows)?;
    println!("{}", csv::table(&HEADER, &rows));
    if let Some(folder) = &options.plots {
        draw(&rows, folder)?;
    }
    Ok(0)
}

/// The rows of all figures.
pub(super) fn rows(workspace: &Workspace, options: &Options) -> Result<Vec<Row>> {
    let program =
        cargo::build(workspace, Program::without_mpi("detector").of(Some("fampi-detector")))?;
    let most = options.nodes.iter().max().copied().unwrap_or_default();
    let step = Step::begin(format!("simulate up to {most} nodes"));
    let mut command = Command::new(&program);
    command.args(options.words()).stderr(Stdio::inherit());
    let output = command.output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("the simulation failed: see above");
    }
    let lines: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    step.finish();
    Ok(csv::rows_of(&lines, COLUMNS))
}

/// Draws all figures that there are rows for.
pub(super) fn draw(rows: &[Row], folder: &Path) -> Result<()> {
    for (name, chart) in charts(rows).into_iter().filter(|(_, chart)| !chart.series.is_empty()) {
        for file in chart.write(folder, name)? {
            say!("fampi: {}", shown(&file));
        }
    }
    Ok(())
}

fn number(row: &Row, column: usize) -> f64 {
    row[column].parse().unwrap_or(f64::NAN)
}

/// What a line of a chart shows: a figure's rows of a detector and a case, one column over another.
struct Line<'a> {
    name: &'a str,
    figure: &'a str,
    detector: &'a str,
    case: &'a str,
    y: usize,
}

impl Line<'_> {
    /// Its points; what is 0 or never has no place on a logarithmic axis.
    fn over(&self, x: usize, rows: &[Row]) -> Series {
        let wanted = [self.figure, self.detector, self.case];
        let meant = rows.iter().filter(|row| row[..=CASE].iter().eq(wanted));
        let points = meant.map(|row| (number(row, x), number(row, self.y)));
        let points = points.filter(|(_, y)| y.is_finite() && *y > 0.0).collect();
        Series { name: self.name.to_owned(), points }
    }
}

const NETWORK: &str = "simulated packets: 20 µs + 5 µs of chance, 3 µs of a processor each; \
                       η = 2 δ; medians; how many nodes are real: in the table";

const ACCURACY: &str =
    "simulated, 64 nodes, 1000 periods, up to 3 runs; a point that is missing is 0";
const AT_ALL: &str = "from the failure, in ms";

/// An axis: its title and its column.
type Axis = (&'static str, usize);

const BY_NODES: Axis = ("nodes", NODES);
const BY_PERIOD: Axis = ("period δ in ms", PERIOD);
const BY_FAILURES: Axis = ("nodes that fail at once", FAILURES);

type Sketch =
    (&'static str, &'static str, &'static str, Axis, &'static str, &'static [Line<'static>]);

const fn line(
    name: &'static str,
    figure: &'static str,
    detector: &'static str,
    case: &'static str,
    y: usize,
) -> Line<'static> {
    Line { name, figure, detector, case, y }
}

/// File, title, caption, axes and lines of each chart.
#[rustfmt::skip]
const SKETCHES: [Sketch; 8] = [
    ("figure-8", "Figure 8: living nodes declared dead", ACCURACY, BY_PERIOD, "reports", &[
        line("ring, 1 % lost", "8", "ring", "1 % lost", FALSE),
        line("SWIM, 1 % lost", "8", "swim", "1 % lost", FALSE),
        line("ring, 5 % of events late by 5 ms", "8", "ring", "5 % load", FALSE),
        line("SWIM, 5 % of events late by 5 ms", "8", "swim", "5 % load", FALSE),
    ]),
    ("figure-9", "Figure 9: one node fails, δ = 500 ms", NETWORK, BY_NODES, AT_ALL, &[
        line("ring, all know", "9", "ring", "node", ALL_KNOW),
        line("SWIM, all know", "9", "swim", "node", ALL_KNOW),
        line("real, all know", "9", REAL, "node", ALL_KNOW),
    ]),
    ("figure-10", "Figure 10: one node fails (simulated: of 64)", NETWORK, BY_PERIOD, AT_ALL, &[
        line("ring, somebody knows", "10", "ring", "node", SEEN),
        line("ring, all know", "10", "ring", "node", ALL_KNOW),
        line("SWIM, somebody knows", "10", "swim", "node", SEEN),
        line("SWIM, all know", "10", "swim", "node", ALL_KNOW),
        line("real, all know", "10", REAL, "node", ALL_KNOW),
    ]),
    ("figure-12", "Figure 12: one process fails", NETWORK, BY_NODES, AT_ALL, &[
        line("ring, all know", "12", "ring", "process", ALL_KNOW),
    ]),
    ("figure-13", "Figure 13: one node fails (simulated: of 64)", NETWORK, BY_PERIOD, AT_ALL, &[
        line("ring, somebody knows, least", "10", "ring", "node", SEEN_LEAST),
        line("ring, somebody knows, most", "10", "ring", "node", SEEN_MOST),
        line("ring, all know", "10", "ring", "node", ALL_KNOW),
        line("δ", "10", "ring", "node", PERIOD),
        line("real, somebody knows, least", "10", REAL, "node", SEEN_LEAST),
        line("real, somebody knows, most", "10", REAL, "node", SEEN_MOST),
        line("real, all know", "10", REAL, "node", ALL_KNOW),
        line("MPI's heartbeat, all know", "10", MPI, "node", ALL_KNOW),
    ]),
    ("figure-14", "Figure 14: one node fails, δ = 500 ms", NETWORK, BY_NODES, AT_ALL, &[
        line("ring, somebody knows, least", "9", "ring", "node", SEEN_LEAST),
        line("ring, somebody knows, most", "9", "ring", "node", SEEN_MOST),
        line("ring, all know", "9", "ring", "node", ALL_KNOW),
        line("real, somebody knows, least", "9", REAL, "node", SEEN_LEAST),
        line("real, somebody knows, most", "9", REAL, "node", SEEN_MOST),
        line("real, all know", "9", REAL, "node", ALL_KNOW),
        line("MPI's heartbeat, all know", "9", MPI, "node", ALL_KNOW),
    ]),
    ("figure-15", "Figure 15: nodes fail (simulated: of 256), δ = 100 ms", NETWORK, BY_FAILURES,
     AT_ALL, &[
        line("ring, in a row", "15", "ring", "in a row", ALL_KNOW),
        line("ring, anywhere", "15", "ring", "anywhere", ALL_KNOW),
        line("real, in a row", "15", REAL, "in a row", ALL_KNOW),
        line("real, anywhere", "15", REAL, "anywhere", ALL_KNOW),
        line("MPI's heartbeat, in a row", "15", MPI, "in a row", ALL_KNOW),
        line("MPI's heartbeat, anywhere", "15", MPI, "anywhere", ALL_KNOW),
    ]),
    ("messages", "Messages of a node", NETWORK, BY_NODES, "messages", &[
        line("ring, in a period without failures", "9", "ring", "node", CALM),
        line("SWIM, in a period without failures", "9", "swim", "node", CALM),
        line("ring, news of one failure", "9", "ring", "node", NEWS),
        line("SWIM, news of one failure", "9", "swim", "node", NEWS),
    ]),
];

fn charts(rows: &[Row]) -> Vec<(&'static str, Chart<'static>)> {
    let chart = |(name, title, caption, x, y, lines): Sketch| {
        let mut series: Vec<Series> = lines.iter().map(|line| line.over(x.1, rows)).collect();
        if let Some(period) = series.iter().find(|series| series.name == "δ") {
            let points = period.points.iter().map(|(x, y)| (*x, 2.0 * y)).collect();
            series.push(Series { name: "η".to_owned(), points });
        }
        // `sim detector` measures nothing real, and what has no points has no place in a legend.
        series.retain(|series| !series.points.is_empty());
        (name, Chart { title, caption, x: x.0, y, upwards: Upwards::Quantity, series })
    };
    SKETCHES.map(chart).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_points() {
        let row = |figure: &str, detector: &str, case: &str| {
            let text = format!("{figure},{detector},{case},64,10,2,1,2,3,4,5,6,7");
            csv::rows_of(&[text], COLUMNS).remove(0)
        };
        let (mut rows, all) = (Vec::new(), ["ring", "swim", REAL, MPI]);
        for (figure, cases) in [
            ("8", vec!["1 % lost", "5 % load"]),
            ("9", vec!["node"]),
            ("10", vec!["node"]),
            ("12", vec!["process"]),
            ("15", vec!["in a row", "anywhere"]),
        ] {
            let each =
                all.iter().flat_map(|detector| cases.iter().map(move |case| (detector, case)));
            rows.extend(each.map(|(detector, case)| row(figure, detector, case)));
        }
        let lines = charts(&rows).into_iter().map(|(name, chart)| (name, chart.series.len()));
        // Where there is a line for δ, there is one for η, too.
        let all = SKETCHES.map(|(name, .., lines)| {
            (name, lines.len() + usize::from(lines.iter().any(|line| line.name == "δ")))
        });
        assert_eq!(lines.collect::<Vec<_>>(), all);
    }
}
