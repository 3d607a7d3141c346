//! `fampi bench noise`: what the service of detection costs a job that loses no process.
//!
//! `MiniFE`, small, and commits alone, in turns with the service and without, on the same ranks of
//! one launch (`apps/minife/benches/noise.rs`): launches differ from each other by more than the
//! service costs. A turn with the service is compared with the mean of the two turns without it in
//! the same round; the medians of these ratios count. The control compares those two with each
//! other.
//!
//! With `--tests` the observer of the job tests its ranks in turns with the service, too, and a
//! thread in each of them answers.
//!
//! On one node there is no other to send heartbeats to. So beside the job, whose own observer
//! sleeps, a ring of two more observers runs on this machine, with twice the period: together they
//! send and receive as many heartbeats as the one observer of a node in a job of many nodes, and
//! wake up as often, or more. So this machine is one node of such a job, but for one thing: of
//! three wake-ups the last two follow at once, where the caches are still warm.

use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use fampi_detector::protocol::Timing;

use super::ring::Ring;
use crate::cargo::{self, Program};
use crate::csv::{self, Csv, Row};
use crate::installation::Installation;
use crate::launcher::{self, Launcher};
use crate::median::around_median;
use crate::progress::Step;
use crate::refusal::{Misuse, whole};
use crate::session::{self, End, Script};
use crate::setup;
use crate::workspace::Workspace;

const COLUMNS: &str =
    "program,period_ms,service,median_us,ratio,ratio_low,ratio_high,observers_us_per_s";
const HEADER: [&str; 8] =
    ["program", "period/ms", "service", "median/µs", "ratio", "from", "to", "observers/µs/s"];
const LEGEND: &str = "\
Medians of an iteration and of a commit; ratios to turns without the service in the same round:
their median, and the interval that holds the true median with 95 % certainty. The last column is
what the observers of this machine together have used of its processors in a second. They are two
with twice the period, which is as many heartbeats as the one observer of a node has to bear.";
/// A turn is so long, or lasts for so many heartbeats and tests, whichever is longer.
const TURN: Duration = Duration::from_millis(100);
const HEARTBEATS: u32 = 2;
/// Observers of the ring.
const OBSERVERS: u32 = 2;
/// Turns of a round for each group of programs: two without the service and one with it.
const TURNS: u32 = 3;
const PROGRAMS: [&str; 2] = ["minife", "commit"];
/// Whatever a launch takes beside its turns, and by how much these may be longer than planned.
const LEEWAY: Duration = Duration::from_secs(60);
const STRETCH: u32 = 10;

/// Says how an observer tests the ranks of its node.
pub(crate) const DIAGNOSIS: &str = "FAMPI_DIAGNOSIS";

/// The milliseconds between two tests of a rank, on a command line.
pub(crate) fn interval() -> impl Fn(&str) -> Result<u32, Misuse> + Clone {
    whole(10_u32..=60_000, "milliseconds, from 10 to 60000")
}

/// The variable by which ranks are tested so many milliseconds apart.
pub(crate) fn diagnosis(interval: u32) -> (&'static str, OsString) {
    (DIAGNOSIS, format!("{interval}ms:2.5:5").into())
}

#[derive(Args)]
pub(crate) struct Options {
    /// Number of ranks; as many as there are processors if not given
    #[arg(short = 'n', long, value_name = "N", value_parser = launcher::ranks,
          allow_negative_numbers = true)]
    ranks: Option<u32>,
    /// How often turns without the service, and with it, follow each other in a launch
    #[arg(long, value_name = "R", default_value = "100", allow_negative_numbers = true,
          value_parser = whole(1_u32..=10_000, "a number of rounds, from 1 to 10000"))]
    rounds: u32,
    /// How many launches there are for each period
    #[arg(long, value_name = "L", default_value = "3", allow_negative_numbers = true,
          value_parser = whole(1_u32..=1000, "a number of launches, from 1 to 1000"))]
    launches: u32,
    /// Heartbeat periods of the service, in milliseconds
    #[arg(long, value_name = "MS,…", value_delimiter = ',', default_value = "100,10",
          allow_negative_numbers = true,
          value_parser = whole(1_u32..=60_000, "milliseconds, from 1 to 60000"))]
    periods: Vec<u32>,
    /// Test the ranks, too, so many milliseconds apart, as with `run --diagnosis`
    #[arg(long, value_name = "MS", value_parser = interval(), allow_negative_numbers = true)]
    tests: Option<u32>,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// What all launches have in common.
pub(super) struct Laboratory<'a> {
    pub(super) mpi: &'a Installation,
    pub(super) program: PathBuf,
    pub(super) observer: PathBuf,
    pub(super) ranks: u32,
    pub(super) rounds: u32,
    /// Milliseconds between two tests of a rank.
    pub(super) tests: Option<u32>,
    /// What is measured, as the program knows it.
    pub(super) programs: &'a [String],
    /// How many of these have turns of their own; operations of MPI share one.
    pub(super) groups: u32,
    /// A turn takes so long, or longer if a heartbeat does.
    pub(super) turn: Duration,
}

/// What was measured with one period.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Microseconds in each round without the service, without it again, and with it; by program.
    pub(super) rounds: Vec<Vec<[f64; 3]>>,
    /// What all observers have used in a second of turns without the service, and with it; in
    /// microseconds, by launch.
    used: Vec<[f64; 2]>,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let ranks = options.ranks.unwrap_or(processors as u32);
    launcher::check_room(ranks)?;
    let csv = Csv::open(options.csv.as_deref())?;
    let mpi = setup::ensure(workspace)?;
    let programs = PROGRAMS.map(str::to_owned);
    let laboratory = Laboratory {
        mpi: &mpi,
        program: cargo::build(workspace, Program::benchmark("noise").of(Some("minife")))?,
        observer: cargo::build(workspace, Program::observer().at_its_best())?,
        ranks,
        rounds: options.rounds,
        tests: options.tests,
        programs: &programs,
        groups: PROGRAMS.len() as u32,
        turn: TURN,
    };
    let mut samples: Vec<Sample> = options.periods.iter().map(|_| Sample::default()).collect();
    let step = Step::begin(format!("{} launches for each period", options.launches));
    let mut status = 0;
    'launches: for launch in 1..=options.launches {
        for (period, sample) in options.periods.iter().zip(&mut samples) {
            step.say(&format!("launch {launch}, {period} ms"));
            status = laboratory.launch(*period, sample)?;
            // What there is by now is worth something.
            if status != 0 {
                break 'launches;
            }
        }
    }
    step.finish();
    let measured = options.periods.iter().zip(&samples).filter(|(_, it)| !it.used.is_empty());
    let rows: Vec<Row> = measured.flat_map(|(period, sample)| sample.rows(*period)).collect();
    if !rows.is_empty() {
        csv.write(COLUMNS, &rows)?;
        println!("{}\n{LEGEND}", csv::table(&HEADER, &rows));
    }
    Ok(status)
}

impl Laboratory<'_> {
    /// One launch; its status is not 0 when a signal came.
    pub(super) fn launch(&self, period: u32, sample: &mut Sample) -> Result<u8> {
        let together = OBSERVERS * Duration::from_millis(period.into());
        let tests = Duration::from_millis(self.tests.unwrap_or_default().into());
        let turn = self.turn.max(HEARTBEATS * together.max(tests));
        let limit = LEEWAY + STRETCH * self.rounds * TURNS * self.groups * turn;
        // They stay without ranks for as long as a launch may take.
        let timing = Timing { start: 2 * limit, ..Timing::of_jobs_with(together) };
        let mut ring = Ring::here(&self.observer, timing, OBSERVERS)?;
        let mut command = Launcher::new(self.mpi).command(self.ranks, &self.program);
        command.args([self.rounds.to_string(), turn.as_millis().to_string()]);
        command.arg(self.programs.join(","));
        command.args(ring.processes().map(|number| number.to_string()));
        command.env_remove("FAMPI_KILL").env_remove("FAMPI_HUNG_SECONDS");
        command.env("FAMPI_OBSERVER", &self.observer);
        command.env("FAMPI_HEARTBEAT_MILLISECONDS", period.to_string());
        command.env_remove(DIAGNOSIS).envs(self.tests.map(diagnosis));
        let script = Script { timeout: Some(limit), collect: true, ..Script::default() };
        let finished = session::run(&command, script)?;
        if let End::Interrupted(_) = finished.end {
            return Ok(finished.end.status());
        }
        if finished.end != End::Exited(0) {
            bail!("a launch failed: see above");
        }
        ring.check()?;
        sample
            .read(&finished.lines, self.programs)
            .context("a launch said nothing about its time")?;
        Ok(0)
    }
}

impl Sample {
    /// Takes what the first rank of a launch says.
    fn read(&mut self, lines: &[String], programs: &[String]) -> Option<()> {
        self.rounds.resize(programs.len(), Vec::new());
        for (program, rounds) in programs.iter().zip(&mut self.rounds) {
            let rows = csv::rows_of(lines, "round,program,off,control,on");
            let rows = rows.iter().filter(|row| row[1] == *program);
            let before = rounds.len();
            for row in rows {
                rounds.push([row[2].parse().ok()?, row[3].parse().ok()?, row[4].parse().ok()?]);
            }
            if rounds.len() == before {
                return None;
            }
        }
        let mut used = [0.0; 2];
        for row in csv::rows_of(lines, "observer,off,on") {
            for (used, text) in used.iter_mut().zip(&row[1..]) {
                *used += text.parse::<f64>().ok()?;
            }
        }
        self.used.push(used);
        Some(())
    }

    fn rows(&self, period: u32) -> Vec<Row> {
        let rows = PROGRAMS.iter().zip(&self.rounds).flat_map(|(program, rounds)| {
            let control = |[off, control, _]: &[f64; 3]| [*control, control / off];
            let on = |[off, control, on]: &[f64; 3]| [*on, 2.0 * on / (off + control)];
            let of = |service: &str, used: usize, ratios: Vec<[f64; 2]>| {
                let mut used: Vec<f64> = self.used.iter().map(|it| it[used]).collect();
                used.sort_by(f64::total_cmp);
                let used = format!("{:.0}", used[used.len() / 2]);
                let names = [*program, &period.to_string(), service].map(str::to_owned);
                [&names[..], &measures(&ratios), &[used]].concat()
            };
            [
                of("off again", 0, rounds.iter().map(control).collect()),
                of("on", 1, rounds.iter().map(on).collect()),
            ]
        });
        rows.collect()
    }
}

/// Of pairs of a time and its ratio: the median time, the median ratio, and from where to where the
/// true one is.
fn measures(of: &[[f64; 2]]) -> [String; 4] {
    let sorted = |what: usize| {
        let mut sorted: Vec<f64> = of.iter().map(|it| it[what]).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let ([times, ratios], (low, high)) = ([0, 1].map(sorted), around_median(of.len()));
    let [median, low, high] = [of.len() / 2, low, high].map(|at| format!("{:.4}", ratios[at]));
    [format!("{:.3}", times[of.len() / 2]), median, low, high]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "0,minife,200.0,220.0,231.0\n0,commit,1.0,1.0,1.5\n\
                        1,minife,100.0,100.0,90.0\n1,commit,1.0,3.0,2.0\n77,0.0,5.5\n78,1.0,6.5\n";

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn turns_are_compared_within_each_round() {
        let (mut sample, programs) = (Sample::default(), PROGRAMS.map(str::to_owned));
        sample.read(&lines(SAID), &programs).expect("all of it");
        assert_eq!(sample.rounds[0], [[200.0, 220.0, 231.0], [100.0, 100.0, 90.0]]);
        let rows: Vec<String> = sample.rows(10).iter().map(|row| row.join(",")).collect();
        let expected = [
            "minife,10,off again,220.000,1.1000,1.0000,1.1000,1",
            "minife,10,on,231.000,1.1000,0.9000,1.1000,12",
            "commit,10,off again,3.000,3.0000,1.0000,3.0000,1",
            "commit,10,on,2.000,1.5000,1.0000,1.5000,12",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_launch_that_does_not_say_all_is_no_measurement() {
        let programs = PROGRAMS.map(str::to_owned);
        for said in [SAID.replace("commit", "else"), SAID.replace("231.0", "?")] {
            assert_eq!(Sample::default().read(&lines(&said), &programs), None);
        }
    }
}
