//! What waits in patient blocks after a death: the living are asked how far they are.
//!
//! A request is ended when its peer has come to the end of its part of the block. What that one
//! sent before may still be under way, so there is a moment between. A receive is ended by a
//! cancellation, which a message that has come is stronger than.

use alloc::vec::Vec;
use core::time::Duration;

use super::{BlockKey, Engine, Need, Phase, Progress};
use crate::{fault::FaultCode, protocol::message::Stage, rank::Rank, seam::platform::Post};

/// How long what was sent may be under way when its sender has come to the end of its part.
const UNDER_WAY: Duration = Duration::from_millis(10);
/// How long two ranks may be in the middle of a message when both have posted all that they post.
const IN_TRANSFER: Duration = Duration::from_secs(1);

/// What may be concluded from how far others are.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Hope {
    /// It may be served yet.
    Yes,
    /// It is served if its message is on the way, and never otherwise.
    IfMatched,
    No,
}

impl Engine {
    /// Asks the living for whom patient blocks wait, and ends what they do not serve. The moment
    /// for the next look, if there is anything to wait for.
    pub(super) fn ask_the_living(&mut self, now: Duration) -> Option<Duration> {
        self.end_the_awaited_in_the_revoked();
        if !self.process.is_bereaved() {
            return None;
        }
        if now < self.pace.next_question {
            return Some(self.pace.next_question);
        }
        let patient = self.process.patient_blocks();
        for (key, outer) in &patient {
            self.defer_commands(|engine| engine.ask_for(*key, *outer, now));
            if key == outer {
                self.defer_commands(|engine| engine.ask_for_those_inside(*key, now));
            }
        }
        self.ask_for_the_awaited(now);
        let waiting = &self.waiting;
        if patient.is_empty() && waiting.messages.is_empty() && !waiting.foreign {
            return None;
        }
        Some(self.pace.ask_later(now))
    }

    /// Ends what waits in vain in one block, whose ranks are asked how far they are in another.
    fn ask_for(&mut self, key: BlockKey, outer: BlockKey, now: Duration) {
        for index in self.contents(key).first_pending..self.contents(key).records.len() {
            if self.test_request(key, index) == Progress::Pending {
                let need = self.contents(key).records[index].need;
                match self.hope((key, outer), need, now) {
                    Hope::Yes => {}
                    Hope::IfMatched => self.cut_unmatched(key, index),
                    Hope::No if need == Need::Foreign => return self.cut_foreign(outer),
                    Hope::No => self.fail_request(key, index, FaultCode::Interrupted),
                }
            }
        }
        if let Some((need, _)) = self.contents(key).probing {
            let in_vain = self.hope((key, outer), need, now) != Hope::Yes;
            self.contents_mut(key).probing = Some((need, in_vain));
        }
    }

    /// Ends messages of the application's own, and in no block, on a communicator that is revoked.
    fn end_the_awaited_in_the_revoked(&mut self) {
        for at in 0..self.waiting.messages.len() {
            let (comm, _, post) = self.waiting.messages[at];
            let is_revoked = self.process.comm(comm).interrupts.is_revoked();
            if is_revoked && self.process.innermost(comm).is_none() {
                self.platform.cancel(&mut Post::Kept(post), Some(FaultCode::Interrupted));
            }
        }
    }

    /// Ends messages of the application's own that wait in vain, and that it has not given to a
    /// block.
    fn ask_for_the_awaited(&mut self, now: Duration) {
        for at in 0..self.waiting.messages.len() {
            let (comm, need, post) = self.waiting.messages[at];
            let Some(block) = self.process.innermost(comm) else { continue };
            let why = match self.hope((block, block), need, now) {
                Hope::Yes => continue,
                // One that has come is stronger.
                Hope::IfMatched => FaultCode::TimedOut,
                Hope::No => FaultCode::Interrupted,
            };
            self.platform.cancel(&mut Post::Kept(post), Some(why));
        }
    }

    /// Dooms the blocks inside of an open one whose verdicts are waited for in vain.
    fn ask_for_those_inside(&mut self, key: BlockKey, now: Duration) {
        if self.block(key).phase == Phase::Open {
            if self.waiting.foreign && self.has_somebody_failed(key, now) {
                return self.cut_foreign(key);
            }
            let mut inside = self.process.undecided_inside(key).into_iter();
            if inside.any(|inner| self.hope_of_inner(key, inner, now) == Hope::No) {
                self.call(|process, out| process.doom_inside(key, out));
            }
        }
    }

    /// What hope there is for a request of a block.
    fn hope(&mut self, (key, outer): (BlockKey, BlockKey), need: Need, now: Duration) -> Hope {
        match need {
            Need::Peer(peer) => self.hope_of(outer, peer, now),
            // Any of them may be the one that serves it.
            Need::Anybody => {
                let others = self.process.living_others(outer);
                let hopes = others.into_iter().map(|rank| self.hope_of(outer, rank, now));
                hopes.min().unwrap_or(Hope::No)
            }
            Need::Living(at) | Need::Coded(at) => {
                self.hope_of_collective((key, outer), at as usize, now)
            }
            Need::Neighbours(at) => {
                let exchange = &self.contents(key).exchanges[at as usize];
                let peers: Vec<Rank> = exchange.awaited().collect();
                let hopes = peers.into_iter().map(|rank| self.hope_of(outer, rank, now));
                hopes.max().filter(|hope| *hope == Hope::No).unwrap_or(Hope::Yes)
            }
            Need::Rider(number) if self.process.is_wanted(key, number) => {
                self.hope_of_rider(outer, now)
            }
            Need::Inner(inner) => self.hope_of_inner(outer, inner, now),
            Need::Foreign | Need::Making if self.has_somebody_failed(outer, now) => Hope::No,
            Need::All | Need::Rider(_) | Need::Nobody | Need::Foreign | Need::Making => Hope::Yes,
        }
    }

    /// What hope there is for the verdict on a block inside of another.
    fn hope_of_inner(&mut self, outer: BlockKey, inner: BlockKey, now: Duration) -> Hope {
        let needed = self.process.needed_by(outer, inner);
        let hopes = needed.into_iter().map(|rank| self.hope_of(outer, rank, now));
        hopes.max().filter(|hope| *hope == Hope::No).unwrap_or(Hope::Yes)
    }

    /// What hope there is for a collective over the living, or a code: a rank goes on with its part
    /// until it votes. A round that has just begun may have its messages on the way.
    fn hope_of_collective(
        &mut self,
        (key, outer): (BlockKey, BlockKey),
        at: usize,
        now: Duration,
    ) -> Hope {
        self.test_messages(key, at, true);
        let exchange = &mut self.contents_mut(key).exchanges[at];
        let peers: Vec<Rank> = exchange.awaited().collect();
        let waited = now.saturating_sub(*exchange.asked.get_or_insert(now));
        let is_gone = |heard: Option<(Stage, Duration)>| {
            heard.is_some_and(|(stage, since)| {
                matches!(stage, Stage::Over | Stage::Failed) && since.min(waited) >= UNDER_WAY
            })
        };
        let mut hope = Hope::Yes;
        for rank in peers {
            if is_gone(self.heard(outer, rank, now)) {
                hope = Hope::No;
            }
        }
        hope
    }

    /// What hope there is for a small collective that a rank waits for: one that has ended its part
    /// with faults may never have posted it.
    fn hope_of_rider(&mut self, outer: BlockKey, now: Duration) -> Hope {
        let mut hope = Hope::Yes;
        for rank in self.process.living_others(outer) {
            let heard = self.heard(outer, rank, now);
            if heard.is_some_and(|(stage, since)| stage == Stage::Failed && since >= UNDER_WAY) {
                hope = Hope::No;
            }
        }
        hope
    }

    /// What hope there is for what waits for this rank.
    fn hope_of(&mut self, key: BlockKey, rank: Rank, now: Duration) -> Hope {
        match self.heard(key, rank, now) {
            Some((Stage::Over | Stage::Failed, waited)) if waited >= UNDER_WAY => Hope::No,
            Some((Stage::Posted, waited)) if waited >= IN_TRANSFER => Hope::No,
            Some((_, waited)) if waited >= UNDER_WAY => Hope::IfMatched,
            _ => Hope::Yes,
        }
    }

    /// How far a rank is in a block, and how long that has been known; it is asked if it was not.
    fn heard(&mut self, key: BlockKey, rank: Rank, now: Duration) -> Option<(Stage, Duration)> {
        if rank == self.comm(self.block(key).comm).me {
            return None;
        }
        let stage = self.call(|process, out| process.how_far(key, rank, out))?;
        Some((stage, self.contents_mut(key).hear(rank, stage, now)))
    }

    /// True when some rank has ended its part of a block with faults, and that was a while ago:
    /// what of others was under way has come, and what it did not start may be what is waited for.
    fn has_somebody_failed(&mut self, key: BlockKey, now: Duration) -> bool {
        for rank in self.process.living_others(key) {
            self.hope_of(key, rank, now);
        }
        self.contents(key).has_heard_of_failure(now, IN_TRANSFER)
    }

    /// Ends requests of which it is unknown whom they need: the block is as a prompt one.
    fn cut_foreign(&mut self, key: BlockKey) {
        let block = self.block(key);
        self.interrupt_open(block.comm, block.scope);
    }

    /// Ends a receive that no message has come for, as failed.
    fn cut_unmatched(&mut self, key: BlockKey, index: usize) {
        if index >= self.contents(key).first_listed {
            // The platform tells all that ask that it was cut.
            self.ask_to_end(key, index, Some(FaultCode::TimedOut));
            self.test_request(key, index);
        } else if self.cancel_request(key, index) {
            let record = &mut self.contents_mut(key).records[index];
            record.state = Progress::Failed(FaultCode::Interrupted);
            self.after_failure(key, index);
        }
    }
}
