//! fampi
#![cfg_attr(any(target_os = "none", target_os = "unknown"), no_std)]
extern crate alloc;
pub mod fault;
pub mod ids;
pub mod protocol;
pub mod rank;
pub mod timeout;
