//! What this process finds on its node, and tells there, without MPI.
//!
//! Variables of the environment, other processes, memory that processes share, the clock, the files
//! and lines for the program that has started this process.

pub(super) mod causes;
#[cfg(target_os = "linux")]
pub(super) mod clock;
pub(super) mod environment;
#[cfg_attr(not(target_os = "linux"), path = "memory/absent.rs")]
pub(super) mod memory;
pub(super) mod process;
#[cfg_attr(not(target_os = "linux"), path = "pulse/absent.rs")]
pub(super) mod pulse;
pub(super) mod signals;
pub(super) mod status;
pub(super) mod trace;
pub(in crate::mpi) mod unreported_exit;
