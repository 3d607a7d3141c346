//! What the tests and measurements of this workspace have in common: launches of real ranks, runs
//! of many seeds, the median; programs for simulated and for real ranks; and observers in virtual
//! time.

// What is public here is for tests alone.
#![allow(missing_docs, clippy::missing_panics_doc)]

pub mod hushed;
pub mod launch;
pub mod loggp;
pub mod median;
#[cfg(feature = "observers")]
pub mod observers;
pub mod processes;
#[cfg(feature = "programs")]
pub mod programs;
pub mod seeds;
pub mod selection;
pub mod tokens;
pub mod traces;
