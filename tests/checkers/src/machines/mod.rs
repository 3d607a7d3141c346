//! Random runs of commit machines without an engine.

mod plan;
mod random;
pub mod swarm;
