//! Messages with one peer: how they are named on the wire, and how they start.
//!
//! Whether messages of a block can start at once, so that nothing but the platform has to be
//! asked, is found out with the first one, and once more after news.

use core::slice;

use super::{
    BlockKey, CommKey, Engine, Level, Need,
    block::{Contents, lane_of},
};
use crate::{
    error::Error,
    ids::BlockId,
    protocol::agreement::FIRST_SHARED_CONTEXT,
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{Envelope, Found, LEAST_MAX_TAG, Operation, Status, Way},
    },
};

/// Bits of the tag on the wire that belong to the user (MPI promises no more than 15).
const USER_TAG_BITS: u32 = 15;
/// The greatest tag of a user.
pub(crate) const MAX_USER_TAG: u32 = (1 << USER_TAG_BITS) - 1;

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

    /// From now on the messages of local blocks have a scope of their own.
    pub(super) fn free_locals(&mut self) {
        self.free_locals = true;
    }

    /// The scope of the messages of all local blocks: nobody agrees on how many there were, nor on
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

/// So many messages are given to the platform at once.
const AT_ONCE: usize = 32;

impl Engine {
    /// The tag on the wire of a block's message.
    #[inline]
    pub(crate) fn wire_tag(&self, key: BlockKey, tag: u32) -> u32 {
        tag << self.tag_bits.scope | self.contents(key).tag_scope
    }

    /// How many bits of a tag on the wire are not the user's.
    pub(crate) fn tag_bits(&self) -> u32 {
        self.tag_bits.scope
    }

    /// The user's part of a tag on the wire.
    pub(crate) fn user_tag(&self, wire: u32) -> u32 {
        wire >> self.tag_bits.scope
    }

    /// Takes in what aborted attempts have left behind in a shared context, so that its senders
    /// get their buffers back, and the tags can be used again.
    ///
    /// Only when this rank knows the verdict on all that it has voted on: then no other rank can be
    /// in a later context than this one, and a message of any other is a message of the past.
    #[cold]
    pub(super) fn discard_stale_messages(&mut self, comm: CommKey) {
        let state = self.comm(comm);
        if state.data.is_none() || !self.process.voted().is_empty() {
            return;
        }
        let (bits, lane, context) = (self.tag_bits, lane_of(state), state.context);
        while let Ok(Some(Found { status, .. })) = self.platform.probe(lane, (None, None), None)
            && let Status { source: Some(from), tag: wire, .. } = status
            && !bits.is_of(wire, context)
            && self.drop_peeked(lane, (from, wire))
        {}
    }

    /// Posts a message as the next request of a block.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`].
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(crate) fn post_message<B: Buffer>(
        &mut self,
        key: BlockKey,
        way: Way,
        (peer, tag): (Rank, u32),
        buffer: B,
    ) -> Result<usize, Error> {
        let (peer, tag) = (self.member(key, peer)?, self.wire_tag(key, tag));
        if !self.is_open(key) {
            return Ok(self.post_with_care(key, way, Envelope { peer, tag }, buffer));
        }
        let Self { platform, contents, .. } = self;
        let Contents { records, lane, .. } = &mut contents[key.slot()];
        let (index, record) = records.load(Need::Peer(peer), buffer);
        if !platform.start(*lane, way, &[Envelope { peer, tag }], slice::from_mut(record)) {
            self.after_failure(key, index);
        }
        Ok(index)
    }

    /// Posts a message as any other operation, which may have to wait for its context, or have no
    /// chance.
    #[inline(never)]
    fn post_with_care<B: Buffer>(
        &mut self,
        key: BlockKey,
        way: Way,
        envelope: Envelope,
        buffer: B,
    ) -> usize {
        let need = Need::Peer(envelope.peer);
        self.post(key, need, &way.operation(envelope), AnyBuffer::of(buffer))
    }

    /// Posts messages, with ranks of the block's communicator, as its next requests: what is taken
    /// of each of them.
    pub(crate) fn post_messages<M, B: Buffer>(
        &mut self,
        key: BlockKey,
        way: Way,
        messages: &mut [M],
        take: impl Fn(&mut M) -> (B, Rank, u32),
    ) {
        let (bare, bits) = (self.wire_tag(key, 0), self.tag_bits.scope);
        for messages in messages.chunks_mut(AT_ONCE) {
            if !self.is_open(key) {
                for message in messages {
                    let (buffer, peer, tag) = take(message);
                    let tag = tag << bits | bare;
                    self.post_with_care(key, way, Envelope { peer, tag }, buffer);
                }
                continue;
            }
            let Self { platform, contents, .. } = self;
            let Contents { records, lane, .. } = &mut contents[key.slot()];
            let mut envelopes = [Envelope { peer: Rank::new(0), tag: 0 }; AT_ONCE];
            let envelopes = &mut envelopes[..messages.len()];
            let first = records.len();
            let records = records.load_all(messages.iter_mut().zip(&mut *envelopes).map(
                |(message, envelope)| {
                    let (buffer, peer, tag) = take(message);
                    *envelope = Envelope { peer, tag: tag << bits | bare };
                    (Need::Peer(peer), buffer)
                },
            ));
            if !platform.start(*lane, way, envelopes, records) {
                self.after_failures(key, first);
            }
        }
    }

    /// Posts a receive from any rank, or of any tag.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`].
    pub(crate) fn post_any_receive<B: Buffer>(
        &mut self,
        key: BlockKey,
        envelope: (Option<Rank>, Option<u32>),
        buffer: B,
    ) -> Result<usize, Error> {
        let (from, tag) = self.on_the_wire(key, envelope)?;
        let need = from.map_or(Need::Anybody, Need::Peer);
        let operation = Operation::Receive { from, tag };
        Ok(self.post(key, need, &operation, AnyBuffer::of(buffer)))
    }

    /// True when messages of a block can start at once, as can the next ones until there are news:
    /// its context is there, nobody has died, and nothing is interrupted.
    #[inline]
    fn is_open(&mut self, key: BlockKey) -> bool {
        self.contents(key).open_since == self.news || self.is_open_now(key)
    }

    /// The same after news, or for the first message of a block.
    #[inline(never)]
    fn is_open_now(&mut self, key: BlockKey) -> bool {
        let block = self.block(key);
        let comm = self.comm(block.comm);
        let is_open = block.context <= comm.settled_context
            && comm.data == Some(self.contents(key).lane.data)
            && comm.is_quiet()
            && self.process.is_undisturbed();
        if is_open {
            self.contents_mut(key).open_since = self.news;
        }
        is_open
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

    /// This rank, if the block's communicator has it.
    #[inline]
    pub(crate) fn member(&self, key: BlockKey, rank: Rank) -> Result<Rank, Error> {
        let size = self.contents(key).size;
        if rank.number() < size { Ok(rank) } else { Err(Error::NoSuchRank { rank, size }) }
    }
}
