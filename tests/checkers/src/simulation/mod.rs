//! Whole programs on simulated ranks, each drawn from a seed.

pub mod checks;
pub mod forest;
pub mod found;
pub mod guests;
pub mod job;
pub mod oracle;
pub mod program;
mod rounds;
pub mod runs;
mod setting;
pub mod tally;
mod text;
