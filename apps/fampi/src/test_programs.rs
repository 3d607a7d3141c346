//! Runs all test programs of the workspace: those that launch ranks one after the other, and
//! beside them those that only compute, two at a time.
//!
//! A launch is mostly a wait: for a start, for a limit of time, for an end. Two programs that
//! launch could take each other's processes for what they themselves have left behind, so there is
//! one of them at a time. What computes takes what they leave of the processors: it is as nice as
//! can be. What judges by time comes last.
//!
//! **Guarantees.** Every test program that cargo builds runs: one that no list names is taken for
//! one that launches. What one program prints is not mixed with what another one does. After a
//! failure no other program begins, and of those that pass only their time is shown: what the
//! failed one has printed stays near the end.

use std::cmp::Reverse;
use std::io::{self, BufRead, BufReader, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cargo;

/// The names of test programs that launch nothing and measure no time, the longest first: each
/// computes, or builds in a folder of its own.
const COMPUTING: [&str; 14] = [
    "operations",
    "model",
    "mutations",
    "simulation",
    "machines",
    "slow_hosts",
    "scenarios",
    "detector",
    "pages",
    "pure",
    "simulated",
    "specification",
    "partition_properties",
    "fampi_checkers",
];

/// How many of these run at once, so that none of two processors is idle when all else has ended.
const BESIDE: usize = 2;

/// Runs a command as nicely as can be in the session that it is the first of.
const NICE_SESSION: &str =
    "{ echo 19 > /proc/self/autogroup; } 2> /dev/null; exec nice -n 19 \"$@\"";

/// Tests of this module, in whichever program, come last: they measure whether waits keep to a
/// limit.
pub(crate) const MEASURING: &str = "limits::";
/// The programs that have it.
const WITH_MEASURING: [&str; 2] = ["c", "mpi"];

/// The part of cargo's messages that names a test program.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// One test program.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Program {
    /// Of the package, which is where it runs.
    folder: PathBuf,
    name: String,
    executable: PathBuf,
}

impl Program {
    fn from_message(line: &str) -> Option<Self> {
        let message: Message = serde_json::from_str(line).ok()?;
        let executable = message.profile.filter(|it| it.test).and(message.executable)?;
        let folder = message.manifest_path?.parent()?.to_owned();
        Some(Self { folder, name: message.target?.name, executable })
    }

    /// Where it stands among those that compute, if it is one of them.
    fn place(&self) -> Option<usize> {
        COMPUTING.iter().position(|name| *name == self.name)
    }

    /// Its name for a person: the folder of its package, and its own.
    fn shown(&self) -> String {
        let package = self.folder.file_name().unwrap_or_default().to_string_lossy();
        format!("{package}: {}", self.name)
    }

    /// As this cargo starts it.
    fn command(&self, cargo: &Command) -> Command {
        let mut command = Command::new(&self.executable);
        command.envs(cargo.get_envs().filter_map(|(name, value)| Some((name, value?))));
        cargo::forget_package(&mut command);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// What has ended beside the launches.
struct Ended {
    what: String,
    output: io::Result<Output>,
    took: Duration,
}

impl Ended {
    /// Shows what it has printed; if it has passed when something else `failed`, only its time.
    fn show(self, failed: &AtomicBool) -> Result<()> {
        let Self { what, output, took } = self;
        let output = output.with_context(|| format!("{what} does not start"))?;
        if !output.status.success() || !failed.load(Ordering::Relaxed) {
            stdout().write_all(&output.stdout)?;
            stderr().write_all(&output.stderr)?;
        }
        say(&what, took);
        Ok(())
    }
}

fn say(what: &str, took: Duration) {
    println!("{what}: {:.1} s\n", took.as_secs_f64());
}

/// Builds and runs all tests, for which `cargo` is asked; the status for the tool.
pub(crate) fn run(cargo: impl Fn() -> Command) -> Result<u8> {
    let Some(mut programs) = built(&mut cargo())? else { return Ok(1) };
    programs.sort();
    // Those of the library, whose ranks are the busiest, come when the others have computed.
    programs.sort_by_key(|program| Reverse(program.folder.components().count()));
    let (mut computing, launching): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| program.place().is_some());
    computing.sort_by_key(Program::place);
    let mut documentation = cargo();
    documentation.arg("--doc");
    let step = |program: &Program| (program.shown(), program.command(&documentation));
    let mut beside: Vec<_> = computing.iter().map(step).collect();
    let (first, last) = in_two(&launching, step);
    beside.push(("documentation".to_owned(), documentation));
    let (beside, failed) = (Mutex::new(beside.iter()), AtomicBool::new(false));
    let (sender, ended) = channel();
    thread::scope(|scope| {
        let (beside, failed) = (&beside, &failed);
        for sender in vec![sender; BESIDE] {
            scope.spawn(move || compute(beside, failed, &sender));
        }
        let launched = launch(first, failed, &ended).and_then(|()| {
            ended.iter().try_for_each(|it| it.show(failed))?;
            launch(last, failed, &ended)
        });
        if launched.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        launched.and(ended.iter().try_for_each(|it| it.show(failed)))
    })?;
    Ok(u8::from(failed.into_inner()))
}

/// What is run, and how it is shown.
type Step = (String, Command);

/// What launches beside what computes, and what launches when nothing computes any more.
fn in_two(launching: &[Program], step: impl Fn(&Program) -> Step) -> (Vec<Step>, Vec<Step>) {
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for program in launching {
        let (shown, mut command) = step(program);
        if WITH_MEASURING.contains(&program.name.as_str()) {
            command.args(["--skip", MEASURING]);
            let mut measuring = step(program).1;
            measuring.arg(MEASURING);
            last.push((format!("{shown}, {MEASURING}"), measuring));
        }
        first.push((shown, command));
    }
    (first, last)
}

/// Runs what computes, one after the other, beside others that take their part of it.
fn compute(steps: &Mutex<slice::Iter<'_, Step>>, failed: &AtomicBool, sender: &Sender<Ended>) {
    let next = || steps.lock().unwrap_or_else(PoisonError::into_inner).next();
    while let Some((what, command)) = next() {
        if failed.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        let output = nicely(command).stdin(Stdio::null()).output();
        if !output.as_ref().is_ok_and(|it| it.status.success()) {
            failed.store(true, Ordering::Relaxed);
        }
        // It is heard until all of this has ended, or the tool ends with an error.
        let _ = sender.send(Ended { what: what.clone(), output, took: begun.elapsed() });
    }
}

/// The same command, which is as nice as can be to all others. Linux shares processors among
/// sessions first, whatever is nice in them, and a launch has a session of its own: so this has
/// one, too, which is nice as a whole. It is killed when what waits for it is gone.
fn nicely(command: &Command) -> Command {
    let mut nicely = Command::new("setpriv");
    nicely.args(["--pdeathsig", "KILL", "setsid", "sh", "-c", NICE_SESSION, "nice"]);
    nicely.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nicely.env(name, value),
            None => nicely.env_remove(name),
        };
    }
    nicely.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    nicely
}

/// Runs what launches, one after the other, and shows in between what has ended beside.
fn launch(steps: Vec<Step>, failed: &AtomicBool, beside: &Receiver<Ended>) -> Result<()> {
    for (what, mut command) in steps {
        if failed.load(Ordering::Relaxed) {
            break;
        }
        println!("{what}");
        let begun = Instant::now();
        let status = command.stdin(Stdio::null()).status();
        let status = status.with_context(|| format!("{what} does not start"))?;
        if !status.success() {
            failed.store(true, Ordering::Relaxed);
        }
        say(&what, begun.elapsed());
        beside.try_iter().try_for_each(|it| it.show(failed))?;
    }
    Ok(())
}

/// Builds all test programs, and what they launch; none if that fails.
fn built(cargo: &mut Command) -> Result<Option<Vec<Program>>> {
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut cargo = cargo.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let messages = BufReader::new(cargo.stdout.take().context("cargo has no output")?);
    let mut programs = Vec::new();
    for line in messages.lines() {
        programs.extend(Program::from_message(&line.context("cargo's messages")?));
    }
    Ok(cargo.wait()?.success().then_some(programs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/apps/a/Cargo.toml","target":
            {{"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/w/target/{name}-1"}}"#
        )
    }

    #[test]
    fn a_test_program_that_no_list_names_is_taken_for_one_that_launches() {
        let program = |name| Program::from_message(&message(name, true)).expect("a test program");
        assert_eq!(program("operations").place(), Some(0));
        assert_eq!(program("unheard_of").place(), None);
        assert_eq!(program("unheard_of").folder, Path::new("/w/apps/a"));
    }

    #[test]
    fn what_judges_by_time_comes_when_nothing_computes() {
        let program = |name| Program::from_message(&message(name, true)).expect("a test program");
        let launching = ["c", "launch", "mpi", "node"].map(program);
        let words = |steps: Vec<(String, Command)>| -> Vec<String> {
            let word = |(shown, command): (String, Command)| {
                let words: Vec<_> = command.get_args().map(|it| it.to_string_lossy()).collect();
                format!("{shown} {}", words.join(" ")).trim_end().to_owned()
            };
            steps.into_iter().map(word).collect()
        };
        let (first, last) = in_two(&launching, |it| step(&it.name));
        assert_eq!(words(first), ["c --skip limits::", "launch", "mpi --skip limits::", "node"]);
        assert_eq!(words(last), ["c, limits:: limits::", "mpi, limits:: limits::"]);
    }

    #[test]
    fn what_is_no_test_program_does_not_run() {
        assert_eq!(Program::from_message(&message("minife", false)), None);
        assert_eq!(Program::from_message("{\"reason\":\"build-finished\"}"), None);
        assert_eq!(Program::from_message("no message"), None);
    }

    fn step(program: &str) -> (String, Command) {
        (program.to_owned(), Command::new(program))
    }

    #[test]
    fn after_a_failure_no_other_program_begins_and_all_that_ended_is_told() {
        let failed = AtomicBool::new(false);
        let (sender, ended) = channel();
        let steps = ["true", "false", "true"].map(step);
        compute(&Mutex::new(steps.iter()), &failed, &sender);
        drop(sender);
        assert!(failed.load(Ordering::Relaxed));
        let told: Vec<_> =
            ended.iter().map(|it| it.output.expect("started").status.success()).collect();
        assert_eq!(told, [true, false]);

        let none = vec![step("there is no such program")];
        assert!(launch(none, &failed, &ended).is_ok(), "it has begun");
        let failed = AtomicBool::new(false);
        launch(vec![step("false"), step("there is no such program")], &failed, &ended)
            .expect("run");
        assert!(failed.into_inner());
    }
}
