//! The program behind `cargo fampi sim detector`: detection of failures on up to 65,536 simulated
//! nodes, beside SWIM.
//!
//! The observers are those of this crate; SWIM is the crate *foca*. Time passes as in
//! `fampi_kit::observers::stations`. Prints one row for each point of a figure of Zhong 2019; the
//! same words give the same rows.
//!
//! `detector nodes 8,64,512 swim 512 trials 30 seed 1`

mod figures;
mod swim;
mod trial;

use std::process::ExitCode;

use figures::Plan;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match plan(&words) {
        Ok(plan) => {
            println!("{}", figures::COLUMNS);
            figures::all(&plan);
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::from(2)
        }
    }
}

fn plan(words: &[String]) -> Result<Plan, String> {
    let mut plan = Plan { nodes: vec![8, 64], swim: 64, trials: 3, seed: 1 };
    let (pairs, []) = words.as_chunks::<2>() else {
        return Err("the words come in pairs: a name and its value".into());
    };
    for [name, value] in pairs {
        let numbers: Result<Vec<u32>, _> = value.split(',').map(str::parse).collect();
        let numbers = numbers.map_err(|_| format!("`{value}` is no list of numbers"))?;
        match name.as_str() {
            "nodes" => plan.nodes = numbers,
            "swim" => plan.swim = numbers[0],
            "trials" => plan.trials = numbers[0].max(1),
            "seed" => plan.seed = u64::from(numbers[0]),
            _ => return Err(format!("`{name}` is not known here")),
        }
    }
    let most = 1 << 16;
    match plan.nodes.iter().find(|nodes| !(4..=most).contains(*nodes)) {
        Some(nodes) => Err(format!("{nodes} nodes are not between 4 and {most}")),
        None => Ok(plan),
    }
}
