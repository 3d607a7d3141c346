//! Communicators in the making.

use std::ffi::c_int;

use fampi_core::{
    guest::{Guest, GuestBlock, GuestComm, Repairing, Reporting, Shrinking},
    mpi::{Gathering, Replacements, Seating},
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
    /// Of a communicator that was never in use, and has lost processes; and how often it is tried
    /// again.
    ShrinkUnused(MPI_Comm, c_int),
    Rebuild(Phase, Box<Plan>),
    Over(c_int),
}

/// What a rebuild is told, and the handle that it has made.
pub(crate) struct Plan {
    pub(crate) link: MPI_Comm,
    /// Nothing at a replacement.
    pub(crate) survivor: Option<Survivor>,
    pub(crate) seating: Option<Seating>,
    pub(crate) made: Option<MPI_Comm>,
}

/// What a survivor knows of a rebuild.
pub(crate) struct Survivor {
    pub(crate) comm: GuestComm,
    /// Its rank, and that of the root.
    pub(crate) rank: u32,
    pub(crate) root: u32,
    /// How many ranks there will be, and which of them are to be filled.
    pub(crate) size: u32,
    pub(crate) vacant: Vec<u32>,
    /// By whom; at the root alone.
    pub(crate) replacements: Option<Replacements>,
}

/// How far a rebuild is.
pub(crate) enum Phase {
    /// The link is taken into use.
    Link(Gathering),
    /// A block of the communicator itself names the dead.
    Report(Reporting),
    /// This process waits for those whom it needs before it can begin.
    Seats,
    /// All are here, and make it.
    Make(Repairing),
}

impl Plan {
    pub(crate) fn new(link: MPI_Comm, survivor: Option<Survivor>) -> Box<Self> {
        Box::new(Self { link, survivor, seating: None, made: None })
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
