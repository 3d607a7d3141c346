//! What searches the protocol and the engine for bugs: models whose states are all visited, random
//! runs of commit machines, whole programs on simulated ranks. The tests of this package run all
//! of them, and plant bugs that they must catch.

// What is public here is for these tests alone.
#![allow(missing_docs, clippy::missing_panics_doc)]

pub mod bugs;
pub mod cases;
pub mod diagnosis;
pub mod group;
pub mod machines;
pub mod model;
mod properties;
mod record;
pub mod search;
pub mod simulation;
