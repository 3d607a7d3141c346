//! Keys sorted by quicksort on a hypercube, by ranks of which all but one may be lost:
//! `HyperQuickSort`.
//!
//! Most of this library is pure: keys are functions of their place ([`keys`]), owners of parts are
//! functions of who still works ([`owners`]), pivots are functions of what all ranks know of all
//! lists ([`table`]). Only [`exchange`] communicates while keys are sorted, and only
//! [`resilience`] knows what a failure is.
//!
//! ```text
//!  options ─ kill_plan
//!  keys ── local ── list ── owners ── table
//!            │                          │
//!         sorter ──── verify · report ── exchange (blocks, or bare MPI)
//!            │                          │
//!   lineage · copies · files · roll ── resilience ── join     plain · sample_sort
//! ```
//!
//! The keys are in 2^d *parts*, each a list that one rank owns, and rounds are about parts. When a
//! rank is lost its parts get other owners, which have to get the lists: from where they survive
//! (`store`), and that may be nowhere else than in the input.
//!
//! Who fails tests works no more until it is well again ([`fampi::Recommended`]). That, what shows
//! which claim, and what it costs is in the README beside this crate.
//!
//! # Differences from the paper
//!
//! Camargo and Duarte 2018 sort one list on each process, whose middle is a pivot, and all lists go
//! to shared files after each round. Here that is `paper`; otherwise parts of the lost are shared
//! out evenly, pivots are medians of samples, equal keys are divided, and nothing is written: a
//! lost list is made again from the input ([`lineage`]).

#![forbid(unsafe_code)]
#![allow(clippy::single_range_in_vec_init, reason = "a section of a list has one axis")]

pub mod copies;
pub mod exchange;
pub mod files;
pub mod join;
pub mod keys;
pub mod kill_plan;
pub mod lineage;
pub mod list;
pub mod local;
pub mod options;
pub mod output;
pub mod owners;
pub mod plain;
mod planted;
pub mod report;
pub mod resilience;
pub mod roll;
pub mod sample_sort;
pub mod sorter;
pub mod stages;
pub mod table;
pub mod verify;
