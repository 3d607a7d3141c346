//! What a process knows about its job, beside its communicators, and the copies of states that it
//! keeps, which become valid with the commit of a block.

use alloc::{boxed::Box, rc::Rc, vec::Vec};
use core::time::Duration;

use crate::{
    error::Error,
    protocol::{
        keepers::Keepers,
        process::{Address, CommKey},
        redundancy::Redundancy,
        roster::Roster,
    },
    rank::{Rank, RankSet},
    seam::{
        buffer::AnyBuffer,
        platform::{Origin, Place, UniverseId},
        record::Records,
    },
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
            meeting: None,
            unexplained: Unexplained::default(),
            dismissed: false,
            ended_at: None,
            protected_steps: 0,
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

/// The copies that this process keeps.
#[derive(Default)]
pub(crate) struct Copies {
    pub(crate) slots: Vec<Slot>,
    /// The last rank whose state could not be brought back, and the one that had kept it.
    pub(crate) lost: Option<(Rank, Rank)>,
}

/// One protected state: ours, and the one that we keep for another rank.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    /// Number of commits that carried this slot; 0 as long as we have nothing.
    pub(crate) version: u64,
    /// The communicator of the last commit, whose ranks are each other's partners.
    pub(crate) over: Option<CommKey>,
    /// Which of them keeps what, by the places of the ranks.
    pub(crate) keepers: Rc<Keepers>,
    /// Where the state is kept beside this process.
    pub(crate) redundancy: Redundancy,
    /// That communicator was the world, so that a rebuild can bring the state back.
    pub(crate) whole: bool,
    pub(crate) own: Option<AnyBuffer>,
    pub(crate) own_elements: usize,
    /// The version of what we keep for others; 0 as long as it is nothing.
    pub(crate) kept_version: u64,
    /// The state of the rank whose partner we are, or our parities of the group's states.
    pub(crate) kept: Option<AnyBuffer>,
    pub(crate) kept_elements: Option<usize>,
    /// The bytes of the states of all ranks of the group.
    pub(crate) lengths: Vec<u64>,
    /// Buffers of the generation before, to be used again.
    pub(crate) idle: Vec<AnyBuffer>,
}

/// What a block will make valid if it commits.
pub(crate) struct PendingCopy {
    pub(crate) slot: u32,
    pub(crate) version: u64,
    pub(crate) redundancy: Redundancy,
    /// Who keeps what from the commit on.
    pub(crate) keepers: Rc<Keepers>,
    pub(crate) own: Own,
    pub(crate) own_elements: usize,
    pub(crate) kept: Kept,
    pub(crate) kept_elements: Option<usize>,
    /// The bytes of the states of all ranks of the group.
    pub(crate) lengths: Vec<u64>,
}

/// What we keep for others from the commit on.
pub(crate) enum Kept {
    /// Nothing, whatever it was.
    Nothing,
    /// What we have stays valid.
    Unchanged,
    /// What this request has received.
    Received(usize),
    /// What can be made of messages then.
    Made(Box<dyn Make>),
    /// Here.
    Here(AnyBuffer),
}

/// Makes what we keep of the buffers of requests, which it is given; `idle` gets those that it does
/// not need any more.
pub(crate) trait Make {
    fn make(
        &self,
        take: &mut dyn FnMut(usize) -> Option<AnyBuffer>,
        idle: &mut Vec<AnyBuffer>,
    ) -> Option<AnyBuffer>;

    /// How many buffers the next generation can use again.
    fn buffers(&self) -> usize;
}

/// Buffers that the next generation can use again: two states.
const IDLE: usize = 2;

/// Where our own new state is until the commit.
pub(crate) enum Own {
    /// In the request that sends it.
    Sent(usize),
    /// In the request that receives it back.
    Received(usize),
    /// Here: we are our own partner.
    Here(Option<AnyBuffer>),
    /// What we have stays valid.
    Unchanged,
}

impl Copies {
    /// True when states were protected on this communicator, whose ranks are partners.
    pub(crate) fn need(&self, comm: CommKey) -> bool {
        self.slots.iter().any(|slot| slot.over == Some(comm))
    }

    pub(crate) fn slot(&mut self, number: u32) -> &mut Slot {
        let at = self.slots.iter().position(|slot| slot.number == number);
        let at = at.unwrap_or_else(|| {
            self.slots.push(Slot { number, ..Slot::default() });
            self.slots.len() - 1
        });
        &mut self.slots[at]
    }

    /// Makes what a block carried valid, or forgets it. `records` are those of the block, and
    /// `whole` is true when a rebuild of its communicator can bring the states back.
    pub(super) fn settle(
        &mut self,
        pending: Vec<PendingCopy>,
        records: &mut Records,
        (comm, whole): (CommKey, bool),
        committed: bool,
    ) {
        for copy in pending {
            let mut take = |index: usize| records[index].take_any();
            let own = match copy.own {
                Own::Sent(index) | Own::Received(index) => take(index),
                Own::Here(own) => own,
                Own::Unchanged => None,
            };
            let slot = self.slot(copy.slot);
            let mut room = IDLE;
            let kept = match copy.kept {
                Kept::Received(index) => take(index),
                Kept::Here(kept) => Some(kept),
                Kept::Made(made) => {
                    room += made.buffers();
                    if committed { made.make(&mut take, &mut slot.idle) } else { None }
                }
                Kept::Unchanged if committed => slot.kept.take(),
                Kept::Unchanged | Kept::Nothing => None,
            };
            if committed {
                slot.version = copy.version;
                (slot.over, slot.whole, slot.own_elements) = (Some(comm), whole, copy.own_elements);
                (slot.redundancy, slot.lengths) = (copy.redundancy, copy.lengths);
                slot.keepers = copy.keepers;
                slot.kept_elements = copy.kept_elements.or(slot.kept_elements);
                slot.kept_version = if kept.is_some() { copy.version } else { 0 };
                if let Some(own) = own {
                    slot.idle.extend(slot.own.replace(own));
                }
                slot.idle.extend(core::mem::replace(&mut slot.kept, kept));
            } else {
                slot.idle.extend(own.into_iter().chain(kept));
            }
            slot.idle.truncate(room);
        }
    }
}
