//! Progress: frames in, turns of the machines, waiting.

use core::time::Duration;

use super::{BlockKey, Engine, Progress, Source, Span, Waited};
use crate::{
    protocol::{codec, fused::Held, planted::planted},
    rank::Rank,
    seam::platform::{Idle, Incoming, UniverseId},
    timeout::Timeout,
};

/// After so many turns with news the clock is looked at.
const BUSY_TURNS: u32 = 256;

impl Engine {
    /// One step of everything. False when there was nothing to do.
    ///
    /// The platform brings the fast frames of one process at a time; of several voted blocks each
    /// is looked after in its turn, since others may wait for them in another order than we.
    #[inline]
    pub(crate) fn turn(&mut self) -> bool {
        let turn = self.pace.turn();
        if self.process.is_sweep_due() {
            self.adopt_orphans();
            self.sweep();
        }
        let awaits = match self.process.voted() {
            [] => None,
            [voted] => self.awaited(*voted),
            voted => self.awaited(voted[turn as usize % voted.len()]),
        };
        // Requests are tested below, which makes progress, too; news are rare meanwhile.
        let testing = awaits.is_none() && !self.blocks.draining.is_empty();
        let look = !testing || turn.is_multiple_of(self.pace.tests_per_turn);
        let mut busy = false;
        if self.job.unexplained.next().is_some() {
            self.explain_more();
        }
        if look && let Some(incoming) = self.platform.poll(awaits) {
            self.handle_incoming(incoming);
            busy = true;
        }
        // To look for questions costs more than to look for a vote, which comes soon; but a rank
        // looks for them at least once before it sleeps.
        if !self.windows.serving.is_empty() && (awaits.is_none() || self.pace.looks_at_the_rare()) {
            busy |= self.serve_windows();
        }
        if !self.exchanges.collectives.is_empty() {
            self.advance_collectives();
        }
        if !self.blocks.making.is_empty() && !self.process.has_left() {
            self.advance_makings();
        }
        if !self.blocks.draining.is_empty() {
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
            if let Some(pulse) = self.metrics.pulse {
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
                self.check_deadlines(now, self.waiting.span.unwrap_or(Span::new(now, timeout)));
                return done(self);
            } else {
                quiet += 1;
                if quiet < self.pace.polls_before_sleep(self.process.voted().len()) {
                    continue;
                }
            }
            let now = self.platform.now();
            let own = *own.get_or_insert_with(|| Span::new(now, timeout));
            let span = self.waiting.span.unwrap_or(own);
            let question = self.ask_the_living(now);
            self.check_deadlines(now, span);
            if own.end().is_some_and(|end| now >= end) {
                return done(self);
            }
            if !is_busy {
                if !done(self) {
                    let until = self.next_deadline(own.end(), span).into_iter().chain(question);
                    self.platform.idle(until.min(), how);
                }
                quiet = self.pace.patience / 2;
            }
        }
    }

    /// Waits for the verdict on a block, or until it is clear that an outer block, in which this
    /// rank waits, is doomed: a rank may have left it without ever starting the inner one.
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
        self.want(key, index);
        // A test makes progress, too; news of other things are rare meanwhile.
        let tests = if timeout == Timeout::Poll { 1 } else { self.pace.tests_per_turn };
        self.wait(timeout, Idle::Busy, |engine| {
            (0..tests).any(|_| engine.test_request(key, index) != Progress::Pending)
        });
        self.contents(key).records[index].state
    }

    fn drain_all(&mut self) {
        let mut at = 0;
        while let Some(key) = self.blocks.draining.get(at).copied() {
            self.drain(key);
            at += usize::from(self.blocks.draining.get(at) == Some(&key));
        }
    }

    /// Takes one step of a wait that has others: what the step does not make late, they may.
    pub(crate) fn within<R>(&mut self, span: Span, step: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.waiting.span.replace(span);
        let result = step(self);
        self.waiting.span = outer;
        result
    }

    /// Looks after blocks with pending requests, in this wait.
    fn check_deadlines(&mut self, now: Duration, span: Span) {
        if self.blocks.draining.is_empty() {
            return;
        }
        let look = self.pace.looks(now);
        for key in self.blocks.draining.clone() {
            // One block's end can be another's.
            if look && self.blocks.draining.contains(&key) {
                self.test_requests(key);
            }
            if self.blocks.draining.contains(&key) {
                self.drain(key);
            }
            if self.blocks.draining.contains(&key) {
                self.check_deadline(key, now, span);
            }
        }
    }

    /// The next moment at which something is due without any news.
    fn next_deadline(&self, end: Option<Duration>, span: Span) -> Option<Duration> {
        let look = (!self.blocks.draining.is_empty()).then_some(self.pace.next_look);
        let cause = self.job.unexplained.next();
        self.blocks.next_deadline(span).into_iter().chain(end).chain(look).chain(cause).min()
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
