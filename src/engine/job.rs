//! What a process knows about its job, beside its communicators.

use alloc::vec::Vec;

use super::copies::Copies;
use crate::{
    protocol::{process::CommKey, roster::Roster},
    seam::platform::{Origin, UniverseId},
};

/// What a process knows about its job, beside its communicators.
pub(crate) struct Job {
    /// How this process came to be.
    pub(crate) origin: Origin,
    /// The communicator of the newest universe, which carries recoveries.
    pub(crate) universe: Option<CommKey>,
    pub(crate) world: Option<CommKey>,
    /// The communicators derived below the world from those that we are in, by their paths in the
    /// roster; `None` where we are no member.
    pub(crate) children: Vec<(Vec<u32>, Option<CommKey>)>,
    /// The ranks of the newest universe, and which of the job's processes hold them.
    pub(crate) roster: Roster,
    /// The job's numbers of the processes of each universe.
    pub(super) numbers: Vec<(UniverseId, Vec<u32>)>,
    /// The copies of states that this process keeps.
    pub(crate) copies: Copies,
    /// This process stands in for one that failed; true from the moment it holds the rank on.
    pub(crate) replacement: bool,
    /// A communicator is being made.
    pub(crate) creating: bool,
    /// The others have ended their part in the job.
    pub(crate) dismissed: bool,
    /// One more than the number of steps of a run whose outcome is protected; 0 when nothing is.
    pub(crate) protected_steps: u64,
}

impl Job {
    /// The job of a process that knows no other yet.
    pub(super) fn new(origin: Origin) -> Self {
        Self {
            origin,
            universe: None,
            world: None,
            children: Vec::new(),
            roster: Roster::default(),
            numbers: Vec::new(),
            copies: Copies::default(),
            replacement: false,
            creating: false,
            dismissed: false,
            protected_steps: 0,
        }
    }

    /// Gives each process of a universe its number in the job.
    pub(crate) fn number_processes(&mut self, universe: UniverseId, processes: &[u32]) {
        self.numbers.retain(|(known, _)| *known != universe);
        self.numbers.push((universe, processes.to_vec()));
    }

    /// The job's numbers of the processes of a universe, by their ranks there.
    pub(super) fn numbers_of(&self, universe: UniverseId) -> &[u32] {
        let known = self.numbers.iter().find(|(known, _)| *known == universe);
        known.map_or(&[], |(_, numbers)| numbers)
    }
}
