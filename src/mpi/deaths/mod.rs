//! Deaths: how this process sees them at once.
//!
//! ```text
//! watcher       looks at the processes of this node, and tells MPI who has ended
//! pidfd         descriptors of processes, which become readable at their end
//! death_mark    a lock in shared memory, which the kernel marks before that
//! observer      the client of the detector, whose news the watcher fetches
//! renice_dead   lets survivors run before what is left of the dead
//! ```

#[cfg_attr(not(target_os = "linux"), path = "death_mark/absent.rs")]
pub(super) mod death_mark;
#[cfg_attr(not(target_os = "linux"), path = "observer/absent.rs")]
pub(super) mod observer;
#[cfg_attr(not(target_os = "linux"), path = "pidfd/absent.rs")]
pub(super) mod pidfd;
pub(super) mod renice_dead;
pub(super) mod watcher;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Some process of the job is known to have died.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// Notes that a process of the job has died.
pub(super) fn note() {
    KNOWN.store(true, Relaxed);
}

/// True when some process of the job is known to have died. Any thread may ask.
pub(super) fn are_known() -> bool {
    KNOWN.load(Relaxed)
}
