//! Observers as processes of their own, among processes that register and die.
//!
//! Several nodes stand on this machine, each with its own observer, port and name. Nothing here is
//! about how long something takes: what has to happen is waited for.

#![cfg(target_os = "linux")]

mod cables;
mod deaths;
mod hung;
mod job;
mod metrics;
mod minife;
mod network;
mod nodes;
mod page;
mod rank;
mod security;
mod slow;
mod top;
