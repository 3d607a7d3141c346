//! `fampi`: sets up, checks, runs and measures MPI programs that survive the death of processes.
//!
//! Everything goes through the launcher of an MPI with fault tolerance, always with the flags that
//! this fault tolerance needs; the tool itself does not link MPI and needs none to be built.
//!
//! ```text
//!  setup ──▶ target/mpi, target/libclang      new, env ──▶ a project of one's own
//!                                            install ──▶ the C library elsewhere
//!                                            doctor ──▶ is it fit, and what would be survived?
//!                                            top ──▶ what the observers of this machine know
//!
//!  run · demo · test · bench · figure · figure2 · figure14 · soak
//!     │ plan (who is killed, when)
//!     ▼
//!  launcher (which flags) ──▶ session (own session, signals, time limit, nothing left behind)
//!                               └──▶ guard (ends the session when the tool itself is killed)
//! ```
//!
//! **Guarantees.** Every process that a command launches has ended when the command ends, and soon
//! after the tool itself was killed, but for jobs of `run` by our launcher, which go on when the
//! tool or the console is killed; only those are ever signalled. On standard output, what a program
//! prints stays alone.

#![forbid(unsafe_code)]

/// Prints a line to standard error. If standard error cannot be written this does nothing, where
/// `eprintln!` would panic.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod bench;
mod cargo;
mod checkpoint;
mod checks;
mod csv;
mod demo;
mod detector;
mod doctor;
mod doctor_on_mpich;
mod draw;
mod figure;
mod figure14;
mod figure2;
mod guard;
mod install;
mod installation;
mod job;
mod launcher;
mod library;
mod manual;
mod median;
mod node_losses;
mod nodes;
mod plan;
mod plot;
mod probe;
mod processes;
mod program;
mod progress;
mod project;
mod python_wheel;
mod ready;
mod recovery;
mod refusal;
mod report;
mod restart;
mod ring_token;
mod run;
mod scale;
mod session;
mod setup;
mod signals;
mod sim;
mod soak;
mod spaces;
mod status;
mod stderr_filter;
mod test;
mod test_programs;
mod tests_under_node;
mod trace;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Sets up, checks, runs and measures MPI programs that survive the death of processes.
#[derive(Parser)]
#[command(name = "fampi", bin_name = "cargo fampi", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what building and running need, without root: below `target/` in a checkout, and
    /// in the user's data folder anywhere else
    Setup(setup::Options),
    /// Check the MPI by killing a process on it: what would be survived, and what to change
    Doctor(doctor::Options),
    /// Install the C library, for programs outside of this checkout
    Install(install::Options),
    /// Make a project of one's own, which builds, runs and survives
    New(project::NewOptions),
    /// Print what an existing project needs: its `.cargo/config.toml`
    Env(project::EnvOptions),
    /// Run a program, or one of our applications or examples by its name, on several ranks
    Run(run::Options),
    /// List the jobs of `run` on this host: those that run, and those that have ended without a
    /// console
    Jobs(job::Listing),
    /// Wait for such a job whose console is gone: print what it prints, and end with its status
    Attach(job::Attachment),
    /// Add hosts to a job of `run` while it runs, also those that were lost and are back
    AddHost(job::Growth),
    /// Go on with a job that ended as a whole, from the newest checkpoint in a folder
    Restart(restart::Options),
    /// Lose a process in the middle of a solve, recover, and compare with the failure-free run
    Demo(demo::Options),
    /// Build and run every test of the workspace, also those that launch and kill real ranks
    Test(test::Options),
    /// Run whole programs on simulated ranks, with deaths anywhere, one for each seed
    Sim(sim::Options),
    /// Measure, on real ranks, what fault tolerance costs
    #[command(subcommand)]
    Bench(bench::Benchmark),
    /// Draw figures of other papers beside ours
    #[command(subcommand)]
    Figure(figure::Figure),
    /// Run both applications in the situations of the paper's figure 2, and draw it
    Figure2(figure2::Options),
    /// Sort in the situations of figure 14 of Camargo and Duarte 2018, and draw it
    Figure14(figure14::Options),
    /// Draw what `run --trace FILE` has written, ranks as rows
    Timeline(draw::Options),
    /// Show what the observers of this machine know: nodes, ranks, heartbeats, commits
    Top(detector::top::Options),
    /// Lose ranks at random moments for a long time, and judge each run by its result
    Soak(soak::Options),
}

fn main() -> ExitCode {
    if guard::stand_if_asked() {
        return ExitCode::SUCCESS;
    }
    if let Some(failure) = session::become_leader_if_asked() {
        say!("fampi: {failure:#}");
        return ExitCode::from(127);
    }
    let asked = nodes::start_daemon_if_asked().or_else(detector::silence::run_if_asked);
    if let Some(done) = asked {
        return match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                say!("fampi: {failure:#}");
                ExitCode::FAILURE
            }
        };
    }
    let done = match Arguments::try_parse() {
        Ok(arguments) => dispatch(arguments.command),
        Err(error) => refusal::explain(&error).map_err(anyhow::Error::new),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            say!("fampi: {error:#}");
            ExitCode::from(refusal::status(&error))
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<u8> {
    match &command {
        Command::New(options) => return project::make(options),
        Command::Env(options) => return project::print(options),
        _ => {}
    }
    let workspace = Workspace::find()?;
    match command {
        Command::New(_) | Command::Env(_) => unreachable!("done above"),
        Command::Setup(options) => setup::main(&workspace, &options),
        Command::Doctor(options) => doctor::main(&workspace, &options),
        Command::Install(options) => install::main(&workspace, &options),
        Command::Run(options) => run::main(&workspace, &options),
        Command::Jobs(options) => job::list(&workspace, &options),
        Command::Attach(options) => job::attach(&workspace, &options),
        Command::AddHost(options) => job::add_hosts(&workspace, &options),
        Command::Restart(options) => restart::main(&workspace, options),
        Command::Demo(options) => demo::main(&workspace, &options),
        Command::Test(options) => test::main(&workspace, &options),
        Command::Sim(options) => sim::main(&workspace, &options),
        Command::Bench(benchmark) => bench::main(&workspace, &benchmark),
        Command::Figure(figure) => figure::main(&workspace, &figure),
        Command::Figure2(options) => figure2::main(&workspace, &options),
        Command::Figure14(options) => figure14::main(&workspace, &options),
        Command::Timeline(options) => draw::main(&options),
        Command::Top(options) => detector::top::main(&workspace, &options),
        Command::Soak(options) => soak::main(&workspace, &options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words that mean something here, numbers, and others.
    fn word() -> impl Strategy<Value = String> {
        const KNOWN: &[&str] = &[
            "setup",
            "new",
            "env",
            "--shell",
            "doctor",
            "run",
            "demo",
            "test",
            "bench",
            "sim",
            "scale",
            "detector",
            "soak",
            "figure",
            "ring-token",
            "figure2",
            "figure14",
            "timeline",
            "top",
            "jobs",
            "--remove",
            "attach",
            "add-host",
            "--hosts",
            "--once",
            "commit",
            "detect",
            "-n",
            "--kill",
            "--seeds",
            "--seed",
            "--job",
            "--ranks",
            "--csv",
            "--plots",
            "--minutes",
            "--trace",
            "--spares",
            "--observer",
            "--hung",
            "--diagnosis",
            "1s:2.5:5",
            "--",
            "-",
            "--help",
            "--version",
            "1@1.5s",
            "0@iteration:3",
            "2-16",
            "minife",
            "4",
            "=",
            "",
        ];
        prop_oneof![
            prop::sample::select(KNOWN).prop_map(str::to_owned),
            any::<i64>().prop_map(|number| number.to_string()),
            ".{0,12}",
        ]
    }

    proptest! {
        #[test]
        fn words_from_outside_are_understood_or_refused(
            words in prop::collection::vec(word(), 0..8),
        ) {
            let line = std::iter::once("fampi".to_owned()).chain(words);
            if let Err(error) = Arguments::try_parse_from(line) {
                // What a person would be told.
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn the_commands_are_well_formed() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }
}
