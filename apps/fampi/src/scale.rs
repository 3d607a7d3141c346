//! `fampi sim scale`: agreements on up to a million simulated ranks, as a table and as plots.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::{self, Program};
use crate::csv::{self, Csv, Row};
use crate::plot::{Chart, Series, Upwards};
use crate::progress::Step;
use crate::refusal::{Misuse, whole};
use crate::workspace::{Workspace, shown};

const COLUMNS: &str =
    "ranks,agreement,deaths,latency_us,delays,messages_mean,messages_max,bytes_mean";
pub(crate) const HEADER: [&str; 8] = [
    "ranks",
    "agreement",
    "deaths",
    "latency/µs",
    "delays",
    "messages/rank",
    "most messages",
    "bytes/rank",
];

#[derive(Args)]
pub(crate) struct Options {
    /// Numbers of ranks
    #[arg(long, value_name = "N,…", value_delimiter = ',',
          default_value = "16,64,256,1024,4096,16384,65536,262144,1048576",
          value_parser = whole(2_u32..=1 << 22, "numbers of ranks from 2 to 4194304, as in 16,64"),
          allow_negative_numbers = true)]
    ranks: Vec<u32>,
    /// Numbers of ranks that are dead when the others vote
    #[arg(long, value_name = "D,…", value_delimiter = ',', default_value = "0,1,10,100,1000",
          value_parser = whole(0_u32..=1 << 22, "numbers of deaths, 0 or more, as in 0,10"),
          allow_negative_numbers = true)]
    deaths: Vec<u32>,
    /// L of `LogGP` in ns, as the three that follow a default of the simulator `LogGOPSim`
    #[arg(long, value_name = "NS", default_value = "2500", value_parser = nanoseconds,
          allow_negative_numbers = true)]
    latency: u32,
    /// o: what a message takes of its sender and of its receiver, in ns
    #[arg(long, value_name = "NS", default_value = "1500", value_parser = nanoseconds,
          allow_negative_numbers = true)]
    overhead: u32,
    /// g: between two messages of one sender, in ns
    #[arg(long, value_name = "NS", default_value = "1000", value_parser = nanoseconds,
          allow_negative_numbers = true)]
    gap: u32,
    /// G: for each byte, in ns
    #[arg(long, value_name = "NS", default_value = "6", value_parser = nanoseconds,
          allow_negative_numbers = true)]
    byte: u32,
    /// Ranks on a node, which have the two costs below among them; 1 for none
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..))]
    node: u32,
    /// L on a node, in ns: a vote through shared memory
    #[arg(long, value_name = "NS", default_value_t = 100)]
    near_latency: u32,
    /// o and g on a node, in ns
    #[arg(long, value_name = "NS", default_value_t = 50)]
    near_overhead: u32,
    /// Until a rank that needs a dead one knows of its death, in ns
    #[arg(long, value_name = "NS", default_value = "0", value_parser = nanoseconds,
          allow_negative_numbers = true)]
    detection: u32,
    /// Also what takes more than a few GiB, such as 1000 deaths on 1048576 ranks (14 GiB)
    #[arg(long)]
    large: bool,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw `latency`, `messages` and `deaths` into this folder, as SVG and PNG
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

fn nanoseconds(text: &str) -> Result<u32, Misuse> {
    whole(0..=u32::MAX, "a whole number of nanoseconds, 0 or more")(text)
}

impl Options {
    fn words(&self) -> Vec<String> {
        let list =
            |numbers: &[u32]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let numbers = [
            ("latency", self.latency),
            ("overhead", self.overhead),
            ("gap", self.gap),
            ("byte", self.byte),
            ("node", self.node),
            ("near-latency", self.near_latency),
            ("near-overhead", self.near_overhead),
            ("detection", self.detection),
            ("large", u32::from(self.large)),
        ];
        let lists = [("ranks", list(&self.ranks)), ("deaths", list(&self.deaths))];
        let numbers = numbers.map(|(name, number)| (name, number.to_string()));
        let all = lists.into_iter().chain(numbers);
        all.flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    fn caption(&self) -> String {
        format!(
            "LogGP: L = {} ns, o = {} ns, g = {} ns, G = {} ns/byte; {} ranks on a node: \
             L = {} ns, o = g = {} ns; detection {} ns",
            self.latency,
            self.overhead,
            self.gap,
            self.byte,
            self.node,
            self.near_latency,
            self.near_overhead,
            self.detection
        )
    }
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let csv = Csv::open(options.csv.as_deref())?;
    if let Some(folder) = &options.plots {
        let made = fs::create_dir_all(folder);
        made.with_context(|| format!("choose another --plots than {}", folder.display()))?;
    }
    let program = cargo::build(workspace, Program::without_mpi("scale"))?;
    let most = options.ranks.iter().max().copied().unwrap_or_default();
    let step = Step::begin(format!("simulate up to {most} ranks"));
    let mut command = Command::new(&program);
    command.args(options.words()).stderr(Stdio::inherit());
    let output = command.output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("the simulation failed: see above");
    }
    let lines: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    let rows = csv::rows_of(&lines, COLUMNS);
    step.finish();
    csv.write(COLUMNS, &rows)?;
    println!("{}", csv::table(&HEADER, &rows));
    if let Some(folder) = &options.plots {
        for (name, chart) in charts(&rows, &options.caption()) {
            for file in chart.write(folder, name)? {
                say!("fampi: {}", shown(&file));
            }
        }
    }
    Ok(0)
}

/// The points of the rows that are meant, in this column.
fn points(rows: &[Row], column: usize, meant: impl Fn(&Row) -> bool) -> Vec<(f64, f64)> {
    let number = |row: &Row, column: usize| row[column].parse().unwrap_or(f64::NAN);
    rows.iter().filter(|row| meant(row)).map(|row| (number(row, 0), number(row, column))).collect()
}

fn charts<'a>(rows: &[Row], caption: &'a str) -> [(&'static str, Chart<'a>); 3] {
    let compared = |column: usize| {
        let one = |name: &str| Series {
            name: name.to_owned(),
            points: points(rows, column, |row| row[1] == name && row[2] == "0"),
        };
        ["commit", "commit-flat", "commit-doubling", "commit-8x4", "reduce-broadcast", "star"]
            .map(one)
            .into()
    };
    let mut deaths: Vec<&String> = rows.iter().map(|row| &row[2]).collect();
    deaths.sort_by_key(|deaths| deaths.parse::<u32>().unwrap_or_default());
    deaths.dedup();
    let with = |dead: &&String| Series {
        name: format!("dead: {dead}"),
        points: points(rows, 3, |row| row[1] == "commit" && row[2] == **dead),
    };
    let by_deaths = deaths.iter().map(with).collect();
    let x = "ranks";
    let upwards = Upwards::Quantity;
    let chart = |title, y, series| Chart { title, caption, x, y, upwards, series };
    [
        ("latency", chart("Agreement without faults", "latency in µs", compared(3))),
        (
            "messages",
            chart("Messages without faults", "messages sent by a rank, mean", compared(5)),
        ),
        ("deaths", chart("Commit with simultaneous deaths", "latency in µs", by_deaths)),
    ]
}
