//! What the applications have in common around their numerics: how they are told to lose ranks,
//! how their blocks end, and how their results are compared.

#![forbid(unsafe_code)]

pub mod block;
pub mod buffers;
pub mod digest;
pub mod draw;
pub mod kill_plan;
pub mod process;
pub mod random_plan;
pub mod timeline;
pub mod words;
