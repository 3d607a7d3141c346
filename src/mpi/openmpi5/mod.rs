//! Open MPI 5: what is peculiar to it, a file for each defect.
//!
//! Each file begins with **Symptom**, **Versions**, **Upstream**, **Delete when** and **Test**, the
//! name of the test that fails without it: when a new version comes, this folder is what to read
//! again. All other rooms see this one through [`this_mpi`](super::this_mpi), which is where the
//! room of another MPI would be chosen: a folder beside this one with functions of those names,
//! most of which then do nothing.
//!
//! What is mended elsewhere, as it is no matter of one place, or not of this process:
//!
//! - the launcher loses new processes after deaths (`OpenPMIx`, pull request 4279): `ffi/prterun`,
//!   which is preloaded into the launcher;
//! - neighbourhood collectives fail on a ring of one or two (open-mpi/ompi#14430): messages
//!   instead, in `engine/neighbours.rs`;
//! - shared memory spins for ever when a peer dies between two stores to a queue, and the creation
//!   of a link waits for ever when a process dies in its middle: `lifecycle/watchdog.rs`;
//! - a death is reported late: `deaths/watcher.rs`;
//! - a message to a freed communicator reaches a later one with its number, so old ones are kept
//!   for a while; a revocation of a duplicate under way ends the process, so it is completed, or
//!   forgotten: `operations/contexts.rs`;
//! - a blocking collective that a death cuts short frees the sends that it has started, and one of
//!   these that fails later ends the job: `calls/gather.rs`, which has non-blocking ones;
//! - the launcher can crash when the root of `MPI_Comm_spawn` dies in it: mended nowhere, but
//!   spares have no such moment.

pub(super) mod agree_on_self;
pub(super) mod failed_lists;
pub(super) mod finalize_farewell;
pub(super) mod idup_numbering;
pub(super) mod init_state;
pub(super) mod inject_failure;
pub(super) mod kept_requests;
pub(super) mod launch_census;
pub(super) mod null_comm_refcount;
pub(super) mod request_origin;
pub(super) mod romio;
pub(super) mod shared_machine;
pub(super) mod spawn_lookup;
pub(super) mod unreported_exit;

use super::calls::library;

/// The major version whose source was read.
const MAJOR: u32 = 5;
/// What it gives to all processes that a rank has spawned.
const PARENT_PORT: &str = "OMPI_PARENT_PORT";

/// The three numbers of an Open MPI's version; `None` for another library.
pub(super) fn version(library: &str) -> Option<(u32, u32, u32)> {
    let version = library.strip_prefix("Open MPI v")?;
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let mut numbers = version[..end].split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// True when this process runs with the Open MPI whose source was read.
fn is_loaded() -> bool {
    let version = library::library_version().ok().and_then(|it| version(&it));
    version.is_some_and(|(major, ..)| major == MAJOR)
}

/// True when a rank has spawned this process, in whatever way.
pub(super) fn was_spawned() -> bool {
    std::env::var_os(PARENT_PORT).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_open_mpi_is_read() {
        assert_eq!(version("Open MPI v5.0.9, package: …"), Some((5, 0, 9)));
        assert_eq!(version("Open MPI v5.1.0rc1, package"), Some((5, 1, 0)));
        assert_eq!(version("MPICH Version: 5.0"), None);
    }
}
