//! Many rounds of tests among hosts of one busy cluster, simulated: who fails whose tests, and what
//! becomes of the group.
//!
//! Testers are those of `fampi-detector`, the group is that of the library, agreed anew after every
//! round as by a commit. How busy hosts are is ours, in `hosts.rs`; everything else is what comes
//! of it.
//!
//! Reference: Camargo and Duarte 2018 §5, figures 7 to 13.

pub mod figures;
pub mod hosts;
pub mod play;
pub mod sizes;
