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
        let number = |text: &str| text.parse::<u32>().map_or(16, |it| it.clamp(2, 65_536));
        let sizes: Vec<u32> = sizes.split(',').map(number).collect();
        println!("{}", sizes::COLUMNS);
        for row in sizes::rows(&sizes, seed.parse().unwrap_or(1)) {
            println!("{}", row.to_line());
        }
        return ExitCode::SUCCESS;
    }
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
