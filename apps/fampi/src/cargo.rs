//! Builds parts of the workspace with cargo and finds the programs that it built.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{IsTerminal, stderr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use fampi_kit::selection;
use serde::Deserialize;

use crate::installation::Family;
use crate::progress::Step;
use crate::refusal::Stopped;
use crate::session::{self, End, Script};
use crate::workspace::Workspace;

/// The part of cargo's messages that names what was built.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// cargo, in the workspace, seeing the same environment as when a person calls it: what an outer
/// cargo has set for us would make it build things again.
pub(crate) fn command(workspace: &Workspace) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    cargo.current_dir(workspace.root());
    for (name, made) in workspace.build_variables() {
        let exported = env::var_os(name).filter(|value| {
            // What a person has exported is an Open MPI, if anything.
            let is_other = workspace.family() == Family::Mpich && name == "MPICC";
            !is_other && !workspace.has_made(Path::new(value))
        });
        match exported {
            Some(_) => {}
            // Its own configuration says it.
            None if workspace.is_inside_checkout() => _ = cargo.env_remove(name),
            None => _ = cargo.env(name, made),
        }
    }
    if !workspace.is_inside_checkout() {
        cargo.env("CARGO_TARGET_DIR", workspace.target());
    }
    forget_package(&mut cargo);
    cargo
}

/// Takes away what cargo has told the tool of the tool's own package.
pub(crate) fn forget_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
            command.env_remove(name);
        }
    }
}

/// One program to build: `--package minife`, `--example rebuild`, `--bench commit`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) flag: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) name: &'a str,
    /// False for what is built without the library's default features, of which MPI is one.
    pub(crate) needs_mpi: bool,
    /// What it is a part of, if not of the library.
    pub(crate) package: Option<&'static str>,
    profile: &'static str,
}

/// The profile of what is measured, or installed. The compiler takes minutes for it.
pub(crate) const BEST: &str = "dist";

impl<'a> Program<'a> {
    pub(crate) fn application(name: &'a str) -> Self {
        let (package, profile) = (None, "release");
        Self { flag: "--package", kind: "bin", name, needs_mpi: true, package, profile }
    }

    /// The observer of a node, built alone: it does not know MPI.
    pub(crate) fn observer() -> Self {
        let package = Some("fampi-detector");
        Self { flag: "--bin", package, ..Self::application("fampi-observer") }
    }

    /// The launcher of our own, built alone: it does not know MPI.
    pub(crate) fn node() -> Self {
        let package = Some("fampi-node");
        Self { flag: "--bin", package, ..Self::application("fampi-node") }
    }

    /// What is preloaded into the launcher.
    pub(crate) fn mender() -> Self {
        Self { kind: "cdylib", ..Self::application("fampi-prterun") }
    }

    /// True for those that a run needs beside the user's program.
    fn is_helper(self) -> bool {
        self.flag == "--bin" && self.needs_mpi
    }

    pub(crate) fn example(name: &'a str) -> Self {
        Self { flag: "--example", kind: "example", ..Self::application(name) }
    }

    /// Random programs on simulated ranks.
    pub(crate) fn swarm() -> Self {
        let package = Some("fampi-checkers");
        Self { flag: "--bin", package, needs_mpi: false, ..Self::application("swarm") }
    }

    /// Tests among simulated hosts.
    pub(crate) fn slow_hosts() -> Self {
        let swarm = Self::swarm();
        Self { name: "slow_hosts", ..swarm }
    }

    pub(crate) fn benchmark(name: &'a str) -> Self {
        Self { flag: "--bench", kind: "bench", ..Self::application(name) }.at_its_best()
    }

    /// A measuring program whose time is that of messages, and of waiting for a processor.
    pub(crate) fn benchmark_of_messages(name: &'a str) -> Self {
        Self { flag: "--bench", kind: "bench", ..Self::application(name) }
    }

    /// Builds it as it is measured, or installed.
    pub(crate) fn at_its_best(self) -> Self {
        Self { profile: BEST, ..self }
    }

    /// A program of another package.
    pub(crate) fn of(self, package: Option<&'static str>) -> Self {
        Self { package, ..self }
    }

    /// A measuring program, of the library if of nothing else, that needs no MPI.
    pub(crate) fn without_mpi(name: &'a str) -> Self {
        Self { needs_mpi: false, profile: "release", ..Self::benchmark(name) }
    }
}

/// The words that select what to build: alone; or, in tests, as a part of what was built for them.
pub(crate) fn selected<'a>(
    workspace: &Workspace,
    profile: &str,
    alone: &[&'a str],
    part: &[&'a str],
) -> Vec<&'a str> {
    // No test measures, and nothing was built for the tests with another MPI.
    let shares = profile == "release" && workspace.family() == Family::OpenMpi;
    let as_tests = selection::as_tests(part).filter(|_| shares && workspace.is_inside_checkout());
    as_tests.unwrap_or_else(|| alone.to_vec())
}

/// Builds a program with optimisation and returns where it is. cargo shows its own progress to a
/// person; otherwise one line is left.
pub(crate) fn build(workspace: &Workspace, program: Program<'_>) -> Result<PathBuf> {
    build_within(workspace, program, None)
}

/// Builds a program within a time limit, at which cargo and its compilers are ended.
pub(crate) fn build_within(
    workspace: &Workspace,
    program: Program<'_>,
    timeout: Option<Duration>,
) -> Result<PathBuf> {
    if let Some(built) = built_before(workspace, program) {
        return Ok(built);
    }
    workspace.sources()?;
    let begun = SystemTime::now();
    let built = build_by_cargo(workspace, program, timeout)?;
    if program.is_helper() {
        stamp(workspace, &built, begun);
    }
    Ok(built)
}

fn build_by_cargo(
    workspace: &Workspace,
    program: Program<'_>,
    timeout: Option<Duration>,
) -> Result<PathBuf> {
    let Program { flag, kind, name, needs_mpi, package, profile } = program;
    let watched = stderr().is_terminal();
    let step = (!watched).then(|| Step::begin(format!("build {name}")));
    let mut cargo = command(workspace);
    cargo.args(["build", "--profile", profile]);
    let mut alone = vec![flag, name];
    if let Some(package) = package.or((!needs_mpi).then_some("fampi")) {
        alone.extend(["--package", package]);
    }
    let part: &[&str] = match kind {
        "cdylib" => &["--lib"],
        "example" => &["--example", name],
        "bench" => &["--bench", name],
        _ => &["--bin", name],
    };
    if !needs_mpi {
        alone.push("--no-default-features");
    }
    cargo.args(selected(workspace, profile, &alone, part));
    cargo.arg("--message-format=json-render-diagnostics");
    if !watched {
        cargo.arg("--quiet");
    }
    // As it is, since cargo shows its progress only to a terminal.
    let errors = stderr().as_fd().try_clone_to_owned().context("no standard error")?;
    let script =
        Script { timeout, collect: true, errors: Some(File::from(errors)), ..Script::default() };
    let finished = session::run(&cargo, script)?;
    let mut built = None;
    for line in finished.lines {
        let Ok(message) = serde_json::from_str::<Message>(&line) else { continue };
        let is_it = |target: Target| {
            target.name.replace('_', "-") == name.replace('_', "-")
                && target.kind.iter().any(|it| it == kind)
        };
        if message.target.is_some_and(is_it) {
            // A library has files alone.
            built = message.executable.or(message.filenames.into_iter().next()).or(built);
        }
    }
    match finished.end {
        End::Exited(0) => {}
        End::TimedOut | End::Interrupted(_) => {
            let (status, timed_out) = (finished.end.status(), finished.end == End::TimedOut);
            let why = if timed_out { "the time is over: give it more" } else { "interrupted" };
            let sentence = format!("{name} is not built yet, {why}");
            return Err(Stopped { status, sentence }.into());
        }
        End::Exited(_) | End::Crashed(_) | End::Deserted => {
            bail!("{name} cannot be built: see above")
        }
    }
    if let Some(step) = step {
        step.finish();
    }
    built.with_context(|| format!("cargo built {name} but names no program"))
}

/// Says when a helper was built, and from which checkout.
const STAMP: &str = "stamp";

/// A helper that needs no build. Cargo says so, too, but takes a quarter of a second for it, in
/// which a whole job starts.
fn built_before(workspace: &Workspace, program: Program<'_>) -> Option<PathBuf> {
    let built = workspace.target().join(program.profile).join(program.name);
    let is_good = || {
        let stamp = built.with_extension(STAMP);
        let is_of_this = fs::read_to_string(&stamp).ok()? == workspace.root().to_str()?;
        let since = changed(&stamp)?;
        // Without a checkout there will be no other one.
        let root = workspace.sources().ok();
        let is_new = root.is_none_or(|root| is_unchanged(&built, root, since));
        Some(is_of_this && is_new && built.is_file())
    };
    (program.is_helper() && is_good() == Some(true)).then_some(built)
}

/// Notes that a helper was built, and when that began.
fn stamp(workspace: &Workspace, built: &Path, begun: SystemTime) {
    let path = built.with_extension(STAMP);
    let root = workspace.root().display().to_string();
    let written = fs::write(&path, root).and_then(|()| File::options().write(true).open(&path));
    // Without it cargo is asked again.
    let _ = written.and_then(|file| file.set_modified(begun));
}

fn changed(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|it| it.modified()).ok()
}

/// True when all that a program was built from is as it was at this moment.
fn is_unchanged(built: &Path, root: &Path, since: SystemTime) -> bool {
    // Cargo writes beside it `built: file file …`.
    let Ok(listed) = fs::read_to_string(built.with_extension("d")) else { return false };
    let Some((_, files)) = listed.split_once(": ") else { return false };
    // A path with a blank is in two pieces, of which none is there.
    let files: Vec<&Path> = files.split_whitespace().map(Path::new).collect();
    let manifest = |file: &Path| {
        let manifests = file.ancestors().skip(1).map(|folder| folder.join("Cargo.toml"));
        let mut there = manifests.filter(|manifest| manifest.is_file());
        there.next()
    };
    let mut all: BTreeSet<PathBuf> = files.iter().filter_map(|file| manifest(file)).collect();
    all.extend(["Cargo.toml", "Cargo.lock"].map(|file| root.join(file)));
    all.extend(files.into_iter().map(Path::to_owned));
    all.iter().all(|file| changed(file).is_some_and(|at| at <= since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_unchanged_if_all_its_files_and_their_manifests_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        fs::create_dir_all(root.join("part/src")).expect("made");
        let built = root.join("built");
        let names = ["part/src/main.rs", "part/Cargo.toml", "Cargo.toml", "Cargo.lock"];
        let at = |second| SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        let write = |name: &str, second: u64| {
            let path = root.join(name);
            fs::write(&path, "").expect("written");
            let file = File::options().write(true).open(path).expect("a file");
            file.set_modified(at(second)).expect("ours");
        };
        for name in names {
            write(name, 10);
        }
        let is_unchanged = || is_unchanged(&built, root, at(20));
        assert!(!is_unchanged(), "nothing says what it was built from");
        let listed = format!("{}: {}\n", built.display(), root.join(names[0]).display());
        fs::write(built.with_extension("d"), listed).expect("written");
        assert!(is_unchanged());
        for name in names {
            write(name, 30);
            assert!(!is_unchanged(), "{name}");
            write(name, 10);
        }
        fs::remove_file(root.join(names[0])).expect("removed");
        assert!(!is_unchanged());
    }

    #[test]
    fn a_stamp_is_as_old_as_the_beginning_of_the_build() {
        let folder = tempfile::tempdir().expect("a folder");
        let (workspace, built) = (Workspace::at(folder.path()), folder.path().join("built"));
        let begun = SystemTime::UNIX_EPOCH + Duration::from_secs(20);
        stamp(&workspace, &built, begun);
        assert_eq!(changed(&built.with_extension(STAMP)), Some(begun));
    }

    #[test]
    fn what_is_measured_or_is_for_another_mpi_is_built_alone_in_tests_too() {
        let usual = Workspace::at(Path::new("/checkout"));
        let other = usual.on(Family::Mpich);
        for (workspace, profile) in [(&usual, BEST), (&other, "release")] {
            let alone = ["--package", "minife"];
            assert_eq!(selected(workspace, profile, &alone, &["--bin", "minife"]), alone);
        }
    }
}
