//! What is in a block: its requests and what they need; and the end of its life in the engine.

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use smallvec::SmallVec;

use super::{
    Engine, Need, Span, neighbours::Exchange, patience::Heard, probe::Deferred, service::Service,
};
use crate::{
    fault::{FaultCode, FaultReport},
    protocol::process::{Block, BlockKey, CommKey, Level, Phase},
    seam::{
        platform::{Lane, MessageId, Post},
        record::Records,
    },
};

/// What the engine keeps for a block, in the same place of its table as the block has in the table
/// of the process.
pub(crate) struct Contents {
    /// What the tags of its messages have in common.
    pub(super) tag_scope: u32,
    /// The number of ranks of its communicator.
    pub(super) size: u32,
    /// Where its messages run, if its communicator carries any.
    pub(super) lane: Lane,
    /// The value of [`Engine::news`] with which messages could start at once.
    pub(super) open_since: u64,
    pub(crate) records: Records,
    /// The operations among neighbours, and the accesses to windows of others.
    pub(super) exchanges: Vec<Exchange>,
    /// The accesses of others to windows of this rank.
    pub(super) service: Option<Box<Service>>,
    /// The first of the requests that the application has started itself, which are the last.
    pub(super) first_listed: usize,
    /// How many records from the first on are over.
    pub(super) first_pending: usize,
    /// True when one of these has failed.
    pub(super) has_failed: bool,
    /// The communicators of blocks inside of it, where they are others than its own.
    pub(crate) used: SmallVec<[CommKey; 2]>,
    /// True when one of its operations needs something of every rank.
    pub(super) has_synchronised: bool,
    /// Receives that wait for a probe to match their messages, in the order of their posts.
    pub(super) deferred: Vec<Deferred>,
    /// Messages that a probe has matched and that were not received.
    pub(super) messages: Vec<MessageId>,
    /// The limit of finish: how long a wait has to last for the pending requests to be faults.
    pub(super) limit: Option<Duration>,
    /// When a wait looked at the clock for the first time since finish.
    pub(super) first_wait: Option<Duration>,
    /// When the pending requests become faults for another reason.
    pub(super) deadline: Option<Duration>,
    /// What a probe waits for, and whether it waits in vain.
    pub(super) probing: Option<(Need, bool)>,
    /// How far other ranks are in it.
    pub(super) heard: Vec<Heard>,
    /// The codes that the application has raised in requests, with the indices of these.
    pub(crate) raised: Vec<(usize, FaultCode)>,
    /// Slots of partner copies that become valid when the block commits.
    pub(crate) copies: Vec<super::PendingCopy>,
}

impl Contents {
    fn new() -> Self {
        Self {
            tag_scope: 0,
            size: 0,
            lane: Lane::NOWHERE,
            open_since: 0,
            records: Records::default(),
            exchanges: Vec::new(),
            service: None,
            first_listed: usize::MAX,
            first_pending: 0,
            has_failed: false,
            used: SmallVec::new(),
            has_synchronised: false,
            deferred: Vec::new(),
            messages: Vec::new(),
            limit: None,
            first_wait: None,
            deadline: None,
            probing: None,
            heard: Vec::new(),
            raised: Vec::new(),
            copies: Vec::new(),
        }
    }

    /// The first of the requests of the list that the block was finished with.
    pub(crate) fn first_listed(&self) -> usize {
        self.first_listed
    }

    /// Pending requests are faults at this moment, or earlier if that is due.
    pub(super) fn bring_deadline(&mut self, moment: Duration) {
        self.deadline = Some(self.deadline.map_or(moment, |deadline| deadline.min(moment)));
    }

    /// When pending requests are late in this wait, if they can be.
    pub(super) fn late_in(&self, span: Span) -> Option<Duration> {
        span.passes(self.limit?, self.first_wait.unwrap_or(span.began()))
    }

    /// True when no request can change any more.
    #[inline]
    pub(super) fn is_drained(&mut self) -> bool {
        for record in self.records[self.first_pending..].iter().take_while(|it| it.is_over()) {
            self.has_failed |= !record.is_complete();
            self.first_pending += 1;
        }
        self.first_pending == self.records.len()
    }
}

impl Engine {
    /// Starts a block: local, no message.
    #[inline]
    pub(crate) fn start_block(&mut self, comm: CommKey, level: Level) -> BlockKey {
        let state = self.process.comm(comm);
        let tag_scope = self.tag_bits.scope_of(level, state.next_block, state.context);
        let (size, lane) = (state.size(), lane_of(state));
        let key = self.process.start_block(comm, level);
        if self.contents.len() == key.slot() {
            self.contents.push(Contents::new());
        }
        let contents = &mut self.contents[key.slot()];
        (contents.tag_scope, contents.size, contents.lane) = (tag_scope, size, lane);
        (contents.open_since, contents.first_pending) = (0, 0);
        contents.first_listed = usize::MAX;
        (contents.has_failed, contents.has_synchronised) = (false, false);
        (contents.limit, contents.first_wait, contents.deadline) = (None, None, None);
        if level.is_agreed() && self.windows.iter().any(|window| window.is_of(comm)) {
            self.serving.push(key);
        }
        self.tell_often(|engine| engine.start_entry(key));
        key
    }

    #[inline]
    pub(crate) fn block(&self, key: BlockKey) -> &Block {
        self.process.block(key)
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, key: BlockKey) -> &mut Block {
        self.process.block_mut(key)
    }

    #[inline]
    pub(crate) fn contents(&self, key: BlockKey) -> &Contents {
        debug_assert!(self.process.current(key).is_some(), "a block is used by its handle only");
        &self.contents[key.slot()]
    }

    #[inline]
    pub(crate) fn contents_mut(&mut self, key: BlockKey) -> &mut Contents {
        debug_assert!(self.process.current(key).is_some(), "a block is used by its handle only");
        &mut self.contents[key.slot()]
    }

    /// A handle is gone. With the last one the block is released now, or as soon as it is decided.
    #[inline]
    pub(crate) fn detach(&mut self, key: BlockKey) {
        if self.process.detach(key) {
            self.release(key);
        }
    }

    /// Leaves in order what a caught panic has left.
    pub(super) fn adopt_orphans(&mut self) {
        while let Some(key) = self.process.last_orphan() {
            if self.block(key).phase == Phase::Open {
                self.leave_block(key, FaultCode::LeftBlock);
            }
            self.process.forget_orphan();
            self.detach(key);
        }
    }

    /// Returns a decided block's place in the table; operations that never ended go to quarantine.
    #[inline]
    pub(super) fn release(&mut self, key: BlockKey) {
        if !self.contents[key.slot()].messages.is_empty() {
            self.drop_messages(key);
        }
        let left = self.process.has_left();
        let contents = &mut self.contents[key.slot()];
        let complete = !contents.has_failed && contents.first_pending == contents.records.len();
        contents.records.clear(complete, |post, buffer| {
            if left {
                // The platform has ended: what it did not let go of is in use for ever.
                core::mem::forget(buffer);
            } else {
                self.platform.abandon(post, buffer);
            }
        });
        if !contents.exchanges.is_empty() {
            for post in contents.exchanges.iter_mut().flat_map(Exchange::take_posts) {
                if !left {
                    self.platform.abandon(Post::Kept(post), None);
                }
            }
            contents.exchanges.clear();
        }
        contents.deferred.clear();
        contents.heard.clear();
        contents.used.clear();
        contents.raised.clear();
        if !contents.copies.is_empty() {
            contents.copies.clear();
        }
        self.process.release(key);
    }

    /// The verdict, once the block is decided: whether it is committed.
    #[inline]
    pub(crate) fn verdict(&self, key: BlockKey) -> Option<bool> {
        self.process.verdict(key)
    }

    /// Why a block is faulty, once it is decided.
    pub(crate) fn report(&self, key: BlockKey) -> &FaultReport {
        &self.block(key).report
    }
}

/// Where messages of blocks run that start now on a communicator.
#[inline]
pub(super) fn lane_of(comm: &crate::protocol::process::Communicator) -> Lane {
    comm.data.map_or(Lane::NOWHERE, |data| Lane { data, context: comm.context })
}
