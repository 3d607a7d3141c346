//! A small C program that loses a process on purpose, and what it found out.
//!
//! Built with the compiler of the MPI in question and run under its real launcher: what is built in
//! says little, as fault tolerance is switched on by the launcher and silently absent otherwise.

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::installation::{Family, Installation};
use crate::launcher::Launcher;
use crate::session::{self, End, Script};

const SOURCE: &str = include_str!("probe/survive.c");
const SOURCE_FOR_MPICH: &str = include_str!("probe/survive_mpich.c");
const LIMIT: Duration = Duration::from_secs(30);

/// The program, built for one MPI.
#[derive(Debug)]
pub(crate) struct Probe<'a> {
    mpi: &'a Installation,
    /// The launcher of our own, where the MPI's ends the job when a rank dies.
    own: Option<PathBuf>,
    folder: TempDir,
}

/// How a stage of the program went.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stage {
    /// It worked; with the milliseconds it took, where that says something.
    Works(Option<f64>),
    /// It ended without the effect it should have.
    Fails,
    /// It began and did not end: the run ended in it, or hung in it until the time limit.
    Hangs,
    /// The run did not come to it.
    NotReached,
}

/// What one run printed.
#[derive(Debug)]
pub(crate) struct Findings {
    lines: Vec<String>,
    pub(crate) end: End,
    pub(crate) errors: String,
}

/// The transports that a run selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transports {
    /// The messaging layer (`pml`).
    pub(crate) messaging: String,
    /// The byte transports below it (`btl`).
    pub(crate) bytes: Vec<String>,
}

impl<'a> Probe<'a> {
    pub(crate) fn build(mpi: &'a Installation, own: Option<PathBuf>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("fampi-probe-").tempdir()?;
        let text = if own.is_some() { SOURCE_FOR_MPICH } else { SOURCE };
        compile(mpi, "survive", text, folder.path())?;
        Ok(Self { mpi, own, folder })
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("survive")
    }

    /// Four ranks, one of which dies in the given way (`signal`, `exit`, `nothing`).
    pub(crate) fn run(&self, death: &str) -> Result<Findings> {
        let launcher = Launcher::new(self.mpi).by(self.own.clone());
        let mut command = launcher.command(4, self.program());
        command.arg(death);
        observe(command, self.own.is_some(), self.folder.path())
    }

    /// Runs the program without the flags of fault tolerance.
    pub(crate) fn run_plain(&self, death: &str) -> Result<Findings> {
        let mut command = Launcher::new(self.mpi).plain_command(4, self.program());
        command.arg(death);
        observe(command, false, self.folder.path())
    }

    /// What is selected with the flags of fault tolerance, and without.
    pub(crate) fn transports(&self) -> Result<[Option<Transports>; 2]> {
        let verbose = ["--mca", "pml_base_verbose", "10", "--mca", "btl_base_verbose", "10"];
        let verbose = verbose.map(str::to_owned);
        let launcher = Launcher::with(self.mpi, &verbose);
        let look = |mut command: Command| -> Result<Option<Transports>> {
            command.arg("nothing");
            Ok(Transports::parse(&observe(command, false, self.folder.path())?.errors))
        };
        let ours = look(launcher.command(2, self.program()))?;
        let plain = look(launcher.plain_command(2, self.program()))?;
        Ok([ours, plain])
    }
}

/// Compiles a program in C by this MPI's compiler, into this folder.
pub(crate) fn compile(
    mpi: &Installation,
    name: &str,
    text: &str,
    folder: &Path,
) -> Result<PathBuf> {
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, text)?;
    let compiler = Command::new(mpi.mpicc())
        .args(["-O1", "-o"])
        .args([&program, &source])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", mpi.mpicc().display()))?;
    if !compiler.status.success() {
        let said = String::from_utf8_lossy(&compiler.stderr);
        let first = said.lines().find(|line| line.contains("error")).unwrap_or("no reason given");
        let is_mpich = mpi.facts.family == Family::Mpich;
        let calls = if is_mpich { "" } else { " with its ULFM calls" };
        bail!("the compiler of this MPI cannot build a program{calls}: {first}");
    }
    Ok(program)
}

/// Runs it; its ranks may be elsewhere than in the session of their launcher.
fn observe(mut command: Command, elsewhere: bool, folder: &Path) -> Result<Findings> {
    command.current_dir(folder);
    let mut errors = tempfile::tempfile()?;
    let script = Script {
        timeout: Some(LIMIT),
        collect: true,
        errors: Some(errors.try_clone()?),
        leftovers: &[folder],
        elsewhere,
        ..Script::default()
    };
    let finished = session::run(&command, script)?;
    let mut said = Vec::new();
    errors.rewind()?;
    errors.read_to_end(&mut said)?;
    let errors = String::from_utf8_lossy(&said).into_owned();
    Ok(Findings { lines: finished.lines, end: finished.end, errors })
}

impl Findings {
    /// Of a run that was not made.
    pub(crate) fn none() -> Self {
        Self { lines: Vec::new(), end: End::Exited(0), errors: String::new() }
    }

    /// As if a run had printed these lines.
    #[cfg(test)]
    pub(crate) fn of(lines: Vec<String>, end: End, errors: &str) -> Self {
        Self { lines, end, errors: errors.to_owned() }
    }

    /// As if it had printed one more.
    #[cfg(test)]
    pub(crate) fn add_line(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    pub(crate) fn stage(&self, name: &str) -> Stage {
        let word = |line: &'_ str, first: &str| -> Option<String> {
            let rest = line.strip_prefix(first)?.strip_prefix(' ')?.strip_prefix(name)?;
            (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim().to_owned())
        };
        match self.lines.iter().find_map(|line| word(line, "done")).as_deref() {
            Some("no") => Stage::Fails,
            Some(result) => Stage::Works(result.parse().ok()),
            None if self.lines.iter().any(|line| word(line, "begin").is_some()) => Stage::Hangs,
            None => Stage::NotReached,
        }
    }
}

impl Transports {
    /// Reads what the launcher prints when it is asked to be verbose about the selection.
    fn parse(errors: &str) -> Option<Self> {
        let between = |line: &str, before: &str, after: &str| -> Option<String> {
            let (_, rest) = line.split_once(before)?;
            rest.split_once(after).map(|(name, _)| name.to_owned())
        };
        let mut lines = errors.lines();
        let messaging = lines.find_map(|line| between(line, " selected ", " best priority"))?;
        let mut bytes: Vec<String> = errors
            .lines()
            .filter_map(|line| between(line, "init of component ", " returned success"))
            .collect();
        bytes.sort();
        bytes.dedup();
        Some(Self { messaging, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_began_and_did_not_end_hangs() {
        let lines = ["begin start", "done start yes", "begin detection", "done detection 42.1"];
        let more = ["begin shrink", "done shrink no", "begin spawn"];
        let lines = lines.iter().chain(&more).map(|line| (*line).to_owned()).collect();
        let findings = Findings { lines, end: End::TimedOut, errors: String::new() };
        assert_eq!(findings.stage("start"), Stage::Works(None));
        assert_eq!(findings.stage("detection"), Stage::Works(Some(42.1)));
        assert_eq!(findings.stage("shrink"), Stage::Fails);
        assert_eq!(findings.stage("spawn"), Stage::Hangs);
        assert_eq!(findings.stage("finalize"), Stage::NotReached);
    }

    #[test]
    fn the_selected_transports_are_read_from_the_noise() {
        let said = "[vm:1] select: initializing btl component ofi\n\
                    [vm:1] select: init of component ofi returned failure\n\
                    [vm:1] select: init of component tcp returned success\n\
                    [vm:2] select: init of component tcp returned success\n\
                    [vm:1] select: init of component self returned success\n\
                    [vm:1] selected ob1 best priority 20\n";
        let transports = Transports::parse(said).expect("selected");
        assert_eq!(transports.messaging, "ob1");
        assert_eq!(transports.bytes, ["self", "tcp"]);
        assert_eq!(Transports::parse("nothing"), None);
    }
}
