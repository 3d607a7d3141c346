//! The engine drives the process and never decides.
//!
//! One engine per process. It owns the platform and the [`Process`], which decides; it takes frames
//! and deaths to that one, tests requests, says when those of a block are over, and carries out
//! what the process commands.
//!
//! | file | what it does |
//! |---|---|
//! | `execute` | carries out the commands of the process |
//! | `block` | an open block and its requests |
//! | `copies` | copies of states, which are valid with the commit of their block |
//! | `farewell` | leaves the job with all others |
//! | `living` | collectives over the living, made of messages |
//! | `messages` | names messages on the wire, and starts them |
//! | `metrics` | counts what is rare, and tells those who listen |
//! | `neighbours` | operations among neighbours, made of messages |
//! | `guest` | blocks over requests that somebody else started |
//! | `patience` | asks the living for whom patient blocks wait |
//! | `probe` | matches messages before they are received |
//! | `progress` | polls, dispatches frames and failures, waits |
//! | `request` | posts, tests and ends the requests of a block |
//! | `service` | what a block does for accesses of others to windows of this rank |
//! | `vote` | ends blocks: drains requests, votes, notes decisions |
//! | `window` | memory that others put into, get from and accumulate in |

mod block;
mod copies;
mod execute;
mod farewell;
mod guest;
mod living;
mod messages;
mod metrics;
mod neighbours;
mod patience;
mod probe;
mod progress;
mod request;
mod service;
mod vote;
mod window;

use alloc::{boxed::Box, collections::VecDeque, rc::Rc, vec::Vec};
use core::{cell::RefCell, time::Duration};

use smallvec::SmallVec;

use crate::{
    ids::{BlockId, CommId},
    protocol::{
        process::{Command, Process},
        roster::Roster,
    },
    rank::Rank,
    seam::{
        platform::{DataId, Platform, PostId, Setup, UniverseId},
        pulse::Pulse,
    },
};
use block::Contents;
pub(crate) use copies::{Copies, Own, PendingCopy, Slot};
pub(crate) use living::FIRST_COLLECTIVE_TAG;
pub(crate) use messages::MAX_USER_TAG;
use messages::TagBits;
use metrics::Tally;
pub(crate) use neighbours::Edge;
use neighbours::Parts;
pub(crate) use progress::{Span, Waited};
use window::WindowState;
pub(crate) use window::{Access, WindowId};

// Bindings and tests, which drive the engine, find the seam here, too.
pub(crate) use crate::protocol::process::{BlockKey, CommKey, Communicator, Need, Phase, Source};
pub use crate::protocol::process::{Level, Patience, Remembered};
pub(crate) use crate::seam::platform::Progress;
pub use crate::seam::{buffer, collective, platform, reduction};

/// The engine as its users share it.
pub(crate) type Shared = Rc<RefCell<Engine>>;

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

/// Drives the process: what it decides is done on the platform.
pub(crate) struct Engine {
    pub(crate) platform: Box<dyn Platform>,
    /// The communicators and blocks of this process, and what follows from what happens to them.
    pub(crate) process: Process,
    /// What the process has decided and is still to be done.
    commands: VecDeque<Command>,
    /// True while commands are carried out.
    executing: bool,
    /// What is in the blocks of the process, in the places that these have there.
    contents: Vec<Contents>,
    /// Blocks that were finished and whose requests are not all over.
    draining: SmallVec<[BlockKey; 4]>,
    /// Buffers for the messages of operations among neighbours.
    parts: Parts,
    /// Collectives made of messages that are under way, in the order of their posts: their blocks,
    /// and their requests.
    collectives: Vec<(BlockKey, usize)>,
    /// Who takes part in them.
    view: Option<living::View>,
    /// Memory of this rank that others use.
    windows: Vec<WindowState>,
    /// How many windows were made.
    windows_made: u64,
    /// Undecided blocks in which others may access windows of this rank.
    serving: SmallVec<[BlockKey; 4]>,
    /// Incremented when messages may not start any more in a block in which they could before.
    news: u64,
    /// The job's numbers of the processes of each universe.
    numbers: Vec<(UniverseId, Vec<u32>)>,
    /// Who is who in the newest universe.
    pub(crate) job: Job,
    pub(crate) copies: Copies,
    tally: Tally,
    turns: u32,
    /// Where a watchdog looks whether this process makes progress.
    pub(crate) pulse: Option<Pulse>,
    /// What does not change in the world of this process.
    pub(crate) setup: Setup,
    tests_per_turn: u32,
    /// How tags on the wire are made.
    tag_bits: TagBits,
    /// When all requests of the draining blocks are looked at again.
    next_look: Duration,
    /// Messages of the application's own that it waits for before it has given them to a block,
    /// with their communicators.
    awaited: Vec<(CommKey, Need, PostId)>,
    /// The application waits for requests that it has started itself.
    awaits_foreign: bool,
    /// When the living are asked again how far they are.
    next_question: Duration,
    /// The wait of the application of which the present one is a step.
    span: Option<Span>,
}

impl Engine {
    /// An engine that knows nobody yet.
    pub(crate) fn new(mut platform: Box<dyn Platform>) -> Self {
        let (setup, pulse) = (platform.setup(), platform.observe(true));
        Self {
            process: Process::new(setup.shape),
            platform,
            commands: VecDeque::new(),
            executing: false,
            contents: Vec::new(),
            draining: SmallVec::new(),
            parts: Parts::default(),
            collectives: Vec::new(),
            view: None,
            windows: Vec::new(),
            windows_made: 0,
            serving: SmallVec::new(),
            news: 1,
            numbers: Vec::new(),
            job: Job::default(),
            copies: Copies::default(),
            tally: Tally::default(),
            turns: 0,
            pulse,
            setup,
            tests_per_turn: progress::tests_per_turn(setup.patience),
            tag_bits: TagBits::new(setup.max_tag),
            next_look: Duration::ZERO,
            awaited: Vec::new(),
            awaits_foreign: false,
            next_question: Duration::ZERO,
            span: None,
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
        let nodes = self.platform.nodes(universe);
        self.process.put_on_nodes(universe, nodes);
        self.call(|process, out| process.register(id, universe, (members, me), data, out))
    }

    /// Does without the observer of this node, as if it had none, or with it again.
    pub(crate) fn set_observed(&mut self, observed: bool) {
        self.pulse = self.platform.observe(observed);
    }

    /// Gives each process of a universe its number in the job.
    pub(crate) fn number_processes(&mut self, universe: UniverseId, processes: &[u32]) {
        self.numbers.retain(|(known, _)| *known != universe);
        self.numbers.push((universe, processes.to_vec()));
    }

    /// The job's numbers of the processes of a universe, by their ranks there.
    fn numbers_of(&self, universe: UniverseId) -> &[u32] {
        let known = self.numbers.iter().find(|(known, _)| *known == universe);
        known.map_or(&[], |(_, numbers)| numbers)
    }

    /// The job's numbers of the processes of a communicator, in the order of its ranks.
    pub(crate) fn processes(&self, key: CommKey) -> Vec<u32> {
        let comm = self.comm(key);
        let numbers = self.numbers_of(comm.universe);
        comm.members.iter().filter_map(|member| numbers.get(member.index()).copied()).collect()
    }

    /// Gives a communicator up that others may go on with.
    pub(crate) fn give_up(&mut self, key: CommKey) {
        self.call(|process, out| process.give_up(key, out));
    }

    /// Gives a communicator up: from now on this process votes *no* on blocks it never started.
    pub(crate) fn retire(&mut self, key: CommKey) {
        self.call(|process, out| process.retire(key, out));
    }

    /// Tells all ranks that a block is doomed.
    pub(crate) fn interrupt(&mut self, comm: CommKey, block: BlockId) {
        self.call(|process, out| process.interrupt(comm, block, out));
    }

    /// Tells all ranks that a block is doomed, if it is open here.
    pub(crate) fn interrupt_open(&mut self, comm: CommKey, block: BlockId) {
        self.call(|process, out| process.interrupt_open(comm, block, out));
    }

    /// A handle of the application is gone.
    pub(crate) fn release_comm(&mut self, key: CommKey) {
        self.process.release_comm(key);
        if self.process.is_sweep_due() {
            self.sweep();
        }
    }

    /// This process leaves: what handles that are left ask for is refused from now on.
    pub(crate) fn close_comms(&mut self) {
        self.process.close();
        self.serving.clear();
        self.news += 1;
    }

    #[inline]
    pub(crate) fn comm(&self, key: CommKey) -> &Communicator {
        self.process.comm(key)
    }

    #[inline]
    pub(crate) fn comm_mut(&mut self, key: CommKey) -> &mut Communicator {
        self.process.comm_mut(key)
    }
}
