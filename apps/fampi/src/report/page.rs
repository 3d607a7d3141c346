//! The page of measurements, and the table of the README that is copied from it.

use std::fmt::Write as _;
use std::fs;
use std::thread;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use super::Bench;
use crate::csv::Row;

/// What stands before and behind the table of the README.
const BEFORE: &str =
    "<!-- numbers: `cargo fampi bench all` writes this table from benches/BENCHMARKS.md -->\n";
const BEHIND: &str = "<!-- end -->\n";
const README_HEADER: &str = "| | 2 ranks | 4 ranks | 8 ranks |\n|---|---|---|---|\n";

/// One number of the page: the title of its table, the keys of its row, its column.
type Place = (&'static str, &'static [&'static str], usize);

/// The rows of the README's table: what the numbers are, and where they stand for 2, 4 and 8 ranks.
const README_ROWS: [(&str, [Option<Place>; 3]); 8] = [
    (
        "commit of a block without requests, µs",
        [
            Some(("Commit", &["2", "commit"], 2)),
            Some(("Commit", &["4", "commit"], 2)),
            Some(("Commit", &["8", "commit"], 2)),
        ],
    ),
    (
        "its ratio to `MPI_Iallreduce` + wait",
        [
            Some(("Commit", &["2", "commit"], 3)),
            Some(("Commit", &["4", "commit"], 3)),
            Some(("Commit", &["8", "commit"], 3)),
        ],
    ),
    (
        "`MPIX_Comm_agree`, µs",
        [
            Some(("Commit", &["2", "agree"], 2)),
            Some(("Commit", &["4", "agree"], 2)),
            Some(("Commit", &["8", "agree"], 2)),
        ],
    ),
    (
        "block with 400 messages of 8 bytes, ratio to plain MPI",
        [Some(("Block", &["2", "8", "400"], 7)), Some(("Block", &["4", "8", "400"], 7)), None],
    ),
    (
        "MiniFE (64³) and LULESH (20³ a rank) by default, ratio to plain MPI",
        [
            None,
            Some(("MiniFE, 64³ elements", &["4", "64", "default"], 4)),
            Some(("LULESH, 20³ elements on each rank", &["8", "20", "default"], 4)),
        ],
    ),
    (
        "SIGKILL to the agreed report, ms",
        [None, None, Some(("Detection", &["SIGKILL", "watcher"], 2))],
    ),
    (
        "death to restored data, from spares, ms",
        [
            None,
            Some(("Recovery", &["4", "total", "spares"], 3)),
            Some(("Recovery", &["8", "total", "spares"], 3)),
        ],
    ),
    (
        "death to restored data, by new processes, ms",
        [
            None,
            Some(("Recovery", &["4", "total", "spawn"], 3)),
            Some(("Recovery", &["8", "total", "spawn"], 3)),
        ],
    ),
];

/// One table of all runs: for each number its median and, of several runs, least and greatest.
pub(super) fn summary(keys: usize, runs: &[Vec<Row>]) -> Result<Vec<Row>> {
    let first = runs.first().context("a measurement has a run")?;
    let merge = |row: &Row| {
        let same = |other: &&Row| other[..keys] == row[..keys];
        let all: Option<Vec<&Row>> = runs.iter().map(|run| run.iter().find(same)).collect();
        let about = row[..keys].join(", ");
        let all = all.with_context(|| format!("a run has no row about {about}"))?;
        let cell = |column: usize| {
            let numbers: Result<Vec<f64>, _> = all.iter().map(|row| row[column].parse()).collect();
            numbers.map(spread).with_context(|| format!("no number in a row about {about}"))
        };
        let numbers = (keys..row.len()).map(cell).collect::<Result<Vec<_>>>()?;
        Ok(row[..keys].iter().cloned().chain(numbers).collect())
    };
    first.iter().map(merge).collect()
}

/// The median, and the range where there is one.
fn spread(mut numbers: Vec<f64>) -> String {
    numbers.sort_by(f64::total_cmp);
    let of = |at: usize| numbers[at / 2];
    let median = digits(f64::midpoint(of(numbers.len() - 1), of(numbers.len())));
    match numbers[..] {
        [least, .., greatest] => format!("{median} ({}–{})", digits(least), digits(greatest)),
        _ => median,
    }
}

/// A number with the digits that a person wants.
fn digits(number: f64) -> String {
    match number {
        _ if !number.is_finite() => "never".to_owned(),
        _ if number < 10.0 => format!("{number:.3}"),
        _ if number < 100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// Where and when was measured.
pub(super) fn machine(open_mpi: &str, runs: u32, quick: bool) -> Result<String> {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let day = now.split('T').next().context("a time has a day")?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let lines = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = lines.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown", |(_, model)| model.trim());
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let (linux, load) = (text("/proc/sys/kernel/osrelease"), text("/proc/loadavg"));
    let load = load.split(' ').next().unwrap_or_default();
    let each = match runs {
        1 => "Each command ran once.".to_owned(),
        _ => format!(
            "Each number is the median of {runs} runs of its command, and the least and the \
             greatest follow; simulations run once."
        ),
    };
    let quick = if quick { " **Quick: these numbers mean nothing.**" } else { "" };
    Ok(format!(
        "Measured on {day}: {cores} processors ({model}), Linux {}, Open MPI {open_mpi}, profile \
         `dist`, ranks oversubscribed where there are more than processors; load average {load} \
         at the end. {each}{quick}",
        linux.trim()
    ))
}

/// The whole page.
pub(super) fn page(about: &str, summaries: &[(&Bench, Vec<Row>)], quick: bool) -> String {
    let mut text = format!(
        "# Measurements\n\n`cargo fampi bench all` writes this page anew, and the table of the \
         README; edit neither. {about}\n\nTimes depend on the machine; ratios are taken within one \
         launch and hold better. What failures cost whole applications is in \
         [figure 2](figure2/figure2.svg), by `cargo fampi figure2`.\n"
    );
    for (bench, rows) in summaries {
        let words = if quick { bench.quick } else { bench.words };
        let Bench { title, about, header, .. } = bench;
        let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
        let command = format!("`cargo fampi {words}`");
        let rule = "---|".repeat(header.len());
        text += &["\n## ", title, "\n\n", about, "\n\n", &command, "\n\n"].concat();
        if rows.is_empty() {
            text += "Left out: it takes root.\n";
            continue;
        }
        text += &line(header);
        text += &["|", &rule, "\n"].concat();
        for row in rows {
            text += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
    text
}

/// The table of the README: medians of the page, digit by digit.
pub(super) fn readme_table(summaries: &[(&Bench, Vec<Row>)]) -> Result<String> {
    let find = |(title, keys, column): Place| {
        let tables = summaries.iter().filter(|(it, _)| it.title == title);
        let mut rows = tables.flat_map(|(_, rows)| rows);
        let row = rows.find(|row| row.iter().zip(keys).all(|(one, other)| one == other));
        let cell = row.with_context(|| format!("{title} has no row of {}", keys.join(", ")))?;
        Ok::<_, anyhow::Error>(cell[column].split(' ').next().unwrap_or_default().to_owned())
    };
    let mut text = README_HEADER.to_owned();
    for (name, places) in README_ROWS {
        let cells = places.map(|place| place.map_or(Ok(String::new()), find));
        let cells = cells.into_iter().collect::<Result<Vec<_>>>()?;
        writeln!(text, "| {name} | {} |", cells.join(" | "))?;
    }
    Ok(text)
}

/// The README with another table between its marks.
pub(super) fn with_table(readme: &str, table: &str) -> Result<String> {
    let Some((before, rest)) = readme.split_once(BEFORE) else {
        bail!("README.md has no line {}", BEFORE.trim());
    };
    let (_, behind) = rest.split_once(BEHIND).context("README.md has no end of its numbers")?;
    Ok(format!("{before}{BEFORE}{table}{BEHIND}{behind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::BENCHES;

    fn rows(text: &str) -> Vec<Row> {
        text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
    }

    #[test]
    fn a_summary_has_the_median_and_the_range_of_all_runs_in_the_order_of_the_first() {
        let runs = ["4,commit,2.5\n2,commit,0.25", "2,commit,0.27\n4,commit,12.5"].map(rows);
        let third = rows("2,commit,0.24\n4,commit,125");
        let all = [runs[0].clone(), runs[1].clone(), third];
        let summary = summary(2, &all).expect("three runs");
        let expected =
            [["4", "commit", "12.5 (2.500–125)"], ["2", "commit", "0.250 (0.240–0.270)"]];
        assert_eq!(summary, expected);
        assert_eq!(super::summary(2, &all[..1]).expect("one run")[0][2], "2.500");
    }

    #[test]
    fn a_run_that_lacks_a_row_or_a_number_is_no_measurement() {
        let runs = ["2,commit,0.2\n4,commit,2", "2,commit,0.2"].map(rows);
        assert!(summary(2, &runs).is_err());
        assert!(summary(2, &[rows("2,commit,fast")]).is_err());
        assert!(summary(2, &[]).is_err());
        assert_eq!(summary(2, &[rows("2,_exit(1),inf")]).expect("a row")[0][2], "never");
    }

    /// Tables that have each row which the README names, and nothing else.
    fn summaries() -> Vec<(&'static Bench, Vec<Row>)> {
        let of = |bench: &'static Bench| {
            let places = README_ROWS.iter().flat_map(|(_, places)| places.iter().flatten());
            let rows = places.filter(|(title, ..)| *title == bench.title).map(|(_, keys, _)| {
                let cell = |column: usize| match keys.get(column) {
                    Some(key) => (*key).to_owned(),
                    None => format!("{column}.5 (1–9)"),
                };
                (0..bench.header.len()).map(cell).collect()
            });
            (bench, rows.collect())
        };
        BENCHES.iter().map(of).collect()
    }

    #[test]
    fn each_number_of_the_readme_stands_in_a_table_of_the_page() {
        let table = readme_table(&summaries()).expect("all rows are there");
        assert!(table.contains("| commit of a block without requests, µs | 2.5 | 2.5 | 2.5 |\n"));
        assert!(table.contains("| SIGKILL to the agreed report, ms |  |  | 2.5 |\n"));
        let mut less = summaries();
        less[0].1.pop();
        assert!(readme_table(&less).is_err());
    }

    #[test]
    fn all_tables_have_as_many_cells_as_headings() {
        let page = page("Here, today.", &summaries(), false);
        for bench in &BENCHES {
            assert!(page.contains(&format!("## {}\n", bench.title)), "{}", bench.title);
            assert!(page.contains(&format!("`cargo fampi {}`", bench.words)));
        }
        let left_out = page.split("## Commit on several nodes").nth(1).expect("a section");
        assert!(left_out.contains("allreduce`\n\nLeft out: it takes root.\n\n## "));
        assert!(page.contains("| 4 | total | spares | 3.5 (1–9) | 4.5 (1–9) |"));
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let readme = format!("before\n{BEFORE}| old |\n{BEHIND}behind\n");
        let new = with_table(&readme, "| new |\n").expect("marks");
        assert_eq!(new, format!("before\n{BEFORE}| new |\n{BEHIND}behind\n"));
        assert!(with_table("no marks", "| new |\n").is_err());
        let real = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
        let real = fs::read_to_string(real).expect("a README");
        assert!(with_table(&real, "").is_ok(), "the README has lost its marks");
    }
}
