//! Operations among neighbours: one request of a block, made of messages.
//!
//! ```text
//! buffer     │ sent, part by part │ room for what is received, part by part │
//! messages     └ a copy to each     ▲ copied from each, when it has come
//! ```
//!
//! MPI's own `MPI_Ineighbor_*` need a communicator with a topology, made by a call of all ranks
//! that no death may disturb, for each context; and those of Open MPI 5.0 mix up the two sides of
//! a ring of one or two (open-mpi/ompi#14430). Messages need nothing but the neighbours: ranks
//! that are no neighbours of the dead complete, and a failure names the neighbour that died. What
//! is under way are copies, so that the application's buffer comes back whatever happens. The
//! price is these copies.
//!
//! **Assumes** that each message sent is expected: if this rank sends to a neighbour twice, that
//! one receives from this rank twice, in the same order. MPI keeps messages with one tag in order.
//!
//! An access to a window ([`super::window`]) is such a request, too, with an answer; and so are a
//! collective over the living ([`super::living`]) and a code over a group ([`super::encode`]),
//! whose messages go in rounds.
//!
//! Reference: MPI 4.1 §8.6 and §8.7.

use core::ops::Range;

use super::{
    BlockKey, Engine, Need,
    contents::NEIGHBOURS,
    exchange::{Edge, Exchange, Message, Role},
};
use crate::{
    fault::FaultCode,
    protocol::planted::planted,
    rank::Rank,
    seam::{
        buffer::AnyBuffer,
        platform::{Operation, Post, Posted, Progress},
    },
};

impl Engine {
    /// Posts an operation among neighbours as the next request of a block. Where several messages
    /// go to, or come from, one rank, they are sent and received in the order of these lists.
    ///
    /// If a neighbour is dead the request fails, but the living ones get their messages.
    pub(crate) fn post_neighbours(
        &mut self,
        key: BlockKey,
        buffer: AnyBuffer,
        received: &[Edge],
        sent: &[Edge],
    ) -> usize {
        self.settle_block(key);
        let mut exchange = Exchange::new(buffer, received.len() + sent.len());
        for Edge { peer, elements } in received {
            self.add_part(key, &mut exchange, (*peer, NEIGHBOURS), elements, true);
        }
        for Edge { peer, elements } in sent {
            self.add_part(key, &mut exchange, (*peer, NEIGHBOURS), elements, false);
        }
        self.add_exchange(key, exchange, Need::Neighbours)
    }

    /// Starts a message that takes elements of the buffer to a peer, or brings them from there.
    pub(super) fn add_part(
        &mut self,
        key: BlockKey,
        exchange: &mut Exchange,
        to_whom: (Rank, u32),
        elements: &Range<usize>,
        receives: bool,
    ) {
        let role = if receives { Role::Received(elements.clone()) } else { Role::Sent };
        self.add_elements(key, exchange, to_whom, role, elements);
    }

    /// Starts a message of elements with this role.
    pub(super) fn add_elements(
        &mut self,
        key: BlockKey,
        exchange: &mut Exchange,
        to_whom: (Rank, u32),
        role: Role,
        elements: &Range<usize>,
    ) {
        let Some(buffer) = exchange.held() else { return };
        let part = self.exchanges.parts.take(&**buffer, elements, matches!(role, Role::Sent));
        self.add_message(key, exchange, to_whom, role, part);
    }

    /// Starts a message with this tag of a user's, or beyond.
    pub(super) fn add_message(
        &mut self,
        key: BlockKey,
        exchange: &mut Exchange,
        (peer, tag): (Rank, u32),
        role: Role,
        part: AnyBuffer,
    ) {
        let tag = self.blocks.wire_tag(key, tag);
        let operation = match role {
            Role::Received(_) | Role::Combined { .. } | Role::Chunk(_) | Role::Answer => {
                Operation::Receive { from: Some(peer), tag: Some(tag) }
            }
            Role::Sent | Role::Question => Operation::Send { to: peer, tag, synchronous: false },
        };
        let post = match self.start(key, Need::Peer(peer), &operation, part) {
            Ok(Posted::Running(post)) => Some(post),
            Ok(Posted::Complete(_, part)) => {
                if role.is_elements() {
                    self.exchanges.parts.keep(part);
                }
                None
            }
            Err((code, _)) => {
                exchange.blame(peer, code);
                None
            }
        };
        exchange.messages.push(Message { peer, role, post });
    }

    /// The next request of the block is an operation whose messages were started.
    pub(super) fn add_exchange(
        &mut self,
        key: BlockKey,
        exchange: Exchange,
        need: impl Fn(u32) -> Need,
    ) -> usize {
        let failure = exchange.failure;
        let contents = self.contents_mut(key);
        let need = need(contents.exchanges.len() as u32);
        contents.exchanges.push(exchange);
        let index = contents.records.len();
        contents.records.add(need);
        if let Some((peer, code)) = failure {
            self.fail_exchange(key, index, peer, code);
        }
        index
    }

    /// Goes on with an operation as far as possible. The state of its request.
    pub(super) fn test_exchange(&mut self, key: BlockKey, index: usize, at: usize) -> Progress {
        loop {
            // Nothing of a round of a collective counts before all of it is over.
            let all = self.contents(key).exchanges[at].schedule.is_none();
            let pending = self.test_messages(key, at, all);
            if let Some((peer, code)) = self.contents(key).exchanges[at].failed(pending) {
                return self.fail_exchange(key, index, peer, code);
            }
            if pending {
                return Progress::Pending;
            }
            match self.start_round(key, at) {
                Some(true) => {}
                Some(false) => return Progress::Pending,
                None => break,
            }
        }
        let contents = self.contents_mut(key);
        let buffer = contents.exchanges[at].buffer.take();
        let record = &mut contents.records[index];
        if let Some(buffer) = buffer {
            let elements = buffer.elements();
            record.give(buffer);
            record.end_at_once(elements);
        }
        record.state
    }

    /// Looks at the messages of an operation that are under way: at all, or up to the first that
    /// still is. True when one is.
    pub(super) fn test_messages(&mut self, key: BlockKey, at: usize, all: bool) -> bool {
        let mut pending = false;
        for number in 0..self.contents(key).exchanges[at].messages.len() {
            let exchange = &self.contents(key).exchanges[at];
            let Message { post: Some(post), ref role, .. } = exchange.messages[number] else {
                continue;
            };
            let early = matches!(role, Role::Received(_)) && exchange.awaits_answer();
            let mut part = None;
            let progress =
                if early { Progress::Pending } else { self.platform.test(post, &mut part) };
            if progress == Progress::Pending {
                pending = true;
                if !all {
                    break;
                }
                continue;
            }
            let mut part = part.unwrap_or(AnyBuffer::nothing());
            let exchange = &mut self.contents_mut(key).exchanges[at];
            exchange.note(number, progress, &mut part);
            if exchange.messages[number].role.is_elements() {
                self.exchanges.parts.keep(part);
            }
        }
        pending
    }

    /// The operation failed with one of its messages. The state of its request.
    fn fail_exchange(
        &mut self,
        key: BlockKey,
        index: usize,
        peer: Rank,
        code: FaultCode,
    ) -> Progress {
        self.end_exchange(key, index);
        let code = self.explained(key, code);
        self.contents_mut(key).records[index].state = Progress::Failed(code);
        let need = match self.contents(key).records[index].need {
            // Others wait for what was to follow.
            need @ (Need::Living(_) | Need::Coded(_)) if !code.is_process_failure() => need,
            _ => Need::Peer(peer),
        };
        self.call(|process, out| process.request_failed(key, need, code, out));
        Progress::Failed(code)
    }

    /// Gives the application its buffer back if the request is one among neighbours. What is under
    /// way goes on until the block is over: it would meet a later request that does not fail.
    pub(super) fn end_exchange(&mut self, key: BlockKey, index: usize) {
        let need = self.contents(key).records[index].need;
        let (Need::Neighbours(at) | Need::Living(at) | Need::Coded(at)) = need else { return };
        let exchange = &mut self.blocks.at_mut(key).exchanges[at as usize];
        if planted!(GiveUpTheRest) {
            exchange.take_posts().for_each(|post| self.platform.abandon(Post::Kept(post), None));
        }
        if let Some(buffer) = exchange.buffer.take() {
            let record = &mut self.contents_mut(key).records[index];
            record.give(buffer);
            record.end_as(record.state);
        }
    }

    /// Gives up what is under way of all requests among neighbours of a block.
    pub(super) fn abandon_messages(&mut self, key: BlockKey) {
        let exchanges = &mut self.blocks.at_mut(key).exchanges;
        for post in exchanges.iter_mut().flat_map(Exchange::take_posts) {
            self.platform.abandon(Post::Kept(post), None);
        }
    }
}
