//! `fampi figure detector`: the figures of Zhong 2019 on the detector, 7 to 15, simulated and real.
//!
//! ```text
//! simulated  8 9 10 12 13 14 15  these observers on up to 65,536 nodes, and SWIM (`sim detector`)
//! silence      9 10    13 14 15  real observers in name spaces of which some fall silent, and
//!                                ranks with MPI's own heartbeat
//! deaths      11                 real ranks that die, with observers and without (`bench detect`)
//! noise     7                    operations of MPI, with observers and without (`bench noise`)
//! ```
//!
//! What is real takes this machine: its ranks share processors, and its nodes are name spaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use super::detect::{self, quantile};
use super::disturbance::{Laboratory, Sample};
use super::{silence, simulated};
use crate::cargo::{self, Program};
use crate::csv::{self, Csv, Row};
use crate::launcher;
use crate::median::around_median;
use crate::nodes::Nodes;
use crate::plot::{Chart, Series, Upwards, write_below_each_other};
use crate::progress::Step;
use crate::refusal::{Misuse, whole};
use crate::setup;
use crate::workspace::{Workspace, shown};

#[derive(Args)]
pub(crate) struct Options {
    /// Few points of each figure, in half a minute: for a first look
    #[arg(long)]
    quick: bool,
    /// Only these parts
    #[arg(long, value_name = "PART,…", value_delimiter = ',', value_enum,
          default_values = ["simulated", "silence", "deaths", "noise"])]
    parts: Vec<Part>,
    /// Figure 11: numbers of ranks, 4 or more
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "4,8,16",
          default_value_if("quick", "true", "4"),
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    ranks: Vec<u32>,
    /// Figure 11: the numbers of nodes, name spaces of this machine, on which they are
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,4",
          default_value_if("quick", "true", "1"),
          value_parser = whole(1_u32..=64, "a number of nodes from 1 to 64"),
          allow_negative_numbers = true)]
    nodes: Vec<u32>,
    /// Figure 11: deaths for each point
    #[arg(long, value_name = "T", default_value = "24",
          default_value_if("quick", "true", "2"), allow_negative_numbers = true,
          value_parser = whole(1_u32..=10_000_000, "a number of deaths, 1 or more"))]
    deaths: u32,
    /// Figures 9, 10, 13 to 15: trials for each real point
    #[arg(long, value_name = "T", default_value = "3",
          default_value_if("quick", "true", "1"), allow_negative_numbers = true,
          value_parser = whole(1_u32..=10_000, "a number of trials, from 1 to 10000"))]
    trials: u32,
    /// Figure 7: milliseconds between two heartbeats
    #[arg(long, value_name = "MS,…", value_delimiter = ',', default_value = "1,10,100,1000",
          default_value_if("quick", "true", "10"),
          allow_negative_numbers = true,
          value_parser = whole(1_u32..=60_000, "milliseconds, from 1 to 60000"))]
    periods: Vec<u32>,
    /// Figure 7: for how many seconds each of them is measured
    #[arg(long, value_name = "S", default_value = "60",
          default_value_if("quick", "true", "1"), allow_negative_numbers = true,
          value_parser = whole(1_u32..=100_000, "seconds, 1 or more"))]
    seconds: u32,
    /// The folder for the tables and pictures [default: `detector` below the folder of builds]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Part {
    Simulated,
    Silence,
    Deaths,
    Noise,
}

/// The operations of figure 7, in the words of the program that measures them.
const OPERATIONS: [&str; 3] = ["ping-pong", "broadcast", "allreduce"];
const BYTES: [u32; 5] = [8, 512, 8 << 10, 128 << 10, 1 << 20];
/// Two ranks, so that each has a processor here.
const PAIR: u32 = 2;
/// In turns of so long each operation of each size is measured.
const TURN: Duration = Duration::from_millis(200);
/// A turn has two heartbeats of a ring with twice the period.
const PERIODS_OF_TURN: u32 = 4;
/// Fewer rounds say nothing about how far the median may be from the true one.
const ROUNDS: u32 = 10;

const NOISE: &str = "operation,bytes,period_ms,service,ratio,ratio_low,ratio_high,deviation";
const NOISE_HEADER: [&str; 8] =
    ["operation", "bytes", "δ/ms", "service", "ratio", "from", "to", "deviation"];
const DEATHS: &str = "nodes,ranks,source,deaths,median_ms,p99_ms";
const DEATHS_HEADER: [&str; 6] = ["nodes", "ranks", "source", "deaths", "median/ms", "p99/ms"];

/// The lines of figure 11: sources of `bench detect`, and what they are called there.
const SOURCES: [(&str, &str); 4] = [
    ("observer-seen", "observers and watcher"),
    ("watcher-seen", "watcher"),
    ("mpi-seen", "MPI alone"),
    ("mpi-first", "MPI alone, first death of a launch"),
];

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let has = |part| options.parts.contains(&part);
    if has(Part::Deaths) {
        options.ranks.iter().try_for_each(|ranks| launcher::check_room(*ranks))?;
        if options.ranks.iter().any(|ranks| *ranks < 4) {
            let advice = "figure 11 takes 4 ranks or more, as one dies at a time";
            return Err(Misuse(advice.to_owned()).into());
        }
    }
    let fits = |nodes: &&u32| options.ranks.iter().any(|ranks| ranks >= nodes);
    if let Some(nodes) = options.nodes.iter().find(|nodes| has(Part::Deaths) && !fits(nodes)) {
        return Err(
            Misuse(format!("--ranks has no number that is enough for {nodes} nodes")).into()
        );
    }
    let folder = options.folder.clone().unwrap_or_else(|| workspace.target().join("detector"));
    // What cannot be written is no news for after the measurement.
    let made = fs::create_dir_all(&folder).and_then(|()| tempfile::tempfile_in(&folder));
    made.with_context(|| format!("choose another --folder than {}", folder.display()))?;
    let mut rows = Vec::new();
    if has(Part::Simulated) {
        let of_the_paper = simulated::Options::of_the_paper(options.quick);
        rows.extend(simulated::rows(workspace, &of_the_paper)?);
    }
    write_and_draw(&rows, &folder)?;
    if has(Part::Silence) {
        // What takes time here is waiting.
        let observer = cargo::build(workspace, Program::observer())?;
        let mpi = setup::ensure(workspace)?;
        let Options { trials, quick, .. } = *options;
        let new = match silence::rows(&observer, trials, quick)? {
            Ok(real) => silence::rows_of_mpi(&mpi, trials, quick)?.map(|mpi| [real, mpi].concat()),
            interrupted => interrupted,
        };
        match new {
            Ok(new) => rows.extend(new),
            Err(interrupted) => return Ok(interrupted),
        }
        write_and_draw(&rows, &folder)?;
    }
    if !rows.is_empty() {
        println!("{}\n", csv::table(&simulated::HEADER, &rows));
    }
    for (part, of) in [(Part::Deaths, deaths as Study), (Part::Noise, noise)] {
        if has(part)
            && let Err(interrupted) = of(workspace, options, &folder)?
        {
            return Ok(interrupted);
        }
    }
    Ok(0)
}

/// Writes the rows that there are, with the figures of which they are points.
fn write_and_draw(rows: &[Row], folder: &Path) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    write(folder, "detector.csv", simulated::COLUMNS, rows)?;
    simulated::draw(rows, folder)
}

fn write(folder: &Path, name: &str, columns: &str, rows: &[Row]) -> Result<()> {
    Csv::open(Some(&folder.join(name)))?.write(columns, rows)
}

/// A part on real ranks; it ends with the status when a signal came.
type Study = fn(&Workspace, &Options, &Path) -> Result<Result<(), u8>>;

/// Figure 11: from the death of a process to the last survivor that knows.
fn deaths(workspace: &Workspace, options: &Options, folder: &Path) -> Result<Result<(), u8>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut numbers = options.nodes.clone();
    if numbers.iter().any(|nodes| *nodes > 1)
        && let Err(reason) = Nodes::new(2, &[])
    {
        say!("fampi: on one node alone: {reason:#}");
        numbers.retain(|nodes| *nodes == 1);
    }
    for nodes in numbers {
        for ranks in options.ranks.iter().copied().filter(|ranks| *ranks >= nodes) {
            let spaces = (nodes > 1).then_some(nodes);
            let sources = match detect::kills(workspace, [ranks, options.deaths], spaces)? {
                Ok(sources) => sources,
                Err(interrupted) => return Ok(Err(interrupted)),
            };
            let told = sources.iter().filter(|(source, _)| is_drawn(source));
            rows.extend(told.map(|(source, times)| {
                let time = |part| format!("{:.3}", quantile(times, part));
                let numbers = [nodes, ranks].map(|number| number.to_string());
                let rest = [(*source).to_owned(), times.len().to_string(), time(0.5), time(0.99)];
                numbers.into_iter().chain(rest).collect()
            }));
        }
    }
    write(folder, "deaths.csv", DEATHS, &rows)?;
    println!("{}\n", csv::table(&DEATHS_HEADER, &rows));
    draw_deaths(&rows, options, folder)?;
    Ok(Ok(()))
}

fn is_drawn(source: &str) -> bool {
    SOURCES.iter().any(|(name, _)| *name == source)
}

fn draw_deaths(rows: &[Row], options: &Options, folder: &Path) -> Result<()> {
    let line = |nodes: &u32, (source, name): &(&str, &str)| {
        let of = rows.iter().filter(|row| row[0] == nodes.to_string() && row[2] == *source);
        let points: Vec<(f64, f64)> =
            of.filter_map(|row| Some((row[1].parse().ok()?, row[4].parse().ok()?))).collect();
        let points = points.into_iter().filter(|(_, y): &(f64, f64)| y.is_finite()).collect();
        let place = if *nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes") };
        Series { name: format!("{name}, {place}"), points }
    };
    let all = options.nodes.iter().flat_map(|nodes| SOURCES.iter().map(move |it| line(nodes, it)));
    let caption = format!(
        "real ranks that share the processors of this machine, killed by SIGKILL one at a time; \
         medians of {} deaths",
        options.deaths
    );
    let chart = Chart {
        title: "Figure 11: one process fails",
        caption: &caption,
        x: "ranks",
        y: "ms from the death until all ranks know",
        upwards: Upwards::Quantity,
        series: all.filter(|series| !series.points.is_empty()).collect(),
    };
    for file in chart.write(folder, "figure-11")? {
        say!("fampi: {}", shown(&file));
    }
    Ok(())
}

/// Figure 7: what heartbeats cost operations of MPI.
fn noise(workspace: &Workspace, options: &Options, folder: &Path) -> Result<Result<(), u8>> {
    let mpi = setup::ensure(workspace)?;
    let programs: Vec<String> =
        OPERATIONS.iter().flat_map(|kind| BYTES.map(|bytes| format!("{kind}:{bytes}"))).collect();
    let mut laboratory = Laboratory {
        mpi: &mpi,
        program: cargo::build(workspace, Program::benchmark("noise").of(Some("minife")))?,
        observer: cargo::build(workspace, Program::observer().at_its_best())?,
        ranks: PAIR,
        rounds: 0,
        tests: None,
        programs: &programs,
        groups: 1,
        turn: TURN,
    };
    let step = Step::begin("operations of MPI with observers and without".to_owned());
    let mut rows = Vec::new();
    for &period in &options.periods {
        step.say(&format!("heartbeats every {period} ms"));
        let turn = TURN.max(PERIODS_OF_TURN * Duration::from_millis(period.into()));
        let round = 3.0 * turn.as_secs_f64();
        laboratory.rounds = ((f64::from(options.seconds) / round).ceil() as u32).max(ROUNDS);
        let mut sample = Sample::default();
        let status = laboratory.launch(period, &mut sample)?;
        if status != 0 {
            return Ok(Err(status));
        }
        for (program, rounds) in programs.iter().zip(&sample.rounds) {
            rows.extend(noise_rows(program, period, rounds));
        }
    }
    step.finish();
    write(folder, "noise.csv", NOISE, &rows)?;
    println!("{}", csv::table(&NOISE_HEADER, &rows));
    draw_noise(&rows, options, folder)?;
    Ok(Ok(()))
}

/// Two rows of an operation, `KIND:BYTES`: turns without the service against each other, and those
/// with it against both.
fn noise_rows(program: &str, period: u32, rounds: &[[f64; 3]]) -> [Row; 2] {
    let again = rounds.iter().map(|[off, control, _]| control / off).collect();
    let on = rounds.iter().map(|[off, control, on]| 2.0 * on / (off + control)).collect();
    [("off again", again), ("on", on)].map(|(service, mut ratios): (&str, Vec<f64>)| {
        ratios.sort_by(f64::total_cmp);
        let (low, high) = around_median(ratios.len());
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let squares = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>();
        let deviation = (squares / (ratios.len() as f64 - 1.0).max(1.0)).sqrt();
        let (kind, bytes) = program.split_once(':').unwrap_or((program, ""));
        let words = [kind, bytes, &period.to_string(), service].map(str::to_owned);
        let numbers = [quantile(&ratios, 0.5), ratios[low], ratios[high], deviation];
        words.into_iter().chain(numbers.map(|number| format!("{number:.4}"))).collect()
    })
}

/// A chart for each kind of operation, in percent of the time without the service.
fn draw_noise(rows: &[Row], options: &Options, folder: &Path) -> Result<()> {
    let number = |row: &Row, column: usize| row[column].parse::<f64>().unwrap_or(f64::NAN);
    let series = |kind: &str, period: u32, service: &str, name: String, y: &dyn Fn(&Row) -> f64| {
        let words = [kind, &period.to_string(), service];
        let of = rows.iter().filter(|row| [&*row[0], &*row[2], &*row[3]] == words);
        Series { name, points: of.map(|row| (number(row, 1), y(row))).collect() }
    };
    let percent = |row: &Row| 100.0 * (number(row, 4) - 1.0);
    let chart = |kind: &'static str| {
        let each = options.periods.iter();
        let mut lines: Vec<Series> =
            each.map(|at| series(kind, *at, "on", format!("δ = {at} ms"), &percent)).collect();
        if let Some(first) = options.periods.first() {
            for sign in [1.0, -1.0] {
                let name = format!("without: {}σ", if sign > 0.0 { "+" } else { "−" });
                // A ratio has the deviations of two turns.
                let deviation = |row: &Row| 100.0 * sign * number(row, 7) / 2.0_f64.sqrt();
                lines.push(series(kind, *first, "off again", name, &deviation));
            }
        }
        Chart {
            title: kind,
            caption: "Figure 7: two ranks, in turns with observers and without; medians of rounds; \
                      σ: of a turn without observers",
            x: "bytes",
            y: "more time, in percent",
            upwards: Upwards::Change,
            series: lines,
        }
    };
    for file in write_below_each_other(&OPERATIONS.map(chart), folder, "figure-7")? {
        say!("fampi: {}", shown(&file));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_compared_within_each_round_and_has_its_deviation() {
        let rounds = [[100.0, 102.0, 103.0], [100.0, 98.0, 99.0], [100.0, 100.0, 101.0]];
        let rows = noise_rows("ping-pong:512", 10, &rounds).map(|row| row.join(","));
        let control = "ping-pong,512,10,off again,1.0000,0.9800,1.0200,0.0200";
        let on = "ping-pong,512,10,on,1.0100,1.0000,1.0198,0.0099";
        assert_eq!(rows, [control, on]);
    }

    #[test]
    fn each_figure_of_real_ranks_is_drawn() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = Options {
            quick: false,
            parts: Vec::new(),
            ranks: vec![4],
            nodes: vec![1, 4],
            deaths: 8,
            trials: 1,
            periods: vec![1, 10],
            seconds: 1,
            folder: None,
        };
        let row = |text: &str| text.split(',').map(str::to_owned).collect::<Row>();
        let rows =
            ["1,4,mpi-seen,8,3.1,9", "4,4,observer-seen,8,1.2,4", "4,4,watcher-seen,8,inf,9"];
        draw_deaths(&rows.map(row), &options, folder.path()).expect("drawn");
        let drawn = |name: &str| fs::read_to_string(folder.path().join(name)).expect("written");
        let text = drawn("figure-11.svg");
        assert!(text.contains("MPI alone, one node"), "{text}");
        assert!(text.contains("observers and watcher, 4 nodes"), "{text}");
        assert!(!text.contains("watcher, one node"), "what was not measured has no line: {text}");
        let rounds = [[1.0, 1.1, 1.2], [1.0, 0.9, 1.0]];
        let rows = OPERATIONS.iter().flat_map(|kind| noise_rows(&format!("{kind}:8"), 10, &rounds));
        draw_noise(&rows.collect::<Vec<_>>(), &options, folder.path()).expect("drawn");
        let text = drawn("figure-7.svg");
        for words in ["ping-pong", "allreduce", "δ = 10 ms", "without: +σ"] {
            assert!(text.contains(words), "no `{words}`");
        }
    }
}
