//! `fampi demo`: the same solve twice, once failure-free and once losing a process in the middle.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::Program;
use crate::installation::Family;
use crate::launcher;
use crate::plan::{self, Kill, When};
use crate::progress::Step;
use crate::ready::Ready;
use crate::refusal::{Misuse, whole};
use crate::session::{self, End, Script};
use crate::status::{self, Kills, Reports};
use crate::trace::{self, Account, Folder, Recording};
use crate::workspace::{Workspace, shown};

/// A solve takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(180);
/// The problem whose solution is known, so that the exit status says whether it was found.
const SETTINGS: [&str; 3] = ["source=0", "verify_solution=1", "yaml=none"];

#[derive(Args)]
pub(crate) struct Options {
    /// Ranks that take part
    #[arg(short = 'n', long, value_name = "N", default_value = "4",
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    ranks: u32,
    /// Elements of the mesh along each axis
    #[arg(long, value_name = "ELEMENTS", default_value = "48",
          value_parser = whole(4_u32..=512, "a number of elements from 4 to 512"),
          allow_negative_numbers = true)]
    size: u32,
    /// The rank that dies, in the given iteration
    #[arg(
        long,
        value_name = "RANK@iteration:K",
        default_value = "1@iteration:60",
        allow_hyphen_values = true
    )]
    kill: Kill,
    /// The MPI, which `cargo fampi setup` has set up
    #[arg(long, value_enum, default_value_t)]
    mpi: Family,
}

/// What one run of the solver left.
struct Solve {
    /// Its last line, with all digits.
    digits: String,
    /// Its deaths and what followed them.
    account: Account,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let When::Iteration(iteration) = options.kill.when else {
        return Err(Misuse("the demo kills in an iteration: --kill 1@iteration:60".into()).into());
    };
    if options.ranks == 1 {
        let sentence = "the only rank leaves nobody to recover it: choose --ranks 2 or more";
        return Err(Misuse(sentence.into()).into());
    }
    launcher::check_room(options.ranks)?;
    plan::check(&[options.kill], options.ranks, 0)?;
    let ready = Ready::with(workspace, options.mpi)?;
    let program = ready.build(Program::application("minife"))?;
    let folder = workspace.scratch("demo")?;
    let solve = |what: &str, kills: &[Kill], log: &str| {
        let step = Step::begin(format!("solve on {} ranks, {what}", options.ranks));
        let mut command = ready.launcher().command(options.ranks, &program);
        command.arg(format!("nx={}", options.size)).args(SETTINGS).current_dir(&folder);
        let log = folder.join(log);
        let solve = solve(command, options.ranks, ready.is_elsewhere(), kills, &log)?;
        step.finish();
        anyhow::Ok(solve)
    };
    let whole = solve("failure-free", &[], "failure-free.log")?;
    let doomed = options.kill.rank;
    let broken = solve(&format!("losing rank {doomed}"), &[options.kill], "recovered.log")?;

    println!("\nRank {doomed} was killed in iteration {iteration}. What happened then:\n");
    println!("{}", broken.account);
    println!("  failure-free  {}\n  recovered     {}\n", whole.digits, broken.digits);
    if !broken.account.tells_of_a_recovery() {
        println!("No recovery was recorded: this shows nothing.");
        return Ok(1);
    }
    if whole.digits != broken.digits {
        println!("The digits differ.");
        return Ok(1);
    }
    println!("Both solutions agree with the analytic one, and with each other in all digits.");
    Ok(0)
}

/// Runs the solver once, traced; what it says about its work goes to `log`.
fn solve(
    mut command: Command,
    ranks: u32,
    elsewhere: bool,
    kills: &[Kill],
    log: &Path,
) -> Result<Solve> {
    let (reports, trace) = (Reports::new()?, Folder::new()?);
    let errors = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.env(status::VARIABLE, reports.path()).env(trace::VARIABLE, trace.path());
    match plan::for_application(kills) {
        Some(plan) => command.env("FAMPI_KILL", plan),
        None => command.env_remove("FAMPI_KILL"),
    };
    let script = Script {
        ranks: Some(ranks),
        elsewhere,
        timeout: Some(LIMIT),
        collect: true,
        errors: Some(errors),
        leftovers: &[reports.path(), trace.path()],
        ..Script::default()
    };
    let finished = session::run(&command, script)?;
    let count = reports.count(&finished.outlived);
    let verdict =
        status::verdict(finished.end, count, Kills { planned: kills.len(), done: finished.killed });
    if verdict.status != 0 {
        let how = match finished.end {
            End::TimedOut => format!("did not end within {} s", LIMIT.as_secs()),
            End::Interrupted(_) => "was interrupted".to_owned(),
            End::Exited(_) | End::Crashed(_) | End::Deserted => {
                format!("ended with status {}", verdict.status)
            }
        };
        let printed = fs::read_to_string(log).unwrap_or_default();
        let last: Vec<&str> = printed.lines().rev().take(8).collect();
        for line in last.iter().rev() {
            say!("  {line}");
        }
        bail!("minife {how}: all it said is in {}", shown(log));
    }
    let digits = finished.lines.into_iter().rfind(|line| line.starts_with("minife:"));
    let digits = digits.context("minife printed no line with its digits")?;
    let recording = Recording::of_folder(trace.path())?.unwrap_or_default();
    Ok(Solve { digits, account: recording.account() })
}
