//! Progress: frames in, turns of the machines, waiting.

use core::time::Duration;

use super::{BlockKey, Engine, Progress, Source};
use crate::{
    protocol::{codec, fused::Held, planted::planted},
    rank::Rank,
    seam::platform::{Idle, Incoming, UniverseId},
    timeout::Timeout,
};

/// The tests of a turn on a platform of this patience: nobody falls idle who has not polled since
/// it was idle before.
pub(super) fn tests_per_turn(patience: u32) -> u32 {
    if planted!(TestTooLong) {
        return TESTS_PER_TURN;
    }
    (patience / 2).clamp(1, TESTS_PER_TURN)
}

/// A wait of the application, perhaps in several steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// When it looked at the clock first.
    began: Duration,
    /// When it ends, if it ever does.
    end: Option<Duration>,
}

impl Span {
    pub(crate) fn new(began: Duration, limit: Timeout) -> Self {
        Self { began, end: limit.deadline(began) }
    }

    pub(super) fn began(self) -> Duration {
        self.began
    }

    /// The moment at which requests with this limit are late, if it goes on beyond that. A longer
    /// wait counts from its beginning, shorter ones add up from the first; one that is as long ends
    /// before, and one that only looks does not wait.
    pub(super) fn passes(self, limit: Duration, first: Duration) -> Option<Duration> {
        let length = self.end.map(|end| end.saturating_sub(self.began));
        let since = match length {
            Some(Duration::ZERO) => return None,
            Some(length) if length == limit => return None,
            Some(length) if length < limit => first,
            _ => self.began,
        };
        since.checked_add(limit).filter(|moment| self.goes_beyond(*moment))
    }

    /// True when it does not end before this moment, or at it.
    pub(crate) fn goes_beyond(self, moment: Duration) -> bool {
        self.end.is_none_or(|end| moment < end)
    }
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
        if self.process.is_sweep_due() {
            self.adopt_orphans();
            self.sweep();
        }
        let awaits = match self.process.voted() {
            [] => None,
            [voted] => self.awaited(*voted),
            voted => self.awaited(voted[self.turns as usize % voted.len()]),
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
            let rarely = (self.setup.patience / 2).max(1);
            if awaits.is_none() || self.turns.is_multiple_of(rarely) {
                busy |= self.serve_windows();
            }
        }
        if !self.collectives.is_empty() {
            self.advance_collectives();
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
        let mut own = None;
        loop {
            if let Some(pulse) = self.pulse {
                pulse.beat();
            }
            let voted = self.process.voted().len();
            if done(self) {
                return true;
            }
            let is_busy =
                self.turn() || (self.process.voted().len() != voted && !planted!(SleepOnAVote));
            if is_busy {
                (quiet, busy) = (0, busy.wrapping_add(1));
                // Others may keep us busy for ever; time passes all the same.
                if !busy.is_multiple_of(BUSY_TURNS) {
                    continue;
                }
            } else if timeout == Timeout::Poll {
                let now = self.platform.now();
                self.ask_the_living(now);
                self.check_deadlines(now, self.span.unwrap_or(Span::new(now, timeout)));
                return done(self);
            } else {
                quiet += 1;
                // Nobody falls idle who has not polled for each of its votes since.
                if quiet
                    < self
                        .setup
                        .patience
                        .max(self.setup.patience / 2 + self.process.voted().len() as u32)
                {
                    continue;
                }
            }
            let now = self.platform.now();
            let own = *own.get_or_insert_with(|| Span::new(now, timeout));
            let span = self.span.unwrap_or(own);
            let question = self.ask_the_living(now);
            self.check_deadlines(now, span);
            if own.end.is_some_and(|end| now >= end) {
                return done(self);
            }
            if !is_busy {
                if !done(self) {
                    let until = self.next_deadline(own.end, span).into_iter().chain(question);
                    self.platform.idle(until.min(), how);
                }
                quiet = self.setup.patience / 2;
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
            doomed = engine.process.doomed_around(key);
            doomed
        });
        match (decided, doomed) {
            (true, false) => Waited::Decided,
            (_, true) => Waited::Doomed,
            (false, false) => Waited::TimedOut,
        }
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
        self.contents(key).records[index].state
    }

    fn drain_all(&mut self) {
        let mut at = 0;
        while let Some(key) = self.draining.get(at).copied() {
            self.drain(key);
            at += usize::from(self.draining.get(at) == Some(&key));
        }
    }

    /// Takes one step of a wait that has others: what the step does not make late, they may.
    pub(crate) fn within<R>(&mut self, span: Span, step: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.span.replace(span);
        let result = step(self);
        self.span = outer;
        result
    }

    /// Looks after blocks with pending requests, in this wait.
    fn check_deadlines(&mut self, now: Duration, span: Span) {
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
                self.check_deadline(key, now, span);
            }
        }
    }

    /// The next moment at which something is due without any news.
    fn next_deadline(&self, end: Option<Duration>, span: Span) -> Option<Duration> {
        let contents = self.draining.iter().map(|key| self.contents(*key));
        let due = contents.flat_map(|it| it.deadline.into_iter().chain(it.late_in(span)));
        let look = (!self.draining.is_empty()).then_some(self.next_look);
        due.chain(end).chain(look).min()
    }

    #[inline]
    pub(super) fn handle_incoming(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Yes(universe, from, comm, yes) => {
                self.call(|process, out| process.handle_yes((universe, from), comm, yes, out));
            }
            Incoming::Fused(universe, from, comm, yes) => {
                let Some(values) = self.platform.values() else { return };
                let mut copy = Held::NOTHING;
                let fused = (yes, copy.set(values));
                self.call(|process, out| process.handle_fused((universe, from), comm, fused, out));
            }
            Incoming::Frame(universe, from, frame) => match codec::decode(&frame) {
                Some((comm, message)) => self.call(|process, out| {
                    process.handle_message((universe, from), comm, message, out);
                }),
                None => {
                    tracing::warn!(target: "fampi::control", %from, "a frame was not a message");
                }
            },
            Incoming::Failure(universe, dead) => self.call(|process, out| {
                process.handle_death((universe, dead), Source::Platform, out);
            }),
        }
    }
}
