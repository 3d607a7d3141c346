//! Whole programs on simulated ranks, each drawn from a seed.

pub mod checks;
pub mod forest;
pub mod found;
pub mod guests;
pub mod job;
mod rounds;
pub mod runs;
pub mod shrink;
mod text;
