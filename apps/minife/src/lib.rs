//! Steady heat conduction on a box of bricks, solved by conjugate gradients: `MiniFE`.
//!
//! Most of this library is numerics: pure functions of the problem, the number of ranks and the
//! rank. Only [`exchange`] communicates, and only [`resilience`] knows what a failure is. A rank
//! can rebuild its matrix, and the lists of what it exchanges with whom, from nothing but the
//! command line; only the vectors of the solve ([`cg::State`]) have to be rescued.
//!
//! ```text
//!  options ─ kill_plan
//!  mesh ── partition ── rows ── numbering ── exchange_lists
//!                                  │
//!                              structure ── matrix
//!                                  │
//!                     element ── assembly ── boundary
//!                                  │
//!                               system ── cg ── lockstep (all ranks in one process)
//!                                  │        │
//!           verify · report      solve ── exchange (blocks, or bare MPI)
//!                                           │
//!                                 resilience · plain
//! ```
//!
//! # Differences from the reference program
//!
//! - The lists of the halo exchange are computed, not exchanged ([`exchange_lists`]).
//! - Neighbours are listed in one order for sending and receiving, so a run is reproducible.
//! - Local sums start a new accumulator every 131 072 rows, for accuracy, and are computed in the
//!   kernels that produce their operands ([`vector`]).
//! - An iteration writes only scratch until it is committed ([`cg`]).
//! - With fault tolerance, dot products ride on commits ([`resilience`]); the plain program adds
//!   in the same order, so that both have the same bits ([`exchange::Plain`]).

#![forbid(unsafe_code)]

pub mod assembly;
pub mod boundary;
pub mod cg;
pub mod element;
pub mod exchange;
pub mod exchange_lists;
pub mod kill_plan;
pub mod lockstep;
pub mod matrix;
pub mod mesh;
pub mod numbering;
pub mod options;
pub mod partition;
pub mod plain;
pub mod report;
pub mod resilience;
pub mod rows;
pub mod solve;
pub mod structure;
pub mod system;
pub mod vector;
pub mod verify;
