//! What is in the blocks of a process: their requests, what these need, and the tags of messages.
//!
//! The tags on the wire name the blocks of messages, beside the user's part of them:
//!
//! ```text
//! 0 … 32570  │ … 32698 │ 32699    │ 32700 │ … 32762     │ … 32766 │ 32767
//! users      │ copies  │ parities │ words │ collectives │ windows │ neighbours
//! ```

use alloc::{boxed::Box, vec::Vec};
use core::{any::Any, time::Duration};

use smallvec::SmallVec;

use super::{copies::PendingCopy, exchange::Exchange, job::Saving, wait::Span, window::Service};
use crate::{
    error::Error,
    fault::FaultCode,
    ids::BlockId,
    protocol::{
        agreement::FIRST_SHARED_CONTEXT,
        message::Stage,
        process::{BlockKey, CommKey, Communicator, Level, Need},
        redundancy::Redundancy,
    },
    rank::Rank,
    seam::{
        buffer::AnyBuffer,
        platform::{LEAST_MAX_TAG, Lane, MessageId, Progress, Status},
        record::Records,
        reduction::Reduction,
    },
};

/// Bits of the tag on the wire that belong to the user (MPI promises no more than 15).
const USER_TAG_BITS: u32 = 15;
/// The tag of all messages among neighbours, the last that the user's bits hold.
pub(super) const NEIGHBOURS: u32 = (1 << USER_TAG_BITS) - 1;
/// Elements from the target of an access to a window.
pub(super) const GOTTEN: u32 = NEIGHBOURS - 1;
/// One word from the target.
pub(super) const ANSWER: u32 = GOTTEN - 1;
/// Elements from the origin of an access.
pub(super) const GIVEN: u32 = ANSWER - 1;
/// Words that say what the origin wants.
pub(super) const QUESTION: u32 = GIVEN - 1;
/// The number of collectives made of messages that have tags of their own.
pub(super) const COLLECTIVES: u32 = 62;
/// The first tag of these collectives.
pub(super) const FIRST_COLLECTIVE: u32 = QUESTION - COLLECTIVES;
/// The tag of the words that ranks pass on to all others, one after the other.
pub(crate) const WORDS: u32 = FIRST_COLLECTIVE - 1;
/// The tag of parities, which ranks of a group pass on to each other in the order of their states.
pub(crate) const PARITIES: u32 = WORDS - 1;
/// Number of states that can be protected. Each has two tags.
pub const MAX_SLOTS: u32 = 64;
/// The first tag of copies, above those of users.
pub(crate) const FIRST_COPY: u32 = PARITIES - 2 * MAX_SLOTS;

/// The contents of all blocks of a process, and how their messages are named on the wire.
pub(crate) struct Blocks {
    /// The contents of each block, in the place that the block has in the table of the process.
    pub(super) table: Vec<Contents>,
    /// Blocks that were finished and whose requests are not all over.
    pub(super) draining: SmallVec<[BlockKey; 4]>,
    /// Requests that are communicators in the making, by their blocks.
    pub(super) making: Vec<(BlockKey, usize)>,
    pub(super) tags: TagBits,
}

impl Blocks {
    pub(super) fn new(max_tag: u32) -> Self {
        let (table, draining, making) = (Vec::new(), SmallVec::new(), Vec::new());
        Self { table, draining, making, tags: TagBits::new(max_tag) }
    }

    #[inline]
    pub(super) fn at(&self, key: BlockKey) -> &Contents {
        &self.table[key.slot()]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, key: BlockKey) -> &mut Contents {
        &mut self.table[key.slot()]
    }

    /// Makes room for a block that has just started.
    #[inline]
    pub(super) fn start(&mut self, key: BlockKey, scope: u32, size: u32, lane: Lane) {
        if self.table.len() == key.slot() {
            self.table.push(Contents::new());
        }
        self.at_mut(key).restart(scope, size, lane);
    }

    /// The block does not drain any more.
    #[inline]
    pub(super) fn end_draining(&mut self, key: BlockKey) {
        if !self.draining.is_empty() {
            self.draining.retain(|draining| *draining != key);
        }
    }

    /// The next moment at which a request of a draining block is late.
    pub(super) fn next_deadline(&self, span: Span) -> Option<Duration> {
        let contents = self.draining.iter().map(|key| self.at(*key));
        contents.flat_map(|it| it.deadline.into_iter().chain(it.late_in(span))).min()
    }

    /// The copies of a state over a communicator that blocks carry which are not decided.
    pub(crate) fn carried(
        &self,
        over: Option<CommKey>,
        slot: u32,
    ) -> impl Iterator<Item = &PendingCopy> {
        let copies = self.table.iter().flat_map(|contents| &contents.copies);
        copies.filter(move |it| (it.known.over, it.slot) == (over, slot))
    }

    /// How many bits of a tag on the wire are not the user's.
    pub(crate) fn tag_bits(&self) -> u32 {
        self.tags.bits()
    }

    /// The user's part of a tag on the wire.
    pub(crate) fn user_tag(&self, wire: u32) -> u32 {
        wire >> self.tags.bits()
    }

    /// The tag on the wire of a block's message.
    #[inline]
    pub(crate) fn wire_tag(&self, key: BlockKey, tag: u32) -> u32 {
        self.tags.on_the_wire(tag, self.at(key).tag_scope)
    }

    /// This rank, if the block's communicator has it.
    #[inline]
    pub(crate) fn member(&self, key: BlockKey, rank: Rank) -> Result<Rank, Error> {
        let size = self.at(key).size;
        if rank.number() < size { Ok(rank) } else { Err(Error::NoSuchRank { rank, size }) }
    }

    /// What a receive accepts, as it is on the wire.
    pub(crate) fn on_the_wire(
        &self,
        key: BlockKey,
        (from, tag): (Option<Rank>, Option<u32>),
    ) -> Result<(Option<Rank>, Option<u32>), Error> {
        let from = match from {
            Some(rank) => Some(self.member(key, rank)?),
            None => None,
        };
        Ok((from, tag.map(|tag| self.wire_tag(key, tag))))
    }
}

/// What the engine keeps for a block, in the same place of its table as the block has in the table
/// of the process.
pub(crate) struct Contents {
    /// What the tags of its messages have in common.
    pub(super) tag_scope: u32,
    /// The number of ranks of its communicator.
    pub(super) size: u32,
    /// Where its messages run, if its communicator carries any.
    pub(super) lane: Lane,
    /// The value of `Commands::calls` with which messages could start at once.
    pub(super) open_since: u64,
    pub(crate) records: Records,
    /// The operations made of messages.
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
    /// The small collectives, and which of them rides on the commit.
    pub(super) riders: Vec<Rider>,
    pub(super) riding: Option<u32>,
    /// What a probe waits for, and whether it waits in vain.
    pub(super) probing: Option<(Need, bool)>,
    /// How far other ranks are in it.
    pub(super) heard: Vec<Heard>,
    /// The codes that the application has raised in requests, with the indices of these.
    pub(super) raised: Vec<(usize, FaultCode)>,
    /// Communicators that are made in it, by the indices of their requests: what they are is known
    /// where they are taken further.
    pub(super) made: Vec<(usize, Box<dyn Any>)>,
    /// States that become valid when the block commits.
    pub(crate) copies: Vec<PendingCopy>,
    /// What is known of checkpoints from its commit on.
    pub(crate) saving: Option<Box<Saving>>,
    /// Where states are kept that are protected in it from now on.
    pub(crate) redundancy: Redundancy,
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
            riders: Vec::new(),
            riding: None,
            probing: None,
            heard: Vec::new(),
            raised: Vec::new(),
            made: Vec::new(),
            copies: Vec::new(),
            saving: None,
            redundancy: Redundancy::Partner,
        }
    }

    /// Makes this the contents of a block that has just started.
    #[inline]
    fn restart(&mut self, tag_scope: u32, size: u32, lane: Lane) {
        (self.tag_scope, self.size, self.lane) = (tag_scope, size, lane);
        (self.open_since, self.first_pending) = (0, 0);
        self.first_listed = usize::MAX;
        (self.has_failed, self.has_synchronised) = (false, false);
        (self.limit, self.first_wait, self.deadline) = (None, None, None);
        self.redundancy = Redundancy::Partner;
    }

    /// Makes a request the last one; its new index. In its place stays one that is complete.
    pub(super) fn move_to_end(&mut self, index: usize) -> usize {
        let at = self.records.len();
        let before = &mut self.records[index];
        let (need, state, buffer) = (before.need, before.state, before.take_any());
        before.need = Need::Nobody;
        before.end_at_once(0);
        let record = self.records.add(need);
        record.state = state;
        if let Some(buffer) = buffer {
            record.give(buffer);
        }
        let raised = self.raised.iter_mut().map(|(index, _)| index);
        let known = self.riders.iter_mut().map(|rider| &mut rider.index);
        raised.chain(known).filter(|known| **known == index).for_each(|known| *known = at);
        at
    }

    /// The block has an operation now that needs all ranks.
    pub(crate) fn note_collective(&mut self) {
        self.has_synchronised = true;
    }

    /// The result of a collective, once it is over, and its buffer.
    pub(crate) fn take_collective(
        &mut self,
        index: usize,
    ) -> Option<(Progress, Option<AnyBuffer>)> {
        let record = &mut self.records[index];
        record.is_over().then(|| (record.state, record.take_any()))
    }

    /// An error unless the request is complete.
    pub(crate) fn succeeded(&self, index: usize) -> Result<(), Error> {
        match self.records[index].state {
            Progress::Complete(_) => Ok(()),
            Progress::Failed(code) => Err(Error::Request(code)),
            Progress::Pending => Err(Error::WaitTimedOut),
        }
    }

    /// Takes a request out of those that wait for a probe; false if it is none of them.
    pub(super) fn forget_deferred(&mut self, index: usize) -> bool {
        let at = self.deferred.iter().position(|receive| receive.index == index);
        at.map(|at| self.deferred.remove(at)).is_some()
    }

    /// Notes that a rank has reached this stage in the block. How long that has been known.
    pub(super) fn hear(&mut self, rank: Rank, stage: Stage, now: Duration) -> Duration {
        let known = self.heard.iter().find(|it| (it.rank, it.stage) == (rank, stage));
        let since = known.map_or(now, |it| it.since);
        if known.is_none() {
            self.heard.push(Heard { rank, stage, since });
        }
        now.saturating_sub(since)
    }

    /// True when it has been known for so long that a rank has ended its part with faults.
    pub(super) fn has_heard_of_failure(&self, now: Duration, long: Duration) -> bool {
        let failed = |it: &Heard| it.stage == Stage::Failed && now.saturating_sub(it.since) >= long;
        self.heard.iter().any(failed)
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

/// A small collective, which rides on the commit of its block.
pub(super) struct Rider {
    /// The index of its request.
    pub(super) index: usize,
    /// What makes numbers of the buffer, and writes them there; nothing for a barrier.
    pub(super) reduction: Option<Reduction>,
    /// The application's, as long as the rider is not over.
    pub(super) buffer: Option<AnyBuffer>,
}

/// A receive that waits for a probe to match its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deferred {
    /// Which request of its block it is.
    pub(super) index: usize,
    pub(super) from: Option<Rank>,
    /// The tag on the wire.
    pub(super) tag: Option<u32>,
}

impl Deferred {
    pub(super) fn matches(&self, message: Status) -> bool {
        (self.from.is_none() || self.from == message.source)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }
}

/// A stage that another rank has reached in a block, and when this one has heard of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    rank: Rank,
    stage: Stage,
    since: Duration,
}

/// Where messages of blocks run that start now on a communicator.
#[inline]
pub(super) fn lane_of(comm: &Communicator) -> Lane {
    comm.data.map_or(Lane::NOWHERE, |data| Lane { data, context: comm.context })
}

/// How the bits of a tag on the wire are used.
///
/// ```text
/// user's tag (15) │ local (1) │ block (the rest)                 in a context of its own
/// user's tag (15) │ local (1) │ context (a third) │ block        in a shared context
/// ```
///
/// So a message of one block does not match a receive of another: not that of the agreed block in
/// which a local one runs, and, in a context that is shared with aborted attempts, not theirs.
#[derive(Clone, Copy, Debug)]
pub(super) struct TagBits {
    /// How many bits are left beside the user's tag.
    scope: u32,
    /// Messages of local blocks belong to no attempt at an agreed one.
    free_locals: bool,
}

impl TagBits {
    /// For tags up to this one.
    ///
    /// # Panics
    ///
    /// When these leave no room beside the user's.
    pub(super) fn new(max_tag: u32) -> Self {
        assert!(max_tag >= LEAST_MAX_TAG, "MPI has tags up to {max_tag}, which is too few");
        let scope = (u64::from(max_tag) + 1).ilog2() - USER_TAG_BITS;
        Self { scope, free_locals: false }
    }

    /// How many bits of a tag on the wire are not the user's.
    pub(super) const fn bits(self) -> u32 {
        self.scope
    }

    /// From now on the messages of local blocks have a scope of their own.
    pub(super) fn free_locals(&mut self) {
        self.free_locals = true;
    }

    /// The scope of the messages of all local blocks: no ranks agree on how many there were, nor on
    /// what was aborted beside them.
    pub(super) const fn scope_of_locals(self) -> u32 {
        1 << (self.scope - 1) | ((1 << self.shared_block()) - 1)
    }

    /// True for a message that belongs to no attempt.
    fn is_free(self, wire: u32) -> bool {
        self.free_locals && wire & ((1 << self.scope) - 1) == self.scope_of_locals()
    }

    /// The tag on the wire of a message of this scope.
    pub(super) const fn on_the_wire(self, tag: u32, scope: u32) -> u32 {
        tag << self.scope | scope
    }

    /// How many blocks in a row have tags of their own in this context.
    pub(super) const fn blocks(self, context: u32) -> u64 {
        let is_shared = context >= FIRST_SHARED_CONTEXT;
        1 << if is_shared { self.shared_block() } else { self.scope - 1 }
    }

    /// How many bits of a tag name the shared context.
    const fn context(self) -> u32 {
        (self.scope - 1) / 3
    }

    /// How many bits of a tag name the block in a shared context.
    const fn shared_block(self) -> u32 {
        self.scope - 1 - self.context()
    }

    /// What the tags of a block's messages have in common: all but the user's part.
    pub(super) fn scope_of(self, level: Level, number: BlockId, context: u32) -> u32 {
        let local = u32::from(level == Level::Local) << (self.scope - 1);
        let number = number.0 as u32;
        local
            | if context < FIRST_SHARED_CONTEXT {
                number & ((1 << (self.scope - 1)) - 1)
            } else {
                let bits = self.shared_block();
                self.shared_context(context) << bits | number & ((1 << bits) - 1)
            }
    }

    /// The part of a tag that names this shared context.
    fn shared_context(self, context: u32) -> u32 {
        context & ((1 << self.context()) - 1)
    }

    /// True when a tag on the wire names an older shared context than this one.
    ///
    /// Only so many contexts can be told apart as there are numbers in the tag: those that come
    /// next, whose messages may be early, are the first half of them.
    pub(super) fn is_older(self, wire: u32, context: u32) -> bool {
        let behind = self.shared_context(wire >> self.shared_block()).wrapping_sub(context);
        !self.is_free(wire) && self.shared_context(behind) >= 1 << (self.context() - 1)
    }

    /// True when a tag on the wire names this shared context.
    pub(super) fn is_of(self, wire: u32, context: u32) -> bool {
        self.is_free(wire)
            || self.shared_context(wire >> self.shared_block()) == self.shared_context(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_beyond_those_of_users_has_one_use() {
        let copies = FIRST_COPY..FIRST_COPY + 2 * MAX_SLOTS;
        let collectives = FIRST_COLLECTIVE..FIRST_COLLECTIVE + COLLECTIVES;
        let others = [PARITIES, WORDS, QUESTION, GIVEN, ANSWER, GOTTEN, NEIGHBOURS];
        let mut used: alloc::vec::Vec<u32> = copies.chain(collectives).chain(others).collect();
        used.sort_unstable();
        assert!(used.into_iter().eq(FIRST_COPY..1 << USER_TAG_BITS));
        assert_eq!(FIRST_COPY - 1, 32_570, "the greatest tag that users are promised");
    }
}
