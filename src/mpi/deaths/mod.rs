//! Deaths: how this process sees them at once, and tells MPI of them.

#[cfg_attr(not(target_os = "linux"), path = "death_mark/absent.rs")]
pub(super) mod death_mark;
#[cfg_attr(not(target_os = "linux"), path = "observer/absent.rs")]
pub(super) mod observer;
#[cfg_attr(not(target_os = "linux"), path = "pidfd/absent.rs")]
pub(super) mod pidfd;
pub(super) mod renice_dead;
pub(super) mod watcher;
