//! Communicators in the making.

use std::ffi::c_int;

use fampi_core::{
    guest::{Guest, GuestBlock, Repairing, Shrinking},
    mpi::{Expected, Seat},
};
use mpi::ffi::MPI_Comm;

/// A communicator in the making, and where the program wants its handle.
pub(crate) struct Making {
    pub(crate) stage: Stage,
    pub(crate) target: *mut MPI_Comm,
    /// The finished blocks that wait for it, and which part of them it is.
    listed: Vec<(GuestBlock, usize)>,
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
    /// Whom the call that makes it waits for, once it is due.
    pub(crate) expected: Option<Expected>,
}

impl Plan {
    pub(crate) fn new(link: MPI_Comm, seat: Seat) -> Self {
        Self { link, seat, made: None, expected: None }
    }
}

impl Making {
    pub(crate) fn new(stage: Stage, target: *mut MPI_Comm) -> Self {
        Self { stage, target, listed: Vec::new() }
    }

    /// From now on a finished block waits for it, as this part of it.
    pub(crate) fn list_in(&mut self, block: GuestBlock, part: usize) {
        self.listed.push((block, part));
    }

    /// Tells the blocks that wait for it what it has come to, once it is over.
    pub(crate) fn tell_blocks(&mut self, guest: &mut Guest) {
        if let Some(code) = self.outcome() {
            let listed = self.listed.drain(..);
            listed.for_each(|(block, part)| guest.end_making(block, part, code == 0));
        }
    }

    /// The return code, once it is over.
    pub(crate) fn outcome(&self) -> Option<c_int> {
        match self.stage {
            Stage::Over(code) => Some(code),
            _ => None,
        }
    }
}
