//! Messages with one peer: how they are named on the wire, and how they start.
//!
//! Whether messages of a block can start at once, so that nothing but the platform has to be
//! asked, is found out with the first one, and once more after news.

use core::slice;

use super::{
    BlockKey, CommKey, Engine, Need,
    contents::{Contents, lane_of},
};
use crate::{
    error::Error,
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{Envelope, Found, Operation, Status, Way},
    },
};

/// So many messages are given to the platform at once.
const AT_ONCE: usize = 32;

impl Engine {
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
        let (bits, lane, context) = (self.blocks.tags, lane_of(state), state.context);
        self.drop_stale_aside(comm);
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
    /// [`Error::NoSuchRank`], [`Error::TooManyOpen`].
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(crate) fn post_message<B: Buffer>(
        &mut self,
        key: BlockKey,
        way: Way,
        (peer, tag): (Rank, u32),
        buffer: B,
    ) -> Result<usize, Error> {
        let (peer, tag) = (self.blocks.member(key, peer)?, self.blocks.wire_tag(key, tag));
        if !self.is_open(key) {
            self.require_own_tags(key)?;
            return Ok(self.post_with_care(key, way, Envelope { peer, tag }, buffer));
        }
        let Self { platform, blocks, .. } = self;
        let Contents { records, lane, .. } = blocks.at_mut(key);
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
        let (bare, bits) = (self.blocks.wire_tag(key, 0), self.blocks.tags.bits());
        for messages in messages.chunks_mut(AT_ONCE) {
            if !self.is_open(key) {
                for message in messages {
                    let (buffer, peer, tag) = take(message);
                    let tag = tag << bits | bare;
                    self.post_with_care(key, way, Envelope { peer, tag }, buffer);
                }
                continue;
            }
            let Self { platform, blocks, .. } = self;
            let Contents { records, lane, .. } = blocks.at_mut(key);
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
    /// [`Error::NoSuchRank`], [`Error::TooManyOpen`].
    pub(crate) fn post_any_receive<B: Buffer>(
        &mut self,
        key: BlockKey,
        envelope: (Option<Rank>, Option<u32>),
        buffer: B,
    ) -> Result<usize, Error> {
        let (from, tag) = self.blocks.on_the_wire(key, envelope)?;
        self.require_own_tags(key)?;
        let need = from.map_or(Need::Anybody, Need::Peer);
        let operation = Operation::Receive { from, tag };
        Ok(self.post(key, need, &operation, AnyBuffer::of(buffer)))
    }

    /// True when messages of a block can start at once, as can the next ones until there are news:
    /// its context is there, no rank has died, nothing is interrupted, and its tags are its own.
    #[inline]
    fn is_open(&mut self, key: BlockKey) -> bool {
        self.contents(key).open_since == self.commands.calls || self.is_open_now(key)
    }

    /// Finds out whether messages of a block can start at once: for the first message, and after
    /// each call of the process.
    #[inline(never)]
    fn is_open_now(&mut self, key: BlockKey) -> bool {
        let block = self.block(key);
        let comm = self.comm(block.comm);
        let is_open = block.context <= comm.settled_context
            && comm.data == Some(self.contents(key).lane.data)
            && comm.is_quiet()
            && !self.shares_tags(key)
            && self.process.is_undisturbed();
        if is_open {
            self.contents_mut(key).open_since = self.commands.calls;
        }
        is_open
    }
}
