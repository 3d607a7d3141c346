//! The program behind `cargo fampi sim scale`: agreements on up to a million simulated ranks.
//!
//! The commit is the engine's own machine; beside it stand the two usual agreements, a reduction
//! with a broadcast over a tree, and a centre that all ranks tell, and the commit of ranks that do
//! not know on which nodes they are, with exchanges of several widths: so it is with deaths, too.
//! Time passes as in `fampi_kit::loggp`.
//! Prints one row for each agreement, number of ranks and number of deaths.
//!
//! `scale ranks 1024,65536 deaths 0,10 latency 2500 overhead 1500 gap 1000 byte 6`

mod agreements;

use std::process::ExitCode;

use agreements::Kind;
use fampi::protocol::exchange::Shape;
use fampi_kit::loggp::{Cost, Outcome};

/// Ranks times deaths up to which a run is made unasked: every rank keeps what it knows of the
/// dead, in three places. 1,000 deaths on 2^20 ranks take 14 GiB.
const MEMORY: u64 = 1 << 28;

/// Commits with other exchanges than the engine's, for comparison.
const SHAPES: [(&str, Shape); 3] = [
    ("commit-flat", Shape::WIDE),
    ("commit-doubling", Shape::DOUBLING),
    ("commit-8x4", Shape::new(8, 4)),
];

/// What to simulate.
struct Plan {
    ranks: Vec<u32>,
    deaths: Vec<u32>,
    cost: Cost,
    /// Runs that take much memory are made, too.
    large: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match plan(&words) {
        Ok(plan) => {
            simulate(&plan);
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::from(2)
        }
    }
}

fn plan(words: &[String]) -> Result<Plan, String> {
    let mut plan =
        Plan { ranks: vec![1 << 10], deaths: vec![0], cost: Cost::default(), large: false };
    let (pairs, []) = words.as_chunks::<2>() else {
        return Err("the words come in pairs: a name and its value".into());
    };
    for [name, value] in pairs {
        let numbers: Result<Vec<u32>, _> = value.split(',').map(str::parse).collect();
        let numbers = numbers.map_err(|_| format!("`{value}` is no list of numbers"))?;
        let first = u64::from(numbers[0]);
        match name.as_str() {
            "ranks" => plan.ranks = numbers,
            "deaths" => plan.deaths = numbers,
            "latency" => plan.cost.latency = first,
            "overhead" => plan.cost.overhead = first,
            "gap" => plan.cost.gap = first,
            "byte" => plan.cost.per_byte = first,
            "large" => plan.large = first == 1,
            "node" => plan.cost.node = numbers[0].max(1),
            "near-latency" => plan.cost.near_latency = first,
            "near-overhead" => plan.cost.near_overhead = first,
            "detection" => plan.cost.detection = first,
            _ => return Err(format!("`{name}` is not known here")),
        }
    }
    let most = 1 << 22;
    match plan.ranks.iter().find(|ranks| !(2..=most).contains(*ranks)) {
        Some(ranks) => Err(format!("{ranks} ranks are not between 2 and {most}")),
        None => Ok(plan),
    }
}

fn simulate(plan: &Plan) {
    println!("ranks,agreement,deaths,latency_us,delays,messages_mean,messages_max,bytes_mean");
    for &ranks in &plan.ranks {
        for &deaths in plan.deaths.iter().filter(|deaths| **deaths < ranks) {
            if !plan.large && u64::from(ranks) * u64::from(deaths) > MEMORY {
                eprintln!("left out, as it takes much memory: {deaths} deaths on {ranks} ranks");
                continue;
            }
            let outcome = match deaths {
                0 => agreements::placed(ranks, Shape::WIDE, plan.cost),
                _ => agreements::commit(ranks, deaths, Shape::WIDE, plan.cost),
            };
            print(ranks, deaths, "commit", &outcome);
        }
        for (name, shape) in SHAPES {
            print(ranks, 0, name, &agreements::commit(ranks, 0, shape, plan.cost));
        }
        for kind in [Kind::Tree, Kind::Star] {
            print(ranks, 0, kind.name(), &agreements::usual(kind, ranks, plan.cost));
        }
    }
}

fn print(ranks: u32, deaths: u32, agreement: &str, outcome: &Outcome) {
    println!(
        "{ranks},{agreement},{deaths},{:.3},{},{:.3},{},{:.1}",
        outcome.latency as f64 / 1000.0,
        outcome.delays,
        outcome.messages as f64 / f64::from(ranks),
        outcome.messages_max,
        outcome.bytes as f64 / f64::from(ranks),
    );
}
