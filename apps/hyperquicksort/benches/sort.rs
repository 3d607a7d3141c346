//! What surviving costs the sort as long as nothing fails, and how it compares with a sample sort:
//! all programs in turns on the same ranks, so that all meet whatever else goes on.
//!
//! `cargo fampi bench sort -n 8 --csv FILE -- n=10000000 rounds=20` sorts so many keys in 20
//! rounds. Rank 0 prints a row for each way: the median time, and the median over all rounds of
//! its ratio to the plain sort's time in the same round, with an interval that has the true median
//! with a probability of 95 %. Ways are `plain`, the same sort on bare MPI; `lineage`, `copies`
//! and `files`, with blocks and lists that survive there; `sample`, the plain sample sort.

use std::{error::Error, path::Path, process::ExitCode, time::Duration};

use fampi::{World, mpi::MpiPlatform};
use fampi_kit::median::median;
use harness::words::split;
use hyperquicksort::{
    exchange::Plain,
    options::{Options, Store},
    plain,
    report::Sorted,
    resilience::{self, Hooks},
    sample_sort,
};
use mpi::{topology::SimpleCommunicator, traits::Communicator as _};

const WAYS: [&str; 5] = ["plain", "lineage", "copies", "files", "sample"];
/// How often keys are sorted in one measurement.
const REPEAT: u32 = 3;

fn main() -> ExitCode {
    let number = |name: &str| {
        let mut words = std::env::args().map(|word| split(&word));
        words.find(|(known, _)| known == name).and_then(|(_, value)| value?.parse::<u64>().ok())
    };
    let mut options = Options { repeat: REPEAT, ..Options::default() };
    options.keys.count = number("n").unwrap_or(10_000_000);
    let folder = std::env::temp_dir().join("fampi-bench-sort");
    options.folder = Some(folder.clone());
    let rounds = number("rounds").unwrap_or(20).max(1);
    let Some(universe) = mpi::initialize() else {
        eprintln!("sort: start this program with `cargo fampi bench sort`");
        return ExitCode::FAILURE;
    };
    let everybody = universe.world();
    let measured = measure(everybody.duplicate(), &options, rounds, &folder);
    if let (Err(error), 0) = (&measured, everybody.rank()) {
        eprintln!("sort: {error}");
    }
    ExitCode::from(u8::from(measured.is_err()))
}

fn measure(
    everybody: SimpleCommunicator,
    options: &Options,
    rounds: u64,
    folder: &Path,
) -> Result<(), Box<dyn Error>> {
    let (rank, ranks) = (everybody.rank() as u32, everybody.size() as u32);
    let mut world = World::enter(Box::new(MpiPlatform::adopt(&everybody)?))?;
    let mut net = Plain::new(everybody);
    let mut times = [const { Vec::new() }; WAYS.len()];
    for round in 0..=rounds {
        for turn in 0..WAYS.len() {
            let way = (round as usize + turn) % WAYS.len();
            let store = [Store::Lineage, Store::Lineage, Store::Copies, Store::Files];
            let store = store.get(way).copied().unwrap_or(Store::Lineage);
            let options = Options { store, ..options.clone() };
            let sorted: Sorted = match WAYS[way] {
                "plain" => plain::sort::<i32>(&mut net, rank, ranks, &options)?,
                "sample" => sample_sort::sort::<i32>(&mut net, rank, ranks, &options)?,
                _ => {
                    let die = |_| unreachable!("nobody dies");
                    let hooks = Hooks { die: &die, pause: &|_| {}, watch: &mut |_| {} };
                    let (same, sorted) = resilience::sort::<i32>(world, &options, hooks);
                    world = same;
                    sorted?
                }
            };
            if let Some(wrong) = sorted.summary.wrong {
                return Err(wrong.into());
            }
            // One round to warm up.
            if round > 0 {
                times[way].push(sorted.times.total);
            }
        }
    }
    if rank == 0 {
        print(ranks, options.keys.count, &times);
    }
    world.finalize();
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}

fn print(ranks: u32, keys: u64, times: &[Vec<Duration>; WAYS.len()]) {
    println!("ranks,keys,way,sort_ms,ratio_to_plain,ratio_low,ratio_high");
    for (way, name) in WAYS.into_iter().enumerate() {
        let pairs = times[way].iter().zip(&times[0]);
        let mut ratios: Vec<f64> =
            pairs.map(|(time, plain)| time.as_secs_f64() / plain.as_secs_f64()).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        // Between these two places of the order lies the true median, but for one case of twenty.
        let count = ratios.len() as f64;
        let low = ((count - 1.96 * count.sqrt()) / 2.0).floor().max(0.0) as usize;
        let high = ratios.len() - 1 - low;
        let time = median(&times[way]).as_secs_f64() * 1e3 / f64::from(REPEAT);
        let [ratio, low, high] = [median(&ratios), ratios[low], ratios[high]];
        println!("{ranks},{keys},{name},{time:.3},{ratio:.4},{low:.4},{high:.4}");
    }
}
