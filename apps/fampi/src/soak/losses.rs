//! `fampi soak --nodes`: jobs whose nodes are lost, one after the other, and come back.
//!
//! A round is one job on name spaces of this machine, by the launcher of our own: `minife`, or, in
//! every other round, `lulesh` where so many ranks make a cube. As long as it runs a node is drawn
//! again and again: all of its processes are killed, or, one time in four, its daemon alone; later
//! the host is added to the job again. The job must end with the digits of an undisturbed
//! run, and leave no process, no file and no record; a socket that a killed observer has left is
//! removed by the next observer, and does not count.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;

use super::{Judged, Options, Outcome, Play, Played, digest, last_line, reason, text_of};
use crate::cargo::{self, Program};
use crate::installation::{Family, Installation};
use crate::launcher::Launcher;
use crate::nodes::Nodes;
use crate::refusal::Misuse;
use crate::session::{self, End, Finished, Script};
use crate::setup;
use crate::spaces;
use crate::workspace::Workspace;

/// A job takes a minute; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(300);
/// How long a job may take to start, and what it has left to go.
const PATIENCE: Duration = Duration::from_secs(20);
const PERIOD: Duration = Duration::from_millis(20);
/// Where the system says whether it shares processors out by session.
const GROUPS: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// The programs, and where they are to run.
pub(super) struct Losses<'a> {
    mpi: Installation,
    launcher: PathBuf,
    /// Without it MPICH tells no rank of deaths on other nodes.
    observer: Option<PathBuf>,
    nodes: Nodes,
    options: &'a Options,
    programs: Vec<Known>,
}

/// A program, and what it prints when no node is lost.
struct Known {
    name: &'static str,
    program: PathBuf,
    words: &'static [&'static str],
    digest: String,
}

/// The folder of one job, for its records and temporary files.
struct Home(tempfile::TempDir);

/// A job that is over.
struct Job {
    finished: Finished,
    errors: String,
    /// How many nodes it has lost, or what kept one from coming back.
    losses: Result<u32, String>,
    /// What it has left.
    left: Option<String>,
}

impl<'a> Losses<'a> {
    /// Builds what it takes, and plays each program without losses.
    pub(super) fn prepare(
        workspace: &Workspace,
        options: &'a Options,
        number: u32,
    ) -> Result<Option<Self>> {
        if options.ranks < number {
            let advice = format!("use -n {number} or more");
            bail!(Misuse(format!(
                "{} ranks are fewer than {number} nodes: {advice}",
                options.ranks
            )));
        }
        if fs::read_to_string(GROUPS).is_ok_and(|it| it.trim() == "1") {
            let why = "here a host that is added gets its share of processors as a session of its \
                       own, beside ranks that never rest";
            let advice = "sysctl kernel.sched_autogroup_enabled=0";
            bail!(Misuse(format!("{why}: call `{advice}` before, and set it back to 1 later")));
        }
        let of_mpi = workspace.on(options.mpi);
        let observer = (options.mpi == Family::Mpich).then(Program::observer);
        let mut losses = Self {
            mpi: setup::ensure(&of_mpi)?,
            launcher: cargo::build(workspace, Program::node())?,
            observer: observer.map(|it| cargo::build(workspace, it)).transpose()?,
            nodes: Nodes::new(number, &[])?,
            options,
            programs: Vec::new(),
        };
        let is_cube = (1..).map(|edge: u32| edge.pow(3)).take_while(|it| *it <= options.ranks);
        let mut programs: Vec<(&'static str, &'static [&'static str])> =
            vec![("minife", &["nx=40", "yaml=none", "iterations=6000", "tolerance=1e-300"])];
        if is_cube.last() == Some(options.ranks) {
            programs.push(("lulesh", &["s=16", "p"]));
        }
        for (name, words) in programs {
            let program = cargo::build(&of_mpi, Program::application(name))?;
            let job = losses.launch(&program, words, None)?;
            let digest = match (job.finished.end, digest(&job.finished.lines)) {
                (End::Interrupted(_), _) => return Ok(None),
                (End::Exited(0), Some(digest)) => digest.to_owned(),
                _ => bail!("{name} fails already when no node is lost: {}", reason(&job.errors)),
            };
            losses.programs.push(Known { name, program, words, digest });
        }
        Ok(Some(losses))
    }

    /// Runs a program, with losses if there is a seed for them.
    fn launch(&self, program: &Path, words: &[&str], seed: Option<u64>) -> Result<Job> {
        let home = Home::new()?;
        let flags = self.nodes.own_arguments(self.options.ranks)?;
        let launcher = Launcher::with(&self.mpi, &flags).by(Some(self.launcher.clone()));
        let mut command = launcher.command(self.options.ranks, program);
        command.args(words).env("FAMPI_SPARES", "0").env("RUST_BACKTRACE", "0");
        command.envs(self.observer.iter().map(|program| ("FAMPI_OBSERVER", program)));
        home.give(&mut command);
        let mut errors = tempfile::tempfile().context("cannot make a temporary file")?;
        let leftovers = [home.0.path()];
        let script = Script {
            elsewhere: true,
            spaces: &self.nodes.spaces(),
            errors: Some(errors.try_clone().context("cannot use a temporary file")?),
            ..Script::of_measurement(LIMIT, &leftovers)?
        };
        let is_over = AtomicBool::new(false);
        let (finished, losses) = thread::scope(|scope| {
            let storm = scope.spawn(|| seed.map_or(Ok(0), |it| self.storm(it, &home, &is_over)));
            let finished = session::run(&self.nodes.beside(command), script);
            is_over.store(true, Relaxed);
            (finished, storm.join().unwrap_or_else(|_| Err("the storm is over".to_owned())))
        });
        let finished = finished?;
        let errors = text_of(&mut errors)?;
        Ok(Job { finished, errors, losses, left: self.left(&home) })
    }

    /// Loses nodes and brings them back until the job is over; how many.
    fn storm(&self, seed: u64, home: &Home, is_over: &AtomicBool) -> Result<u32, String> {
        let (mut draw, names) = (Rng::with_seed(seed), self.nodes.names());
        let over = || is_over.load(Relaxed);
        let wait = |time: Duration| {
            let begun = Instant::now();
            while !over() && begun.elapsed() < time {
                thread::sleep(PERIOD);
            }
        };
        let each = self.options.ranks / names.len() as u32;
        let begun = Instant::now();
        let is_full = |name: &String| spaces::processes_in(name).len() as u32 > each;
        while !over() && begun.elapsed() < PATIENCE && !names.iter().all(is_full) {
            thread::sleep(PERIOD);
        }
        let mut losses = 0;
        loop {
            let away = 0.3 + 0.4 * draw.f64();
            wait(self.options.every.mul_f64(1.0 - away));
            if over() {
                return Ok(losses);
            }
            // Ranks are not moved to nodes that come back.
            let with_ranks: Vec<&String> =
                names.iter().filter(|name| spaces::has_ranks(name)).collect();
            let Some(name) = draw.choice(with_ranks) else { continue };
            spaces::kill_in(name, (draw.u32(..4) == 0).then_some("fampi-node"));
            losses += 1;
            wait(self.options.every.mul_f64(away));
            if over() {
                return Ok(losses);
            }
            if let Err(why) = add(home, &format!("{name}:{}", each.max(1))) {
                // The end of the job can be what it has met.
                wait(PATIENCE);
                let told = || format!("{name} did not come back after loss {losses}: {why}");
                return if over() { Ok(losses) } else { Err(told()) };
            }
        }
    }

    /// What a job has left behind, after a moment.
    fn left(&self, home: &Home) -> Option<String> {
        let names = self.nodes.names();
        let begun = Instant::now();
        let processes = || names.iter().map(|name| spaces::processes_in(name).len()).sum();
        let mut left: usize = processes();
        while left > 0 && begun.elapsed() < PATIENCE {
            thread::sleep(PERIOD);
            left = processes();
        }
        // The next job is not to meet them.
        for name in names {
            spaces::kill_in(name, None);
        }
        if left > 0 {
            return Some(format!("{left} processes"));
        }
        let folders = [home.files(), home.0.path().join("fampi/jobs")];
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let others = entries.flatten().filter(|entry| entry.path() != home.observers());
        let names = others.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| names.join(" "))
    }
}

impl Play for Losses<'_> {
    fn play(&self, seed: u64) -> Result<Option<Played>> {
        let Known { name, program, words, digest } =
            &self.programs[seed as usize % self.programs.len()];
        let begun = Instant::now();
        let job = self.launch(program, words, Some(seed))?;
        if let End::Interrupted(_) = job.finished.end {
            return Ok(None);
        }
        let (outcome, reason) = job.judge(digest);
        let deaths = *job.losses.as_ref().unwrap_or(&0) as usize;
        let seconds = begun.elapsed().as_secs_f64();
        let plan = format!("{name} {}", words.join(" "));
        let account = format!(
            "{} ranks on {} nodes: {plan}\nthe launcher: {:?}\n\nstandard output:\n{}\n\n\
             standard error:\n{}",
            self.options.ranks,
            self.nodes.names().len(),
            job.finished.end,
            job.finished.lines.join("\n"),
            job.errors,
        );
        let judged = Judged { outcome, deaths, what: "lost nodes", seconds, reason };
        Ok(Some(Played { program: name, spares: 0, plan, judged, account }))
    }
}

impl Job {
    fn judge(&self, expected: &str) -> (Outcome, String) {
        let Self { finished, errors, losses, left } = self;
        let said = reason(errors);
        match (finished.end, digest(&finished.lines), losses, left) {
            (End::TimedOut, ..) => (Outcome::Hang, format!("no end in {} s", LIMIT.as_secs())),
            (_, _, Err(why), _) => (Outcome::Crash, why.clone()),
            (_, Some(digest), ..) if digest != expected => {
                (Outcome::Wrong, format!("digest {digest}, not {expected}"))
            }
            (.., Some(left)) => (Outcome::Leak, format!("{left} left behind")),
            (End::Exited(0), Some(_), Ok(0), _) => (Outcome::Undisturbed, String::new()),
            (End::Exited(0), Some(_), ..) => (Outcome::Recovered, String::new()),
            _ if said.is_empty() => (Outcome::Crash, last_line(errors)),
            _ => (Outcome::Refused, said),
        }
    }
}

impl Home {
    fn new() -> Result<Self> {
        let home = Self(tempfile::tempdir().context("cannot make a temporary folder")?);
        fs::create_dir(home.files()).context("cannot make a temporary folder")?;
        Ok(home)
    }

    fn files(&self) -> PathBuf {
        self.0.path().join("files")
    }

    fn observers(&self) -> PathBuf {
        self.files().join(format!("fampi-{}", rustix::process::geteuid().as_raw()))
    }

    fn give(&self, command: &mut Command) {
        command.env("XDG_STATE_HOME", self.0.path()).env("TMPDIR", self.files());
        command.env_remove("XDG_RUNTIME_DIR");
    }
}

/// Adds a host to the job of this home; otherwise what was said.
fn add(home: &Home, host: &str) -> Result<(), String> {
    let tool = env::current_exe().map_err(|failure| failure.to_string())?;
    let mut command = Command::new(tool);
    command.args(["add-host", "--hosts", host]).stdin(Stdio::null());
    home.give(&mut command);
    let output = command.output().map_err(|failure| failure.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(last_line(&said)) }
}
