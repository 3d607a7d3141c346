//! An MPI that is set up, with the launcher under which its ranks survive each other.

use std::path::PathBuf;

use anyhow::Result;

use crate::cargo::{self, Program};
use crate::installation::{Family, Installation};
use crate::launcher::Launcher;
use crate::setup;
use crate::workspace::Workspace;

/// What it takes to build programs for an MPI and to launch them.
pub(crate) struct Ready {
    /// What is built for this MPI goes here.
    workspace: Workspace,
    pub(crate) mpi: Installation,
    /// The launcher of our own, where the MPI's ends the job when a rank dies.
    own: Option<PathBuf>,
}

impl Ready {
    /// Sets up and builds what is missing.
    pub(crate) fn with(workspace: &Workspace, family: Family) -> Result<Self> {
        let of_mpi = workspace.on(family);
        let mpi = setup::ensure(&of_mpi)?;
        let own = match family {
            Family::OpenMpi => None,
            Family::Mpich => Some(cargo::build(workspace, Program::node())?),
        };
        Ok(Self { workspace: of_mpi, mpi, own })
    }

    pub(crate) fn build(&self, program: Program<'_>) -> Result<PathBuf> {
        cargo::build(&self.workspace, program)
    }

    pub(crate) fn launcher(&self) -> Launcher<'_> {
        Launcher::new(&self.mpi).by(self.own.clone())
    }

    /// True when the ranks are not in the session of their launcher.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.own.is_some()
    }
}
