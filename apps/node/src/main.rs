//! `fampi-node`: launches a job, serves a node of one, and finds one whose console is gone.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use fampi_node::{console, daemon};

/// Starts MPI jobs that go on when any of their nodes is lost.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a program on several processes, print what they print, and end with their status
    Launch(console::launch::Options),
    /// Print what a job prints whose console is gone, and end with its status
    Attach(console::attach::Options),
    /// Add nodes to a job that runs
    AddHost(console::add::Options),
    /// List the jobs of this user that are known on this host
    Jobs(console::jobs::Options),
    /// Serve a node of a job; started by `launch`
    Serve(daemon::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| {
        let text = error.to_string();
        if !error.use_stderr() {
            error.exit();
        }
        // What follows is for those who know this program, and not the one that has called it.
        let first = text.lines().next().unwrap_or_default();
        eprintln!("fampi-node: {}", first.trim_start_matches("error: "));
        std::process::exit(error.exit_code());
    });
    let ended = match arguments.command {
        Command::Launch(options) => console::launch::main(&options),
        Command::Attach(options) => console::attach::main(&options),
        Command::AddHost(options) => console::add::main(&options),
        Command::Jobs(options) => console::jobs::main(&options),
        Command::Serve(options) => daemon::main(&options).map(|()| 0),
    };
    report(ended)
}

fn report(ended: Result<u8>) -> ExitCode {
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            eprintln!("fampi-node: {failure:#}");
            ExitCode::FAILURE
        }
    }
}
