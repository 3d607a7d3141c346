//! Open MPI 5's peculiarities, a file for each.

pub(super) mod inject_failure;
pub(super) mod launch_census;
pub(super) mod mend;
pub(super) mod unreported_exit;
