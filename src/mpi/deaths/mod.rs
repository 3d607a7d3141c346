//! Deaths: how this process sees them at once, and tells MPI of them.

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
