//! x
#![forbid(unsafe_code)]
pub mod domain;
pub mod eos;
pub mod forces;
pub mod geometry;
pub mod halo;
pub mod kinematics;
pub mod lanes;
pub mod mesh;
pub mod regions;
pub mod state;
pub mod viscosity;
