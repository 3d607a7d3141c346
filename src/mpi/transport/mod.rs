//! The control channel: how frames of the protocol get from one process to another.
//!
//! ```text
//! control        frames and deaths, for each universe
//! mailbox        fast frames between processes of one node, by memory that both see
//! wire           memory that MPI may touch while we hold it
//! acquaintance   what processes tell each other when a universe is made
//! ```

pub(super) mod acquaintance;
pub(super) mod control;
pub(super) mod mailbox;
pub(super) mod wire;
