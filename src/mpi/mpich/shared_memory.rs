//! What MPICH's processes of a node share keeps its name when the one that made it dies.
//!
//! **Symptom** after a death, or when the end of MPI is left out after one, a `mpich_shm_…` of 1 to
//! 25 MB stays in `/dev/shm`, until the node has no memory left; a later job with the same number
//! would find what is in it.
//!
//! **Versions** 5.0.2.
//!
//! **Upstream** not reported.
//!
//! **Delete when** MPICH takes the name away once all have opened it.
//!
//! **Test** `what_mpich_shares_has_no_name_once_it_has_started`.

use std::fs;

/// The beginning of the names.
const SHARED: &str = "/dev/shm/mpich_shm_";

/// Takes away the names of what this process shares. `MPI_Init` is over, which has waited until
/// the others of the node had opened it, too.
pub(super) fn forget_names() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let names = maps.lines().filter_map(|line| line.find(SHARED).map(|at| &line[at..]));
    for name in names {
        // The others do the same, and one of them is the first.
        let _ = fs::remove_file(name);
    }
}
