//! `fampi-observer`: starts the observer of one node of a job, and leaves it there.
//!
//! ```text
//! caller ──▶ fampi-observer ── starts itself ──▶ observer (own session, nothing inherited)
//!               │  ◀─────────── "ready" ────────────┘  serves until the job has left
//!               └─ ends with status 0, or says why there is no observer
//! ```
//!
//! Its caller so waits for one short process, has no child that ends when it likes, and processes
//! may register when it has ended. With the word `top` it shows what the observers of this machine
//! know, and is none.

#[cfg(target_os = "linux")]
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

#[cfg(target_os = "linux")]
use fampi_detector::daemon::{self, Service, detach};

/// Watches the processes of one node of a job, and the other nodes
#[cfg(target_os = "linux")]
#[derive(clap::Parser)]
#[command(name = daemon::PROGRAM, version)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Options {
    #[command(subcommand)]
    look: Option<Look>,
    /// What to observe: a file that only its owner can read. It holds the secret, and is removed
    #[arg(long, value_name = "FILE", required = true)]
    plan: Option<PathBuf>,
    /// Stay, and say when processes can register, instead of leaving a process behind
    #[arg(long)]
    foreground: bool,
    /// The process that is left behind
    #[arg(long, hide = true, conflicts_with = "foreground")]
    detached: bool,
}

#[cfg(target_os = "linux")]
#[derive(clap::Subcommand)]
enum Look {
    /// Show what the observers of this machine know, every second
    Top {
        /// Show it once
        #[arg(long)]
        once: bool,
    },
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use clap::Parser as _;

    let Options { look, plan, foreground, detached } = Options::parse();
    let serve = |plan: &Path| {
        if detached {
            detach::lead_own_session();
        }
        let service = Service::start(plan)?;
        detach::say_ready()?;
        if detached {
            detach::let_go()?;
        }
        service.run()
    };
    let done = match (&look, plan.unwrap_or_default()) {
        (Some(Look::Top { once }), _) => daemon::top::main(*once),
        (None, plan) if foreground || detached => serve(&plan),
        (None, plan) => detach::leave_behind(&plan),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A person has asked `fampi top`.
            let who = if look.is_some() { "fampi" } else { daemon::PROGRAM };
            eprintln!("{who}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("fampi-observer: only Linux tells of the end of other processes");
    std::process::exit(1);
}
