//! The simulated part of `cargo fampi figure ring-token`: tokens around a ring of thousands of
//! processes which die, in virtual time.
//!
//! Prints the rows that `benches/ring_token.rs` prints on real ranks, those of `known` for one
//! survivor of each node. The same words give the same rows.
//!
//! `simulated_ring processes 64 nodes 4 tokens 4000 pace 250000 deaths 3@62500000,7@9 seed 1`

mod ring;

use std::{
    io::{self, BufWriter, Write as _},
    process::ExitCode,
};

use fampi_kit::tokens::Plan;
use ring::{Known, Place, Ring};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let done = read(&words).and_then(|(plan, place)| {
        let ring = Ring::new(&plan, place).run()?;
        tell(&ring).map_err(|error| format!("cannot print: {error}"))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::from(2)
        }
    }
}

fn read(words: &[String]) -> Result<(Plan, Place), String> {
    let mut plan = Plan::default();
    let mut place = Place { processes: 16, nodes: 4, seed: 1 };
    let (pairs, []) = words.as_chunks::<2>() else {
        return Err("the words come in pairs: a name and its value".into());
    };
    for [name, value] in pairs {
        let number = || value.parse().map_err(|_| format!("`{value}` is no number"));
        match &**name {
            "processes" => place.processes = number()?,
            "nodes" => place.nodes = number()?,
            "seed" => place.seed = number()?.into(),
            _ => plan.read(name, value)?,
        }
    }
    let Place { processes, nodes, .. } = place;
    if nodes == 0 || processes % nodes != 0 || processes < 2 {
        return Err(format!("{processes} processes are not as many on each of {nodes} nodes"));
    }
    if plan.deaths.iter().any(|(rank, _)| *rank == 0 || *rank >= processes) {
        return Err("rank 0 lives, and there are no ranks beyond the last".into());
    }
    if plan.tokens == 0 || plan.pace == 0 {
        return Err("there is no token, or no pace".into());
    }
    Ok((plan, place))
}

fn tell(ring: &Ring) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for (rank, moment) in ring.deaths() {
        writeln!(out, "died,{rank},{moment}")?;
    }
    for Known { dead, by, at } in &ring.known {
        writeln!(out, "known,{dead},{by},{at}")?;
    }
    for (number, (made, trip)) in ring.tokens().iter().enumerate() {
        match trip {
            Some(trip) => writeln!(out, "token,{number},{made},{},{}", trip.back, trip.hops)?,
            None => writeln!(out, "token,{number},{made},lost,lost")?,
        }
    }
    out.flush()
}
