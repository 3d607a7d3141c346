//! `fampi bench`: measurements on real ranks, one launch for each number of ranks.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use crate::cargo::{self, Program};
use crate::detector::{detect, disturbance};
use crate::launcher::{self, Launcher};
use crate::library;
use crate::progress::Step;
use crate::recovery;
use crate::report;
use crate::session::{self, End, Script};
use crate::setup;
use crate::sheet::{self, Csv};
use crate::workspace::Workspace;

/// A measurement takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// Every measurement, several times, into `benches/BENCHMARKS.md` and the table of README.md
    All(report::Options),
    /// The cost of a commit, against MPI's own reductions and agreements in the same run
    Commit(Options),
    /// The cost of a commit, and of blocks with 40 to 2000 messages, from C, against the same from
    /// Rust and plain MPI
    Library(Options),
    /// The cost of a block with 4 to 2000 requests, against `MPI_Waitall` and a reduction
    Block(Options),
    /// What blocks cost LULESH, against the plain program in the same run
    #[command(mut_arg("ranks", |ranks| ranks.default_value("8")))]
    Lulesh(Options),
    /// From a death to the board of the observer, to the last survivor that knows, and to the
    /// agreed report, by several ways to die
    Detect(detect::Options),
    /// What observers and their heartbeats cost a job that loses nobody
    Noise(disturbance::Options),
    /// From a death to the report, to a shrunken or rebuilt world, and to restored data
    Recovery(recovery::Options),
}

#[derive(Args)]
pub(crate) struct Options {
    /// Numbers of ranks to measure with
    #[arg(short = 'n', long, value_name = "N,…", value_delimiter = ',', default_value = "2,4,8",
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    pub(crate) ranks: Vec<u32>,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// For the measuring program
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<String>,
}

/// A measuring program that prints its own rows, one launch for each number of ranks.
struct Measurement {
    program: &'static str,
    package: Option<&'static str>,
    columns: &'static str,
    header: &'static [&'static str],
}

const COMMIT: Measurement = Measurement {
    program: "commit",
    package: None,
    columns: "ranks,operation,median_us,ratio_to_iallreduce",
    header: &["ranks", "operation", "median/µs", "ratio to MPI_Iallreduce"],
};

const BLOCK: Measurement = Measurement {
    program: "block",
    package: None,
    columns: "ranks,bytes,requests,plain_us,block_us,ratio,all_us,all_ratio",
    header: &["ranks", "bytes", "requests", "plain/µs", "block/µs", "ratio", "at once/µs", "ratio"],
};

const LULESH: Measurement = Measurement {
    program: "overhead",
    package: Some("lulesh"),
    columns: "ranks,edge,way,cycle_ms,ratio_to_plain",
    header: &["ranks", "edge", "way", "cycle/ms", "ratio to plain"],
};

pub(crate) fn main(workspace: &Workspace, benchmark: &Benchmark) -> Result<u8> {
    match benchmark {
        Benchmark::All(options) => report::main(workspace, options),
        Benchmark::Commit(options) => measure(workspace, &COMMIT, options),
        Benchmark::Library(options) => library::main(workspace, options),
        Benchmark::Block(options) => measure(workspace, &BLOCK, options),
        Benchmark::Lulesh(options) => measure(workspace, &LULESH, options),
        Benchmark::Detect(options) => detect::main(workspace, options),
        Benchmark::Noise(options) => disturbance::main(workspace, options),
        Benchmark::Recovery(options) => recovery::main(workspace, options),
    }
}

fn measure(workspace: &Workspace, what: &Measurement, options: &Options) -> Result<u8> {
    options.ranks.iter().try_for_each(|&ranks| launcher::check_room(ranks))?;
    let csv = Csv::open(options.csv.as_deref())?;
    let mpi = setup::ensure(workspace)?;
    let program = cargo::build(workspace, Program::benchmark(what.program).of(what.package))?;
    let mut rows = Vec::new();
    for &ranks in &options.ranks {
        let step = Step::begin(format!("measure with {ranks} ranks"));
        let mut command = Launcher::new(&mpi).command(ranks, &program);
        command.args(&options.arguments);
        let script = Script { timeout: Some(LIMIT), collect: true, ..Script::default() };
        let finished = session::run(&command, script)?;
        if finished.end != End::Exited(0) {
            drop(step);
            eprintln!("fampi: the measurement with {ranks} ranks failed: see above");
            return Ok(finished.end.status());
        }
        let new = sheet::rows_of(&finished.lines, what.columns);
        if new.is_empty() {
            bail!("the measurement with {ranks} ranks printed no row of {}", what.columns);
        }
        rows.extend(new);
        step.finish();
    }
    csv.write(what.columns, &rows)?;
    println!("{}", sheet::table(what.header, &rows));
    Ok(0)
}
