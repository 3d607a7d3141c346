//! Open MPI 5: what is peculiar to it, a file for each defect.
//!
//! Each file begins with **Symptom**, **Versions**, **Upstream**, **Delete when** and **Test**, the
//! name of the test that fails without it: when a new version comes, this folder is what to read
//! again. All other rooms see this one through [`this_mpi`](super::this_mpi), which is where the
//! room of another MPI is chosen: a folder beside this one with functions of those names, most of
//! which do nothing there.
//!
//! What is mended elsewhere, as it is no matter of one place, or not of this process:
//!
//! - the launcher loses new processes after deaths (`OpenPMIx`, pull request 4279): `ffi/prterun`,
//!   which is preloaded into the launcher;
//! - neighbourhood collectives fail on a ring of one or two (open-mpi/ompi#14430): messages
//!   instead, in `engine/neighbours.rs`;
//! - a death is reported late: `deaths/watcher.rs`;
//! - a revocation of a duplicate under way ends the process, so it is completed, or forgotten:
//!   `operations/contexts.rs`;
//! - the launcher can crash when the root of `MPI_Comm_spawn` dies in it: mended nowhere, but
//!   spares have no such moment.

pub(super) mod agree_on_self;
mod dead_address;
pub(super) mod deaf_queue;
pub(super) mod failed_lists;
mod finalize_deaths;
mod finalize_farewell;
pub(super) mod idup_numbering;
pub(super) mod init_state;
pub(super) mod inject_failure;
pub(super) mod kept_requests;
pub(super) mod launch_census;
pub(super) mod leaders_answer;
pub(super) mod lost_answer;
pub(super) mod matched_wildcards;
mod null_comm_refcount;
pub(super) mod request_origin;
pub(super) mod romio;
pub(super) mod send_after_free;
pub(super) mod shared_machine;
pub(super) mod spawn_lookup;
mod unreachable_peer;
pub(super) mod used_numbers;

use std::{
    ffi::{CStr, c_void},
    sync::Once,
};

use super::calls::{
    comm::Comm,
    library::{self, Checked},
    redirect,
    ulfm::Ulfm,
};
use crate::rank::Rank;

/// The major version whose source was read.
const MAJOR: u32 = 5;
/// What it gives to all processes that a rank has spawned.
const PARENT_PORT: &str = "OMPI_PARENT_PORT";
/// The communicators of this process by their numbers, which no tool puts its own in the place of.
const OF_THE_LIBRARY: &CStr = c"ompi_mpi_communicators";
/// The layer below it, which makes connections, as the library that has this function.
const OF_CONNECTIONS: &CStr = c"opal_progress";

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

/// What has to be mended before MPI starts. Works as soon as its library is loaded.
pub(super) fn mend_library() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mends = [
            send_after_free::mend,
            leaders_answer::mend,
            used_numbers::mend,
            finalize_deaths::mend,
            unreachable_peer::mend,
            dead_address::mend,
        ];
        let mended = is_loaded().then(|| mends.map(|mend| mend()));
        tracing::debug!(?mended, "calls within the library");
    });
}

/// What has to be mended when MPI is initialised.
pub(super) fn mend_initialised() {
    null_comm_refcount::protect();
    used_numbers::begin();
    deaf_queue::find();
}

/// MPI itself ends with an error where a process is dead.
#[allow(clippy::unnecessary_wraps, reason = "another MPI waits for the dead")]
pub(super) fn may_be_duplicated(_: &Comm, _: &Ulfm) -> Checked<()> {
    Ok(())
}

/// Also after a death.
pub(super) fn may_free_at_the_end() -> bool {
    true
}

/// The first message that a program looks for, by source and tag: there are no others.
#[inline]
#[allow(clippy::unnecessary_wraps, reason = "another MPI looks for messages of its own")]
pub(super) fn first_of_program(
    _: &Comm,
    envelope: (Option<Rank>, Option<u32>),
) -> Checked<Option<(Option<Rank>, Option<u32>)>> {
    Ok(Some(envelope))
}

/// What has to be mended before `MPI_Finalize`, the next call of MPI.
pub(super) fn mend_end() {
    finalize_farewell::skip();
    finalize_deaths::begin();
    deaf_queue::forget();
}

/// Has the library's own calls of the function `name` go to `ours`, for ever.
///
/// # Safety
///
/// `ours` takes the arguments of that function, and no other thread calls MPI now.
unsafe fn redirect(name: &CStr, ours: *const c_void) -> Option<()> {
    // SAFETY: our caller's promise.
    unsafe { redirect::redirect(OF_THE_LIBRARY, name, ours) }
}

/// True when MPI itself ends what waits for a dead process.
pub(super) const fn ends_waits_for_the_dead() -> bool {
    true
}

/// Who all processes of a communicator are: MPI names them itself.
pub(super) fn know(_: &Comm, _: &[u64]) {}

/// True for the request that MPI gives for whatever was over when it started.
#[inline]
pub(super) fn is_shared(request: mpi::ffi::MPI_Request, finished: mpi::ffi::MPI_Request) -> bool {
    request == finished
}

/// This process has found nothing to do: MPI gives the processor away itself.
#[inline]
pub(super) fn when_idle() {}

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
