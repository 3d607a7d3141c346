//! Systems without robust locks in shared memory: no process makes a death mark.

use std::{io, sync::Arc};

use crate::mpi::node::memory::Shared;

/// The mark of this process, which has none.
#[derive(Debug)]
pub(in crate::mpi) enum Own {}

/// The mark of a neighbour.
#[derive(Debug)]
pub(in crate::mpi) struct DeathMark;

impl Own {
    pub(in crate::mpi) fn make(_: &Arc<Shared>, _: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl DeathMark {
    pub(in crate::mpi) fn of(_: &Arc<Shared>, _: usize) -> Self {
        Self
    }

    pub(in crate::mpi) fn is_set(&self) -> bool {
        false
    }
}
