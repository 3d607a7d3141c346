//! `fampi bench`: measurements on real ranks, one launch for each number of ranks.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use crate::cargo::{self, Program};
use crate::csv::{self, Csv, Options, Row};
use crate::detector::{detect, disturbance};
use crate::installation::Family;
use crate::launcher::{self, Launcher};
use crate::library;
use crate::node_losses;
use crate::nodes::Nodes;
use crate::progress::Step;
use crate::ready::Ready;
use crate::recovery;
use crate::refusal::{Misuse, whole};
use crate::report;
use crate::session::{self, End, Script};
use crate::setup;
use crate::workspace::Workspace;

#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// Every measurement, several times, into `benches/BENCHMARKS.md` and the table of README.md
    All(report::Options),
    /// The cost of a commit, against MPI's own reductions and agreements in the same run
    Commit(Spread),
    /// The cost of a commit, and of blocks with 40 to 2000 messages, from C, against the same from
    /// Rust and plain MPI
    Library(Options),
    /// The cost of a block with 4 to 2000 requests, against `MPI_Waitall` and a reduction
    Block(Options),
    /// The cost of an agreement in C, with a dead rank and without, against MPI's own agreement in
    /// the same run
    Agree(Options),
    /// The cost of collectives over the living, once a rank has died, against MPI's own on a
    /// shrunken communicator in the same run
    Living(Options),
    /// The cost of protecting states at a partner and in codes over groups, against a copy in
    /// memory and a plain exchange of the same bytes in the same run
    #[command(mut_arg("ranks", |ranks| ranks.default_value("8")))]
    Data(States),
    /// What blocks cost LULESH, against the plain program in the same run
    #[command(mut_arg("ranks", |ranks| ranks.default_value("8")))]
    Lulesh(Spread),
    /// What blocks cost `MiniFE`, against the plain program in the same run
    #[command(mut_arg("ranks", |ranks| ranks.default_value("4")))]
    Minife(Spread),
    /// What blocks, and lists that survive, cost `HyperQuickSort`, against the plain program, a
    /// sample sort and one process alone in the same run; `-- n=KEYS rounds=N local=comparison
    /// ways=WAY,…` says how many keys, how often, how each process sorts, and what is measured
    #[command(mut_arg("ranks", |ranks| ranks.default_value("8")))]
    Sort(Tested),
    /// From a death to the board of the observer, to the last survivor that knows, and to the
    /// agreed report, by several ways to die
    Detect(detect::Options),
    /// What observers and their heartbeats cost a job that loses no process
    Noise(disturbance::Options),
    /// From a death to the report, to a shrunken or rebuilt world, and to restored data
    Recovery(recovery::Options),
    /// From the loss of a whole node to the report, to a shrunken world, and to one rebuilt by
    /// spares or new processes on other nodes: name spaces of this machine, as root
    Nodes(node_losses::Options),
}

/// A measurement that can be made on several nodes.
#[derive(Args)]
pub(crate) struct Spread {
    #[command(flatten)]
    options: Options,
    /// Numbers of nodes to measure with: hosts, or name spaces of this machine, which take root;
    /// without it all ranks are here
    #[arg(long, value_name = "N,…", value_delimiter = ',',
          value_parser = whole(1_u32..=64, "numbers of nodes from 1 to 64, as in 2,4"),
          allow_negative_numbers = true)]
    nodes: Vec<u32>,
    /// The hosts to use as nodes, by `ssh`
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', requires = "nodes")]
    hosts: Vec<String>,
}

/// A measurement of states.
#[derive(Args)]
pub(crate) struct States {
    #[command(flatten)]
    options: Options,
    /// The sizes of the state of each rank, in MiB
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16",
          value_parser = whole(1_u32..=1024, "sizes from 1 to 1024, as in 1,16"),
          allow_negative_numbers = true)]
    mib: Vec<u32>,
}

/// A measurement beside tests of the ranks.
#[derive(Args)]
pub(crate) struct Tested {
    #[command(flatten)]
    options: Options,
    /// Measure it with tests of the ranks, too, so many milliseconds apart, as with
    /// `run --diagnosis`
    #[arg(long, value_name = "MS", value_parser = disturbance::interval(),
          allow_negative_numbers = true)]
    tests: Option<u32>,
}

/// A measuring program that prints its own rows, one launch for each number of ranks.
struct Measurement {
    program: &'static str,
    package: Option<&'static str>,
    columns: &'static str,
    header: &'static [&'static str],
    /// So many of the ranks that are launched die, beside those to measure with.
    deaths: u32,
}

const COMMIT: Measurement = Measurement {
    program: "commit",
    package: None,
    columns: "ranks,operation,median_us,ratio_to_iallreduce",
    header: &["ranks", "operation", "median/µs", "ratio to MPI_Iallreduce"],
    deaths: 0,
};

const BLOCK: Measurement = Measurement {
    program: "block",
    package: None,
    columns: "ranks,bytes,requests,plain_us,block_us,ratio,all_us,all_ratio",
    header: &["ranks", "bytes", "requests", "plain/µs", "block/µs", "ratio", "at once/µs", "ratio"],
    deaths: 0,
};

const LULESH: Measurement = Measurement {
    program: "overhead",
    package: Some("lulesh"),
    columns: "ranks,edge,way,cycle_ms,ratio_to_plain",
    header: &["ranks", "edge", "way", "cycle/ms", "ratio to plain"],
    deaths: 0,
};

const LIVING: Measurement = Measurement {
    program: "living",
    package: None,
    columns: "ranks,kind,bytes,shrunk_us,living_us,ratio",
    header: &["ranks", "collective", "bytes", "shrunken/µs", "over the living/µs", "ratio"],
    deaths: 1,
};

/// The package of the programs in C.
const OF_C: &str = "fampi-ffi";

const AGREE: Measurement = Measurement {
    program: "agree",
    package: Some(OF_C),
    columns: "ranks,dead,ours_us,mpi_us,ratio",
    header: &["ranks", "dead", "fampi/µs", "MPIX_Comm_agree/µs", "ratio"],
    deaths: 1,
};

const MINIFE: Measurement = Measurement {
    program: "overhead",
    package: Some("minife"),
    columns: "ranks,edge,way,iteration_ms,ratio_to_plain",
    header: &["ranks", "edge", "way", "iteration/ms", "ratio to plain"],
    deaths: 0,
};

const DATA: Measurement = Measurement {
    program: "data",
    package: None,
    columns: "ranks,mib,level,phase,median_ms,mib_per_s,ratio_to_memcpy,ratio_to_exchange",
    header: &["ranks", "MiB", "level", "phase", "median/ms", "MiB/s", "/ memcpy", "/ exchange"],
    deaths: 0,
};

const SORT: Measurement = Measurement {
    program: "sort",
    package: Some("hyperquicksort"),
    columns: "ranks,keys,way,sort_ms,ratio_to_plain,ratio_low,ratio_high",
    header: &["ranks", "keys", "way", "sort/ms", "ratio to plain", "from", "to"],
    deaths: 0,
};

pub(crate) fn main(workspace: &Workspace, benchmark: &Benchmark) -> Result<u8> {
    match benchmark {
        Benchmark::All(options) => report::main(workspace, options),
        Benchmark::Commit(spread) => measure_spread(workspace, &COMMIT, spread),
        Benchmark::Library(options) => library::main(workspace, options),
        Benchmark::Block(options) => measure(workspace, &BLOCK, options),
        Benchmark::Agree(options) => measure(workspace, &AGREE, options),
        Benchmark::Living(options) => measure(workspace, &LIVING, options),
        Benchmark::Data(states) => {
            let mut options = states.options.clone();
            options.arguments.extend(states.mib.iter().map(ToString::to_string));
            measure(workspace, &DATA, &options)
        }
        Benchmark::Lulesh(spread) => measure_spread(workspace, &LULESH, spread),
        Benchmark::Minife(spread) => measure_spread(workspace, &MINIFE, spread),
        Benchmark::Sort(tested) => measure_tested(workspace, &SORT, tested),
        Benchmark::Detect(options) => detect::main(workspace, options),
        Benchmark::Noise(options) => disturbance::main(workspace, options),
        Benchmark::Recovery(options) => recovery::main(workspace, options),
        Benchmark::Nodes(options) => node_losses::main(workspace, options),
    }
}

fn measure(workspace: &Workspace, what: &Measurement, options: &Options) -> Result<u8> {
    measure_with(workspace, what, options, &[])
}

/// As [`measure`], with an observer that tests the ranks if that is asked for.
fn measure_tested(workspace: &Workspace, what: &Measurement, tested: &Tested) -> Result<u8> {
    let Some(interval) = tested.tests else { return measure(workspace, what, &tested.options) };
    if tested.options.mpi == Family::Mpich {
        let advice = "with tests it is measured with Open MPI alone: leave --tests or --mpi out";
        return Err(Misuse(advice.to_owned()).into());
    }
    let observer = cargo::build(workspace, Program::observer().at_its_best())?;
    let variables =
        [("FAMPI_OBSERVER", observer.into_os_string()), disturbance::diagnosis(interval)];
    measure_with(workspace, what, &tested.options, &variables)
}

fn measure_with(
    workspace: &Workspace,
    what: &Measurement,
    options: &Options,
    variables: &[(&str, OsString)],
) -> Result<u8> {
    let launched = |ranks: u32| ranks.saturating_add(what.deaths);
    options.ranks.iter().try_for_each(|&ranks| launcher::check_room(launched(ranks)))?;
    if what.package == Some(OF_C) && options.mpi == Family::Mpich {
        return Err(Misuse(library::NOT_ON_MPICH.to_owned()).into());
    }
    let csv = Csv::open(options.csv.as_deref())?;
    let ready = Ready::with(workspace, options.mpi)?;
    let program = if what.package == Some(OF_C) {
        library::compile(workspace, &ready.mpi, what.program)?
    } else {
        ready.build(Program::benchmark(what.program).of(what.package))?
    };
    let mut rows = Vec::new();
    for &ranks in &options.ranks {
        let mut command = ready.launcher().command(launched(ranks), &program);
        command.env_remove("FAMPI_OBSERVER").env_remove(disturbance::DIAGNOSIS);
        command.args(&options.arguments).envs(variables.iter().cloned());
        match launch(&command, &format!("{ranks} ranks"), what, options.limit())? {
            Ok(new) => rows.extend(new),
            Err(status) => return Ok(status),
        }
    }
    csv.write(what.columns, &rows)?;
    println!("{}", csv::table(what.header, &rows));
    Ok(0)
}

/// Launches a measuring program: its rows, or the status with which it failed.
fn launch(
    command: &Command,
    of: &str,
    what: &Measurement,
    limit: Duration,
) -> Result<Result<Vec<Row>, u8>> {
    let step = Step::begin(format!("measure with {of}"));
    let script = Script { timeout: Some(limit), collect: true, ..Script::default() };
    let finished = session::run(command, script)?;
    // A launcher that has lost a rank says so by its status.
    let is_whole = match finished.end {
        End::Exited(status) => status == 0 || what.deaths > 0,
        _ => false,
    };
    if !is_whole {
        drop(step);
        let why = match finished.end {
            End::TimedOut => {
                let seconds = limit.as_secs();
                format!("did not end within {seconds} s: ask for less at a time, or --timeout")
            }
            _ => "failed: see above".to_owned(),
        };
        say!("fampi: the measurement with {of} {why}");
        return Ok(Err(finished.end.status()));
    }
    let rows = csv::rows_of(&finished.lines, what.columns);
    if rows.is_empty() {
        bail!("the measurement with {of} printed no row of {}", what.columns);
    }
    step.finish();
    Ok(Ok(rows))
}

/// How ranks are placed on nodes.
const PLACED: [&str; 2] = ["slot", "node"];

/// As [`measure`], on several nodes if that is asked for: their ranks fill one after the other,
/// then come in turns.
fn measure_spread(workspace: &Workspace, what: &Measurement, spread: &Spread) -> Result<u8> {
    let Spread { options, nodes, hosts } = spread;
    if nodes.is_empty() {
        return measure(workspace, what, options);
    }
    if options.mpi == Family::Mpich {
        let advice =
            "on several nodes it is measured with Open MPI alone: leave --nodes or --mpi out";
        return Err(Misuse(advice.to_owned()).into());
    }
    options.ranks.iter().try_for_each(|&ranks| launcher::check_room(ranks))?;
    let csv = Csv::open(options.csv.as_deref())?;
    let mpi = setup::ensure(workspace)?;
    let program = cargo::build(workspace, Program::benchmark(what.program).of(what.package))?;
    let mut rows: Vec<Row> = Vec::new();
    for &number in nodes {
        let nodes = Nodes::new(number, hosts)?;
        for &ranks in options.ranks.iter().filter(|ranks| **ranks >= number) {
            for (placed, in_turns) in PLACED.into_iter().zip([false, true]) {
                let extra = nodes.arguments(ranks, in_turns)?;
                let mut command = Launcher::with(&mpi, &extra).command(ranks, &program);
                command.args(&options.arguments);
                let of = format!("{ranks} ranks on {number} nodes by {placed}");
                match launch(&nodes.first(command), &of, what, options.limit())? {
                    Ok(new) => rows.extend(new.into_iter().map(|row| {
                        [number.to_string(), placed.to_owned()].into_iter().chain(row).collect()
                    })),
                    Err(status) => return Ok(status),
                }
                // One rank on each node is placed in one way.
                if ranks == number {
                    break;
                }
            }
        }
    }
    csv.write(&format!("nodes,placed_by,{}", what.columns), &rows)?;
    let header: Vec<&str> = ["nodes", "by"].iter().chain(what.header).copied().collect();
    println!("{}", csv::table(&header, &rows));
    Ok(0)
}
