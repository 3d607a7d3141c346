//! The program behind `cargo fampi sim diagnosis`: tests among busy hosts, and the paper's figures
//! 7 to 13 as rows. The same words give the same rows.
//!
//! `slow_hosts hosts 18 rounds 30000 seed 1`, or `slow_hosts sizes 16,64,256 1`: how tests grow
//! with the number of hosts

use std::process::ExitCode;

use fampi_checkers::diagnosis::{
    figures::{COLUMNS, Figures, Setting},
    sizes,
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [name, sizes, seed] = &words[..]
        && name == "sizes"
    {
        return ended(growth(sizes, seed));
    }
    ended(setting(&words).map(|setting| {
        println!("{COLUMNS}");
        Figures::of(setting).rows().iter().for_each(|row| println!("{row}"));
    }))
}

fn ended(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("fampi: {wrong}");
            ExitCode::from(2)
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

/// Prints how tests grow with these numbers of hosts.
fn growth(sizes: &str, seed: &str) -> Result<(), String> {
    let sizes: Vec<u32> = sizes.split(',').map(number).collect::<Result<_, _>>()?;
    if let Some(size) = sizes.iter().find(|size| !(2..=65_536).contains(*size)) {
        return Err(format!("there are 2 to 65536 hosts, not {size}"));
    }
    println!("{}", sizes::COLUMNS);
    for row in sizes::rows(&sizes, number(seed)?.into()) {
        println!("{}", row.to_line());
    }
    Ok(())
}

fn setting(words: &[String]) -> Result<Setting, String> {
    let mut setting = Setting { hosts: 18, rounds: 30_000, seed: 1 };
    let (pairs, []) = words.as_chunks::<2>() else {
        return Err("the words come in pairs: a name and its value".into());
    };
    for [name, value] in pairs {
        let number = number(value)?;
        match name.as_str() {
            "hosts" => setting.hosts = number.clamp(2, 64),
            "rounds" => setting.rounds = number.max(1),
            "seed" => setting.seed = u64::from(number),
            _ => return Err(format!("`{name}` is none of hosts, rounds, seed")),
        }
    }
    Ok(setting)
}
