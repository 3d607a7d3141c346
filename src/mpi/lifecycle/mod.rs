//! The life of this process in its job: its start, communicators made with others, its end.

pub(super) mod adopt;
pub(super) mod chores;
pub(super) mod exit;
pub(super) mod groups;
pub(super) mod interop;
pub(super) mod origin;
pub(super) mod rebuild_ranks;
pub(super) mod spawn;
pub(super) mod start;
pub(super) mod watchdog;
