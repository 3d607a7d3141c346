//! What a process knows about its job, beside its communicators.

use alloc::vec::Vec;
use core::time::Duration;

use super::copies::Copies;
use crate::{
    error::Error,
    protocol::{
        process::{Address, CommKey},
        roster::Roster,
    },
    rank::{Rank, RankSet},
    seam::platform::{Origin, Place, UniverseId},
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
    /// The size of the pages by which states are compared with their last valid copies, in bytes.
    pub(crate) page_bytes: usize,
    /// The copies of states that this process keeps.
    pub(crate) copies: Copies,
    /// This process stands in for one that failed; true from the moment it holds the rank on.
    pub(crate) replacement: bool,
    /// A communicator is being made.
    pub(crate) creating: bool,
    /// The living come together before the next call that makes it.
    pub(crate) meeting: Option<Meeting>,
    /// The deaths whose causes are not known yet.
    pub(super) unexplained: Unexplained,
    /// The others have ended their part in the job.
    pub(crate) dismissed: bool,
    /// The blocks that had been started when all living ranks got one error.
    ended_at: Option<u64>,
    /// One more than the number of steps of a run whose outcome is protected; 0 when nothing is.
    pub(crate) protected_steps: u64,
    /// Which checkpoints are this job's, as far as this process knows; known with a commit.
    pub(crate) saving: Saving,
    /// A rank whose state no living rank has, and its partner if that had kept it, until all states
    /// are back from a checkpoint: what some have taken from there in a block that failed is not to
    /// be mixed with what others have.
    pub(crate) lost: Option<(Rank, Option<Rank>)>,
    /// Of how many ranks the communicator is on which a program that owns its MPI brings its states
    /// back; 0 where that is the world.
    pub(crate) brings_back: u32,
}

/// Where a run has saved checkpoints, and which of those there are its own; zeros as long as that
/// is unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saving {
    /// The folder, for people.
    pub(crate) place: String,
    /// The number of this start of the job.
    pub(crate) launch: u64,
    /// The first start of the job whose sets the run may go back to.
    pub(crate) oldest: u64,
    /// One more than the steps of the newest checkpoint that the ranks have tried to save.
    pub(crate) saved: u64,
    /// True once one of them is complete.
    pub(crate) has_one: bool,
    /// How many steps lie between two, once that is known.
    pub(crate) every: Option<u64>,
    /// When the newest was saved, or this process has joined.
    pub(crate) since: Option<Duration>,
    /// Of how many ranks the communicator was on which a program that owns its MPI has told this.
    pub(crate) ranks: u32,
    /// True where all begin with new states, so that those before are forgotten.
    pub(crate) begins: bool,
    /// True when some rank has no checkpoints: then no rank saves any.
    pub(crate) is_off: bool,
}

impl Saving {
    /// What is known of sets that belong to another start of the job, which goes on from no other.
    pub(crate) fn anew(&self, launch: u64) -> Self {
        let (oldest, saved, has_one, since) = (launch, 0, false, None);
        Self { launch, oldest, saved, has_one, since, ..self.clone() }
    }
}

/// A meeting to which this process has come.
pub(crate) struct Meeting {
    pub(crate) place: Place,
    /// Some of those who do not come.
    pub(crate) dead: RankSet,
    /// All have come.
    pub(crate) over: bool,
}

/// Deaths whose causes are not known yet.
#[derive(Debug, Default)]
pub(super) struct Unexplained {
    /// Each with the moment when it became known.
    pub(super) deaths: Vec<(Address, Duration)>,
    /// When the platform is asked next.
    pub(super) next: Duration,
}

impl Unexplained {
    /// When the platform is asked next, if it is to be asked.
    #[inline]
    pub(super) fn next(&self) -> Option<Duration> {
        (!self.deaths.is_empty()).then_some(self.next)
    }
}

impl Job {
    /// The job of a process that knows no other yet.
    pub(super) fn new(origin: Origin, page_bytes: usize) -> Self {
        Self {
            origin,
            page_bytes,
            universe: None,
            world: None,
            children: Vec::new(),
            roster: Roster::default(),
            numbers: Vec::new(),
            copies: Copies::default(),
            replacement: false,
            creating: false,
            meeting: None,
            unexplained: Unexplained::default(),
            dismissed: false,
            ended_at: None,
            protected_steps: 0,
            saving: Saving::default(),
            lost: None,
            brings_back: 0,
        }
    }

    /// All living ranks have got this error, if it is one of those, after so many blocks.
    pub(crate) fn note_error(&mut self, error: &Error, started: u64) {
        self.ended_at = error.is_agreed().then_some(started).or(self.ended_at);
    }

    /// True when all living ranks have got an error, after so many blocks and no more.
    pub(crate) fn has_ended(&self, started: u64) -> bool {
        self.ended_at == Some(started)
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
