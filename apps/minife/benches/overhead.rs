//! What blocks cost `MiniFE` as long as nothing fails: the plain program and the resilient one, in
//! turns on the same ranks, so that both meet whatever else goes on.
//!
//! `cargo fampi bench minife --ranks 4 --csv FILE -- 64 50 20` is for 64³ elements and 20 rounds of
//! 50 iterations in each way. Rank 0 prints a row for each way: the median time of an iteration,
//! and the median over all rounds of its ratio to the plain program's in the same round. `fused`
//! has both sums of an iteration on its commits, `unfused` has them as requests; neither copies.
//! `default` is what the program does without an option: fused, with copies as often as pays. Its
//! first iterations, which find out what a copy costs, weigh less the more iterations there are.

use std::{error::Error, process::ExitCode};

use fampi::{World, mpi::MpiPlatform};
use fampi_kit::median::median;
use harness::words::Protect;
use minife::{
    cg::Limits,
    exchange::Plain,
    options::{Faults, Options},
    plain,
    resilience::{self, Hooks},
};
use mpi::{topology::SimpleCommunicator, traits::Communicator as _};

const WAYS: [&str; 4] = ["plain", "fused", "unfused", "default"];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse::<usize>().ok());
    let edge = words.next().unwrap_or(64).clamp(2, 1000);
    let max_iterations = words.next().unwrap_or(50).clamp(2, 1000) as u32;
    let rounds = words.next().unwrap_or(20);
    let limits = Limits { max_iterations, tolerance: 0.0 };
    let options = Options { elements: [edge; 3], limits, ..Options::default() };
    let Some(universe) = mpi::initialize() else {
        eprintln!("overhead: start this program with `cargo fampi bench minife`");
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
    let mut world = World::enter(Box::new(MpiPlatform::adopt(&everybody)?))?;
    let mut net = Plain::new(everybody);
    let mut times = [const { Vec::new() }; WAYS.len()];
    for round in 0..=rounds {
        for turn in 0..WAYS.len() {
            let way = (round + turn) % WAYS.len();
            let faults = match way {
                3 => Faults::default(),
                _ => Faults { fused: way == 1, protect: Protect::Never, ..Faults::default() },
            };
            let options = Options { faults, ..options.clone() };
            let solved = if way == 0 {
                plain::solve(&mut net, rank, ranks, &options)?
            } else {
                let hooks = Hooks { die: &|_| unreachable!("nobody dies"), watch: &mut |_, _| {} };
                let (same, solved) = resilience::solve(world, &options, hooks);
                world = same;
                solved?
            };
            // One round to warm up.
            if round > 0 {
                let each = solved.times.total.as_secs_f64() * 1e3 / f64::from(solved.iterations);
                times[way].push(each);
            }
        }
    }
    if rank == 0 {
        println!("ranks,edge,way,iteration_ms,ratio_to_plain");
        for (way, name) in WAYS.into_iter().enumerate() {
            let ratios = times[way].iter().zip(&times[0]).map(|(time, plain)| time / plain);
            let (ratio, time) = (median(&ratios.collect::<Vec<_>>()), median(&times[way]));
            println!("{ranks},{},{name},{time:.4},{ratio:.4}", options.elements[0]);
        }
    }
    world.finalize();
    Ok(())
}
