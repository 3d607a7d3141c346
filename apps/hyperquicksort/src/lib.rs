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
//! # Slow ranks
//!
//! With `membership=tests` who fails a test of its observer owns no parts from the end of that
//! round on, and gets them back when it has passed enough ([`fampi::Recommended`]). `slow=` stops a
//! rank for a while:
//!
//! ```sh
//! cargo fampi run -n 8 --diagnosis 50ms:2.5:5 -- hyperquicksort n=10000000 repeat=20 \
//!     membership=tests slow=2@round:4:400:2
//! ```
//!
//! A rank that was stopped is benched and comes back. Where ranks share processors others may be
//! benched, too, for an answer that came some milliseconds late: with eight ranks on two cores that
//! command without `slow=` had some of them in 2 of 8 runs, all of which came back. Only ranks are
//! benched, not nodes.
//!
//! # What shows it
//!
//! | claim | shown in `tests/` by |
//! |---|---|
//! | one digest, whatever must not matter; plain programs | `resilience.rs`: `no_number_of_…` |
//! | a death of any rank, in any phase, in any way | `every_rank_…`, `every_way_…`, `two_at_…` |
//! | all die but one | `all_but_one_…`, and for each survivor in `simulated.rs` |
//! | replacements | `replacements_take_…` |
//! | benched and back; not back with `rejoin=off` | `a_slow_rank_…` |
//! | all living ranks hold one group | `simulated.rs`: `seeds_of_slow_ranks_…` |
//! | words without sense: one sentence, nothing written | `what_cannot_be_done_…` |
//!
//! With `FAMPI_SEEDS=10000` the simulated ranks were benched 13,075 times, came back 6,228 times
//! and died 10,329 times.
//!
//! Not there: benched nodes, replacements on probation. `cargo fampi figure14` draws figure 14.
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
pub mod report;
pub mod resilience;
pub mod roll;
pub mod sample_sort;
pub mod sorter;
pub mod stages;
pub mod table;
pub mod verify;
