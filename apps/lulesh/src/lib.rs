//! A blast wave through a cube of hexahedra, by Lagrangian shock hydrodynamics: `LULESH`.
//!
//! Most of this library is physics: pure functions of one rank's state. Only [`exchange`]
//! communicates, and only [`resilience`] knows what a failure is. A rank can make everything but
//! its [`state`] again, from nothing but the command line and one exchange of masses.
//!
//! ```text
//!  options ─ kill_plan
//!  lanes ── geometry ── forces ── kinematics ── viscosity ── eos
//!    │                     │           │            │         │
//!  mesh ── halo          state      layered      regions ─── domain
//!                                                             │
//!                            verify · report      cycle ── exchange (blocks, or bare MPI)
//!                                                   │
//!                                         resilience · plain
//! ```
//!
//! # Differences from the reference program
//!
//! - Shared nodes have one owner, so that all their copies have the same bits ([`halo`]).
//! - Only the component of a gradient that is read crosses a face ([`halo`]).
//! - The reduction of the time step is made in the first cycle, too, and ignored there.
//! - The random numbers that make regions are others, which changes no result ([`regions`]).
//! - The stress and hourglass forces of an element are added together; no field is allocated in
//!   a cycle ([`forces`], [`domain`]).
//! - The equation of state is solved for some elements at a time, again and again where a region
//!   is costly, and not for a whole region again and again ([`domain`]).
//! - No pictures are written.

#![forbid(unsafe_code)]
#![allow(
    clippy::inline_always,
    reason = "a kernel must be one function, or nothing is in registers"
)]
#![allow(clippy::needless_range_loop, reason = "formulas have an index for the axis or the corner")]

pub mod cycle;
pub mod domain;
pub mod eos;
pub mod exchange;
pub mod forces;
pub mod geometry;
pub mod halo;
pub mod kill_plan;
pub mod kinematics;
pub mod lanes;
pub mod layered;
pub mod mesh;
pub mod options;
pub mod plain;
pub mod regions;
pub mod report;
pub mod resilience;
pub mod state;
pub mod verify;
pub mod viscosity;
