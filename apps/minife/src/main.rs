//! `MiniFE` on the ranks of an MPI job, surviving the loss of processes.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use harness::process::{self, Own, die};
use indicatif::{ProgressBar, ProgressStyle};

use minife::exchange::Plain;
use minife::kill_plan::PHASES;
use minife::options::{FaultTolerance, HELP, Options, Progress, YamlTarget};
use minife::plain;
use minife::report::{FinalLine, Report};
use minife::resilience::{self, Hooks, Solved};
use minife::verify::Check;

fn main() -> ExitCode {
    let began = Instant::now();
    let own =
        Own { program: "minife", help: HELP, version: env!("CARGO_PKG_VERSION"), phases: &PHASES };
    match process::begin(own, Options::parse, |options| &mut options.faults) {
        Ok(options) if options.faults.tolerance == FaultTolerance::On => resilient(&options, began),
        Ok(options) => bare(&options, began),
        Err(status) => status,
    }
}

fn resilient(options: &Options, began: Instant) -> ExitCode {
    let world = match process::enter("minife") {
        Ok(world) => world,
        Err(status) => return status,
    };
    let first = world.rank().number() == 0;
    let bar = progress_bar(options, first);
    let mut watch = |k: u32, norm: f64| {
        bar.set_position(u64::from(k));
        bar.set_message(format!("residual {norm:.3e}"));
    };
    let hooks = Hooks { die: &die, watch: &mut watch };
    let (world, result) = resilience::solve(world, options, hooks);
    bar.finish_and_clear();
    let first = world.rank().number() == 0;
    let status = match result {
        Ok(solved) if first => announce(options, world.size() as usize, &solved, began),
        Ok(solved) => verdict(options, &solved),
        Err(error) => refuse(process::speaks(&world, error.lost()), &error.to_string()),
    };
    world.finalize();
    status
}

fn bare(options: &Options, began: Instant) -> ExitCode {
    use mpi::traits::Communicator;
    let Some(universe) = mpi::initialize() else {
        return refuse(true, "MPI cannot be initialised; start this program with fampi run");
    };
    let world = universe.world();
    let first = world.rank() == 0;
    let ranks = world.size() as usize;
    let (rank, mut net) = (world.rank() as usize, Plain::new(world));
    match plain::solve(&mut net, rank, ranks, options) {
        Ok(solved) if first => announce(options, ranks, &solved, began),
        Ok(solved) => verdict(options, &solved),
        Err(error) => refuse(first, &error.to_string()),
    }
}

/// Writes the report and the last line.
fn announce(options: &Options, ranks: usize, solved: &Solved, began: Instant) -> ExitCode {
    let mesh = solved.row_map.mesh();
    let source = f64::from(u8::from(options.source));
    let check = Check::new(mesh, source, solved.summary.max_error);
    let result = FinalLine {
        ranks,
        rows: mesh.rows(),
        nonzeros: mesh.nonzeros(),
        iterations: solved.iterations,
        residual: solved.residual,
        max_error: solved.summary.max_error,
        centre: solved.summary.centre,
        digest: solved.summary.digest,
    };
    let report = Report {
        name: &options.name,
        row_map: &solved.row_map,
        result,
        matrix_bytes: solved.matrix_bytes,
        setup: solved.setup,
        solve: solved.times,
        resilience: (options.faults.tolerance == FaultTolerance::On).then_some(solved.resilience),
        program: began.elapsed(),
        now: SystemTime::now(),
    };
    let written = write_report(options, &report);
    if let Err(sentence) = &written {
        eprintln!("minife: {sentence}");
    }
    for (k, norm) in (1_u32..).zip(&solved.history) {
        if k.is_multiple_of(20) || k == options.limits.max_iterations {
            println!("iteration {k}: residual {norm:.16e}");
        }
    }
    let comparison = if check.passes() { "within" } else { "NOT within" };
    println!(
        "verification: max error {:.6e} at {} nodes, {comparison} {:.6e} (source {})",
        check.max_error,
        solved.summary.points,
        check.tolerance,
        u8::from(options.source),
    );
    if let Some(sentence) = solved.resilience.sentence("iteration") {
        println!("{sentence}");
    }
    println!("{result}");
    let was_asked = matches!(options.yaml, YamlTarget::File(_));
    if written.is_err() && was_asked { ExitCode::FAILURE } else { verdict(options, solved) }
}

fn verdict(options: &Options, solved: &Solved) -> ExitCode {
    let source = f64::from(u8::from(options.source));
    let check = Check::new(solved.row_map.mesh(), source, solved.summary.max_error);
    if options.verify && !check.passes() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Writes the YAML file; a reader never sees half of it.
fn write_report(options: &Options, report: &Report<'_>) -> Result<(), String> {
    let path = match &options.yaml {
        YamlTarget::Dated => report.file_name().into(),
        YamlTarget::File(path) => path.clone(),
        YamlTarget::Nowhere => return Ok(()),
    };
    let mut half = path.clone().into_os_string();
    half.push(".part");
    let written = std::fs::write(&half, report.yaml()).and_then(|()| std::fs::rename(&half, &path));
    written.map_err(|error| format!("the report {} cannot be written: {error}", path.display()))
}

fn progress_bar(options: &Options, first: bool) -> ProgressBar {
    let shown = match options.progress {
        Progress::Always => true,
        Progress::Never => false,
        Progress::WhenWatched => std::io::stderr().is_terminal(),
    };
    if !(shown && first) {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(u64::from(options.limits.max_iterations));
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

fn refuse(aloud: bool, sentence: &str) -> ExitCode {
    process::refuse("minife", aloud, sentence)
}
