//! A spawn waits for new processes, whatever becomes of them.
//!
//! **Symptom** `MPI_Comm_spawn` starts processes and waits for them in one call, which nothing ends
//! when one of them dies: the watchdog does, at the root.
//!
//! **Versions** each MPICH.
//!
//! **Upstream** not reported.
//!
//! **Delete when** it returns an error then.
//!
//! **Test** none: nothing is done.

use std::{
    convert::Infallible,
    ffi::{CStr, c_char, c_int},
};

use mpi::ffi;

pub(in crate::mpi) use super::list_of_the_dead::{
    has_died, names_of_started, names_of_starter_and,
};
use super::{left_calls, list_of_the_dead::Name};
use crate::mpi::{
    calls::{comm::Comm, library::Checked},
    node::process::Process,
};

/// No hint to MPI.
pub(in crate::mpi) const COLLECTIVES: &str = "fampi";
pub(in crate::mpi) const WITHOUT_DIVISION: &[u8] = b"";

/// Returns the names of all processes of a communicator in the order of their ranks; empty when one
/// has no name.
pub(in crate::mpi) fn names_of(comm: &Comm) -> Vec<u64> {
    let names = left_calls::names_of(comm.raw());
    if names.len() == comm.size() as usize { names } else { Vec::new() }
}

/// A spawn in steps, which there is not.
#[derive(Clone, Debug)]
pub(in crate::mpi) struct Spawning(Infallible);

/// These new processes of this node are linked now.
pub(in crate::mpi) fn note_newcomers(_: &[Process]) {}

impl Spawning {
    /// `None`: this MPI does it in one step only.
    pub(in crate::mpi) fn new() -> Option<Self> {
        None
    }

    pub(in crate::mpi) fn mark(&self) -> Vec<u8> {
        match self.0 {}
    }

    /// # Safety
    ///
    /// None is needed.
    pub(in crate::mpi) unsafe fn start(
        &self,
        _: &CStr,
        _: *mut *mut c_char,
        _: c_int,
        _: ffi::MPI_Info,
    ) -> Checked<()> {
        match self.0 {}
    }

    pub(in crate::mpi) fn link(&self, _: ffi::MPI_Comm) -> Checked<ffi::MPI_Comm> {
        match self.0 {}
    }

    pub(in crate::mpi) fn give_up(&self) {
        match self.0 {}
    }

    pub(in crate::mpi) fn name(&self, _: &CStr, _: u32) -> Option<Name> {
        match self.0 {}
    }
}
