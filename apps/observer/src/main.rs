//! `fampi-observer`: starts the observer of one node of a job, and leaves it there.
//!
//! ```text
//! caller ──▶ fampi-observer ── starts itself ──▶ observer (own session, nothing inherited)
//!               │  ◀─────────── "ready" ────────────┘  serves until the job has left
//!               └─ ends with status 0, or says why there is no observer
//! ```
//!
//! Its caller so waits for one short process, has no child that ends when it likes, and processes
//! may register when it has ended.

#[cfg(target_os = "linux")]
use std::{path::PathBuf, process::ExitCode};

#[cfg(target_os = "linux")]
#[derive(clap::Parser)]
#[command(version, about)]
struct Options {
    /// What to observe: a file that only its owner can read. It holds the secret, and is removed
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Stay, and say when processes can register, instead of leaving a process behind
    #[arg(long)]
    foreground: bool,
    /// The process that is left behind
    #[arg(long, hide = true, conflicts_with = "foreground")]
    detached: bool,
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use clap::Parser as _;
    use fampi_observer::{Service, detach};

    let Options { plan, foreground, detached } = Options::parse();
    let serve = || {
        if detached {
            detach::lead_own_session();
        }
        let service = Service::start(&plan)?;
        detach::say_ready()?;
        if detached {
            detach::let_go()?;
        }
        service.run()
    };
    let done = if foreground || detached { serve() } else { detach::leave_behind(&plan) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fampi-observer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("fampi-observer: only Linux tells of the end of other processes");
    std::process::exit(1);
}
