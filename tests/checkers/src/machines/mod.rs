//! Random runs of commit machines without an engine.

mod plan;

pub mod swarm;
