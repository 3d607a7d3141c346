//! Messages with one peer: how they are named on the wire, and how they start.
//!
//! Whether messages of a block can start at once, so that nothing but the platform has to be
//! asked, is found out with the first one, and once more after news.

use super::{
    BlockKey, Engine, Need,
    block::OpenBlock,
    buffer::{AnyBuffer, Buffer},
    platform::{Envelope, Operation, Way},
};
use crate::{error::Error, ids::BlockId, rank::Rank};

/// Bits of the tag on the wire that belong to the user (MPI promises no more than 15).
const USER_TAG_BITS: u32 = 15;
/// The greatest tag of a user.
pub(crate) const MAX_USER_TAG: u32 = (1 << USER_TAG_BITS) - 1;

/// Bits that the greatest tag on the wire leaves beside the user's.
pub(super) fn scope_bits(max_tag: u32) -> u32 {
    (u64::from(max_tag) + 1).ilog2() - USER_TAG_BITS
}

/// So many messages are given to the platform at once.
const AT_ONCE: usize = 32;

impl Engine {
    /// The tag on the wire: the user's, and the block's number as far as there is room, so that a
    /// message of one block does not match a receive of another.
    #[inline]
    pub(crate) fn wire_tag(&self, scope: BlockId, tag: u32) -> u32 {
        tag << self.scope_bits | (scope.0 as u32 & ((1 << self.scope_bits) - 1))
    }

    /// The user's part of a tag on the wire.
    pub(crate) fn user_tag(&self, wire: u32) -> u32 {
        wire >> self.scope_bits
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
        let (peer, tag) = (self.member(key, peer)?, self.wire_tag(self.block(key).scope, tag));
        if !self.is_open(key) {
            return Ok(self.post_with_care(key, way, Envelope { peer, tag }, buffer));
        }
        let Self { platform, blocks, .. } = self;
        let OpenBlock { records, lane, .. } = &mut blocks[key.slot()];
        let (index, record) = records.load(Need::Peer(peer), buffer);
        if !platform.start(*lane, way, Envelope { peer, tag }, record) {
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
        let bare = self.wire_tag(self.block(key).scope, 0);
        let scope_bits = self.scope_bits;
        for messages in messages.chunks_mut(AT_ONCE) {
            if !self.is_open(key) {
                for message in messages {
                    let (buffer, peer, tag) = take(message);
                    let tag = tag << scope_bits | bare;
                    self.post_with_care(key, way, Envelope { peer, tag }, buffer);
                }
                continue;
            }
            let Self { platform, blocks, .. } = self;
            let OpenBlock { records, lane, .. } = &mut blocks[key.slot()];
            let mut envelopes = [Envelope { peer: Rank::new(0), tag: 0 }; AT_ONCE];
            let envelopes = &mut envelopes[..messages.len()];
            let first = records.len();
            let records = records.load_all(messages.iter_mut().zip(&mut *envelopes).map(
                |(message, envelope)| {
                    let (buffer, peer, tag) = take(message);
                    *envelope = Envelope { peer, tag: tag << scope_bits | bare };
                    (Need::Peer(peer), buffer)
                },
            ));
            if !platform.start_all(*lane, way, envelopes, records) {
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
        self.block(key).open_since == self.news || self.is_open_now(key)
    }

    /// The same after news, or for the first message of a block.
    #[inline(never)]
    fn is_open_now(&mut self, key: BlockKey) -> bool {
        let block = self.block(key);
        let comm = self.comm(block.comm);
        let is_open = block.context <= comm.settled_context
            && comm.data == Some(block.lane.data)
            && comm.is_quiet()
            && self.interrupted.is_empty();
        if is_open {
            self.block_mut(key).open_since = self.news;
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
        Ok((from, tag.map(|tag| self.wire_tag(self.block(key).scope, tag))))
    }

    /// This rank, if the block's communicator has it.
    #[inline]
    pub(crate) fn member(&self, key: BlockKey, rank: Rank) -> Result<Rank, Error> {
        let size = self.block(key).size;
        if rank.number() < size { Ok(rank) } else { Err(Error::NoSuchRank { rank, size }) }
    }
}
