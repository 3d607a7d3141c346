//! `HyperQuickSort` on the ranks of an MPI job, surviving the loss of processes.

use std::io::Read as _;
use std::process::{Command, ExitCode, Stdio, id};
use std::thread::{sleep, spawn};
use std::time::Duration;

use harness::process::{self, Own, die};
use mpi::traits::Communicator;

use hyperquicksort::exchange::Plain;
use hyperquicksort::keys::Key;
use hyperquicksort::kill_plan::PHASES;
use hyperquicksort::options::{Algorithm, FaultTolerance, HELP, KeyType, Options};
use hyperquicksort::report::{Report, Sorted};
use hyperquicksort::resilience::{self, Hooks, SortError};
use hyperquicksort::stages::Stage;
use hyperquicksort::{plain, sample_sort};

const PROGRAM: &str = "hyperquicksort";

fn main() -> ExitCode {
    let own =
        Own { program: PROGRAM, help: HELP, version: env!("CARGO_PKG_VERSION"), phases: &PHASES };
    let options = match process::begin(own, Options::parse, |options| &mut options.faults) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match (options.faults.tolerance, options.key_type) {
        (FaultTolerance::On, KeyType::I32) => resilient::<i32>(&options),
        (FaultTolerance::On, KeyType::I64) => resilient::<i64>(&options),
        (FaultTolerance::Off, KeyType::I32) => bare::<i32>(&options),
        (FaultTolerance::Off, KeyType::I64) => bare::<i64>(&options),
    }
}

fn resilient<K: Key>(options: &Options) -> ExitCode {
    let world = match process::enter(PROGRAM) {
        Ok(world) => world,
        Err(status) => return status,
    };
    let shown = options.progress && world.rank().number() == 0;
    let mut watch = |stage: Stage| {
        if shown {
            println!("{stage}");
        }
    };
    let hooks = Hooks { die: &die, pause: &stop, watch: &mut watch };
    let (world, result) = resilience::sort::<K>(world, options, hooks);
    let status = match &result {
        Ok(sorted) => announce(options, sorted),
        Err(SortError::Lost(error)) => {
            process::refuse(PROGRAM, process::speaks(&world, Some(error)), &error.to_string())
        }
        Err(SortError::Options(error)) => {
            process::refuse(PROGRAM, process::speaks(&world, None), &error.to_string())
        }
        Err(error) => refuse(error),
    };
    world.finalize();
    let _ = result.map(|sorted| sorted.clear());
    status
}

/// Stops this process as a whole for so long, so that it answers no tests, either.
///
/// It goes on as soon as the signal comes: a shell that shares a busy processor may end much later,
/// and this process would pass tests meanwhile.
fn stop(time: Duration) {
    let (id, seconds) = (id(), time.as_secs_f64());
    // The output ends when the stop is sure to come first.
    let script = format!("kill -STOP {id} && exec >&- && sleep {seconds}; kill -CONT {id}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped());
    let Ok(mut shell) = shell.spawn() else { return sleep(time) };
    let mut output = shell.stdout.take();
    spawn(move || shell.wait());
    let ended = output.as_mut().map(|output| output.read(&mut [0]));
    debug_assert!(matches!(ended, Some(Ok(0))), "the shell writes nothing");
}

fn bare<K: Key>(options: &Options) -> ExitCode {
    let Some(universe) = mpi::initialize() else {
        let sentence = "MPI cannot be initialised; start this program with fampi run";
        return process::refuse(PROGRAM, true, sentence);
    };
    let world = universe.world();
    let (rank, ranks) = (world.rank() as u32, world.size() as u32);
    let mut net = Plain::new(world);
    let result = match options.algorithm {
        Algorithm::HyperQuickSort => plain::sort::<K>(&mut net, rank, ranks, options),
        Algorithm::SampleSort => sample_sort::sort::<K>(&mut net, rank, ranks, options),
    };
    match result {
        Ok(sorted) => announce(options, &sorted),
        Err(SortError::Options(error)) => process::refuse(PROGRAM, rank == 0, &error.to_string()),
        Err(error) => {
            let _ = refuse(&error);
            // The others wait for this rank.
            net.world().abort(1)
        }
    }
}

/// Writes the report and the last line, and judges the result.
fn announce(options: &Options, sorted: &Sorted) -> ExitCode {
    match sorted.summary.wrong {
        None if sorted.first => println!("{}", Report { options, sorted }),
        Some(wrong) if sorted.first => eprintln!("{PROGRAM}: the result is wrong: {wrong}"),
        _ => {}
    }
    if sorted.summary.wrong.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Says why a run cannot go on, on the rank that knows it.
fn refuse(error: &SortError) -> ExitCode {
    let aloud = !matches!(error, SortError::Trouble(None));
    let _ = process::refuse(PROGRAM, aloud, &error.to_string());
    ExitCode::FAILURE
}
