//! `fampi-node`: launches a job, and serves a node of one.

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
    Launch(console::Options),
    /// Serve a node of a job; started by `launch`
    Serve(daemon::Options),
}

fn main() -> ExitCode {
    let ended = match Arguments::parse().command {
        Command::Launch(options) => console::main(&options),
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
