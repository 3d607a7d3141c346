//! The engine drives the process and never decides.
//!
//! One engine per process. It owns the platform and the [`Process`], which decides; it takes frames
//! and deaths to that one, tests requests, says when those of a block are over, and carries out
//! what the process commands.
//!
//! An engine has ten parts: the process, the platform, the commands of the one for the other, and
//! those of the first table. Files of the second table drive them, and have no state of their own.
//!
//! | part | what it holds |
//! |---|---|
//! | `contents` | what is in the blocks: requests, limits, what was heard of others, tags |
//! | `schedule` | the rounds of a collective over the living |
//! | `coding` | what a rank has to do with the code of its group |
//! | `exchange` | operations made of messages: parts of buffers, and who is to blame |
//! | `job` | who is who in the job, how this process came to it, the copies of states (`copies`) |
//! | `metrics` | counts of what is rare, and the entries for those who listen |
//! | `wait` | the present wait of the application, and when it looks at what |
//! | `window` | memory that others put into, get from and accumulate in |
//!
//! | file | what it does |
//! |---|---|
//! | `agreements` | agreements on a flag, deaths that are acknowledged, revoked communicators |
//! | `aside` | messages of fampi's own that probes of the application have met |
//! | `access` | posts accesses to windows of others, and serves those of others |
//! | `block` | the life of a block: it starts, drains, votes and ends |
//! | `encode` | posts codes over groups of ranks: chunks come, parities go |
//! | `farewell` | leaves the job with all others |
//! | `guest` | blocks over requests that the application has started itself |
//! | `living` | collectives over the living, made of messages |
//! | `making` | communicators that are made inside of blocks |
//! | `messages` | starts messages with one peer |
//! | `neighbours` | starts and tests operations made of messages |
//! | `patience` | asks the living for whom patient blocks wait |
//! | `probe` | matches messages before they are received |
//! | `progress` | polls, dispatches frames and failures, waits |
//! | `riders` | small collectives, which ride on the commit |
//! | `request` | posts, tests and ends the requests of a block |

mod access;
mod agreements;
mod aside;
mod block;
mod causes;
mod coding;
pub(crate) mod contents;
mod copies;
mod encode;
mod exchange;
mod farewell;
mod guest;
mod job;
mod living;
pub(crate) mod making;
mod messages;
mod metrics;
mod neighbours;
mod patience;
mod probe;
mod progress;
mod request;
mod riders;
mod schedule;
mod wait;
mod window;

use alloc::{boxed::Box, collections::VecDeque, rc::Rc, vec::Vec};
use core::cell::RefCell;

use tracing::level_filters::LevelFilter;

use crate::{
    fault::FaultCode,
    ids::{BlockId, CommId},
    protocol::{
        codec,
        fused::Values,
        message::{Message, Yes},
        process::{Address, Block, Chosen, Command, Outlet, Process},
        roster::whole_in,
    },
    rank::{Rank, RankSet},
    seam::{
        entry::{self, Entry},
        platform::{DataId, Opinion, Outgoing, Platform, Tested, Tests, UniverseId, Unneeded},
        trace,
    },
    timeout::Timeout,
};
pub(crate) use coding::Code;
use contents::{Blocks, Contents};
pub(crate) use copies::{Content, Copies, Held, Kept, Known, PendingCopy, Slot};
pub(crate) use exchange::Edge;
use exchange::Exchanges;
pub(crate) use job::{Job, Meeting, Saving};
use metrics::Metrics;
use wait::{Pace, Waiting};
pub(crate) use wait::{Span, Waited};
use window::Windows;
pub(crate) use window::{Access, WindowId};

// Bindings and tests, which drive the engine, find the seam here, too.
pub(crate) use crate::protocol::membership;
pub(crate) use crate::protocol::process::{BlockKey, CommKey, Communicator, Need, Phase, Source};
pub use crate::protocol::process::{Level, Patience, Remembered};
pub(crate) use crate::seam::platform::Progress;
pub use crate::seam::{buffer, collective, platform, reduction};

/// The engine as its users share it.
pub(crate) type Shared = Rc<RefCell<Engine>>;

/// Drives the process: what it decides is done on the platform.
pub(crate) struct Engine {
    /// The world that this process is in.
    pub(crate) platform: Box<dyn Platform>,
    /// The communicators and blocks of this process, and what follows from what happens to them.
    pub(crate) process: Process,
    /// What the process has decided and is still to be done.
    commands: Commands,
    /// The requests of the blocks.
    pub(crate) blocks: Blocks,
    /// What operations made of messages have in common.
    exchanges: Exchanges,
    /// Memory of this rank that others use.
    windows: Windows,
    /// What this process knows about its job, and the copies of states that it keeps.
    pub(crate) job: Job,
    /// What the application waits for at present.
    waiting: Waiting,
    /// When a wait looks at what.
    pace: Pace,
    /// What this process shows of itself to others.
    metrics: Metrics,
}

impl Engine {
    /// An engine without communicators.
    pub(crate) fn new(mut platform: Box<dyn Platform>) -> Self {
        let (setup, pulse) = (platform.setup(), platform.observe(true));
        Self {
            process: Process::new(setup.shape),
            platform,
            commands: Commands::new(),
            blocks: Blocks::new(setup.max_tag),
            exchanges: Exchanges::default(),
            windows: Windows::default(),
            job: Job::new(setup.origin, setup.page_bytes),
            waiting: Waiting::default(),
            pace: Pace::new(setup.patience),
            metrics: Metrics::new(pulse),
        }
    }

    /// A call of the process, and all that it commands. A call that a command makes only adds to
    /// the queue.
    #[inline]
    pub(crate) fn call<R>(&mut self, call: impl FnOnce(&mut Process, &mut Out<'_>) -> R) -> R {
        self.commands.calls += 1;
        let result = call(&mut self.process, &mut self.commands.outlet(&mut *self.platform));
        if self.commands.are_due() {
            self.execute();
        }
        result
    }

    /// Does something whose commands are carried out when it is over, so that no block it looks at
    /// ends meanwhile.
    #[inline]
    pub(super) fn defer_commands<R>(&mut self, doing: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.commands.defer(true);
        let result = doing(self);
        self.commands.defer(outer);
        if self.commands.are_due() {
            self.execute();
        }
        result
    }

    /// Carries out what the process has decided.
    #[cold]
    fn execute(&mut self) {
        self.commands.defer(true);
        while let Some(command) = self.commands.next() {
            match command {
                Command::Conclude(block, committed) => self.conclude(block, committed),
                Command::FailRequests(block, code, chosen) => {
                    self.fail_requests(block, code, chosen);
                }
                Command::Interrupted(block) => {
                    self.tell(&Entry::Interrupted { number: self.block(block).scope });
                }
                Command::Finish(block) if self.process.current(block).is_some() => {
                    self.drain_and_vote(block, Timeout::Poll);
                }
                Command::Finish(_) => {}
                Command::RetireContexts(data, context, refill) => {
                    self.platform.retire_contexts(data, context, refill);
                }
                Command::Aborted(comm, block, report) => {
                    let me = self.comm(comm).me;
                    let comm = metrics::name_of(&self.process, comm);
                    self.tell(&Entry::Agreed { comm, me, block, report });
                }
                Command::Died(address, source) => {
                    let known = (&self.process, &self.job, &*self.platform);
                    let died = self.metrics.count_death(address, source, known);
                    self.tell(&died);
                    self.explain(address);
                }
                Command::Dismissed => self.job.dismissed = true,
                Command::DiscardUniverse(universe) => {
                    self.platform.discard(Unneeded::Universe(universe));
                }
                Command::DiscardData(data) => {
                    self.drop_aside_of(data);
                    self.platform.discard(Unneeded::Data(data));
                }
                Command::DiscardStaleMessages(comm) => self.discard_stale_messages(comm),
            }
        }
        self.commands.defer(false);
    }

    /// Ends the pending requests of a block that were chosen.
    fn fail_requests(&mut self, key: BlockKey, code: FaultCode, chosen: Chosen) {
        if !self.process.current(key).is_some_and(Block::is_running) {
            return;
        }
        match chosen {
            Chosen::All => self.fail_pending(key, code, |_, _| true),
            Chosen::Operations => {
                self.fail_pending(key, code, |_, need| !matches!(need, Need::Inner(_)));
            }
            Chosen::Needing(dead) => {
                let needs = |contents: &Contents, need| match need {
                    Need::Peer(peer) => peer == dead,
                    Need::Anybody | Need::All | Need::Living(_) | Need::Rider(_) => true,
                    Need::Neighbours(at) | Need::Coded(at) => {
                        contents.exchanges[at as usize].needs(dead)
                    }
                    Need::Nobody | Need::Inner(_) | Need::Making | Need::Foreign => false,
                };
                self.fail_pending(key, code, needs);
                self.doubt(key);
            }
        }
    }

    /// Ends the use of what no rank asks for any more.
    pub(crate) fn sweep(&mut self) {
        let mut out = self.commands.outlet(&mut *self.platform);
        self.process.sweep(|key| self.job.copies.need(key), &mut out);
        if self.commands.are_due() {
            self.execute();
        }
        let process = &self.process;
        self.job.numbers.retain(|(universe, _)| process.knows(*universe));
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
        self.metrics.pulse = self.platform.observe(observed);
    }

    /// A census on a communicator has committed: these of its ranks are benched now, and the group
    /// has gone from one to the other.
    pub(crate) fn accept_census(
        &mut self,
        key: CommKey,
        benched: RankSet,
        (before, after): (&membership::Membership, &membership::Membership),
    ) {
        self.tell(&metrics::census(before, after));
        self.comm_mut(key).benched = benched;
    }

    /// The job's numbers of the processes of a communicator, in the order of its ranks.
    pub(crate) fn processes(&self, key: CommKey) -> Vec<u32> {
        let comm = self.comm(key);
        let numbers = self.job.numbers_of(comm.universe);
        comm.members.iter().filter_map(|member| numbers.get(member.index()).copied()).collect()
    }

    /// Gives a communicator up that others may go on with.
    pub(crate) fn give_up(&mut self, key: CommKey) {
        self.call(|process, out| process.give_up(key, out));
    }

    /// True for a part of a world: the application can get it again from its parent after it has
    /// dropped its handle.
    pub(crate) fn is_kept(&self, key: CommKey) -> bool {
        let is_it =
            |(path, known): &(Vec<u32>, _)| *known == Some(key) && whole_in(path).is_empty();
        self.job.children.iter().any(is_it)
    }

    /// The application has no handle of a communicator any more, so that no rebuild makes it again,
    /// nor what was derived from it.
    pub(crate) fn drop_comm(&mut self, key: CommKey) {
        self.give_up(key);
        let Some(path) = self.comm(key).lineage.clone() else { return };
        if !whole_in(&path).is_empty() {
            self.job.roster.children.retain(|child| !child.path.starts_with(&path));
            self.change_paths(|known| (!known.starts_with(&path)).then(|| known.to_vec()));
        }
    }

    /// Gives all communicators other paths in the roster, or none.
    pub(crate) fn change_paths(&mut self, change: impl Fn(&[u32]) -> Option<Vec<u32>>) {
        let keys: Vec<CommKey> = self.process.comms().collect();
        for key in keys {
            let comm = self.comm_mut(key);
            comm.lineage = comm.lineage.take().and_then(|path| change(&path));
        }
        let children = core::mem::take(&mut self.job.children);
        let changed = children.into_iter().filter_map(|(path, key)| Some((change(&path)?, key)));
        self.job.children = changed.collect();
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
        self.windows.serving.clear();
        self.commands.calls += 1;
    }

    #[inline]
    pub(crate) fn comm(&self, key: CommKey) -> &Communicator {
        self.process.comm(key)
    }

    #[inline]
    pub(crate) fn comm_mut(&mut self, key: CommKey) -> &mut Communicator {
        self.process.comm_mut(key)
    }

    /// A block starts: this process makes progress from now on.
    #[inline]
    pub(crate) fn begin_work(&self) {
        if let Some(pulse) = self.metrics.pulse {
            pulse.begin();
        }
    }

    /// States what happens, which is rare.
    pub(crate) fn tell(&self, entry: &Entry) {
        // The trace of a process ends when it has left.
        if self.process.has_left() {
            entry.emit();
        } else {
            entry::tell(entry);
        }
    }

    /// States what happens in every block, if that is recorded or has a subscriber.
    #[inline]
    fn tell_often(&self, entry: impl FnOnce(&Self) -> Entry) {
        if trace::has_blocks() || LevelFilter::current() == LevelFilter::TRACE {
            self.tell(&entry(self));
        }
    }

    /// States the place of this process in the roster of the job.
    pub(crate) fn tell_place(&self) {
        self.tell(&metrics::place(&self.process, &self.job));
    }

    /// True when this process knows of a death, from whomever.
    pub(crate) fn has_losses(&self) -> bool {
        self.metrics.has_losses()
    }

    /// States the sums of this process, which leaves.
    pub(crate) fn sum_up(&self) {
        self.tell(&self.metrics.sums(&self.process, &self.job));
    }
}

/// What the process has decided and is still to be done.
#[derive(Default)]
struct Commands {
    queue: VecDeque<Command>,
    /// True while commands are carried out, or wait until something else is over.
    deferred: bool,
    /// How often the process was called, or closed: after that messages may not start any more in
    /// a block in which they could before.
    calls: u64,
}

impl Commands {
    fn new() -> Self {
        Self { calls: 1, ..Self::default() }
    }

    /// Where the effects of a call of the process go.
    #[inline]
    fn outlet<'a>(&'a mut self, platform: &'a mut dyn Platform) -> Out<'a> {
        Out { platform, queue: &mut self.queue }
    }

    /// True when there are commands that may be carried out now.
    #[inline]
    fn are_due(&self) -> bool {
        !self.queue.is_empty() && !self.deferred
    }

    /// Defers commands, or does not any more; gives what was so before.
    #[inline]
    fn defer(&mut self, deferred: bool) -> bool {
        core::mem::replace(&mut self.deferred, deferred)
    }

    fn next(&mut self) -> Option<Command> {
        self.queue.pop_front()
    }
}

/// The effects of a call of the process on their way.
pub(crate) struct Out<'a> {
    platform: &'a mut dyn Platform,
    queue: &'a mut VecDeque<Command>,
}

impl Outlet for Out<'_> {
    #[inline]
    fn send(&mut self, (universe, to): Address, comm: CommId, message: &Message) {
        self.platform.send(universe, to, Outgoing::Frame(&codec::encode(comm, message)));
    }

    #[inline]
    fn send_yes(&mut self, (universe, to): Address, comm: CommId, yes: Yes) {
        self.platform.send(universe, to, Outgoing::Yes(comm, &yes));
    }

    #[inline]
    fn send_fused(&mut self, (universe, to): Address, comm: CommId, yes: Yes, values: &Values) {
        self.platform.send(universe, to, Outgoing::Fused(comm, &yes, values));
    }

    #[inline]
    fn command(&mut self, command: Command) {
        self.queue.push_back(command);
    }
}

impl Tests for Engine {
    fn tested(&self) -> Option<Tested> {
        let tested = self.platform.tested()?;
        if let Some(entry) = self.metrics.count_stalls(tested.stalls) {
            self.tell(&entry);
        }
        Some(tested)
    }

    fn of_node(&self, node: u32) -> Opinion {
        self.platform.tested_node(node)
    }
}
