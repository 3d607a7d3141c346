//! `fampi bench noise`: what the service of detection costs a job that loses nobody.
//!
//! `MiniFE`, small and with many iterations, and commits alone, each with the service and without,
//! launch after launch. One round launches each setting of each program once, the first of them in
//! turns, and compares what it took with the launch without the service in the same round; the
//! medians of these ratios count. The control is without the service, too: what it differs by is
//! the machine.
//!
//! On one node there is nobody to send heartbeats to. So beside the job, which has the observer of
//! its node, a ring of two more observers runs on this machine, with the same period: its cores
//! bear two senders and two receivers, and those of a node of a real job one of each.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use tempfile::TempDir;

use crate::cargo::{self, Program};
use crate::installation::Installation;
use crate::launcher::{self, Launcher};
use crate::progress::Step;
use crate::refusal::whole;
use crate::session::{self, End, Script};
use crate::setup;
use crate::sheet::{self, Csv, Row};
use crate::workspace::Workspace;

const COLUMNS: &str = "program,service,median_us,ratio,ratio_low,ratio_high";
const HEADER: [&str; 6] = ["program", "service", "median/µs", "ratio", "from", "to"];
const LEGEND: &str = "\
Medians of an iteration and of a commit; ratios to the launch without the service in the same round:
their median, and the interval that holds the true median with 95 % certainty. With the service: the
observer of the job's node, and beside it a ring of two that send heartbeats with that period.";
/// A launch takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct Options {
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "N", default_value = "4",
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    ranks: u32,
    /// How often each program is launched in each setting
    #[arg(long, value_name = "R", default_value = "20", allow_negative_numbers = true,
          value_parser = whole(1_u32..=10_000, "a number of rounds, from 1 to 10000"))]
    rounds: u32,
    /// Heartbeat periods of the service, in milliseconds
    #[arg(long, value_name = "MS,…", value_delimiter = ',', default_value = "100,10",
          allow_negative_numbers = true,
          value_parser = whole(1_u32..=60_000, "milliseconds, from 1 to 60000"))]
    periods: Vec<u32>,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// What is measured, and what it is called.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    MiniFe,
    Commit,
}

/// Whether the service is on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Service {
    Off,
    /// Off once more.
    Control,
    /// With this period, in milliseconds.
    On(u32),
}

/// What all launches have in common.
struct Laboratory<'a> {
    mpi: &'a Installation,
    minife: PathBuf,
    commit: PathBuf,
    observer: PathBuf,
    ranks: u32,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    launcher::check_room(options.ranks)?;
    let csv = Csv::open(options.csv.as_deref())?;
    let mpi = setup::ensure(workspace)?;
    let laboratory = Laboratory {
        mpi: &mpi,
        minife: cargo::build(workspace, Program::application("minife"))?,
        commit: cargo::build(workspace, Program::benchmark("commit"))?,
        observer: cargo::build(workspace, Program::observer())?,
        ranks: options.ranks,
    };
    let mut services = vec![Service::Off, Service::Control];
    services.extend(options.periods.iter().map(|period| Service::On(*period)));
    let subjects = [Subject::MiniFe, Subject::Commit];
    // Of each program, in each setting, of each round.
    let mut times = vec![vec![Vec::new(); services.len()]; subjects.len()];
    let step = Step::begin(format!("{} rounds", options.rounds));
    let mut status = 0;
    'rounds: for round in 0..options.rounds as usize {
        for (subject, times) in subjects.iter().zip(&mut times) {
            for turn in 0..services.len() {
                let at = (round + turn) % services.len();
                step.say(&format!("round {}, {}", round + 1, services[at].name()));
                match laboratory.launch(*subject, services[at])? {
                    Ok(time) => times[at].push(time),
                    // What there is by now is worth something.
                    Err(interrupted) => {
                        status = interrupted;
                        break 'rounds;
                    }
                }
            }
        }
    }
    step.finish();
    if times.iter().flatten().any(Vec::is_empty) {
        return Ok(status);
    }
    let mut rows = Vec::new();
    for (subject, times) in subjects.iter().zip(&times) {
        let of = services.iter().zip(times);
        rows.extend(of.map(|(service, these)| row(*subject, *service, these, &times[0])));
    }
    csv.write(COLUMNS, &rows)?;
    println!("{}\n{LEGEND}", sheet::table(&HEADER, &rows));
    Ok(status)
}

impl Service {
    fn name(self) -> String {
        match self {
            Self::Off => "off".to_owned(),
            Self::Control => "off again".to_owned(),
            Self::On(period) => format!("{period} ms"),
        }
    }
}

impl Laboratory<'_> {
    /// Microseconds that one iteration or one commit took; or the status when a signal came.
    fn launch(&self, subject: Subject, service: Service) -> Result<Result<f64, u8>> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let report = folder.path().join("report.yaml");
        let launcher = Launcher::new(self.mpi);
        let mut command = match subject {
            Subject::MiniFe => {
                let mut command = launcher.command(self.ranks, &self.minife);
                command.args(["nx=24", "iterations=2000", "tolerance=0", "protect_every=0"]);
                command.arg(format!("yaml={}", report.display()));
                command
            }
            Subject::Commit => {
                let mut command = launcher.command(self.ranks, &self.commit);
                command.args(["600", "commit"]);
                command
            }
        };
        command.env_remove("FAMPI_OBSERVER").env_remove("FAMPI_KILL");
        let mut ring = None;
        if let Service::On(period) = service {
            ring = Some(Ring::start(&self.observer, period)?);
            command.env("FAMPI_OBSERVER", &self.observer);
            command.env("FAMPI_HEARTBEAT_MILLISECONDS", period.to_string());
        }
        let script = Script {
            timeout: Some(LIMIT),
            collect: true,
            leftovers: &[folder.path()],
            ..Script::default()
        };
        let finished = session::run(&command, script)?;
        if let End::Interrupted(_) = finished.end {
            return Ok(Err(finished.end.status()));
        }
        if finished.end != End::Exited(0) {
            bail!("a launch failed: see above");
        }
        if let Some(mut ring) = ring {
            ring.check()?;
        }
        let time = match subject {
            Subject::MiniFe => iteration(&fs::read_to_string(&report)?),
            Subject::Commit => commit(&finished.lines),
        };
        time.map(Ok).context("a launch said nothing about its time")
    }
}

/// The microseconds of an iteration in a report.
fn iteration(report: &str) -> Option<f64> {
    let mut lines = report.lines().filter_map(|line| line.trim().split_once(": "));
    let (_, seconds) = lines.find(|(name, _)| *name == "Time per iteration")?;
    seconds.parse::<f64>().ok().map(|seconds| seconds * 1e6)
}

/// The microseconds of a commit in what the measuring program prints.
fn commit(lines: &[String]) -> Option<f64> {
    let rows = sheet::rows_of(lines, "ranks,operation,median_us,ratio_to_iallreduce");
    rows.iter().find(|row| row[1] == "commit")?[2].parse().ok()
}

/// Observers of two nodes without ranks, both on this machine; ended when this is dropped.
struct Ring {
    observers: Vec<Child>,
    folder: TempDir,
}

impl Ring {
    fn start(program: &Path, period: u32) -> Result<Self> {
        let ours_alone = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(ours_alone).tempdir();
        let folder = folder.context("cannot make a temporary folder")?;
        let bind = |_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let sockets = (0..2).map(bind).collect::<Result<Vec<_>, _>>();
        let sockets = sockets.context("no addresses for observers")?;
        let addresses: Vec<SocketAddr> =
            sockets.iter().map(UdpSocket::local_addr).collect::<Result<_, _>>()?;
        let secret: Vec<String> = (0..32).map(|_| format!("{:02x}", fastrand::u8(..))).collect();
        let secret = secret.concat();
        let mut ring = Self { observers: Vec::new(), folder };
        for (node, socket) in sockets.into_iter().enumerate() {
            let folder = ring.folder.path();
            let path = folder.join(format!("{node}.plan"));
            let registry = folder.join(format!("{node}.sock"));
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(plan(&secret, &registry, node, period, &addresses).as_bytes())?;
            let mut command = Command::new(program);
            command.arg("--foreground").arg("--plan").arg(path).stdin(OwnedFd::from(socket));
            command.stdout(Stdio::null()).stderr(Stdio::inherit());
            let child = command.spawn();
            ring.observers.push(child.context("cannot start an observer")?);
        }
        Ok(ring)
    }

    /// What was measured beside a ring that had ended would be nothing.
    fn check(&mut self) -> Result<()> {
        for observer in &mut self.observers {
            if observer.try_wait().context("cannot ask an observer")?.is_some() {
                bail!("an observer of the ring has ended: see above");
            }
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for observer in &mut self.observers {
            let _ = observer.kill();
            let _ = observer.wait();
        }
    }
}

/// The plan of one of these observers, as `src/protocol/detector/plan.rs` has it. They have to stay
/// without ranks for as long as a launch may take.
fn plan(
    secret: &str,
    registry: &Path,
    node: usize,
    period: u32,
    addresses: &[SocketAddr],
) -> String {
    let (period, start) = (u64::from(period) * 1000, 2 * LIMIT.as_micros());
    let timeout = (10 * period).max(1_000_000);
    let nodes: Vec<String> = addresses.iter().map(|it| format!("node {it} ring")).collect();
    format!(
        "fampi-observer 2\nsecret {secret}\nsocket {}\nme {node} 0\nperiod {period}\n\
         timeout {timeout}\nstart {start}\ngrace 500000\nhung 0\n{}\nranks 0 1\n",
        registry.display(),
        nodes.join("\n")
    )
}

fn row(subject: Subject, service: Service, times: &[f64], off: &[f64]) -> Row {
    let mut ratios: Vec<f64> = times.iter().zip(off).map(|(time, off)| time / off).collect();
    ratios.sort_by(f64::total_cmp);
    let (low, high) = around_median(ratios.len());
    let program = match subject {
        Subject::MiniFe => "minife",
        Subject::Commit => "commit",
    };
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    vec![
        program.to_owned(),
        service.name(),
        format!("{:.2}", times[times.len() / 2]),
        format!("{:.3}", ratios[ratios.len() / 2]),
        format!("{:.3}", ratios[low]),
        format!("{:.3}", ratios[high]),
    ]
}

/// Places, among so many sorted numbers, between which the median of what they are drawn from is
/// with 95 % certainty: 0.98 √n to both sides of the middle.
fn around_median(count: usize) -> (usize, usize) {
    let (middle, reach) = (count as f64 / 2.0, 0.98 * (count as f64).sqrt());
    let last = count.saturating_sub(1);
    ((middle - reach).max(0.0) as usize, ((middle + reach) as usize).min(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_in_what_programs_say() {
        let report = "CG solve:\n  Total CG Time: 0.5\n  Time per iteration: 0.00025\n";
        assert_eq!(iteration(report), Some(250.0));
        assert_eq!(iteration("  Time per iteration:\n"), None);
        let lines = ["4,commit,4.25,1.000", "4,fused,5.25,1.2"].map(str::to_owned);
        assert_eq!(commit(&lines), Some(4.25));
        assert_eq!(commit(&lines[1..]), None);
    }

    #[test]
    fn a_setting_is_compared_within_each_round() {
        let (off, on) = ([1.0, 10.0, 100.0], [1.5, 10.0, 90.0]);
        let row = row(Subject::Commit, Service::On(10), &on, &off);
        assert_eq!(row, ["commit", "10 ms", "10.00", "1.000", "0.900", "1.500"]);
        assert_eq!(around_median(100), (40, 59));
        assert_eq!(around_median(1), (0, 0));
    }

    #[test]
    fn the_plan_has_the_lines_that_observers_read() {
        let source = include_str!("../../../src/protocol/detector/plan.rs");
        let example = source.lines().skip_while(|line| *line != "//! ```text").skip(1);
        let example =
            example.take_while(|line| *line != "//! ```").map(|line| &line["//! ".len()..]);
        let text = plan("00", Path::new("ring/1.sock"), 1, 10, &[SocketAddr::from(([1; 4], 1)); 2]);
        assert_eq!(example.clone().next(), text.lines().next());
        let first = |line: &str| line.split(' ').next().map(str::to_owned);
        assert!(example.map(first).eq(text.lines().map(first)), "{text}");
    }

    #[test]
    fn the_plan_has_a_line_for_each_of_the_nodes_and_their_period() {
        let addresses = [4711, 4712].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let text = plan("00", Path::new("ring/1.sock"), 1, 10, &addresses);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[3..6], ["me 1 0", "period 10000", "timeout 1000000"]);
        assert_eq!(
            lines[9..],
            ["node 127.0.0.1:4711 ring", "node 127.0.0.1:4712 ring", "ranks 0 1"]
        );
    }
}
