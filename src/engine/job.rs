//! What a process knows about its job.

use alloc::vec::Vec;

use super::CommKey;
use crate::protocol::roster::Roster;

/// What a process knows about the job beside its communicators.
#[derive(Default)]
pub(crate) struct Job {
    /// The communicator of the newest universe, which carries recoveries.
    pub(crate) universe: Option<CommKey>,
    pub(crate) world: Option<CommKey>,
    /// The communicators derived below the world from those that we are in, by their paths in the
    /// roster; `None` where we are no member.
    pub(crate) children: Vec<(Vec<u32>, Option<CommKey>)>,
    pub(crate) roster: Roster,
    /// This process stands in for one that failed; true from the moment it holds the rank on.
    pub(crate) replacement: bool,
    /// A communicator is being made.
    pub(crate) creating: bool,
    /// The others have ended their part in the job.
    pub(crate) dismissed: bool,
    /// One more than the number of steps of a run whose outcome is protected; 0 when nothing is.
    pub(crate) protected_steps: u64,
}
