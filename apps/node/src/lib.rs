//! A launcher for Open MPI 5 and MPICH 5 under which a job outlives any of its nodes.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Prints a line to standard error. If standard error cannot be written this does nothing, where
/// `eprintln!` would panic.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

pub mod console;
pub mod daemon;
mod place;
mod poll;
pub mod protocol;
mod record;
mod wire;
