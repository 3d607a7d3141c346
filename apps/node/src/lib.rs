//! A launcher for Open MPI 5 and MPICH 5 under which a job outlives any of its nodes.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod console;
pub mod daemon;
mod place;
mod poll;
pub mod protocol;
mod record;
mod wire;
