//! Systems without robust locks in shared memory: nobody makes a will.

use std::{io, sync::Arc};

use crate::mpi::node::memory::Shared;

/// The will of this process, which has none.
#[derive(Debug)]
pub(in crate::mpi) enum Own {}

/// The will of a neighbour.
#[derive(Debug)]
pub(in crate::mpi) struct Will;

impl Own {
    pub(in crate::mpi) fn make(_: &Arc<Shared>, _: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Will {
    pub(in crate::mpi) fn of(_: &Arc<Shared>, _: usize) -> Self {
        Self
    }

    pub(in crate::mpi) fn is_open(&self) -> bool {
        false
    }
}
