//! The program behind `cargo fampi sim`: whole jobs on simulated ranks, one for each seed.
//!
//! ```text
//! swarm seeds N [from F] [ranks A-B]     runs N seeds; the first that fails is made smaller
//! swarm seed S [ranks A-B]               runs one seed and tells its story
//! swarm job LINE                         the same for a job that is written out
//! ```

use std::{
    ops::RangeInclusive,
    process::ExitCode,
    sync::Mutex,
    time::{Duration, Instant},
};

use fampi_checkers::simulation::{
    job::{Job, RANKS},
    program::Program as _,
    tally::Tally,
};
use fampi_kit::seeds;

/// Between two words about how far the work is.
const TOLD_EVERY: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match asked(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(Asked::Seeds { first, count, ranks }) => run_seeds(first, count, &ranks),
        Ok(Asked::One(job)) => tell(&job),
        Err(wrong) => {
            eprintln!("fampi: {wrong}");
            ExitCode::from(2)
        }
    }
}

/// What the command line asks for.
enum Asked {
    Seeds { first: u64, count: u64, ranks: RangeInclusive<u32> },
    One(Job),
}

fn asked(words: &[&str]) -> Result<Asked, String> {
    if let ["job", line @ ..] = words {
        return Job::from_line(&line.join(" ")).map(Asked::One);
    }
    let (mut seed, mut first, mut count, mut ranks) = (None, 0, 10_000, RANKS);
    let (pairs, []) = words.as_chunks::<2>() else {
        return Err("the words come in pairs: a name and its value".into());
    };
    for [name, value] in pairs {
        let number = value.parse::<u64>().map_err(|_| format!("`{value}` is no number"));
        match *name {
            "seeds" => count = number?,
            "seed" => seed = Some(number?),
            "from" => first = number?,
            "ranks" => ranks = range(value)?,
            _ => return Err(format!("`{name}` is none of seeds, seed, from, ranks, job")),
        }
    }
    Ok(match seed {
        Some(seed) => Asked::One(Job::drawn_among(seed, &ranks)),
        None => Asked::Seeds { first, count, ranks },
    })
}

fn range(text: &str) -> Result<RangeInclusive<u32>, String> {
    let ends = text.split_once('-').unwrap_or((text, text));
    match (ends.0.parse(), ends.1.parse()) {
        (Ok(from), Ok(to)) if 1 <= from && from <= to => Ok(from..=to),
        _ => Err(format!("`{text}` is no number of ranks, nor a range as in 2-16")),
    }
}

fn run_seeds(first: u64, count: u64, ranks: &RangeInclusive<u32>) -> ExitCode {
    let (began, tally) = (Instant::now(), Mutex::new(Tally::default()));
    let (from, to) = (ranks.start(), ranks.end());
    eprintln!("fampi: {count} jobs of {from} to {to} ranks, from seed {first}");
    let progress = Mutex::new(Progress { done: 0, of: count, began, told: began });
    let ended = seeds::each_seed(first, count, |seed| {
        let seen = Job::drawn_among(seed, ranks).run(false)?;
        tally.lock().expect("nobody panics with it").add(&seen);
        progress.lock().expect("nobody panics with it").step();
        Ok(())
    });
    let took = began.elapsed().as_secs_f64();
    match ended {
        Ok(()) => {
            let tally = tally.into_inner().expect("nobody panics with it");
            let rate = count as f64 / took;
            println!("{count} seeds in {took:.1} s, {rate:.0} a second: {tally}");
            ExitCode::SUCCESS
        }
        Err((seed, violation)) => {
            let job = Job::drawn_among(seed, ranks);
            let violation: String = violation;
            println!("seed {seed} fails: {violation}\n  {job}\n");
            let (small, violation) = job.shrunk(violation);
            println!("{}\n\nit fails, too: {violation}", small.report(true));
            println!("the same again: {}", small.described());
            ExitCode::FAILURE
        }
    }
}

/// How far the seeds are, told now and then on standard error.
struct Progress {
    done: u64,
    of: u64,
    began: Instant,
    told: Instant,
}

impl Progress {
    fn step(&mut self) {
        self.done += 1;
        if self.told.elapsed() < TOLD_EVERY || self.done == self.of {
            return;
        }
        self.told = Instant::now();
        let took = self.began.elapsed().as_secs_f64();
        let left = took / self.done as f64 * (self.of - self.done) as f64;
        eprintln!("fampi: {} of {} jobs, {left:.0} s left", self.done, self.of);
    }
}

fn tell(job: &Job) -> ExitCode {
    println!("{job}\n");
    match job.run(true) {
        Ok(tally) => {
            println!("nothing is wrong: {tally}");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("it fails: {violation}");
            ExitCode::FAILURE
        }
    }
}
