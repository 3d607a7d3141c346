//! What the service of detection costs programs: turns with it and without, on the same ranks, so
//! that both meet whatever else goes on.
//!
//! `cargo fampi bench noise` and `figure detector` launch this program, with observers, which stand
//! still in turns without the service ([`harness::observers`]).
//!
//! A turn is measured in parts of half a millisecond. One that took twice as long as the median of
//! its turn was kept from a processor by another, as an observer never takes one for so long,
//! and does not count. Operations of MPI of several kinds and sizes take parts of a turn by turns.
//!
//! ```text
//! round 1   off │ off again │ on     MiniFE, then the same with commits, then with operations
//! round 2   off again │ on │ off     …
//! ```
//!
//! Arguments: rounds, milliseconds of a turn, the programs with commas between them (`minife`,
//! `commit`, `ping-pong:BYTES`, `broadcast:BYTES`, `allreduce:BYTES`), and the numbers of observers
//! beside that of the ranks. Rank 0 prints a row for each round and program,
//! `round,program,off,control,on` in microseconds for an iteration, a commit or an operation; then
//! a row for each observer, the first of which is that of the ranks, `number,off,on`: microseconds
//! on a processor in a second of such turns.

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
/// What is done of each program to learn how much fits into a turn.
const SAMPLE: [u32; 2] = [20, 20];
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
    let words: Vec<String> = env::args().skip(1).collect();
    let [rounds, milliseconds, programs, beside @ ..] = &words[..] else {
        return Err("start this program with `cargo fampi bench noise`".into());
    };
    let (rounds, milliseconds): (usize, f64) = (rounds.parse()?, milliseconds.parse()?);
    let groups = groups(programs)?;
    let beside: Vec<u32> = beside.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let mut platform = MpiPlatform::new()?;
    let baseline = platform.baseline()?;
    let world = World::enter(Box::new(platform))?;
    let observers = match world.rank().number() {
        0 => Some(Observers::find(&beside)?),
        _ => None,
    };
    let mut bench = Bench { world: Some(world), baseline, observers };
    let turn = milliseconds * 1e3;
    let amounts = groups.iter().map(|group| bench.amount(group, turn));
    let amounts = amounts.collect::<Result<Vec<_>, _>>()?;
    for round in 0..rounds {
        for (group, amount) in groups.iter().zip(&amounts) {
            let mut times = vec![[0.0; WAYS]; group.names().len()];
            for turn in 0..WAYS {
                let way = (round + turn) % WAYS;
                let taken = bench.turn(group, way == ON, amount)?;
                for (times, time) in times.iter_mut().zip(taken) {
                    times[way] = time;
                }
            }
            if bench.observers.is_some() {
                for (name, [off, control, on]) in group.names().iter().zip(times) {
                    println!("{round},{name},{off:.4},{control:.4},{on:.4}");
                }
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

/// Programs that are measured in one turn.
enum Group {
    Minife,
    Commit,
    Operations(Vec<Operation>),
}

/// An operation of MPI, by itself.
struct Operation {
    name: String,
    kind: Kind,
    bytes: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    PingPong,
    Broadcast,
    Allreduce,
}

/// The groups that these words name: operations that follow each other are one.
fn groups(words: &str) -> Result<Vec<Group>, Failure> {
    let mut groups = Vec::new();
    for word in words.split(',') {
        match (word, groups.last_mut()) {
            ("minife", _) => groups.push(Group::Minife),
            ("commit", _) => groups.push(Group::Commit),
            (_, Some(Group::Operations(operations))) => operations.push(operation(word)?),
            _ => groups.push(Group::Operations(vec![operation(word)?])),
        }
    }
    Ok(groups)
}

fn operation(word: &str) -> Result<Operation, Failure> {
    let (kind, bytes) = word.split_once(':').ok_or("an operation is KIND:BYTES")?;
    let kind = match kind {
        "ping-pong" => Kind::PingPong,
        "broadcast" => Kind::Broadcast,
        "allreduce" => Kind::Allreduce,
        _ => return Err(format!("`{kind}` is no operation that is measured").into()),
    };
    Ok(Operation { name: word.to_owned(), kind, bytes: bytes.parse()? })
}

impl Group {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Minife => vec!["minife"],
            Self::Commit => vec!["commit"],
            Self::Operations(operations) => operations.iter().map(|it| &*it.name).collect(),
        }
    }
}

/// What is done in a turn: parts, in each of which a program does its own so often.
struct Amount {
    each: Vec<u32>,
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
    /// How much of a group fits into a turn of so many microseconds; the same on all ranks.
    fn amount(&mut self, group: &Group, turn: f64) -> Result<Amount, Failure> {
        let [each, parts] = SAMPLE;
        let sample = Amount { each: vec![each; group.names().len()], parts };
        // Once to warm up.
        self.turn(group, true, &sample)?;
        let mut whole = 0.0;
        let mut each = Vec::new();
        for time in self.turn(group, true, &sample)? {
            let block = self.world()?.start(Level::Global)?;
            let reducing = block.finish_allreduce([time], ReduceOp::Max, Timeout::Never)?;
            let Reduced::Committed([time], _) = reducing.wait_local(Timeout::Never)? else {
                return Err("a rank has died".into());
            };
            let often = (PART / time).ceil().clamp(1.0, 1e5);
            whole += often * time;
            each.push(often as u32);
        }
        Ok(Amount { each, parts: (turn / whole).clamp(3.0, 1e5) as u32 })
    }

    fn world(&self) -> Result<&World, Failure> {
        self.world.as_ref().ok_or_else(|| "a solve has failed".into())
    }

    /// Microseconds of an iteration, of a commit, or of each of the operations.
    fn turn(&mut self, group: &Group, on: bool, amount: &Amount) -> Result<Vec<f64>, Failure> {
        self.world()?.set_observed(on);
        if let Some(observers) = &mut self.observers {
            observers.set(on)?;
        }
        self.baseline.allreduce()?;
        let parts = match group {
            Group::Minife => vec![self.iterate(amount.each[0], amount.parts)?],
            Group::Commit => vec![self.commit(amount.each[0], amount.parts)?],
            Group::Operations(operations) => self.operate(operations, amount)?,
        };
        if let Some(observers) = &mut self.observers {
            observers.account()?;
        }
        let one = |(parts, each): (_, &u32)| mean_of_undisturbed(parts) / f64::from(*each);
        Ok(parts.into_iter().zip(&amount.each).map(one).collect())
    }

    /// Microseconds of each part of each operation, which take turns.
    fn operate(
        &mut self,
        operations: &[Operation],
        amount: &Amount,
    ) -> Result<Vec<Vec<f64>>, Failure> {
        let size = self.world()?.size();
        let mut parts = vec![Vec::with_capacity(amount.parts as usize); operations.len()];
        for _ in 0..amount.parts {
            for ((operation, parts), each) in operations.iter().zip(&mut parts).zip(&amount.each) {
                let (begun, bytes) = (Instant::now(), operation.bytes);
                for at in 0..*each {
                    match operation.kind {
                        Kind::PingPong => self.baseline.ping_pong(bytes)?,
                        Kind::Broadcast => self.baseline.broadcast(bytes, at % size)?,
                        Kind::Allreduce => self.baseline.union(bytes)?,
                    }
                }
                parts.push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
        Ok(parts)
    }

    /// Microseconds of each part. Nothing is left to iterate for after too many iterations, so a
    /// long turn solves again.
    fn iterate(&mut self, each: u32, parts: u32) -> Result<Vec<f64>, Failure> {
        let mut taken = Vec::with_capacity(parts as usize);
        while taken.len() < parts as usize {
            let most = (MOST_ITERATIONS / each).max(1);
            let left = parts - taken.len() as u32;
            taken.extend(self.solve(each, left.min(most))?);
        }
        Ok(taken)
    }

    /// One solve, whose first iteration has everything that is done once, and is no part.
    fn solve(&mut self, each: u32, parts: u32) -> Result<Vec<f64>, Failure> {
        let iterations = 1 + each * parts;
        let options = Options {
            elements: [24; 3],
            limits: Limits { max_iterations: iterations, tolerance: 0.0 },
            faults: Faults { protect: Protect::Never, ..Faults::default() },
            ..Options::default()
        };
        let world = self.world.take().ok_or("a solve has failed")?;
        let mut ends = Vec::with_capacity(parts as usize + 1);
        let mut watch = |iteration: u32, _| {
            if (iteration - 1).is_multiple_of(each) {
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
    fn commit(&mut self, each: u32, parts: u32) -> Result<Vec<f64>, Failure> {
        let world = self.world()?;
        let mut ends = vec![Instant::now()];
        for _ in 0..parts {
            for _ in 0..each {
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
