//! The jobs of this user, as far as their daemons keep records that can be seen from here.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::place;
use crate::record::{self, Record, State};

/// What is to be done with the jobs.
#[derive(Args, Debug)]
pub struct Options {
    /// Remove what is left of jobs that have ended, their output included
    #[arg(long)]
    remove: bool,
}

/// What is known of a job as a whole.
pub(super) fn state(records: &[Record]) -> State {
    let states = [State::Runs, State::Ended, State::Elsewhere];
    let has = |state: &State| records.iter().any(|record| record.state == *state);
    states.into_iter().find(has).unwrap_or(State::Gone)
}

/// Lists them, or removes what is left of them.
pub fn main(options: &Options) -> Result<u8> {
    record::tidy();
    place::remove_stale();
    let mut rows =
        vec![["JOB", "PROCESSES", "NODES", "SINCE", "STATE", "PROGRAM"].map(str::to_owned)];
    for records in record::all()? {
        if options.remove && matches!(state(&records), State::Ended | State::Gone) {
            record::forget(&records[0].job);
        } else {
            rows.push(row(&records));
        }
    }
    if rows.len() == 1 {
        eprintln!("fampi: there are no jobs here, and nothing is left of any");
        return Ok(0);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  "));
        println!("{}{}", cells.collect::<String>(), row[5]);
    }
    Ok(0)
}

fn row(records: &[Record]) -> [String; 6] {
    let first = &records[0];
    let has_console = || records.iter().any(|record| record.has_console);
    let how = match state(records) {
        State::Runs if has_console() => "runs".to_owned(),
        State::Runs => "runs without console".to_owned(),
        State::Ended => {
            let status = records.iter().find_map(|it| it.ended.as_ref()).map_or(1, |it| it.0);
            let folder = first.folder().unwrap_or_default();
            format!("ended with status {status}, output in {}", folder.display())
        }
        State::Gone => "was killed".to_owned(),
        State::Elsewhere => format!("is on {}", first.life.host),
    };
    let since = ago(Duration::from_secs(record::now().saturating_sub(first.since)));
    let (processes, nodes) = (first.processes.to_string(), first.nodes.len().to_string());
    [first.job.clone(), processes, nodes, since, how, first.program.join(" ")]
}

/// A time that has passed, for a person.
fn ago(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6000 => format!("{} min", seconds / 60),
        seconds @ 6000..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let of = |seconds| ago(Duration::from_secs(seconds));
        assert_eq!([of(7), of(120), of(7200), of(500_000)], ["7 s", "2 min", "2 h", "5 days"]);
    }
}
