//! The rows of a measurement: a file for programs, a table for a person.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::installation::Family;
use crate::launcher;
use crate::refusal::whole;

pub(crate) type Row = Vec<String>;

/// What a measurement is told.
#[derive(Args, Clone)]
pub(crate) struct Options {
    /// Numbers of ranks to measure with
    #[arg(short = 'n', long, value_name = "N,…", value_delimiter = ',', default_value = "2,4,8",
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    pub(crate) ranks: Vec<u32>,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// The MPI, which `cargo fampi setup` has set up
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mpi: Family,
    /// End a launch after so many seconds: it has failed
    #[arg(long, value_name = "SECONDS", default_value = "300", allow_negative_numbers = true,
          value_parser = whole(1_u64..=1_000_000, "seconds, 1 or more"))]
    pub(crate) timeout: u64,
    /// For the measuring program
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<String>,
}

impl Options {
    /// How long a launch may take.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// The file that a measurement goes to, if there is to be one.
#[derive(Debug)]
pub(crate) struct Csv(Option<(PathBuf, File)>);

impl Csv {
    /// Opens the file for writing; what it holds stays until there is something better. A file
    /// that cannot be written is no news for after the measurement.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| {
            format!("choose another file for --csv, as {} fails", path.display())
        })?;
        Ok(Self(Some((path.to_owned(), file))))
    }

    /// One header, then the rows.
    pub(crate) fn write(self, columns: &str, rows: &[Row]) -> Result<()> {
        let Some((path, mut file)) = self.0 else { return Ok(()) };
        let lines: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
        let text = format!("{columns}\n{}\n", lines.join("\n"));
        let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The rows among the printed lines: as many columns as these, the first a number.
pub(crate) fn rows_of(lines: &[String], columns: &str) -> Vec<Row> {
    let width = columns.split(',').count();
    let rows = lines.iter().map(|line| line.trim().split(',').map(str::to_owned).collect());
    rows.filter(|row: &Row| row.len() == width && row[0].parse::<u32>().is_ok()).collect()
}

/// The rows for a person: names to the left, numbers to the right.
pub(crate) fn table(header: &[&str], rows: &[Row]) -> String {
    let header: Row = header.iter().map(|&name| name.to_owned()).collect();
    let all: Vec<&Row> = std::iter::once(&header).chain(rows).collect();
    let aligned = |(column, text): (usize, &String)| {
        let width = all.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let number = rows.first().is_some_and(|row| row[column].parse::<f64>().is_ok());
        if number { format!("{text:>width$}") } else { format!("{text:<width$}") }
    };
    let line = |row: &&Row| row.iter().enumerate().map(aligned).collect::<Vec<_>>().join("  ");
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const COLUMNS: &str = "ranks,operation,median_us,ratio";

    fn rows(text: &str) -> Vec<Row> {
        rows_of(&text.lines().map(str::to_owned).collect::<Vec<_>>(), COLUMNS)
    }

    #[test]
    fn rows_are_told_from_headers_and_noise() {
        let printed = "ranks,operation,median_us,ratio\nhello\n4,commit,2.1,0.48\n4,x\n";
        assert_eq!(rows(printed), [["4", "commit", "2.1", "0.48"]]);
    }

    #[test]
    fn the_file_has_one_header_and_the_table_lines_up() {
        let rows = rows("2,commit,0.2,0.35\n8,MPI_Iallreduce,31.5,1");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("commit.csv");
        fs::write(&path, "the longer contents of an earlier measurement\n".repeat(9))
            .expect("written");
        Csv::open(Some(&path)).expect("opened").write(COLUMNS, &rows).expect("written");
        let text = fs::read_to_string(path).expect("read");
        assert_eq!(text, format!("{COLUMNS}\n2,commit,0.2,0.35\n8,MPI_Iallreduce,31.5,1\n"));
        let table = table(&["ranks", "operation", "median/µs", "ratio"], &rows);
        let widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|&width| width == widths[0]), "{table}");
    }
}
