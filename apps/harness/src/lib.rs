//! What the applications have in common around their numerics: how they are told to lose ranks,
//! how they go on without them, and how their results are compared.

#![forbid(unsafe_code)]

pub mod account;
pub mod buffers;
pub mod digest;
pub mod faults;
pub mod kill_plan;
pub mod memory;
pub mod observers;
pub mod process;
pub mod random_plan;
pub mod simulated;
pub mod timeline;
pub mod witness;
pub mod words;
