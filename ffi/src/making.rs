//! Communicators in the making.

use std::ffi::c_int;

use fampi_core::{
    guest::{Repairing, Shrinking},
    mpi::Seat,
};
use mpi::ffi::MPI_Comm;

/// A communicator in the making, and where the program wants its handle.
pub(crate) struct Making {
    pub(crate) stage: Stage,
    pub(crate) target: *mut MPI_Comm,
}

pub(crate) enum Stage {
    Shrink(Shrinking),
    /// Of a communicator that was never in use, and has lost processes.
    ShrinkUnused(MPI_Comm),
    Rebuild(Repairing, Plan),
    Over(c_int),
}

/// What a rebuild is told, and the handle that it has made.
pub(crate) struct Plan {
    pub(crate) link: MPI_Comm,
    pub(crate) seat: Seat,
    pub(crate) made: Option<MPI_Comm>,
}

impl Making {
    /// The return code, once it is over.
    pub(crate) fn outcome(&self) -> Option<c_int> {
        match self.stage {
            Stage::Over(code) => Some(code),
            _ => None,
        }
    }
}
