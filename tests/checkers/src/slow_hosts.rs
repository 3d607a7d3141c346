//! The program behind `cargo fampi sim diagnosis`: tests among busy hosts, and the paper's figures
//! 7 to 13 as rows. The same words give the same rows.
//!
//! `slow_hosts hosts 18 rounds 30000 seed 1`

use std::process::ExitCode;

use fampi_checkers::diagnosis::figures::{COLUMNS, Figures, Setting};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match setting(&words) {
        Ok(setting) => {
            println!("{COLUMNS}");
            Figures::of(setting).rows().iter().for_each(|row| println!("{row}"));
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("fampi: {wrong}");
            ExitCode::from(2)
        }
    }
}

fn setting(words: &[String]) -> Result<Setting, String> {
    let mut setting = Setting { hosts: 18, rounds: 30_000, seed: 1 };
    let (pairs, []) = words.as_chunks::<2>() else {
        return Err("the words come in pairs: a name and its value".into());
    };
    for [name, value] in pairs {
        let number: u32 = value.parse().map_err(|_| format!("`{value}` is no number"))?;
        match name.as_str() {
            "hosts" => setting.hosts = number.clamp(2, 64),
            "rounds" => setting.rounds = number.max(1),
            "seed" => setting.seed = u64::from(number),
            _ => return Err(format!("`{name}` is none of hosts, rounds, seed")),
        }
    }
    Ok(setting)
}
