//! Progress: frames in, turns of the machines, waiting.

use core::time::Duration;

use super::{
    BlockKey, CommKey, Engine, Entry, Need, OpenBlock, Phase, Progress, Source,
    platform::{Idle, Incoming, UniverseId},
};
use crate::{
    fault::FaultCode,
    ids::{BlockId, CommId},
    protocol::{
        Event,
        codec::{self, Frame},
        fused::Held,
        message::Message,
        planted::{Bug, planted},
    },
    rank::Rank,
    timeout::Timeout,
};

/// The tests of a turn on a platform of this patience: nobody falls idle who has not polled since
/// it was idle before.
pub(super) fn tests_per_turn(patience: u32) -> u32 {
    if planted(Bug::TestTooLong) {
        return TESTS_PER_TURN;
    }
    (patience / 2).clamp(1, TESTS_PER_TURN)
}

/// What waiting for a block came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Waited {
    Decided,
    TimedOut,
    /// An outer block is doomed; leave it.
    Doomed,
}

/// How often what is waited for is tested, at most, before everything else is looked at.
const TESTS_PER_TURN: u32 = 8;
/// Requests of a finished block are waited for in their order; how often all are looked at, as
/// one may fail while an earlier one is pending.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// After so many turns with news the clock is looked at.
const BUSY_TURNS: u32 = 256;

impl Engine {
    /// One step of everything. False when there was nothing to do.
    ///
    /// The platform brings the fast frames of one process at a time; of several voted blocks each
    /// is looked after in its turn, since others may wait for them in another order than we.
    #[inline]
    pub(crate) fn turn(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        if self.sweep_due {
            self.adopt_orphans();
            self.sweep_comms();
        }
        let awaits = match self.voted.len() {
            0 => None,
            1 => self.awaited(self.voted[0]),
            voted => self.awaited(self.voted[self.turns as usize % voted]),
        };
        // Requests are tested below, which makes progress, too; news are rare meanwhile.
        let testing = awaits.is_none() && !self.draining.is_empty();
        let look = !testing || self.turns.is_multiple_of(self.tests_per_turn);
        let mut busy = false;
        if look && let Some(incoming) = self.platform.poll(awaits) {
            self.handle_incoming(incoming);
            busy = true;
        }
        if !self.serving.is_empty() {
            // To look for questions costs more than to look for a vote, which comes soon; but
            // nobody falls idle who has not looked since.
            let rarely = (self.patience / 2).max(1);
            if awaits.is_none() || self.turns.is_multiple_of(rarely) {
                busy |= self.serve_windows();
            }
        }
        if !self.draining.is_empty() {
            self.drain_all();
        }
        busy
    }

    /// The process whose message the fast path of a voted block waits for.
    #[inline]
    fn awaited(&self, key: BlockKey) -> Option<(UniverseId, Rank)> {
        let block = self.block(key);
        let comm = self.comm(block.comm);
        let rank = comm.commit.awaits(block.scope)?;
        Some((comm.universe, comm.members[rank.index()]))
    }

    /// Waits until `done` holds or the timeout comes; false when it came. At least one turn.
    #[inline]
    pub(crate) fn wait(
        &mut self,
        timeout: Timeout,
        how: Idle,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        let (mut quiet, mut busy) = (0_u32, 0_u32);
        let mut deadline = None;
        loop {
            if let Some(pulse) = self.pulse {
                pulse.beat();
            }
            let voted = self.voted.len();
            if done(self) {
                return true;
            }
            let is_busy = self.turn() || (self.voted.len() != voted && !planted(Bug::SleepOnAVote));
            if is_busy {
                (quiet, busy) = (0, busy.wrapping_add(1));
                // Others may keep us busy for ever; time passes all the same.
                if !busy.is_multiple_of(BUSY_TURNS) {
                    continue;
                }
            } else if timeout == Timeout::Poll {
                let now = self.platform.now();
                self.check_deadlines(now, Some(now));
                return done(self);
            } else {
                quiet += 1;
                // Nobody falls idle who has not polled for each of its votes since.
                if quiet < self.patience.max(self.patience / 2 + self.voted.len() as u32) {
                    continue;
                }
            }
            let now = self.platform.now();
            let limit = *deadline.get_or_insert_with(|| timeout.deadline(now));
            self.check_deadlines(now, limit);
            if limit.is_some_and(|limit| now >= limit) {
                return done(self);
            }
            if !is_busy {
                if !done(self) {
                    self.platform.idle(self.next_deadline(limit), how);
                }
                quiet = self.patience / 2;
            }
        }
    }

    /// Waits for the verdict on a block, or until it is clear that an outer block, in which this
    /// rank waits, is doomed: somebody may have left it without ever starting the inner one.
    #[inline]
    pub(crate) fn wait_block(&mut self, key: BlockKey, timeout: Timeout) -> Waited {
        let mut doomed = false;
        let decided = self.wait(timeout, Idle::Busy, |engine| {
            if engine.verdict(key).is_some() {
                return true;
            }
            doomed = engine.doomed_around(key);
            doomed
        });
        match (decided, doomed) {
            (true, false) => Waited::Decided,
            (_, true) => Waited::Doomed,
            (false, false) => Waited::TimedOut,
        }
    }

    /// True when a block that was started before this one, and that this rank is still in, has
    /// been interrupted.
    #[inline]
    pub(super) fn doomed_around(&self, key: BlockKey) -> bool {
        self.interrupted.iter().any(|outer| {
            let current = self.current(*outer).filter(|_| !self.orphans.contains(outer));
            let serial = self.block(key).serial;
            current.is_some_and(|outer| outer.phase == Phase::Open && outer.serial < serial)
        })
    }

    /// Waits for one request of a block.
    pub(crate) fn wait_request(
        &mut self,
        key: BlockKey,
        index: usize,
        timeout: Timeout,
    ) -> Progress {
        // A test makes progress, too; news of other things are rare meanwhile.
        let tests = if timeout == Timeout::Poll { 1 } else { self.tests_per_turn };
        self.wait(timeout, Idle::Busy, |engine| {
            (0..tests).any(|_| engine.test_request(key, index) != Progress::Pending)
        });
        self.block(key).records[index].state
    }

    fn drain_all(&mut self) {
        let mut at = 0;
        while let Some(key) = self.draining.get(at).copied() {
            self.drain(key);
            at += usize::from(self.draining.get(at) == Some(&key));
        }
    }

    /// Looks after blocks with pending requests, in a wait that goes on until this `end`.
    fn check_deadlines(&mut self, now: Duration, end: Option<Duration>) {
        if self.draining.is_empty() {
            return;
        }
        let look = now >= self.next_look;
        if look {
            self.next_look = now + LOOK_PERIOD;
        }
        for key in self.draining.clone() {
            // One block's end can be another's.
            if look && self.draining.contains(&key) {
                self.test_requests(key);
            }
            if self.draining.contains(&key) {
                self.drain(key);
            }
            if self.draining.contains(&key) {
                self.check_deadline(key, now, end);
            }
        }
    }

    /// The next moment at which something is due without any news.
    fn next_deadline(&self, limit: Option<Duration>) -> Option<Duration> {
        let due = self.draining.iter().filter_map(|key| self.block(*key).deadline);
        let look = (!self.draining.is_empty()).then_some(self.next_look);
        due.chain(limit).chain(look).min()
    }

    #[inline]
    fn handle_incoming(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Yes(universe, from, comm, yes) => {
                if let Some((key, from)) = self.place(universe, from, comm) {
                    self.drive(key, |commit, out| commit.handle_yes(from, yes, out));
                } else {
                    let frame = Frame::from_slice(&codec::encode_yes(comm, &yes));
                    self.keep_early(universe, from, comm, frame);
                }
            }
            Incoming::Fused(universe, from, comm, yes) => {
                let Some(values) = self.platform.values() else { return };
                let mut copy = Held::NOTHING;
                let values = copy.set(values);
                if let Some((key, from)) = self.place(universe, from, comm) {
                    self.drive(key, |commit, out| commit.handle_fused(from, yes, values, out));
                } else {
                    let frame = codec::encode_fused(comm, &yes, values);
                    self.keep_early(universe, from, comm, frame);
                }
            }
            Incoming::Frame(universe, from, frame) => match codec::decode(&frame) {
                Some((comm, message)) => {
                    if !self.handle_message(universe, from, comm, message) {
                        self.keep_early(universe, from, comm, frame);
                    }
                }
                None => {
                    tracing::warn!(target: "fampi::control", %from, "a frame was not a message");
                }
            },
            Incoming::Failure(universe, process) => {
                self.note_failure(universe, process, Source::Platform);
            }
        }
    }

    /// Keeps a frame about a communicator that its sender made before we did.
    fn keep_early(&mut self, universe: UniverseId, from: Rank, comm: CommId, frame: Frame) {
        if self.forgotten.contains(&(universe, comm)) {
            tracing::debug!(target: "fampi::control", %from, "a frame for what is over");
        } else {
            // Each is a message of a protocol that does not repeat itself: none may be lost.
            self.early.push((universe, from, comm, frame));
        }
    }

    /// A frame that was kept until its communicator exists.
    pub(super) fn handle_frame(
        &mut self,
        universe: UniverseId,
        from: Rank,
        comm: CommId,
        frame: Frame,
    ) {
        if let Some((_, message)) = codec::decode(&frame)
            && !self.handle_message(universe, from, comm, message)
        {
            self.keep_early(universe, from, comm, frame);
        }
    }

    /// The communicator of this name on the wire, and the rank of a process in it.
    #[inline]
    fn place(&self, universe: UniverseId, from: Rank, comm: CommId) -> Option<(CommKey, Rank)> {
        let known = |state: &super::CommState| state.wire == comm && state.universe == universe;
        let at = self.comms.iter().rposition(known)?;
        Some((CommKey(at), self.comms[at].rank_of(from)?))
    }

    /// Gives a message to its communicator; false when we do not know that one.
    fn handle_message(
        &mut self,
        universe: UniverseId,
        from: Rank,
        comm: CommId,
        message: Message,
    ) -> bool {
        let Some((key, from)) = self.place(universe, from, comm) else { return false };
        if let Message::Interrupt(block) = message {
            if !self.comm(key).commit.dead().contains(from) {
                self.interrupt(key, block);
            }
        } else {
            self.drive(key, |commit, out| commit.handle_message(from, message, out));
        }
        true
    }

    #[inline]
    pub(super) fn handle_event(&mut self, key: CommKey, event: &Event) {
        match *event {
            Event::Decided(id) => self.handle_decided(key, id),
            Event::Learned(rank) => {
                let comm = self.comm(key);
                let (universe, address) = (comm.universe, comm.members[rank.index()]);
                self.note_failure(universe, address, Source::Ranks);
            }
            Event::Interrupted(id) => self.handle_interrupted(key, id),
        }
    }

    /// A block is doomed: nobody waits inside it any more.
    pub(super) fn handle_interrupted(&mut self, key: CommKey, id: BlockId) {
        let comm = self.comm(key);
        let Some(data) = comm.data else {
            // A universe carries no operations; an interruption of it ends the job. In an age of a
            // communicator that this rank was never in, nobody waits here.
            self.job.dismissed |= comm.present.is_none();
            return;
        };
        let open = comm.open.iter().copied().find(|block| self.block(*block).scope == id);
        let Some(block) = open.filter(|_| !planted(Bug::WaitInTheInterrupted)) else { return };
        if !matches!(self.block(block).phase, Phase::Open | Phase::Draining) {
            return;
        }
        let context = self.block(block).context;
        self.comm_mut(key).tainted = Some(context);
        self.interrupted.push(block);
        self.news += 1;
        tracing::debug!(target: "fampi::block", block = id.0, "interrupted");
        self.tell(|engine| Entry::Interrupted { block: engine.block(block).serial });
        // Whether anybody died is only known with the decision.
        self.platform.retire_contexts(data, context + 1, false);
        // Most are over by that. A message that its receiver has begun to fetch is not: MPI lets go
        // of it when the receiver, who may compute for long, has all of it.
        self.fail_pending(block, FaultCode::Interrupted, is_operation);
        let is_open = self.current(block).is_some_and(|block| block.phase == Phase::Open);
        // What was started since a panic that was caught is not inside of what that has left.
        if is_open && !self.orphans.contains(&block) {
            self.interrupt_inside(block);
        }
    }

    /// This rank is inside a doomed block: so are the blocks that it started since.
    fn interrupt_inside(&mut self, outer: BlockKey) {
        let serial = self.block(outer).serial;
        for key in self.used_blocks() {
            let Some(block) = self.current(key) else { continue };
            if block.serial > serial && matches!(block.phase, Phase::Open | Phase::Draining) {
                let (comm, scope, level) = (block.comm, block.scope, block.level);
                self.fail_pending(key, FaultCode::Interrupted, is_operation);
                if level.is_agreed() {
                    self.interrupt_open(comm, scope);
                }
            }
        }
    }

    /// A process died. A death is never taken back.
    pub(super) fn note_failure(&mut self, universe: UniverseId, process: Rank, source: Source) {
        let Some(known) = self.universes.iter_mut().find(|known| known.id == universe) else {
            // It is made, and not all have confirmed that: whoever adopts it has to know.
            if !planted(Bug::DropEarlyDeaths) {
                self.early_deaths.push((universe, process));
            }
            return;
        };
        if !known.dead.insert(process) {
            return;
        }
        let number = known.processes.get(process.index()).copied();
        self.tell(|_| Entry::Died { process: number, rank: process });
        self.count_death((universe, process), number, source);
        for at in 0..self.comms.len() {
            if self.comms[at].universe != universe {
                continue;
            }
            let Some(rank) = self.comms[at].rank_of(process) else { continue };
            if self.comms[at].data.is_some() {
                let me = self.comms[at].me;
                tracing::info!(target: "fampi::fault", rank = %me, dead = %rank, "fault detected");
            }
            self.drive(CommKey(at), |commit, out| commit.handle_failure(rank, out));
            self.interrupt_around(CommKey(at), rank);
            self.fail_dependents(CommKey(at), rank);
        }
    }
}

/// False for the end of an inner block.
pub(super) fn is_operation(_: &OpenBlock, need: Need) -> bool {
    !matches!(need, Need::Inner(_))
}
