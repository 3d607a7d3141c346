//! What the service of detection costs `MiniFE` and commits alone: turns with it and without, on
//! the same ranks, so that both meet whatever else goes on.
//!
//! `cargo fampi bench noise` launches this program, with observers, which stand still in turns
//! without the service ([`harness::observers`]).
//!
//! A turn is measured in parts of half a millisecond. One that took twice as long as the median of
//! its turn was kept from a processor by another, as an observer never takes one for so long,
//! and does not count.
//!
//! ```text
//! round 1   off │ off again │ on     MiniFE, then the same with commits
//! round 2   off again │ on │ off     …
//! ```
//!
//! Arguments: rounds, milliseconds of a turn, and the numbers of observers beside that of the
//! ranks. Rank 0 prints a row for each round and program, `round,program,off,control,on` in
//! microseconds for an iteration or a commit; then a row for each observer, the first of which is
//! that of the ranks, `number,off,on`: microseconds on a processor in a second of such turns.

use std::{env, error::Error, process::ExitCode, time::Instant};

use fampi::{
    Level, Outcome, ReduceOp, Reduced, Timeout, World,
    mpi::{Baseline, MpiPlatform},
};
use harness::{observers::Observers, words::Protect};
use minife::{
    cg::Limits,
    options::{Faults, Options},
    resilience::{self, Hooks},
};

/// A turn with the service; the other two are without it.
const ON: usize = 2;
const WAYS: usize = 3;
const PROGRAMS: [&str; 2] = ["minife", "commit"];
/// What is done to learn how much fits into a turn.
const SAMPLE: Amount = Amount { each: 20, parts: 20 };
/// As many iterations leave something to iterate for.
const MOST_ITERATIONS: u32 = 500;
/// How long a part of a turn is to take, in microseconds.
const PART: f64 = 500.0;

type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("noise: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Failure> {
    let words: Vec<u32> = env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [rounds, milliseconds, beside @ ..] = &words[..] else {
        return Err("start this program with `cargo fampi bench noise`".into());
    };
    let mut platform = MpiPlatform::new()?;
    let baseline = platform.baseline()?;
    let world = World::enter(Box::new(platform))?;
    let observers = match world.rank().number() {
        0 => Some(Observers::find(beside)?),
        _ => None,
    };
    let mut bench = Bench { world: Some(world), baseline, observers };
    let amounts = bench.amounts(f64::from(*milliseconds) * 1e3)?;
    for round in 0..*rounds as usize {
        for (program, amount) in amounts.into_iter().enumerate() {
            let mut times = [0.0; WAYS];
            for turn in 0..WAYS {
                let way = (round + turn) % WAYS;
                times[way] = bench.turn(program, way == ON, amount)?;
            }
            if bench.observers.is_some() {
                let [off, control, on] = times;
                println!("{round},{},{off:.4},{control:.4},{on:.4}", PROGRAMS[program]);
            }
        }
    }
    if let Some(observers) = bench.observers.take() {
        observers.end()?;
    }
    let world = bench.world.ok_or("a solve has failed")?;
    world.set_observed(true);
    world.finalize();
    Ok(())
}

/// What is done in a turn: parts of so many iterations or commits each.
#[derive(Clone, Copy)]
struct Amount {
    each: u32,
    parts: u32,
}

/// A rank that is measured.
struct Bench {
    world: Option<World>,
    baseline: Baseline,
    /// On the first rank.
    observers: Option<Observers>,
}

impl Bench {
    /// How many iterations, and commits, fit into a turn of so many microseconds; the same on all
    /// ranks.
    fn amounts(&mut self, turn: f64) -> Result<[Amount; 2], Failure> {
        let mut amounts = [SAMPLE; 2];
        for (program, amount) in amounts.iter_mut().enumerate() {
            // Once to warm up.
            self.turn(program, true, SAMPLE)?;
            let time = self.turn(program, true, SAMPLE)?;
            let block = self.world()?.start(Level::Global)?;
            let reducing = block.finish_allreduce([time], ReduceOp::Max, Timeout::Never)?;
            let Reduced::Committed([time], _) = reducing.wait_local(Timeout::Never)? else {
                return Err("a rank has died".into());
            };
            let each = (PART / time).ceil().clamp(1.0, 1e5);
            let parts = (turn / (each * time)).clamp(3.0, 1e5) as u32;
            *amount = Amount { each: each as u32, parts };
        }
        Ok(amounts)
    }

    fn world(&self) -> Result<&World, Failure> {
        self.world.as_ref().ok_or_else(|| "a solve has failed".into())
    }

    /// Microseconds of an iteration or a commit.
    fn turn(&mut self, program: usize, on: bool, amount: Amount) -> Result<f64, Failure> {
        self.world()?.set_observed(on);
        if let Some(observers) = &mut self.observers {
            observers.set(on)?;
        }
        self.baseline.allreduce()?;
        let parts = if program == 0 { self.iterate(amount)? } else { self.commit(amount)? };
        if let Some(observers) = &mut self.observers {
            observers.account()?;
        }
        Ok(mean_of_undisturbed(parts) / f64::from(amount.each))
    }

    /// Microseconds of each part. Nothing is left to iterate for after too many iterations, so a
    /// long turn solves again.
    fn iterate(&mut self, amount: Amount) -> Result<Vec<f64>, Failure> {
        let mut parts = Vec::with_capacity(amount.parts as usize);
        while parts.len() < amount.parts as usize {
            let most = (MOST_ITERATIONS / amount.each).max(1);
            let left = amount.parts - parts.len() as u32;
            parts.extend(self.solve(Amount { parts: left.min(most), ..amount })?);
        }
        Ok(parts)
    }

    /// One solve, whose first iteration has everything that is done once, and is no part.
    fn solve(&mut self, amount: Amount) -> Result<Vec<f64>, Failure> {
        let iterations = 1 + amount.each * amount.parts;
        let options = Options {
            elements: [24; 3],
            limits: Limits { max_iterations: iterations, tolerance: 0.0 },
            faults: Faults { protect: Protect::Never, ..Faults::default() },
            ..Options::default()
        };
        let world = self.world.take().ok_or("a solve has failed")?;
        let mut ends = Vec::with_capacity(amount.parts as usize + 1);
        let mut watch = |iteration: u32, _| {
            if (iteration - 1).is_multiple_of(amount.each) {
                ends.push(Instant::now());
            }
        };
        let hooks = Hooks { die: &|_| unreachable!("nobody dies"), watch: &mut watch };
        let (world, solved) = resilience::solve(world, &options, hooks);
        self.world = Some(world);
        if solved?.iterations != iterations {
            return Err("an iteration broke down".into());
        }
        Ok(between(&ends))
    }

    /// Microseconds of each part.
    fn commit(&mut self, amount: Amount) -> Result<Vec<f64>, Failure> {
        let world = self.world()?;
        let mut ends = vec![Instant::now()];
        for _ in 0..amount.parts {
            for _ in 0..amount.each {
                let pending = world.start(Level::Global)?.finish(Timeout::Never);
                let Outcome::Committed(_) = pending.wait_local(Timeout::Never)? else {
                    return Err("a rank has died".into());
                };
            }
            ends.push(Instant::now());
        }
        Ok(between(&ends))
    }
}

/// Microseconds from each moment to the next.
fn between(moments: &[Instant]) -> Vec<f64> {
    moments.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e6).collect()
}

fn mean_of_undisturbed(mut parts: Vec<f64>) -> f64 {
    parts.sort_by(f64::total_cmp);
    let most = 2.0 * parts.get(parts.len() / 2).copied().unwrap_or(f64::NAN);
    let kept = &parts[..parts.partition_point(|part| *part <= most)];
    kept.iter().sum::<f64>() / kept.len() as f64
}
