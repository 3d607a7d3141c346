//! The life of this process in its job.
//!
//! ```text
//! start, interop, adopt       enters the job: by itself, by rsmpi, in a program that owns its MPI
//! origin                      who has started this process
//! groups, spawn               communicators made together with others, and new processes
//! newcomers                   new processes are watched while they start
//! links                       groups of a program that are linked, taken into use
//! rebuild_ranks               survivors and new processes of a user's communicator become one
//! two_groups                  groups that become one
//! words                       what one process tells the others before they do so
//! chores                      what is done now and then while the engine waits
//! watchdog                    no call of MPI lasts for ever
//! exit                        the end
//! ```

pub(super) mod adopt;
pub(super) mod chores;
pub(super) mod exit;
pub(super) mod groups;
pub(super) mod interop;
pub(super) mod links;
pub(super) mod newcomers;
pub(super) mod origin;
pub(super) mod rebuild_ranks;
pub(super) mod spawn;
pub(super) mod start;
mod two_groups;
pub(super) mod watchdog;
mod words;
