//! What surviving costs the sort as long as nothing fails, and how it compares with a sample sort:
//! all programs in turns on the same ranks, so that all meet whatever else goes on.
//!
//! `cargo fampi bench sort -n 8 --csv FILE -- n=10000000 rounds=20` sorts so many keys in 20
//! rounds. Rank 0 prints a row for each way: the median time of a rank, and the median over all
//! rounds of its ratio to the plain sort's time in the same round, with an interval that has the
//! true median with a probability of 95 %. Ways are `plain`, the same sort on bare MPI; `lineage`,
//! `copies` and `files`, with blocks and lists that survive there; `sample`, the plain sample sort;
//! `alone`, one process that sorts all keys while the others sleep; and `tests`, as `lineage`, with
//! ranks that the observer tests, if there is one (`--tests`): in all other turns it stands still.
//! `local=comparison` has all of them sort by comparing keys, and `ways=lineage,tests` leaves out
//! all but these and `plain`, so that more rounds take no longer.

use std::{
    env,
    error::Error,
    path::PathBuf,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use fampi::{World, mpi::MpiPlatform};
use fampi_kit::median::median;
use harness::{observers::Observers, words::split};
use hyperquicksort::{
    exchange::Plain,
    local::Local,
    options::{Members, Options, Store},
    plain,
    report::Sorted,
    resilience::{self, Hooks},
    sample_sort,
};
use mpi::{
    collective::SystemOperation,
    topology::SimpleCommunicator,
    traits::{Communicator as _, CommunicatorCollectives as _},
};

const WAYS: [&str; 7] = ["plain", "lineage", "copies", "files", "sample", "alone", TESTS];
/// The last way, which takes an observer.
const TESTS: &str = "tests";
/// How often keys are sorted in one measurement.
const REPEAT: u32 = 3;

fn main() -> ExitCode {
    let wanted = Wanted::read(env::args().skip(1).filter(|word| word != "--bench"));
    let Some(universe) = mpi::initialize() else {
        eprintln!("sort: start this program with `cargo fampi bench sort`");
        return ExitCode::FAILURE;
    };
    let everybody = universe.world();
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(refusal) => {
            if everybody.rank() == 0 {
                eprintln!("sort: {refusal}");
            }
            return ExitCode::from(2);
        }
    };
    let Err(error) = measure(everybody.duplicate(), &wanted) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("sort: rank {}: {error}", everybody.rank());
    // Others may wait for this rank.
    everybody.abort(1)
}

/// What is to be measured.
struct Wanted {
    options: Options,
    ways: Vec<&'static str>,
    rounds: u64,
    folder: PathBuf,
}

impl Wanted {
    /// What these words say.
    fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let folder = env::temp_dir().join("fampi-bench-sort");
        let mut options = Options { repeat: REPEAT, ..Options::default() };
        options.folder = Some(folder.clone());
        options.keys.count = 10_000_000;
        let mut wanted = Self { options, ways: ways(None)?, rounds: 20, folder };
        for word in words {
            let (name, value) = split(&word);
            let value = value.unwrap_or_default();
            let number = |least: u64| {
                let number = value.parse().ok().filter(|number| *number >= least);
                number
                    .ok_or_else(|| format!("{name} is a number, {least} or more, not \"{value}\""))
            };
            match (name.as_str(), value.as_str()) {
                ("n", _) => wanted.options.keys.count = number(0)?,
                ("rounds", _) => wanted.rounds = number(1)?,
                ("ways", named) => wanted.ways = ways(Some(named))?,
                ("local", "comparison") => wanted.options.local = Local::Comparison,
                _ => {
                    let known = "n=KEYS, rounds=N, ways=WAY,…, local=comparison";
                    return Err(format!("\"{word}\" is none of the words here: {known}"));
                }
            }
        }
        Ok(wanted)
    }
}

/// Whether an observer tests the ranks.
fn is_tested() -> bool {
    env::var_os("FAMPI_DIAGNOSIS").is_some()
}

/// The ways to measure, `plain` first: all, or those that are named.
fn ways(named: Option<&str>) -> Result<Vec<&'static str>, String> {
    let known = if is_tested() { &WAYS[..] } else { &WAYS[..WAYS.len() - 1] };
    let Some(named) = named else { return Ok(known.to_vec()) };
    if let Some(wrong) = named.split(',').find(|name| !known.contains(name)) {
        return Err(format!("there is no way \"{wrong}\" here: it can be {}", known.join(", ")));
    }
    let is_meant = |way: &str| way == WAYS[0] || named.split(',').any(|name| name == way);
    Ok(known.iter().copied().filter(|way| is_meant(way)).collect())
}

fn measure(everybody: SimpleCommunicator, wanted: &Wanted) -> Result<(), Box<dyn Error>> {
    let Wanted { options, ways, rounds, folder } = wanted;
    let (rank, ranks) = (everybody.rank() as u32, everybody.size() as u32);
    let mut world = World::enter(Box::new(MpiPlatform::adopt(&everybody)?))?;
    let mut net = Plain::new(everybody);
    let is_tested = is_tested();
    let mut observers = match rank {
        0 if is_tested => Some(Observers::find(&[])?),
        _ => None,
    };
    let mut times = vec![Vec::new(); ways.len()];
    for round in 0..=*rounds {
        // In another order in each round, as what a way leaves in the caches is felt by the next.
        let mut order: Vec<usize> = (0..ways.len()).collect();
        fastrand::Rng::with_seed(round).shuffle(&mut order);
        for way in order {
            if is_tested {
                world.set_observed(ways[way] == TESTS);
                observers.iter_mut().try_for_each(|it| it.set(ways[way] == TESTS))?;
                net.world().barrier();
            }
            let time = match ways[way] {
                "alone" => sort_alone(net.world(), options)?,
                "plain" => taken(&plain::sort::<i32>(&mut net, rank, ranks, options)?)?,
                "sample" => taken(&sample_sort::sort::<i32>(&mut net, rank, ranks, options)?)?,
                _ => {
                    let mut options = options.clone();
                    options.store = match ways[way] {
                        "copies" => Store::Copies,
                        "files" => Store::Files,
                        _ => Store::Lineage,
                    };
                    if ways[way] == TESTS {
                        options.membership = Members::Tests;
                    }
                    let die = |_| unreachable!("nobody dies");
                    let hooks = Hooks { die: &die, pause: &|_| {}, watch: &mut |_| {} };
                    let (same, sorted) = resilience::sort::<i32>(world, &options, hooks);
                    world = same;
                    taken(&sorted?)?
                }
            };
            let time = of_all(net.world(), time);
            // One round to warm up.
            if round > 0 {
                times[way].push(time);
            }
        }
    }
    observers.iter_mut().try_for_each(|it| it.set(true))?;
    world.set_observed(true);
    if rank == 0 {
        print(ranks, options.keys.count, ways, &times);
    }
    world.finalize();
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}

/// How long a sort took that came out right.
fn taken(sorted: &Sorted) -> Result<Duration, Box<dyn Error>> {
    match &sorted.summary.wrong {
        Some(wrong) => Err(wrong.to_string().into()),
        None => Ok(sorted.times.total),
    }
}

/// The mean of all ranks, or what only one has taken. Where several share a processor a rank leaves
/// the last exchange before the sort, which starts its clock, milliseconds after another: to take
/// the time of one alone would favour the way after whose exchange it comes late.
fn of_all(everybody: &SimpleCommunicator, own: Duration) -> Duration {
    let mut sums = [0.0, 0.0];
    let own = [own.as_secs_f64(), if own.is_zero() { 0.0 } else { 1.0 }];
    everybody.all_reduce_into(&own, &mut sums, SystemOperation::sum());
    Duration::from_secs_f64(sums[0] / sums[1])
}

/// Rank 0 sorts all keys, the others sleep.
fn sort_alone(
    everybody: &SimpleCommunicator,
    options: &Options,
) -> Result<Duration, Box<dyn Error>> {
    let mut time = Duration::ZERO;
    if everybody.rank() == 0 {
        let mut keys = vec![0_i32; options.keys.count as usize];
        for _ in 0..options.repeat {
            options.keys.fill(0, &mut keys)?;
            let began = Instant::now();
            options.local.sort(&mut keys);
            time += began.elapsed();
        }
        if !keys.is_sorted() {
            return Err("one process has sorted wrongly".into());
        }
    }
    let mut barrier = everybody.immediate_barrier();
    while let Err(waiting) = barrier.test() {
        barrier = waiting;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(time)
}

fn print(ranks: u32, keys: u64, ways: &[&str], times: &[Vec<Duration>]) {
    println!("ranks,keys,way,sort_ms,ratio_to_plain,ratio_low,ratio_high");
    for (way, name) in ways.iter().enumerate() {
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
