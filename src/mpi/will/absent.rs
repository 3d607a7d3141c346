//! Systems without robust locks in shared memory: nobody makes a will.

use std::{io, sync::Arc};

use super::memory::Shared;

/// The will of this process, which has none.
#[derive(Debug)]
pub(super) enum Own {}

/// The will of a neighbour.
#[derive(Debug)]
pub(super) struct Will;

impl Own {
    pub(super) fn make(_: &Arc<Shared>, _: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Will {
    pub(super) fn of(_: &Arc<Shared>, _: usize) -> Self {
        Self
    }

    pub(super) fn is_open(&self) -> bool {
        false
    }
}
