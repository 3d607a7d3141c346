//! What blocks cost LULESH as long as nothing fails: the plain program and the resilient one, in
//! turns on the same ranks, so that both meet whatever else goes on.
//!
//! `cargo fampi bench lulesh --ranks 8 --csv FILE -- 10 40 100` is for edge 10 and 100 rounds of 40
//! cycles in each way. Rank 0 prints a row for each way: the median time of a cycle, and the median
//! over all rounds of its ratio to the plain program's in the same round. `fused` agrees on the
//! time step with the commit, `unfused` by a reduction beside it; `copies` is fused, with a copy of
//! the state to the partner every ten cycles. `default` is what the program does without an option:
//! fused, with copies as often as pays. Its first cycles, which find out what a copy costs, weigh
//! less the more cycles there are.

use std::{error::Error, process::ExitCode, time::Instant};

use fampi::{World, mpi::MpiPlatform};
use fampi_kit::median::median;
use harness::words::Protect;
use lulesh::{
    exchange::Plain,
    options::{Faults, Options},
    plain,
    resilience::{self, Hooks},
};
use mpi::{topology::SimpleCommunicator, traits::Communicator as _};

const WAYS: [&str; 5] = ["plain", "fused", "unfused", "copies", "default"];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse::<usize>().ok());
    let options = Options {
        edge: words.next().unwrap_or(10).clamp(1, 100),
        most_cycles: words.next().unwrap_or(40).clamp(2, 1000) as u32,
        ..Options::default()
    };
    let rounds = words.next().unwrap_or(100);
    let Some(universe) = mpi::initialize() else {
        eprintln!("overhead: start this program with `cargo fampi bench lulesh`");
        return ExitCode::FAILURE;
    };
    let everybody = universe.world();
    let measured = measure(everybody.duplicate(), &options, rounds);
    if let (Err(error), 0) = (&measured, everybody.rank()) {
        eprintln!("overhead: {error}");
    }
    ExitCode::from(u8::from(measured.is_err()))
}

fn measure(
    everybody: SimpleCommunicator,
    options: &Options,
    rounds: usize,
) -> Result<(), Box<dyn Error>> {
    let (rank, ranks) = (everybody.rank() as usize, everybody.size() as usize);
    let mesh = options.mesh(rank, ranks)?;
    let (edge, most_cycles) = (options.edge, options.most_cycles);
    let mut world = World::enter(Box::new(MpiPlatform::adopt(&everybody)?))?;
    let mut net = Plain::new(everybody);
    let mut times = [const { Vec::new() }; WAYS.len()];
    for round in 0..=rounds {
        for turn in 0..WAYS.len() {
            let way = (round + turn) % WAYS.len();
            let protect = match way {
                3 => Protect::Every(10),
                4 => Protect::Auto,
                _ => Protect::Never,
            };
            let faults = Faults { fused: way != 2, protect, ..Faults::default() };
            let options = Options { faults, ..options.clone() };
            // The first cycle has everything that is done once.
            let mut ends = Vec::with_capacity(most_cycles as usize);
            if way == 0 {
                let mut watch = |_: &_| ends.push(Instant::now());
                plain::simulate(&mut net, mesh, &options, &mut watch)?;
            } else {
                let mut watch = |_: &mut _| ends.push(Instant::now());
                let hooks = Hooks { die: &|_| unreachable!("nobody dies"), watch: &mut watch };
                let (same, simulated) = resilience::simulate(world, &options, hooks);
                simulated?;
                world = same;
            }
            let (Some(first), Some(last)) = (ends.first(), ends.last()) else { continue };
            let each = (*last - *first).as_secs_f64() * 1e3 / f64::from(most_cycles - 1);
            // One round to warm up.
            if round > 0 {
                times[way].push(each);
            }
        }
    }
    if rank == 0 {
        println!("ranks,edge,way,cycle_ms,ratio_to_plain");
        for (way, name) in WAYS.into_iter().enumerate() {
            let ratios = times[way].iter().zip(&times[0]).map(|(time, plain)| time / plain);
            let (ratio, time) = (median(&ratios.collect::<Vec<_>>()), median(&times[way]));
            println!("{ranks},{edge},{name},{time:.4},{ratio:.4}");
        }
    }
    world.finalize();
    Ok(())
}
