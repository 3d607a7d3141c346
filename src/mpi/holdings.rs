//! What this process holds in MPI, for those who look for a leak.

/// How much of MPI is in use by this process. In a program that goes on and on, through any number
/// of aborted blocks, none of these grows for ever; a rebuild adds a handful of communicators,
/// which stay to the end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Holdings {
    /// Communicators that fampi made and did not free.
    pub communicators: usize,
    /// Operations of blocks that are pending, and others than messages that nobody has looked at
    /// since they are over.
    pub operations: usize,
    /// Buffers that their blocks gave up and MPI has not let go of.
    pub quarantined: usize,
}
