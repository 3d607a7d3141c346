//! Beginning and ending as a process among many.

use std::env::Args;
use std::fmt::Display;
use std::iter::Skip;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::faults::Faults;
use crate::kill_plan::{Mode, Phase};
use crate::timeline;
use crate::words::Request;

/// Exit status for a command line that cannot be followed.
const USAGE: u8 = 2;

/// Ends this process as a plan says.
///
/// # Panics
/// When the plan says so.
pub fn die(mode: Mode) {
    let me = Pid::this();
    let signal = match mode {
        Mode::Kill => Signal::SIGKILL,
        Mode::Segv => Signal::SIGSEGV,
        Mode::Stop => Signal::SIGSTOP,
        Mode::Exit => std::process::exit(1),
        Mode::Panic => panic!("killed by plan"),
    };
    let _ = signal::kill(me, signal);
}

/// The launcher's word, before MPI has been asked.
#[must_use]
pub fn launched_as_first() -> bool {
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .is_none_or(|rank| rank == "0")
}

/// What a program says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Its name.
    pub program: &'static str,
    /// The text of `--help`.
    pub help: &'static str,
    /// What it says to `--version`.
    pub version: &'static str,
}

/// Begins a program: its options, with the deaths that the launcher asks for, or the status to end
/// with when it has nothing to do.
///
/// # Errors
/// The exit status.
pub fn begin<O, P: Phase, E: Display>(
    own: Own,
    parse: impl FnOnce(Skip<Args>) -> Result<Request<O>, E>,
    faults: impl FnOnce(&mut O) -> &mut Faults<P>,
) -> Result<O, ExitCode> {
    let Own { program, help, version } = own;
    let ready = match parse(std::env::args().skip(1)) {
        Ok(Request::Help) => return Err(once(help)),
        Ok(Request::Version) => return Err(once(&format!("{program} {version}\n"))),
        Ok(Request::Run(mut options)) => {
            let added = faults(&mut options).add_kills_of_launcher();
            added
                .map_err(|error| error.to_string())
                .and_then(|()| timeline::record())
                .map(|()| *options)
        }
        Err(error) => Err(error.to_string()),
    };
    ready.map_err(|sentence| refuse(program, launched_as_first(), &sentence))
}

/// Prints a text once for all ranks.
#[must_use]
pub fn once(text: &str) -> ExitCode {
    if launched_as_first() {
        print!("{text}");
    }
    ExitCode::SUCCESS
}

/// Ends with a sentence, which one rank says for all.
#[must_use]
pub fn refuse(program: &str, aloud: bool, sentence: &str) -> ExitCode {
    if aloud {
        eprintln!("{program}: {sentence}");
    } else {
        // The launcher ends all ranks when the first of them fails: let the sentence out before.
        std::thread::sleep(Duration::from_millis(200));
    }
    ExitCode::from(USAGE)
}
