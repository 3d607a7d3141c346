//! `fampi doctor`: is this MPI fit, what would be survived, and what is to be changed?
//!
//! Looks at what is set, kills processes of small launches, and has the table of
//! [`checks`](crate::checks) say what it means. Nothing is installed or changed.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::Args;

use crate::cargo::{self, Program};
use crate::checks::{self, Finding, Observed, STAGES, Weight};
use crate::doctor_on_mpich;
use crate::installation::{Family, Installation, Version};
use crate::launcher;
use crate::probe::{Findings, Probe, Stage, Transports};
use crate::processes;
use crate::progress::Step;
use crate::setup;
use crate::workspace::{Workspace, shown};

/// Width of what is printed.
const COLUMNS: usize = 80;

/// In the environment, what these begin with is a parameter of MPI or its launcher.
const PREFIXES: [&str; 3] = ["OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_"];

#[derive(Args)]
pub(crate) struct Options {
    /// The MPI to look at
    #[arg(long, value_enum, default_value_t)]
    mpi: Family,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let (usual, workspace) = (workspace, &workspace.on(options.mpi));
    let mpi = setup::known_mpi(workspace).with_context(|| {
        let flag = if options.mpi == Family::Mpich { " --mpi mpich" } else { "" };
        format!("no MPI is set up here: run `cargo fampi setup{flag}`, then ask again")
    })?;
    // The record may be older than the MPI behind the link.
    let mpi = Installation::examine(&mpi.prefix)?;
    describe(&mpi);
    let is_mpich = options.mpi == Family::Mpich;
    let own = is_mpich.then(|| cargo::build(usual, Program::node())).transpose()?;
    let findings = match Probe::build(&mpi, own) {
        Ok(probe) if is_mpich => {
            let observed = observe_mpich(&mpi, &probe)?;
            print_stages(&observed.by_signal, &doctor_on_mpich::STAGES);
            doctor_on_mpich::examine(&observed)
        }
        Ok(probe) => {
            let observed = observe(&mpi, &probe)?;
            print_transports(&observed.transports);
            print_stages(&observed.by_signal, &STAGES);
            checks::examine(&observed)
        }
        Err(error) => {
            let because = |why| Finding {
                about: "the installation",
                weight: Weight::Unfit,
                text: format!("{why}."),
            };
            let reasons = [
                mpi.facts.unfit().map(|why| format!("this MPI {why}")),
                Some(format!("{error:#}")),
            ];
            reasons.into_iter().flatten().map(because).collect()
        }
    };
    print_all("Survived", &findings, Weight::Survived);
    print_all("Not survived, and what to do", &findings, Weight::NotSurvived);
    print_all("To be mended", &findings, Weight::Care);
    if findings.iter().any(|it| it.weight == Weight::Unfit) {
        print_all("Unfit", &findings, Weight::Unfit);
        return Ok(1);
    }
    let flag = if is_mpich { " --mpi mpich" } else { "" };
    println!("\nFit: programs started with `cargo fampi run{flag}` survive what is listed above.");
    Ok(0)
}

fn describe(mpi: &Installation) {
    let real = fs::canonicalize(&mpi.prefix).unwrap_or_else(|_| mpi.prefix.clone());
    let built_in = if mpi.facts.fault_tolerance { "built in" } else { "not built in" };
    println!("MPI         {} {} in {}", mpi.facts.family, mpi.facts.version, shown(&real));
    if mpi.facts.family == Family::Mpich {
        println!("            no fault tolerance of its own, and none is needed");
        println!("launcher    our own, by `cargo fampi run --mpi mpich`");
        return;
    }
    println!("            fault tolerance (ULFM) {built_in}");
    let flags = launcher::flags(&mpi.facts).join(" ");
    let mender = mpi.mender().map(|file| format!("LD_PRELOAD={} ", shown(&file)));
    println!("launcher    our own, by `cargo fampi run`; or");
    println!("            {}{} {flags}", mender.unwrap_or_default(), shown(&mpi.mpirun()));
    if let Some(daemon) = mpi.mender().and_then(|file| launcher::mended_daemon(&file)) {
        println!("            and on several nodes {}='{daemon}'", launcher::DAEMONS);
    }
}

/// Tries deaths, and looks at all that the checks want to know.
fn observe(mpi: &Installation, probe: &Probe<'_>) -> Result<Observed> {
    let step = Step::begin("lose processes on four ranks, in several ways");
    let by_signal = probe.run("signal")?;
    let by_exit = probe.run("exit")?;
    let plain = probe.run_plain("signal")?;
    let transports = probe.transports()?;
    step.finish();
    Ok(Observed {
        facts: mpi.facts.clone(),
        by_signal,
        by_exit,
        plain,
        transports,
        parameters: parameters(&mpi.prefix),
        no_watcher: why_no_watcher(),
        machines: launcher::machines(),
        other_compiler: other_compiler(mpi),
        other_launcher: other_launcher(mpi),
    })
}

/// Tries deaths on MPICH, under our own launcher.
fn observe_mpich(mpi: &Installation, probe: &Probe<'_>) -> Result<Observed> {
    let step = Step::begin("lose processes on four ranks, in two ways");
    let (by_signal, by_exit) = (probe.run("signal")?, probe.run("exit")?);
    step.finish();
    Ok(Observed {
        facts: mpi.facts.clone(),
        by_signal,
        by_exit,
        plain: Findings::none(),
        transports: [None, None],
        parameters: BTreeMap::new(),
        no_watcher: why_no_watcher(),
        machines: 1,
        other_compiler: other_compiler(mpi),
        other_launcher: None,
    })
}

/// Parameters that are set in files, and those in the environment, which win.
fn parameters(prefix: &Path) -> BTreeMap<String, (String, String)> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut found = BTreeMap::new();
    for file in [
        prefix.join("etc/openmpi-mca-params.conf"),
        prefix.join("etc/prte-mca-params.conf"),
        prefix.join("etc/prte.conf"),
        home.join(".openmpi/mca-params.conf"),
        home.join(".prte/mca-params.conf"),
    ] {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let place = file.display().to_string();
        found.extend(in_file(&text).map(|(name, value)| (name, (value, place.clone()))));
    }
    for (variable, value) in env::vars_os() {
        let variable = variable.to_string_lossy().into_owned();
        if let Some(name) = PREFIXES.iter().find_map(|prefix| variable.strip_prefix(prefix)) {
            let place = format!("the environment ({variable})");
            found.insert(name.to_owned(), (value.to_string_lossy().into_owned(), place));
        }
    }
    found
}

/// The lines `name = value` of a file of parameters.
fn in_file(text: &str) -> impl Iterator<Item = (String, String)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    })
}

/// Why the library's ranks would not watch each other on this node, if that is so.
fn why_no_watcher() -> Option<&'static str> {
    if env::var_os("FAMPI_NODE_WATCHER").is_some_and(|word| word == "off") {
        return Some("FAMPI_NODE_WATCHER=off is set");
    }
    (!processes::can_be_watched()).then_some("this system gives no descriptors of processes")
}

/// An exported compiler wrapper of another MPI: what it builds would be launched by this one.
fn other_compiler(mpi: &Installation) -> Option<String> {
    let exported = PathBuf::from(env::var_os("MPICC")?);
    let prefix = |wrapper: &Path| fs::canonicalize(wrapper.parent()?.parent()?).ok();
    (prefix(&exported) != prefix(&mpi.mpicc())).then(|| exported.display().to_string())
}

/// The launcher that a person would get who types its name, if it is of another MPI.
fn other_launcher(mpi: &Installation) -> Option<String> {
    let folders = env::var_os("PATH")?;
    let first = env::split_paths(&folders).map(|it| it.join("mpirun")).find(|it| it.is_file())?;
    if fs::canonicalize(&first).ok() == fs::canonicalize(mpi.mpirun()).ok() {
        return None;
    }
    let said = Command::new(&first).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let name = launcher_name(&said);
    (name != format!("Open MPI {}", mpi.facts.version))
        .then(|| format!("{name} in {}", first.display()))
}

/// What a launcher is, from what it says about its version.
fn launcher_name(said: &str) -> String {
    let version = Version::in_text(said).map(|it| it.to_string()).unwrap_or_default();
    let name = ["Open MPI", "HYDRA"].into_iter().find(|name| said.contains(name));
    let name = match name {
        Some("HYDRA") => "MPICH",
        Some(name) => name,
        None => "of another MPI",
    };
    format!("{name} {version}").trim_end().to_owned()
}

fn print_transports([ours, _]: &[Option<Transports>; 2]) {
    if let Some(Transports { messaging, bytes }) = ours {
        println!("transports  {messaging} over {}", bytes.join(", "));
    }
}

fn print_stages(by_signal: &Findings, stages: &[(&str, &str)]) {
    println!("\nA process was killed (SIGKILL) among four, and the others could …");
    for (stage, meaning) in stages {
        let (mark, remark) = match by_signal.stage(stage) {
            Stage::Works(Some(milliseconds)) => ("yes", format!("{milliseconds:.2} ms")),
            Stage::Works(None) => ("yes", String::new()),
            Stage::Fails => ("NO", "it had no effect".to_owned()),
            Stage::Hangs => ("NO", "it did not end".to_owned()),
            Stage::NotReached => ("?", "not reached".to_owned()),
        };
        println!("{}", format!("  {mark:<4}{meaning:<37} {remark}").trim_end());
    }
}

fn print_all(title: &str, findings: &[Finding], weight: Weight) {
    let mut of_weight = findings.iter().filter(|it| it.weight == weight).peekable();
    if of_weight.peek().is_some() {
        println!("\n{title}");
    }
    for Finding { about, text, .. } in of_weight {
        let bad = matches!(weight, Weight::Unfit | Weight::Care);
        println!("{}", if bad { item(&format!("{about}: {text}")) } else { item(text) });
    }
}

/// A sentence as an item of a list, in lines that fit.
fn item(text: &str) -> String {
    let mut lines = vec![String::from("  -")];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.chars().count() + 1 + word.chars().count() > COLUMNS && line.len() > 3 {
            lines.push(format!("    {word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_from_files() {
        let text = "# comment\n  pml = ucx  # why\n\nbtl=self,tcp\nnothing\n";
        let found: Vec<(String, String)> = in_file(text).collect();
        let expected = [("pml", "ucx"), ("btl", "self,tcp")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn launchers_are_known_by_what_they_say() {
        let hydra = "HYDRA build details:\n    Version:   5.0.0\n    Release Date: …\n";
        assert_eq!(launcher_name(hydra), "MPICH 5.0.0");
        assert_eq!(launcher_name("mpirun (Open MPI) 4.1.6\n"), "Open MPI 4.1.6");
        assert_eq!(launcher_name("Intel(R) MPI Library"), "of another MPI");
    }

    #[test]
    fn a_long_sentence_is_printed_in_lines_that_fit() {
        let text = "word ".repeat(40);
        let printed = item(text.trim_end());
        assert!(printed.starts_with("  - word word") && printed.contains("\n    word"));
        assert!(printed.lines().all(|line| line.len() <= COLUMNS));
        assert_eq!(printed.split_whitespace().filter(|it| *it == "word").count(), 40);
    }
}
