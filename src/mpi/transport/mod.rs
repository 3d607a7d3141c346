//! The control channel: how frames of the protocol get from one process to another.

pub(super) mod acquaintance;
pub(super) mod control;
pub(super) mod mailbox;
pub(super) mod wire;
