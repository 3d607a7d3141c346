//! Beginning and ending as a process among many.

use std::env::Args;
use std::fmt::Display;
use std::iter::Skip;
use std::process::ExitCode;
use std::time::Duration;

use fampi::{Error, Rank, RankSet, World};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::faults::Faults;
use crate::kill_plan::{Mode, Phases};
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
    /// Where it can be made to die.
    pub phases: &'static Phases,
}

/// Begins a program: its options, with the deaths that the launcher asks for, or the status to end
/// with when it has nothing to do.
///
/// # Errors
/// The exit status.
pub fn begin<O, E: Display>(
    own: Own,
    parse: impl FnOnce(Skip<Args>) -> Result<Request<O>, E>,
    faults: impl FnOnce(&mut O) -> &mut Faults,
) -> Result<O, ExitCode> {
    let Own { program, help, version, phases } = own;
    let ready = match parse(std::env::args().skip(1)) {
        Ok(Request::Help) => return Err(once(help)),
        Ok(Request::Version) => return Err(once(&format!("{program} {version}\n"))),
        Ok(Request::Run(mut options)) => {
            let added = faults(&mut options).add_kills_of_launcher(phases);
            // Also of the plain program, which enters no job.
            fampi::mpi::record();
            added.map(|()| *options).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    ready.map_err(|sentence| refuse(program, launched_as_first(), &sentence))
}

/// Takes this process's place in the job, or says why it cannot and gives the status to end with.
///
/// # Errors
/// The exit status.
pub fn enter(program: &str) -> Result<World, ExitCode> {
    fampi::init().map_err(|error| {
        let aloud = is_of_this_rank(&error) || launched_as_first();
        refuse(program, aloud, &error.to_string())
    })
}

/// Whether this rank says for all why a run cannot go on: with an error, or for a reason of the
/// application's own.
#[must_use]
pub fn speaks(world: &World, error: Option<&Error>) -> bool {
    let first = first_living(world.size(), &world.known_failed());
    error.is_some_and(is_of_this_rank) || first == Some(world.rank())
}

/// True for errors that not all ranks may have, or after deaths that no report names: a rank that
/// was to speak for the others may be dead, so that each speaks for itself.
fn is_of_this_rank(error: &Error) -> bool {
    matches!(
        error,
        Error::DiedAtStart
            | Error::CreationFailed
            | Error::RecoveryExhausted { .. }
            | Error::NotNeeded
            | Error::Mpi { .. }
    )
}

fn first_living(ranks: u32, dead: &RankSet) -> Option<Rank> {
    (0..ranks).map(Rank::new).find(|rank| !dead.contains(*rank))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_living_rank_speaks_and_everyone_where_it_may_be_dead() {
        let dead = |ranks: &[u32]| ranks.iter().copied().map(Rank::new).collect::<RankSet>();
        assert_eq!(first_living(3, &dead(&[])), Some(Rank::new(0)));
        assert_eq!(first_living(3, &dead(&[0, 1])), Some(Rank::new(2)));
        assert_eq!(first_living(2, &dead(&[0, 1])), None);
        let exhausted = Error::RecoveryExhausted { attempts: 3, why: String::new() };
        assert!(is_of_this_rank(&Error::DiedAtStart) && is_of_this_rank(&exhausted));
        assert!(!is_of_this_rank(&Error::Unsupported(String::new())));
        let (rank, partner) = (Rank::new(0), Some(Rank::new(1)));
        assert!(!is_of_this_rank(&Error::StateLost { rank, partner }));
    }
}
