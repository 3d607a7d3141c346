//! A run of messages, which are looked at by one call of MPI.

use mpi::ffi;

use crate::{
    mpi::calls::request::{Done, empty_status},
    native::Request,
};

/// Messages in a run.
pub(super) const LONGEST: usize = 32;

/// A run of messages, used again and again.
pub(super) struct Run {
    pub(super) requests: [ffi::MPI_Request; LONGEST],
    pub(super) done: [Done; LONGEST],
}

impl Default for Run {
    fn default() -> Self {
        let nothing = Request::null().raw();
        let done = Done::new(empty_status());
        Self { requests: [nothing; LONGEST], done: [done; LONGEST] }
    }
}
