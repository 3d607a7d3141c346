//! The engine drives the machines and never decides.
//!
//! One engine per process. It owns the platform, one [`Commit`](crate::protocol::commit::Commit)
//! per communicator and the table of open blocks; it moves frames between them, tests requests,
//! casts votes when a block's requests are over, and hands out outcomes.
//!
//! | file | what it does |
//! |---|---|
//! | [`platform`] | the seam to the world: control frames, operations, communicators |
//! | [`buffer`] | the application's buffers while an operation owns them |
//! | [`collective`] | the operations of all ranks, and the shapes of their buffers |
//! | [`reduction`] | what reductions do with the elements of two ranks |
//! | [`section`], [`lent`] | parts of arrays that several requests use at once |
//! | `comm` | what a process knows of a communicator |
//! | `file` | files as operations name them |
//! | `ages` | communicators that start afresh, and those that are over |
//! | `block` | an open block and its requests |
//! | `farewell` | leaves the job with all others |
//! | `messages` | names messages on the wire, and starts them |
//! | `metrics` | counts what is rare, and tells those who listen |
//! | `neighbours` | operations among neighbours, made of messages |
//! | `guest` | blocks over requests that somebody else started |
//! | `probe` | matches messages before they are received |
//! | [`pulse`] | signs of progress, for whoever looks |
//! | [`record`] | the requests of a block, their states and buffers |
//! | `progress` | polls, dispatches frames and failures, waits |
//! | `request` | posts, tests and ends the requests of a block |
//! | `service` | what a block does for accesses of others to windows of this rank |
//! | `trace` | writes down what happens, if somebody wants to know |
//! | `vote` | ends blocks: drains requests, votes, notes decisions |
//! | `window` | memory that others put into, get from and accumulate in |

mod ages;
mod block;
pub mod buffer;
pub mod collective;
mod comm;
mod farewell;
mod file;
mod guest;
pub mod lent;
mod messages;
mod metrics;
mod neighbours;
pub mod platform;
mod probe;
mod progress;
pub mod pulse;
pub mod record;
pub mod reduction;
mod request;
pub mod section;
mod service;
mod trace;
mod vote;
mod window;

use alloc::{boxed::Box, collections::VecDeque, rc::Rc, vec::Vec};
use core::{cell::RefCell, time::Duration};

use smallvec::SmallVec;

use crate::{
    fault::FaultCode,
    ids::CommId,
    protocol::{
        codec::Frame,
        planted::{Bug, planted},
    },
    rank::{Rank, RankSet},
    recovery::{Job, copies::Copies},
};
pub use ages::Remembered;
pub use block::Level;
pub(crate) use block::{BlockKey, Need};
use block::{OpenBlock, Phase};
pub(crate) use comm::{CommKey, CommState};
#[cfg(feature = "mpi")]
pub(crate) use messages::LEAST_MAX_TAG;
pub(crate) use messages::MAX_USER_TAG;
use messages::TagBits;
use metrics::{Source, Tally};
pub(crate) use neighbours::Edge;
use neighbours::Parts;
pub(crate) use platform::Progress;
use platform::{DataId, Platform, UniverseId};
pub(crate) use progress::Waited;
use pulse::Pulse;
pub(crate) use trace::Entry;
use trace::Trace;
use window::WindowState;
pub(crate) use window::{Access, FIRST_WINDOW_TAG, WindowId};

/// The engine as its users share it.
pub(crate) type Shared = Rc<RefCell<Engine>>;

/// All that a process knows about its part in the job.
pub(crate) struct Engine {
    pub(crate) platform: Box<dyn Platform>,
    pub(crate) comms: Vec<CommState>,
    /// Places in the table of communicators that are over.
    vacant: Vec<CommKey>,
    /// Names on the wire of some that were over last: nobody waits for an answer to what comes.
    forgotten: VecDeque<(UniverseId, CommId)>,
    /// Communicators may be over.
    sweep_due: bool,
    /// Blocks whose handles went while the thread panicked.
    orphans: SmallVec<[BlockKey; 1]>,
    blocks: Vec<OpenBlock>,
    free: Vec<u32>,
    /// Blocks that were finished and whose requests are not all over.
    draining: SmallVec<[BlockKey; 4]>,
    /// To make messages among neighbours of.
    parts: Parts,
    /// Blocks that voted and are not decided.
    voted: SmallVec<[BlockKey; 4]>,
    /// Memory of this rank that others use.
    windows: Vec<WindowState>,
    /// How many windows were made.
    windows_made: u64,
    /// Blocks in which they may, not decided.
    serving: SmallVec<[BlockKey; 4]>,
    /// Blocks that were interrupted while they were open.
    interrupted: SmallVec<[BlockKey; 4]>,
    /// How often something may have happened that keeps messages from starting.
    news: u64,
    /// Number of blocks started.
    serial: u64,
    /// Frames about communicators that the sender made before we did.
    early: Vec<(UniverseId, Rank, CommId, Frame)>,
    /// Deaths in universes that we have not adopted.
    pub(crate) early_deaths: Vec<(UniverseId, Rank)>,
    universes: Vec<UniverseState>,
    /// Who is who in the newest universe.
    pub(crate) job: Job,
    pub(crate) copies: Copies,
    tally: Tally,
    turns: u32,
    /// Somebody looks whether this process makes progress.
    pub(crate) pulse: Option<Pulse>,
    /// Of the platform.
    patience: u32,
    tests_per_turn: u32,
    /// How tags on the wire are made.
    tag_bits: TagBits,
    /// When all requests of the draining blocks are looked at again.
    next_look: Duration,
    /// This process has left the job: the platform is not touched any more.
    pub(crate) left: bool,
    trace: Option<Box<Trace>>,
}

/// What is known about the processes of a universe.
struct UniverseState {
    id: UniverseId,
    dead: RankSet,
    /// The job's numbers of its processes.
    processes: Vec<u32>,
    /// Nothing is sent or received there any more.
    silent: bool,
}

impl Engine {
    /// An engine that knows nobody yet.
    pub(crate) fn new(mut platform: Box<dyn Platform>) -> Self {
        let trace = platform.trace().map(|sink| Box::new(Trace::new(sink)));
        let tag_bits = TagBits::new(platform.max_tag());
        let (patience, pulse) = (platform.patience(), platform.observe(true));
        Self {
            platform,
            comms: Vec::new(),
            vacant: Vec::new(),
            forgotten: VecDeque::new(),
            sweep_due: false,
            orphans: SmallVec::new(),
            blocks: Vec::new(),
            free: Vec::new(),
            draining: SmallVec::new(),
            parts: Parts::default(),
            voted: SmallVec::new(),
            windows: Vec::new(),
            windows_made: 0,
            serving: SmallVec::new(),
            interrupted: SmallVec::new(),
            news: 1,
            serial: 0,
            early: Vec::new(),
            early_deaths: Vec::new(),
            universes: Vec::new(),
            job: Job::default(),
            copies: Copies::default(),
            tally: Tally::default(),
            turns: 0,
            pulse,
            patience,
            tests_per_turn: progress::tests_per_turn(patience),
            tag_bits,
            next_look: Duration::ZERO,
            left: false,
            trace,
        }
    }

    /// Registers a communicator: `members[rank]` is the process in the universe, `me` our rank.
    pub(crate) fn register(
        &mut self,
        id: CommId,
        universe: UniverseId,
        members: Vec<Rank>,
        me: Rank,
        data: Option<DataId>,
    ) -> CommKey {
        let shape = self.platform.shape();
        let key = self.add_comm(CommState::new(id, universe, members, me, data, shape));
        if !self.universes.iter().any(|known| known.id == universe) {
            let (dead, processes, silent) = (RankSet::new(), Vec::new(), false);
            self.universes.push(UniverseState { id: universe, dead, processes, silent });
        }
        self.meet(key);
        for (of, process) in core::mem::take(&mut self.early_deaths) {
            self.note_failure(of, process, Source::Platform);
        }
        key
    }

    /// Does without the observer of this node, as if it had none, or with it again.
    pub(crate) fn set_observed(&mut self, observed: bool) {
        self.pulse = self.platform.observe(observed);
    }

    /// Gives each process of a universe its number in the job.
    pub(crate) fn number_processes(&mut self, universe: UniverseId, processes: &[u32]) {
        if let Some(known) = self.universes.iter_mut().find(|known| known.id == universe) {
            known.processes = processes.to_vec();
        }
    }

    /// The job's numbers of the processes of a communicator, in the order of its ranks.
    pub(crate) fn processes(&self, key: CommKey) -> Vec<u32> {
        let comm = self.comm(key);
        let known = self.universes.iter().find(|known| known.id == comm.universe);
        let numbers = known.map_or(&[][..], |known| &known.processes);
        comm.members.iter().filter_map(|member| numbers.get(member.index()).copied()).collect()
    }

    /// Tells a communicator's new machines what happened before they were there.
    fn meet(&mut self, key: CommKey) {
        let universe = self.comm(key).universe;
        let known = self.universes.iter().find(|known| known.id == universe);
        let dead = known.map(|known| known.dead.clone()).unwrap_or_default();
        for address in dead.iter() {
            if let Some(rank) = self.comms[key.0].rank_of(address) {
                self.drive(key, |commit, out| commit.handle_failure(rank, out));
            }
        }
        let early = core::mem::take(&mut self.early);
        for (from_universe, from, comm, frame) in early {
            self.handle_frame(from_universe, from, comm, frame);
        }
    }

    /// Gives a communicator up that others may go on with: whoever waits inside of a block that
    /// this process will never start waits no longer.
    pub(crate) fn give_up(&mut self, key: CommKey) {
        if !self.left {
            self.retire(key);
            self.interrupt(key, self.comm(key).next_block);
        }
    }

    /// Retires a communicator: from now on this process votes *no* on blocks it never started.
    pub(crate) fn retire(&mut self, key: CommKey) {
        let comm = &mut self.comms[key.0];
        if comm.retired || self.left {
            return;
        }
        comm.retired = true;
        self.drive(key, |commit, out| commit.retire(out));
        // The vote on what is finished is *no* by now, whatever its requests come to; and who is
        // waited for without knowing it has to speak first.
        for block in self.comm(key).open.clone() {
            let draining = |block: &OpenBlock| block.phase == Phase::Draining;
            if self.current(block).is_some_and(draining) && !planted(Bug::DrainTheGivenUp) {
                self.leave_block(block, FaultCode::Abandoned);
            }
        }
    }

    #[inline]
    pub(crate) fn comm(&self, key: CommKey) -> &CommState {
        &self.comms[key.0]
    }

    #[inline]
    pub(crate) fn comm_mut(&mut self, key: CommKey) -> &mut CommState {
        &mut self.comms[key.0]
    }
}
