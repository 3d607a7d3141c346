//! `fampi doctor`: is this MPI fit, what would be survived, and what is to be changed?
//!
//! Every sentence follows from something that was looked at or tried just now, or from what is
//! known of this version of MPI. Nothing is installed or changed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::installation::Installation;
use crate::launcher;
use crate::probe::{Findings, Probe, Stage, Transports};
use crate::processes;
use crate::progress::Step;
use crate::session::End;
use crate::setup;
use crate::workspace::{Workspace, shown};

/// The stages after a death, with what each is good for.
const STAGES: [(&str, &str); 7] = [
    ("start", "start together"),
    ("detection", "notice the death"),
    ("revoke", "interrupt each other (revoke)"),
    ("agreement", "agree on what happened"),
    ("shrink", "go on without the dead (shrink)"),
    ("spawn", "start a replacement (spawn)"),
    ("finalize", "end in order (finalize)"),
];

pub(crate) fn main(workspace: &Workspace) -> Result<u8> {
    let mpi = setup::known_mpi(workspace)
        .context("no MPI is set up here: run `cargo fampi setup`, then ask again")?;
    // The record may be older than the MPI behind the link.
    let mpi = Installation::examine(&mpi.prefix)?;
    let mut unfit = Vec::new();
    describe(&mpi);
    unfit.extend(known_defects(&mpi));
    match Probe::build(&mpi) {
        Ok(probe) => unfit.extend(try_deaths(&probe)?),
        Err(error) => unfit.push(format!("{error:#}.")),
    }
    for note in overriding_variables().into_iter().chain(other_compiler(&mpi)) {
        println!("\nNote: {note}");
    }
    if unfit.is_empty() {
        println!("\nFit: programs started with `cargo fampi run` survive what is listed above.");
        return Ok(0);
    }
    println!("\nUnfit:");
    for reason in unfit {
        println!("  - {reason}");
    }
    Ok(1)
}

fn describe(mpi: &Installation) {
    let real = fs::canonicalize(&mpi.prefix).unwrap_or_else(|_| mpi.prefix.clone());
    let built_in = if mpi.facts.fault_tolerance { "built in" } else { "not built in" };
    println!("MPI         Open MPI {} in {}", mpi.facts.version, shown(&real));
    println!("            fault tolerance (ULFM) {built_in}");
    let flags = launcher::flags(&mpi.facts).join(" ");
    println!("launcher    {} {flags}", shown(&mpi.mpirun()));
}

fn known_defects(mpi: &Installation) -> Option<String> {
    if let Some(why) = mpi.facts.unfit() {
        return Some(format!("this MPI {why}: run `cargo fampi setup --force`."));
    }
    mpi.facts.version.crashes_survivors().then(|| {
        format!(
            "Open MPI {} crashes healthy ranks when the notice of a death reaches them while they \
             create a communicator: run `cargo fampi setup --force` for one that does not.",
            mpi.facts.version
        )
    })
}

/// Runs the probes, prints what they found, and returns what makes this MPI unfit.
fn try_deaths(probe: &Probe<'_>) -> Result<Vec<String>> {
    let step = Step::begin("lose processes on four ranks, in several ways");
    let by_signal = probe.run("signal")?;
    let by_exit = probe.run("exit")?;
    let plain = probe.run_plain("signal")?;
    let transports = probe.transports()?;
    step.finish();
    let mut unfit = report_transports(&transports);
    println!("\nA process was killed (SIGKILL) among four, and the others could …");
    for (stage, meaning) in STAGES {
        let (mark, remark) = match by_signal.stage(stage) {
            Stage::Works(Some(milliseconds)) => ("yes", format!("{milliseconds:.2} ms")),
            Stage::Works(None) => ("yes", String::new()),
            Stage::Fails => ("NO", "it had no effect".to_owned()),
            Stage::Hangs => ("NO", "it did not end".to_owned()),
            Stage::NotReached => ("?", "not reached".to_owned()),
        };
        println!("{}", format!("  {mark:<4}{meaning:<34}{remark}").trim_end());
        if mark == "NO" {
            unfit.push(format!("the ranks cannot {meaning}: {}.", explain(&by_signal)));
        }
    }
    if unfit.is_empty() && by_signal.end != End::Exited(0) {
        unfit.push(format!("the ranks survived but the launcher failed: {}.", explain(&by_signal)));
    }
    report_survival(&by_signal, &by_exit, &plain, why_no_watcher());
    Ok(unfit)
}

fn report_transports([ours, plain]: &[Option<Transports>; 2]) -> Vec<String> {
    let mut unfit = Vec::new();
    if let Some(Transports { messaging, bytes }) = ours {
        println!("transports  {messaging} over {}", bytes.join(", "));
        if messaging != "ob1" {
            unfit.push(format!(
                "messages go through `{messaging}`, which does not report a dead peer: unset what \
                 selects it (OMPI_MCA_pml, or the parameter files of this MPI)."
            ));
        }
    } else {
        unfit.push("no program starts, or its transports are unknown.".to_owned());
    }
    if let Some(plain) = plain.as_ref().filter(|plain| plain.messaging != "ob1") {
        println!(
            "            a plain mpirun selects `{}` here, which does not report a dead peer",
            plain.messaging
        );
    }
    unfit
}

/// The last thing that the launcher said, or how the run ended.
fn explain(findings: &Findings) -> String {
    let mut said = findings.errors.lines().map(str::trim);
    let last = said.rfind(|line| !line.is_empty() && !line.starts_with("---"));
    match (findings.end, last) {
        (End::TimedOut, _) => "the run hung and was ended".to_owned(),
        (_, Some(line)) => format!("the launcher said \"{}\"", line.trim_end_matches('.')),
        (end, None) => format!("the run ended with status {}", end.status()),
    }
}

/// Why the library's ranks would not watch each other on this node, if that is so.
fn why_no_watcher() -> Option<&'static str> {
    if env::var_os("FAMPI_NODE_WATCHER").is_some_and(|word| word == "off") {
        return Some("FAMPI_NODE_WATCHER=off is set");
    }
    (!processes::can_be_watched()).then_some("this system gives no descriptors of processes")
}

fn report_survival(
    by_signal: &Findings,
    by_exit: &Findings,
    plain: &Findings,
    no_watcher: Option<&str>,
) {
    let works = |findings: &Findings, stage| matches!(findings.stage(stage), Stage::Works(_));
    println!("\nSurvived");
    if works(by_signal, "detection") && works(by_signal, "shrink") {
        println!("  - a process that dies by a signal: tried with SIGKILL");
    }
    if works(by_exit, "detection") {
        println!("  - a process that leaves with a status other than 0, without finalize: tried");
    } else if no_watcher.is_none() {
        println!(
            "  - on one node, a process that leaves with a status other than 0, without\n    \
             finalize: this MPI tells nobody (tried), but the ranks of fampi watch each\n    \
             other. The launcher ends a job when half of it has left so, unless it gets\n    \
             the flags --prtemca state_base_error_non_zero_exit 0."
        );
    }
    println!("\nNot survived, and what to do");
    if let (false, Some(why)) = (works(by_exit, "detection"), no_watcher) {
        println!(
            "  - a process that leaves with a status other than 0, without finalize\n    \
             (tried: nobody was told within 3 s), since {why}.\n    \
             Let it die by a signal instead, for example with abort(); a time limit on\n    \
             every wait finds the others."
        );
    }
    if !works(plain, "shrink") {
        println!(
            "  - any death under a plain mpirun, as it leaves fault tolerance off\n    \
             (tried: the job did not go on). Start with `cargo fampi run`, or with the\n    \
             launcher line above."
        );
    }
    println!(
        "  - the loss of a whole node: the launcher of this MPI ends the job together\n    \
         with its daemon. Keep checkpoints outside the job if nodes may fail.\n  \
         - a process that lives but does not answer: that is no death, and only a time\n    \
         limit on every wait shows it.\n  \
         - a death inside collective windows (RMA), files and topologies: recover\n    \
         these yourself."
    );
}

/// Settings in the environment that work against the launch line.
fn overriding_variables() -> Vec<String> {
    let set = |name: &str| env::var_os(name).is_some();
    let mut notes = Vec::new();
    for name in ["OMPI_MCA_mpi_ft_detector", "OMPI_MCA_mpi_ft_detector_thread"] {
        if set(name) {
            notes.push(format!(
                "{name} is set: the built-in heartbeat declares living ranks dead at short periods \
                 and hangs in its thread variant; unset it."
            ));
        }
    }
    for name in ["OMPI_MCA_mpi_ft_enable", "PRTE_MCA_prte_enable_ft"] {
        if set(name) {
            notes.push(format!("{name} is set and may turn fault tolerance off; unset it."));
        }
    }
    notes
}

/// An exported compiler wrapper of another MPI: what it builds would be launched by this one.
fn other_compiler(mpi: &Installation) -> Option<String> {
    let exported = PathBuf::from(env::var_os("MPICC")?);
    let prefix = |wrapper: &Path| fs::canonicalize(wrapper.parent()?.parent()?).ok();
    (prefix(&exported) != prefix(&mpi.mpicc())).then(|| {
        format!(
            "MPICC is exported as {}, so programs are built for another MPI than the one that \
             launches them; unset it, or run `cargo fampi setup --mpi PREFIX`.",
            exported.display()
        )
    })
}
