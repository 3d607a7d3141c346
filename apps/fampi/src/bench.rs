//! `fampi bench`: measurements on real ranks, one launch for each number of ranks.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::cargo::{self, Program};
use crate::detect;
use crate::launcher::{self, Launcher};
use crate::progress::Step;
use crate::session::{self, End, Script};
use crate::setup;
use crate::workspace::Workspace;

const COLUMNS: &str = "ranks,operation,median_us,ratio_to_iallreduce";
/// A measurement takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// The cost of a commit, against MPI's own reductions and agreements in the same run
    Commit(Options),
    /// From a death to its agreed report, by several ways to die
    Detect(detect::Options),
}

#[derive(Args)]
pub(crate) struct Options {
    /// Numbers of ranks to measure with
    #[arg(short = 'n', long, value_name = "N,…", value_delimiter = ',', default_value = "2,4,8",
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    ranks: Vec<u32>,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// For the measuring program
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

pub(crate) fn main(workspace: &Workspace, benchmark: &Benchmark) -> Result<u8> {
    match benchmark {
        Benchmark::Commit(options) => commit(workspace, options),
        Benchmark::Detect(options) => detect::main(workspace, options),
    }
}

fn commit(workspace: &Workspace, options: &Options) -> Result<u8> {
    options.ranks.iter().try_for_each(|&ranks| launcher::check_room(ranks))?;
    // A file that cannot be written is no news for after the measurement.
    let csv = options.csv.as_deref().map(open).transpose()?;
    let mpi = setup::ensure(workspace)?;
    let program = cargo::build(workspace, Program::benchmark("commit"))?;
    let mut rows = Vec::new();
    for &ranks in &options.ranks {
        let step = Step::begin(format!("measure with {ranks} ranks"));
        let mut command = Launcher::new(&mpi).command(ranks, &program);
        command.args(&options.arguments);
        let script = Script { timeout: Some(LIMIT), collect: true, ..Script::default() };
        let finished = session::run(&command, script)?;
        if finished.end != End::Exited(0) {
            drop(step);
            eprintln!("fampi: the measurement with {ranks} ranks failed: see above");
            return Ok(finished.end.status());
        }
        let new = rows_of(&finished.lines);
        if new.is_empty() {
            bail!("the measurement with {ranks} ranks printed no row of {COLUMNS}");
        }
        rows.extend(new);
        step.finish();
    }
    if let (Some(file), Some(path)) = (csv, &options.csv) {
        write(file, COLUMNS, &rows).with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{}", table(&rows));
    Ok(0)
}

/// The rows among the printed lines: four columns, the first a number.
fn rows_of(lines: &[String]) -> Vec<[String; 4]> {
    lines
        .iter()
        .filter_map(|line| {
            let columns: Vec<String> = line.trim().split(',').map(str::to_owned).collect();
            columns.first()?.parse::<u32>().ok()?;
            columns.try_into().ok()
        })
        .collect()
}

/// Opens the file for writing; what it holds stays until there is something better.
pub(crate) fn open(path: &Path) -> Result<File> {
    let file = File::options().write(true).create(true).truncate(false).open(path);
    file.with_context(|| format!("choose another file for --csv, as {} fails", path.display()))
}

/// Writes what the file is to hold: a line of columns, and the rows.
pub(crate) fn write(mut file: File, columns: &str, rows: &[[String; 4]]) -> io::Result<()> {
    let lines: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
    file.set_len(0)?;
    file.write_all(format!("{columns}\n{}\n", lines.join("\n")).as_bytes())
}

/// The rows for a person: names to the left, numbers to the right.
fn table(rows: &[[String; 4]]) -> String {
    let header = ["ranks", "operation", "median/µs", "ratio to MPI_Iallreduce"].map(str::to_owned);
    let all: Vec<&[String; 4]> = std::iter::once(&header).chain(rows).collect();
    let width =
        |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (a, b, c, d) = (width(0), width(1), width(2), width(3));
    let lines: Vec<String> = all
        .iter()
        .map(|[ranks, operation, median, ratio]| {
            format!("{ranks:>a$}  {operation:<b$}  {median:>c$}  {ratio:>d$}")
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn rows_are_told_from_headers_and_noise() {
        let printed =
            "ranks,operation,median_us,ratio_to_iallreduce\nhello\n4,commit,2.1,0.48\n4,x\n";
        assert_eq!(rows_of(&lines(printed)), [["4", "commit", "2.1", "0.48"].map(str::to_owned)]);
    }

    #[test]
    fn the_file_has_one_header_and_the_table_lines_up() {
        let rows = rows_of(&lines("2,commit,0.2,0.35\n8,MPI_Iallreduce,31.5,1"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("commit.csv");
        fs::write(&path, "the longer contents of an earlier measurement\n".repeat(9))
            .expect("written");
        write(open(&path).expect("opened"), COLUMNS, &rows).expect("written");
        let text = fs::read_to_string(path).expect("read");
        assert_eq!(text, format!("{COLUMNS}\n2,commit,0.2,0.35\n8,MPI_Iallreduce,31.5,1\n"));
        let widths: Vec<usize> = table(&rows).lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|&width| width == widths[0]), "{widths:?}");
    }
}
