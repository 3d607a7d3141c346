//! What the service of detection costs `MiniFE` and commits alone: turns with it and without, on
//! the same ranks, so that both meet whatever else goes on.
//!
//! `cargo fampi bench noise` launches this program, with observers. In turns without the service
//! the observers are stopped, so they send, hear and wake up nothing, and the ranks do what ranks
//! without an observer do ([`fampi::World::set_observed`]). An observer that goes on takes what has
//! come, and asks for heartbeats that are late, before it takes a node for lost; what that costs
//! counts as a cost of the service.
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

use std::{
    env,
    error::Error,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use fampi::{
    Level, Outcome, ReduceOp, Reduced, Timeout, World,
    mpi::{Baseline, MpiPlatform},
};
use harness::words::Protect;
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
/// How long a part of a turn is to take, in microseconds.
const PART: f64 = 500.0;
/// Written into each process by the launcher: the job that it belongs to.
const JOB: &str = "PMIX_NAMESPACE";
/// Sends a signal to the processes in its arguments when it is told so, and lets them go on when
/// nobody can tell it anything any more, however that came about. One after another: all at once
/// they would go on in step, which observers of a job never began in.
const SWITCH: &str = r#"while read -r signal; do
    failed=0
    for process in "$@"; do kill -"$signal" "$process" || failed=1; sleep 0.002; done
    echo $failed
done
kill -CONT "$@""#;

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
        let ends = if program == 0 { self.iterate(amount)? } else { self.commit(amount)? };
        if let Some(observers) = &mut self.observers {
            observers.account()?;
        }
        let parts = ends.windows(2).map(|ends| (ends[1] - ends[0]).as_secs_f64() * 1e6);
        Ok(mean_of_undisturbed(parts.collect()) / f64::from(amount.each))
    }

    /// The ends of parts, the first of which has everything that is done once.
    fn iterate(&mut self, amount: Amount) -> Result<Vec<Instant>, Failure> {
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
        Ok(ends)
    }

    /// The moment before the first part, and the ends of all.
    fn commit(&mut self, amount: Amount) -> Result<Vec<Instant>, Failure> {
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
        Ok(ends)
    }
}

fn mean_of_undisturbed(mut parts: Vec<f64>) -> f64 {
    parts.sort_by(f64::total_cmp);
    let most = 2.0 * parts.get(parts.len() / 2).copied().unwrap_or(f64::NAN);
    let kept = &parts[..parts.partition_point(|part| *part <= most)];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The observers, which go on or stand still.
struct Observers {
    /// That of the ranks, and those beside it.
    numbers: Vec<u32>,
    switch: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    on: bool,
    since: Instant,
    /// In turns with the service and without: how long they were, and what each observer has used.
    spent: [(Duration, Vec<Duration>); 2],
    used: Vec<Duration>,
}

impl Observers {
    fn find(beside: &[u32]) -> Result<Self, Failure> {
        let mut numbers = vec![own().ok_or("this launch has no observer: see the warnings")?];
        numbers.extend(beside);
        let mut command = Command::new("setsid");
        // Who ends the session of this launch should not end it, too.
        command.args(["sh", "-c", SWITCH, "switch"]).args(numbers.iter().map(u32::to_string));
        let mut switch = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = switch.stdin.take();
        let answers = BufReader::new(switch.stdout.take().ok_or("no pipe")?);
        let nothing = || (Duration::ZERO, vec![Duration::ZERO; numbers.len()]);
        let spent = [nothing(), nothing()];
        let used = used(&numbers)?;
        Ok(Self { numbers, switch, orders, answers, on: true, since: Instant::now(), spent, used })
    }

    /// Lets them go on, or stops them.
    fn set(&mut self, on: bool) -> Result<(), Failure> {
        if on != self.on {
            self.on = on;
            let signal = if on { "CONT" } else { "STOP" };
            writeln!(self.orders.as_mut().ok_or("no pipe")?, "{signal}")?;
            let mut answer = String::new();
            self.answers.read_line(&mut answer)?;
            if answer.trim_end() != "0" {
                return Err("an observer has ended in the middle of the measurement".into());
            }
        }
        (self.since, self.used) = (Instant::now(), used(&self.numbers)?);
        Ok(())
    }

    /// A turn is over.
    fn account(&mut self) -> Result<(), Failure> {
        let now = used(&self.numbers)?;
        let (time, each) = &mut self.spent[usize::from(self.on)];
        *time += self.since.elapsed();
        for (each, (now, before)) in each.iter_mut().zip(now.into_iter().zip(&self.used)) {
            *each += now.saturating_sub(*before);
        }
        Ok(())
    }

    /// Prints what they have used. They go on.
    fn end(mut self) -> Result<(), Failure> {
        self.set(true)?;
        drop(self.orders.take());
        self.switch.wait()?;
        for (number, at) in self.numbers.iter().zip(0..) {
            let [off, on] =
                self.spent.each_ref().map(|(time, each): &(Duration, Vec<Duration>)| {
                    each[at].as_secs_f64() * 1e6 / time.as_secs_f64()
                });
            println!("{number},{off:.1},{on:.1}");
        }
        Ok(())
    }
}

/// The observer of our launch on this node.
fn own() -> Option<u32> {
    let program = fs::canonicalize(env::var_os("FAMPI_OBSERVER")?).ok()?;
    let job = format!("{JOB}={}", env::var(JOB).ok()?);
    let numbers = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|number| {
        let process = Path::new("/proc").join(number.to_string());
        let ours = |variables: Vec<u8>| {
            variables.split(|byte| *byte == 0).any(|variable| variable == job.as_bytes())
        };
        fs::read_link(process.join("exe")).is_ok_and(|path| path == program)
            && fs::read(process.join("environ")).is_ok_and(ours)
    })
}

/// How long each of these processes has been on a processor.
fn used(numbers: &[u32]) -> Result<Vec<Duration>, Failure> {
    let of = |number: &u32| {
        let text = fs::read_to_string(format!("/proc/{number}/schedstat"))?;
        let nanoseconds = text.split(' ').next().unwrap_or_default().parse()?;
        Ok(Duration::from_nanos(nanoseconds))
    };
    numbers.iter().map(of).collect()
}
