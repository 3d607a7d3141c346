//! Finds out which processes and nodes of an MPI job are dead, and tells all others.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(not(any(test, feature = "client", feature = "daemon")), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(all(feature = "client", target_os = "linux"))]
pub mod client;
#[cfg(all(any(feature = "client", feature = "daemon"), target_os = "linux"))]
pub mod clock;
#[cfg(all(feature = "daemon", target_os = "linux"))]
pub mod daemon;
pub(crate) mod planted;
pub mod protocol;
