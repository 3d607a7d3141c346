//! `LULESH` on the ranks of an MPI job, surviving the loss of processes.

use std::process::ExitCode;

use harness::process::{self, Own, die};
use mpi::traits::Communicator;

use lulesh::exchange::Plain;
use lulesh::kill_plan::PHASES;
use lulesh::mesh::Mesh;
use lulesh::options::{FaultTolerance, HELP, Options};
use lulesh::plain;
use lulesh::report::{FinalLine, Report};
use lulesh::resilience::{self, Hooks, Simulated};
use lulesh::state::{Clock, State};

fn main() -> ExitCode {
    let own =
        Own { program: "lulesh", help: HELP, version: env!("CARGO_PKG_VERSION"), phases: &PHASES };
    match process::begin(own, Options::parse, |options| &mut options.faults) {
        Ok(options) if options.faults.tolerance == FaultTolerance::On => resilient(&options),
        Ok(options) => bare(&options),
        Err(status) => status,
    }
}

fn resilient(options: &Options) -> ExitCode {
    let world = match process::enter("lulesh") {
        Ok(world) => world,
        Err(status) => return status,
    };
    let first = world.rank().number() == 0;
    let mut watch = |state: &mut State| print_progress(options, first, &state.clock);
    let hooks = Hooks { die: &die, watch: &mut watch };
    let (world, result) = resilience::simulate(world, options, hooks);
    let first = world.rank().number() == 0;
    let mesh = options.mesh(0, world.size() as usize);
    let status = match (result, mesh) {
        (Ok(simulated), Ok(mesh)) => announce(options, mesh, &simulated, first),
        (Err(error), _) => refuse(process::speaks(&world, error.lost()), &error.to_string()),
        (_, Err(error)) => refuse(first, &error.to_string()),
    };
    world.finalize();
    status
}

fn bare(options: &Options) -> ExitCode {
    let Some(universe) = mpi::initialize() else {
        return refuse(true, "MPI cannot be initialised; start this program with fampi run");
    };
    let world = universe.world();
    let (rank, ranks) = (world.rank() as usize, world.size() as usize);
    let mesh = match options.mesh(rank, ranks) {
        Ok(mesh) => mesh,
        Err(error) => return refuse(rank == 0, &error.to_string()),
    };
    let mut net = Plain::new(world);
    let mut watch = |clock: &Clock| print_progress(options, rank == 0, clock);
    match plain::simulate(&mut net, mesh, options, &mut watch) {
        Ok(simulated) => announce(options, mesh, &simulated, rank == 0),
        Err(error) => {
            eprintln!("lulesh: {error} on rank {rank}; the simulation cannot go on");
            // The others wait for this rank.
            net.world().abort(1)
        }
    }
}

fn print_progress(options: &Options, first: bool, clock: &Clock) {
    if options.progress && !options.quiet && first {
        let Clock { cycle, time, step, .. } = clock;
        println!("cycle = {cycle}, time = {time:.6e}, dt={step:.6e}");
    }
}

/// Writes the report and the last line, and judges the result.
fn announce(options: &Options, mesh: Mesh, simulated: &Simulated, first: bool) -> ExitCode {
    let Simulated { summary, elapsed, resilience } = simulated;
    if first {
        let resilience = (options.faults.tolerance == FaultTolerance::On).then_some(*resilience);
        if !options.quiet {
            print!("{}", Report { mesh, summary, elapsed: *elapsed, resilience });
        }
        println!("{}", FinalLine::new(mesh, summary));
    }
    if summary.totals.asymmetry.passes() {
        return ExitCode::SUCCESS;
    }
    if first {
        eprintln!("lulesh: the result is not symmetric; see MaxAbsDiff");
    }
    ExitCode::FAILURE
}

fn refuse(aloud: bool, sentence: &str) -> ExitCode {
    process::refuse("lulesh", aloud, sentence)
}
