//! What this process finds on its node: variables, other processes, memory to share with them.

#[cfg(target_os = "linux")]
pub(super) mod clock;
pub(super) mod environment;
#[cfg_attr(not(target_os = "linux"), path = "memory/absent.rs")]
pub(super) mod memory;
pub(super) mod process;
#[cfg_attr(not(target_os = "linux"), path = "pulse/absent.rs")]
pub(super) mod pulse;
pub(super) mod status;
