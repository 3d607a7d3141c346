//! `fampi bench recovery`: from a death to a world that is complete again, phase by phase.
//!
//! The program `benches/recovery.rs` kills some ranks in each launch and prints a row for each. It
//! is launched until there are enough rows: hundreds of deaths in one job say more about a launcher
//! that has lost hundreds of processes than about recovery. A launch that breaks off early is told,
//! and its rows count.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::Program;
use crate::csv::{self, Csv, Row};
use crate::installation::Family;
use crate::launcher;
use crate::progress::Step;
use crate::ready::Ready;
use crate::refusal::{Misuse, whole};
use crate::session::{self, End, Finished, Script};
use crate::workspace::Workspace;

const COLUMNS: &str = "ranks,phase,how,median_ms,p99_ms";
const HEADER: [&str; 5] = ["ranks", "phase", "how", "median/ms", "p99/ms"];
/// Deaths in one launch: few, as the job changes with each of them, and each needs a spare, which
/// takes part in every recovery as long as it is parked.
const TRIALS_PER_LAUNCH: u32 = 5;
/// A launch takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// A way to go on after a death.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) phases: &'static [&'static str],
    /// Every death takes one; where no process is to be spawned there are enough.
    pub(crate) has_spares: bool,
}

const WAYS: [Way; 3] = [
    Way { name: "shrink", phases: &["report", "ishrink", "total"], has_spares: true },
    Way { name: "spares", phases: REBUILT, has_spares: true },
    Way { name: "spawn", phases: REBUILT, has_spares: false },
];

const REBUILT: &[&str] = &["report", "irebuild", "restore", "total", "step before", "step after"];

#[derive(Args)]
pub(crate) struct Options {
    /// Numbers of ranks to measure with, each 2 or more
    #[arg(short = 'n', long, value_name = "N,…", value_delimiter = ',', default_value = "4,8",
          value_parser = ranks, allow_negative_numbers = true)]
    ranks: Vec<u32>,
    /// Deaths for each row; where processes are spawned, which takes longest, it is half as many
    #[arg(long, value_name = "T", default_value = "100", allow_negative_numbers = true,
          value_parser = whole(2_u32..=10_000, "a number of deaths, from 2 to 10000"))]
    trials: u32,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The MPI, which `cargo fampi setup` has set up
    #[arg(long, value_enum, default_value_t)]
    mpi: Family,
}

fn ranks(text: &str) -> Result<u32, Misuse> {
    let wrong =
        || Misuse("a death needs a survivor: write a number of ranks, 2 or more".to_owned());
    launcher::ranks(text).ok().filter(|ranks| *ranks > 1).ok_or_else(wrong)
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let most = options.ranks.iter().max().copied().unwrap_or_default();
    launcher::check_room(most.saturating_add(TRIALS_PER_LAUNCH))?;
    let csv = Csv::open(options.csv.as_deref())?;
    let ready = Ready::with(workspace, options.mpi)?;
    let program = ready.build(Program::benchmark("recovery"))?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut rows = Vec::new();
    for &ranks in &options.ranks {
        for way in &WAYS {
            let trials = if way.has_spares { options.trials } else { options.trials / 2 };
            let what = format!("{trials} deaths of {ranks} ranks");
            let new = measure(&what, ranks, way, [trials, TRIALS_PER_LAUNCH], |_, deaths| {
                let spares = if way.has_spares { deaths } else { 0 };
                let mut command = ready.launcher().command(ranks + spares, &program);
                command.args([way.name, &deaths.to_string()]).arg(folder.path().join("death"));
                command.env("FAMPI_SPARES", spares.to_string());
                session::run(&command, Script::of_measurement(LIMIT, &[folder.path()])?)
            })?;
            match new {
                Ok(new) => rows.extend(new),
                Err(interrupted) => return Ok(interrupted),
            }
        }
    }
    csv.write(COLUMNS, &rows)?;
    println!("{}", csv::table(&HEADER, &rows));
    Ok(0)
}

/// A row for each phase of a way to go on, from as many launches as it takes; or the status when a
/// signal came. There are so many deaths in all, and in one launch at most. `launch` is told how
/// many launches there were before, and how many deaths it is for.
pub(crate) fn measure(
    what: &str,
    ranks: u32,
    way: &Way,
    [trials, in_launch]: [u32; 2],
    mut launch: impl FnMut(u32, u32) -> Result<Finished>,
) -> Result<Result<Vec<Row>, u8>> {
    let step = Step::begin(format!("{what}: {}", way.name));
    let mut deaths = Vec::new();
    let most = 3 + 2 * trials.div_ceil(in_launch);
    for before in 0..most {
        let wanted = (trials - deaths.len() as u32).min(in_launch);
        let finished = launch(before, wanted)?;
        if let End::Interrupted(_) = finished.end {
            return Ok(Err(finished.end.status()));
        }
        let new = deaths_of(&finished.lines, way);
        if (new.len() as u32) < wanted {
            let (number, told) = (before + 1, new.len());
            say!("fampi: launch {number} broke off after {told} of {wanted} deaths");
        }
        deaths.extend(new);
        if deaths.len() as u32 >= trials {
            step.finish();
            return Ok(Ok(summary(ranks, way, &deaths)));
        }
    }
    bail!("{most} launches gave {} of {trials} deaths", deaths.len())
}

/// The numbers in rows that begin with the way to go on: one for each phase.
fn deaths_of(lines: &[String], way: &Way) -> Vec<Vec<f64>> {
    let rows = lines.iter().filter_map(|line| line.trim().strip_prefix(way.name));
    let numbers = rows.map(|row| row.split(',').skip(1).flat_map(str::parse).collect());
    numbers.filter(|row: &Vec<f64>| row.len() == way.phases.len()).collect()
}

/// A row for each phase.
fn summary(ranks: u32, way: &Way, deaths: &[Vec<f64>]) -> Vec<Row> {
    let row = |(at, phase): (usize, &&str)| {
        let mut times: Vec<f64> = deaths.iter().map(|death| death[at]).collect();
        times.sort_by(f64::total_cmp);
        let of = |part: f64| {
            let below = (times.len() as f64 * part).ceil() as usize;
            let time = times[below.max(1) - 1];
            if phase.starts_with("step") { format!("{time:.4}") } else { format!("{time:.2}") }
        };
        vec![ranks.to_string(), (*phase).to_owned(), way.name.to_owned(), of(0.5), of(0.99)]
    };
    way.phases.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_way_are_told_from_noise() {
        let printed =
            ["shrink,2.5,1,3.5", "noise", "spares,1,2,3,4,5,6", "shrink,1,2", "shrink,x,1,2"];
        let lines = printed.map(str::to_owned);
        assert_eq!(deaths_of(&lines, &WAYS[0]), [[2.5, 1.0, 3.5]]);
        assert_eq!(deaths_of(&lines, &WAYS[1]), [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]);
    }

    #[test]
    fn a_phase_has_its_median_and_its_slowest_in_a_hundred() {
        let deaths: Vec<Vec<f64>> = (0..=100).map(|n| vec![f64::from(n), 1.0, 2.0]).collect();
        let rows = summary(4, &WAYS[0], &deaths);
        assert_eq!(rows[0], ["4", "report", "shrink", "50.00", "99.00"]);
        assert_eq!(rows[2], ["4", "total", "shrink", "2.00", "2.00"]);
    }
}
