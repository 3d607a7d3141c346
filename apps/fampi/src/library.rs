//! `fampi bench library`: what a commit costs from C, beside the same from Rust.
//!
//! Two programs, as each has its own way into MPI, in turns, so that whatever else goes on meets
//! both. Each measures MPI's own reduction, too. Ratios are the medians of those of all turns.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fampi_kit::median::median;

use crate::bench::Options;
use crate::cargo::{self, Program};
use crate::install;
use crate::installation::Installation;
use crate::launcher::{self, Launcher};
use crate::progress::Step;
use crate::session::{self, End, Script};
use crate::setup;
use crate::sheet::{self, Csv, Row};
use crate::workspace::Workspace;

/// A program takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(300);
const TURNS: usize = 15;
/// What both programs print.
const PRINTED: &str = "ranks,operation,median_us,ratio_to_iallreduce";
const COLUMNS: &str = "ranks,rust_us,c_us,c_to_rust,iallreduce_us,c_to_iallreduce";
const HEADER: [&str; 6] =
    ["ranks", "Rust/µs", "C/µs", "C to Rust", "MPI_Iallreduce/µs", "C to MPI_Iallreduce"];

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    options.ranks.iter().try_for_each(|&ranks| launcher::check_room(ranks))?;
    let csv = Csv::open(options.csv.as_deref())?;
    let mpi = setup::ensure(workspace)?;
    let rust = cargo::build(workspace, Program::benchmark("commit"))?;
    let c = compile(workspace, &mpi)?;
    // What the program in C does, in the same turns.
    let words = ["60", "iallreduce", "commit", "allreduce"].map(str::to_owned);
    let words: Vec<String> = words.into_iter().chain(options.arguments.clone()).collect();
    let mut rows = Vec::new();
    for &ranks in &options.ranks {
        let step = Step::begin(format!("measure with {ranks} ranks"));
        let mut turns = Vec::new();
        for _ in 0..TURNS {
            let of_rust = microseconds(&run(&mpi, ranks, &rust, &words)?, "commit")?;
            let printed = run(&mpi, ranks, &c, &[])?;
            let of_c = microseconds(&printed, "commit")?;
            let reduction = microseconds(&printed, "iallreduce")?;
            turns.push([of_rust, of_c, of_c / of_rust, reduction, of_c / reduction]);
        }
        let of_turns = |at: usize| median(&turns.iter().map(|turn| turn[at]).collect::<Vec<_>>());
        let texts = (0..5).map(|at| format!("{:.3}", of_turns(at)));
        rows.push(std::iter::once(ranks.to_string()).chain(texts).collect());
        step.finish();
    }
    csv.write(COLUMNS, &rows)?;
    println!("{}", sheet::table(&HEADER, &rows));
    Ok(0)
}

/// Builds the C library and the program that measures it; where it is.
fn compile(workspace: &Workspace, mpi: &Installation) -> Result<PathBuf> {
    let libraries = install::build(workspace, cargo::BEST)?;
    let (source, made) = (workspace.root().join("ffi"), libraries.join("commit-of-c"));
    let mut compiler = Command::new(mpi.prefix.join("bin/mpicc"));
    compiler.args(["-O2", "-I"]).arg(source.join("include")).arg("-o").arg(&made);
    compiler.arg(source.join("benches/commit.c")).arg("-L").arg(&libraries).arg("-lfampi");
    for folder in [&libraries, &mpi.prefix.join("lib")] {
        compiler.arg(format!("-Wl,-rpath,{}", folder.display()));
    }
    if !compiler.status().context("cannot start mpicc")?.success() {
        bail!("the program in C cannot be built: see above");
    }
    Ok(made)
}

/// What a program prints.
fn run(mpi: &Installation, ranks: u32, program: &Path, words: &[String]) -> Result<Vec<Row>> {
    let mut command = Launcher::new(mpi).command(ranks, program);
    command.args(words);
    let script = Script { timeout: Some(LIMIT), collect: true, ..Script::default() };
    let finished = session::run(&command, script)?;
    if finished.end != End::Exited(0) {
        bail!("the measurement with {ranks} ranks failed: see above");
    }
    Ok(sheet::rows_of(&finished.lines, PRINTED))
}

/// What an operation took.
fn microseconds(rows: &[Row], operation: &str) -> Result<f64> {
    let row = rows.iter().find(|row| row[1] == operation);
    let number = row.and_then(|row| row[2].parse().ok());
    number.with_context(|| format!("the measuring program printed no row about {operation}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_an_operation_is_found_by_its_name() {
        let lines = [PRINTED, "2,iallreduce,0.52,1", "2,commit,0.25,0.48"].map(str::to_owned);
        let rows = sheet::rows_of(&lines, PRINTED);
        assert_eq!(microseconds(&rows, "commit").ok(), Some(0.25));
        assert!(microseconds(&rows, "agree").is_err());
    }
}
