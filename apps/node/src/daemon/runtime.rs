//! What the ranks of a node talk to: the room for what differs between the languages that MPIs
//! speak with their launchers.

use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;

use super::job::View;
use crate::protocol::{Answer, Effects, Process, Ticket, daemon::Daemon, space::Space};

/// What processes speak with their daemon.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Language {
    /// Open MPI's
    #[default]
    Pmix,
    /// PMI-1, MPICH's
    Pmi,
}

impl Language {
    /// As the command line has it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Pmix => "pmix",
            Self::Pmi => "pmi",
        }
    }
}

/// Serves the ranks of a node in their language.
pub(super) trait Runtime: Debug {
    /// Readable when a rank asks for something.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// The machine that requests go to.
    fn machine(&self, daemon: Daemon) -> Daemon;

    /// A namespace is there.
    fn begin(&mut self, space: &Space, view: View<'_>) -> Result<()>;

    /// A process is about to be started by this command. What is returned is to be kept open until
    /// it is.
    fn prepare(
        &mut self,
        space: &Space,
        rank: u32,
        view: View<'_>,
        command: &mut Command,
    ) -> Result<Option<OwnedFd>>;

    /// Hands the next request of a rank to the machine; false if there is none.
    fn serve(&mut self, daemon: &mut Daemon, out: &mut Effects) -> Result<bool>;

    /// Gives an answer.
    fn pay(&mut self, ticket: Ticket, answer: Answer);

    /// Asks a process of this node what it has to say; false if that cannot be.
    fn ask(&mut self, process: &Process, number: u64) -> bool;

    /// Tells the ranks of this node, in one event, that these are dead.
    fn tell(&mut self, dead: &[Process]) -> Result<()>;

    /// A process of this node has ended: all that it asked before has been served.
    fn note_end(&mut self, process: &Process, daemon: &mut Daemon, out: &mut Effects);
}
