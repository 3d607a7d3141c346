//! A request of MPI, and what it is good for.

use ::mpi::ffi;

/// A request of MPI; null when nothing is under way. Dropping it does not end the operation.
#[derive(Debug)]
pub(crate) struct Request(pub(crate) ffi::MPI_Request);

/// What the status of an operation is good for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Nothing: an operation of all ranks.
    Plain,
    /// It tells how many elements were read or written.
    File,
    /// Nothing.
    Send,
    /// It tells of a message, and MPI can cancel it.
    Receive,
    /// As `Receive`, and MPI was asked to cancel it.
    Cancelled,
}

/// A message of a block that is under way.
#[derive(Debug)]
pub struct Flight {
    pub(crate) request: Request,
    pub(crate) kind: Kind,
    /// Where its lane is.
    pub(crate) lane: u32,
}
