//! `fampi run`: a program on several ranks, with the launcher flags that surviving needs.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use fampi_detector::protocol::diagnosis::schedule::Schedule;

use crate::cargo::{self, Program};
use crate::checkpoint::Checkpoints;
use crate::installation::Family;
use crate::launcher::{self, Kind, Launcher};
use crate::nodes::Nodes;
use crate::plan::{self, Kill, When};
use crate::program;
use crate::refusal::{Misuse, whole};
use crate::session::{self, End, Finished, Script};
use crate::setup;
use crate::status::{self, Count, Kills, Reports};
use crate::trace::{self, Account, Folder, Recording, Target};
use crate::workspace::Workspace;

/// Where Slurm names the hosts of an allocation.
const ALLOCATED: &str = "SLURM_JOB_NODELIST";

/// What is said when the launcher was killed and its job was not.
const GOES_ON: &str = "fampi: the console was killed, and the job goes on without it: `cargo fampi \
                       attach` waits for it, `cargo fampi jobs` tells how it ended";

#[derive(Args)]
#[command(after_help = "\
Exit status: 0 only if ranks have finished in order and exited with 0, whoever died before, or, of a
program that does not use fampi, if the launcher says so and no --kill has been carried out. 124 at
the time limit. Otherwise a status that a rank or the launcher has ended with, or 1.

But for --launcher mpirun a job goes on when this tool is killed by SIGKILL, or lost with its host:
see `fampi jobs` and `fampi attach`.")]
pub(crate) struct Options {
    /// Ranks that take part from the beginning
    #[arg(short = 'n', long, value_name = "N", value_parser = launcher::ranks,
          allow_negative_numbers = true)]
    ranks: u32,
    /// More processes, parked until one of them takes the place of a dead rank
    #[arg(long, value_name = "S", default_value = "0", value_parser = launcher::processes,
          allow_negative_numbers = true)]
    spares: u32,
    /// Kill a rank: 2@1.5s after the launch, or 2@step:40 of a run (iteration and cycle are the
    /// same word)
    #[arg(long = "kill", value_name = "RANK@WHEN", allow_hyphen_values = true)]
    kills: Vec<Kill>,
    /// End everything after so many seconds, a build before it included, with status 124
    #[arg(long, value_name = "SECONDS", value_parser = seconds,
          allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// Write what happened on each rank to this file, for Perfetto, `chrome://tracing` and
    /// `cargo fampi timeline`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Say at the end what followed each death, and when, on which ranks
    #[arg(long)]
    timeline: bool,
    /// End with status 1 if a process died that no --kill names, or a --kill was not carried out
    #[arg(long)]
    strict: bool,
    /// Let a process on each node watch the ranks, and the other nodes: any death, and the loss of
    /// a node, is known everywhere at once
    #[arg(long)]
    observer: bool,
    /// As `--observer`, and a rank that waits for nothing and tests nothing for so many seconds
    /// counts as dead: more than the longest computation between two blocks
    #[arg(long, value_name = "SECONDS", value_parser = patience,
          allow_negative_numbers = true)]
    hung: Option<f64>,
    /// As `--observer`, and processes that live and answer tests late count as slow: the time
    /// between tests, how many times the usual time an answer may take, and the good tests in a row
    /// after which one is well again, as in 1s:2.5:5
    #[arg(long, value_name = "TIME:FACTOR:TESTS", value_parser = schedule,
          allow_hyphen_values = true)]
    diagnosis: Option<String>,
    #[command(flatten)]
    pub(crate) checkpoints: Checkpoints,
    /// The MPI, which `cargo fampi setup` has set up
    #[arg(long, value_enum, default_value_t)]
    mpi: Family,
    /// Who starts the ranks: without it node; or mpirun, if it is to get flags by --launcher-flag,
    /// or PBS, SGE or LSF has allocated hosts
    #[arg(long, value_enum)]
    launcher: Option<Kind>,
    /// The hosts, and how many ranks each takes, in this order; not for --launcher mpirun
    #[arg(long, value_name = "HOST:N,…", conflicts_with = "nodes")]
    hosts: Option<String>,
    /// Lists the hosts, a line `HOST`, `HOST:N` or `HOST slots=N` for each; not for --launcher
    /// mpirun
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "hosts"])]
    hostfile: Option<PathBuf>,
    /// Starts a daemon on a host: called as `COMMAND HOST WORDS…`, may return at once; `ssh`
    /// without it
    #[arg(long, value_name = "COMMAND", conflicts_with = "nodes")]
    agent: Option<String>,
    /// When the network between hosts is cut, go on in the larger part (`majority`), which is what
    /// happens without it, or in each, however small (`any`): for networks of which it is known
    /// that silence is a dead host, as two parts may write the same results
    #[arg(long, value_name = "WHICH", value_parser = ["majority", "any"])]
    partition: Option<String>,
    /// Put the ranks on so many nodes, one node after the other, or by --launcher mpirun in turns:
    /// name spaces of this machine, each with a network of its own, which take root
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = whole(1_u32..=250, "a number of nodes from 1 to 250"))]
    nodes: Option<u32>,
    /// Hand a flag to the launcher itself, as in --launcher-flag=--hostfile
    #[arg(long = "launcher-flag", value_name = "FLAG", allow_hyphen_values = true)]
    launcher_flags: Vec<String>,
    /// The program, or the name of one of our applications or examples, and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, Misuse> {
    let wrong = || Misuse("write the time limit as a number of seconds above 0".to_owned());
    let number: f64 = text.parse().map_err(|_| wrong())?;
    let limit = Duration::try_from_secs_f64(number).map_err(|_| wrong())?;
    if limit.is_zero() { Err(wrong()) } else { Ok(limit) }
}

fn patience(text: &str) -> Result<f64, Misuse> {
    let wrong = || Misuse("write the patience with ranks as seconds, at least 0.1".to_owned());
    text.parse().ok().filter(|seconds| (0.1..=1e9).contains(seconds)).ok_or_else(wrong)
}

fn schedule(text: &str) -> Result<String, Misuse> {
    let schedule = Schedule::parse(text).map(|_| text.to_owned());
    schedule.ok_or_else(|| Misuse(Schedule::ADVICE.to_owned()))
}

/// All ranks have finished in order: a rank that was to die in an iteration did not.
fn say_who_was_spared(kills: &[Kill]) {
    for Kill { rank, .. } in kills.iter().filter(|it| matches!(it.when, When::Iteration(_))) {
        say!(
            "fampi: rank {rank} was not killed: the program ended before that step, or has no \
             steps, as it does not use `World::run`; write {rank}@1.5s to kill it by the clock"
        );
    }
}

impl Options {
    /// Refuses what cannot be launched.
    fn check(&self, processes: u32) -> Result<(), Misuse> {
        let has_hosts = self.hosts.is_some() || self.hostfile.is_some();
        if self.mpi == Family::Mpich && self.launcher() == Kind::Mpirun {
            let advice = "MPICH's own launcher ends the job when a rank dies: leave --launcher out";
            return Err(Misuse(advice.to_owned()));
        }
        if (has_hosts || self.agent.is_some()) && self.launcher() == Kind::Mpirun {
            let advice = "--hosts, --hostfile and --agent are for our own launcher: add --launcher \
                          node, or name hosts by --launcher-flag=--host --launcher-flag=a:2,b:4";
            return Err(Misuse(advice.to_owned()));
        }
        if self.partition.is_some() && self.launcher() == Kind::Mpirun {
            let advice = "mpirun ends the job when the network is cut: leave --partition out, or \
                          add --launcher node";
            return Err(Misuse(advice.to_owned()));
        }
        if self.agent.is_some() && !has_hosts {
            let advice = "--agent starts daemons on hosts: name them by --hosts or --hostfile";
            return Err(Misuse(advice.to_owned()));
        }
        if self.is_here() {
            launcher::check_room(processes)?;
        }
        plan::check(&self.kills, self.ranks, self.spares)
    }

    /// MPICH tells no rank of deaths on other nodes.
    fn is_observed(&self) -> bool {
        let has_nodes = !self.is_here() || self.nodes.is_some_and(|nodes| nodes > 1);
        let asks = self.observer || self.hung.is_some() || self.diagnosis.is_some();
        asks || self.mpi == Family::Mpich && has_nodes
    }

    fn launcher(&self) -> Kind {
        let is_for_mpirun = !self.launcher_flags.is_empty() || launcher::is_allocated_to_mpirun();
        self.launcher.unwrap_or(match self.mpi {
            Family::OpenMpi if is_for_mpirun => Kind::Mpirun,
            _ => Kind::Node,
        })
    }

    /// True when no rank can be on another machine.
    fn is_here(&self) -> bool {
        let has_hosts = self.hosts.is_some() || self.hostfile.is_some();
        let is_allocated = self.launcher() == Kind::Node && env::var_os(ALLOCATED).is_some();
        self.launcher_flags.is_empty() && !has_hosts && !is_allocated
    }

    /// Flags of the launcher; ours is also told the time that is left for the job.
    fn flags(
        &self,
        nodes: Option<&Nodes>,
        processes: u32,
        limit: Option<Duration>,
    ) -> Result<Vec<String>> {
        let mut flags = self.launcher_flags.clone();
        match nodes {
            Some(nodes) if self.launcher() == Kind::Node => {
                flags.extend(nodes.own_arguments(processes)?);
            }
            Some(nodes) => flags.extend(nodes.arguments(processes, true)?),
            None => flags.extend(self.host_arguments()),
        }
        flags.extend(self.partition.iter().map(|which| format!("--partition={which}")));
        if self.launcher() == Kind::Node {
            let folders = [status::VARIABLE, trace::VARIABLE];
            flags.extend(folders.map(|variable| format!("--collect={variable}")));
        }
        if let Some(limit) = limit {
            flags.extend(["--limit".to_owned(), limit.as_secs_f64().to_string()]);
        }
        Ok(flags)
    }

    /// What ranks are told by variables.
    fn tell(&self, command: &mut Command) {
        command.env("FAMPI_SPARES", self.spares.to_string());
        command.envs(plan::for_application(&self.kills).map(|plan| ("FAMPI_KILL", plan)));
        command.envs(self.checkpoints.variables());
        command.envs(self.hung.map(|limit| ("FAMPI_HUNG_SECONDS", limit.to_string())));
        command.envs(self.diagnosis.iter().map(|schedule| ("FAMPI_DIAGNOSIS", schedule)));
    }

    /// What our own launcher is told of the hosts.
    fn host_arguments(&self) -> Vec<String> {
        let mut words = Vec::new();
        let file = self.hostfile.as_ref().map(|path| path.display().to_string());
        for (flag, value) in
            [("--hosts", &self.hosts), ("--hostfile", &file), ("--agent", &self.agent)]
        {
            words.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
        }
        words
    }
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let begun = Instant::now();
    let processes = options.ranks.saturating_add(options.spares);
    options.check(processes)?;
    let (word, arguments) = options.program.split_first().expect("required by the parser");
    let own = program::find(workspace, word)?;
    let claim = options.checkpoints.claim(options.is_here())?;
    let target = options.trace.as_deref().map(|path| Target::of("--trace", path)).transpose()?;
    let of_mpi = workspace.on(options.mpi);
    let mpi = setup::ensure_within(&of_mpi, options.timeout)?;
    let left = || options.timeout.map(|limit| limit.saturating_sub(begun.elapsed()));
    let build = |program| cargo::build_within(workspace, program, left());
    let built = own.map(|own| cargo::build_within(&of_mpi, own, left())).transpose()?;
    let observer = options.is_observed().then(|| build(Program::observer())).transpose()?;
    let reports = Reports::new()?;
    let trace = match &target {
        Some(target) => Folder::below(target.folder()),
        None => Folder::new(),
    }?;

    let node = (options.launcher() == Kind::Node).then(|| build(Program::node())).transpose()?;
    let nodes = options.nodes.map(|number| Nodes::new(number, &[])).transpose()?;
    let flags = options.flags(nodes.as_ref(), processes, node.as_ref().and_then(|_| left()))?;
    let launcher = Launcher::with(&mpi, &flags).by(node.clone());
    let program = built.as_ref().map_or(word.as_os_str(), |file| file.as_os_str());
    let mut command = launcher.command(processes, program);
    command.args(arguments);
    command.envs([(status::VARIABLE, reports.path()), (trace::VARIABLE, trace.path())]);
    options.tell(&mut command);
    command.envs(observer.iter().map(|program| ("FAMPI_OBSERVER", program)));
    // Deaths and recoveries are told after each run; only a trace has all blocks, which cost.
    command.env(trace::BLOCKS, if target.is_some() { "on" } else { "off" });
    if let Some(nodes) = &nodes {
        command = if node.is_some() { nodes.beside(command) } else { nodes.first(command) };
    }
    let spaces = nodes.as_ref().map(Nodes::spaces).unwrap_or_default();
    let leftovers: [&Path; 2] = [reports.path(), trace.path()];
    let script = Script {
        ranks: Some(processes),
        elsewhere: node.is_some() || !flags.is_empty() || launcher::machines() > 1,
        timeout: left(),
        kills: &options.kills,
        leftovers: &leftovers,
        spaces: &spaces,
        outlived: node.as_deref(),
        ..Script::default()
    };
    claim.hand_on();
    let finished = session::run(&command, script)?;
    if finished.goes_on {
        // The job uses them, and the guard removes them after its end.
        std::mem::forget((nodes, reports, trace));
        say!("{GOES_ON}");
        return Ok(finished.end.status());
    }

    let merged = target.map_or(Ok(()), |target| trace::conclude(trace.path(), &target));
    let recording = Recording::of_folder(trace.path()).ok().flatten();
    let account = recording.map(|recording| recording.account()).unwrap_or_default();
    let status = conclude(options, &finished, &reports, &account);
    match merged {
        // What the ranks said of themselves goes first.
        Err(error) if status == 0 => Err(error),
        Err(error) => {
            say!("fampi: {error:#}");
            Ok(status)
        }
        Ok(()) => Ok(status),
    }
}

/// Says what was slower than it needs to be.
fn recommend_spares(options: &Options, started: u32) {
    if started > 0 && options.mpi == Family::OpenMpi {
        let spares = options.spares.saturating_add(started);
        say!(
            "fampi: messages to processes that were started go by TCP, also on their own node: \
             with --spares {spares} steps are as fast as before a death"
        );
    }
}

/// Says how the run has ended; its exit status.
fn conclude(options: &Options, finished: &Finished, reports: &Reports, account: &Account) -> u8 {
    if options.timeline {
        account.to_string().lines().for_each(|line| say!("{line}"));
    } else {
        account.lines().iter().for_each(|line| say!("fampi: {line}"));
    }
    recommend_spares(options, account.started());
    if let (End::TimedOut, Some(limit)) = (finished.end, options.timeout) {
        say!("fampi: still running after {} s: ended", limit.as_secs_f64());
    }
    let is_partial = options.launcher() == Kind::Mpirun && !options.is_here();
    let count = Count { is_partial, ..reports.count(&finished.outlived) };
    let done = finished.killed + account.planned_by_ranks();
    let kills = Kills { planned: options.kills.len().max(done), done: finished.killed };
    let verdict = status::verdict(finished.end, count, kills);
    if let Some(remark) = verdict.remark {
        say!("fampi: {remark}");
    }
    let all_well = verdict.status == 0 && count.deaths() == 0;
    say_who_was_spared(if all_well { &options.kills } else { &[] });
    let (deaths, asked) = (count.deaths(), options.kills.len());
    if options.strict && verdict.status == 0 && [deaths, done] != [asked; 2] {
        say!(
            "fampi: --strict: {deaths} processes died, {done} of them as planned, and --kill names \
             {asked}"
        );
        return 1;
    }
    verdict.status
}
