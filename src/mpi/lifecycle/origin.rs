//! Who started this process, as its environment tells.

use crate::mpi::{node::process::node_name, this_mpi};

/// Tells a spawned process who its parent is: `pid@node`.
pub(in crate::mpi) const PARENT_VARIABLE: &str = "FAMPI_PARENT";

/// Who started this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) enum Starter {
    /// The launcher, with the job.
    Launcher,
    /// A rank, for this library.
    Fampi,
    /// A rank, by `MPI_Comm_spawn` of its own.
    Program,
}

/// Who has started this process.
pub(in crate::mpi) fn starter() -> Starter {
    let is_set = |name| std::env::var_os(name).is_some();
    match (is_set(PARENT_VARIABLE), this_mpi::was_spawned()) {
        (true, _) => Starter::Fampi,
        (false, true) => Starter::Program,
        (false, false) => Starter::Launcher,
    }
}

/// The process of our own node that spawned us, if one did.
pub(in crate::mpi) fn parent_on_this_node() -> Option<libc::pid_t> {
    let parent = std::env::var(PARENT_VARIABLE).ok()?;
    let (pid, node) = parent.split_once('@')?;
    if node == node_name() { pid.parse().ok() } else { None }
}
