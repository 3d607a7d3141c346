//! Collectives over the living: requests of a block, made of messages in rounds.
//!
//! ```text
//! context       0, 1, …              │ shared, from the first report of a death on
//! collectives   MPI's own            │ refused; of blocks that run through: messages among the
//!                                    │ ranks that no report has named dead (`protocol::rounds`)
//! ```
//!
//! A communicator of the living for MPI's own collectives would take a call of all living ranks
//! that no further death may disturb, an agreement that it has gone well, and both once more after
//! every abort, since a collective that was given up meets the next one. Messages need none of it:
//! their tags name the context, so that nothing of an aborted attempt meets a later one; a death,
//! an interruption and a rank that has left end them as they end every message; and who takes part
//! is known without a question, since all ranks that start a block in one context have read the
//! same reports. Open MPI makes its nonblocking collectives of messages, too, and those here take
//! no more rounds than those.
//!
//! A collective fails as a whole if a rank of its view dies, or gives it up when its limit has
//! passed, wherever that stands in the rounds: the block is faulty then, and no rank waits for one
//! that has stopped because of it. What has begun goes on in every turn of the engine, whatever
//! this rank waits for.
//!
//! **Assumes** that all ranks start the collectives of a context in the same order, as MPI does.
//! Their numbers are in the tags. When the numbers begin anew, a collective waits for the one
//! before that had its number; messages with one tag come in their order.

use alloc::boxed::Box;

use super::{
    BlockKey, Engine, Need,
    contents::{COLLECTIVES, FIRST_COLLECTIVE},
    exchange::{Exchange, Role},
    schedule::Schedule,
};
use crate::{
    fault::FaultCode,
    protocol::{
        agreement::FIRST_SHARED_CONTEXT,
        rounds::{Act, Move},
    },
    seam::{
        buffer::AnyBuffer,
        collective::Collective,
        platform::{Operation, Progress},
    },
};

impl Engine {
    /// Posts a collective as the next request of a block.
    pub(crate) fn post_collective(
        &mut self,
        key: BlockKey,
        collective: Collective,
        buffer: AnyBuffer,
    ) -> usize {
        if let Some(values) = self.rides(key, &collective, &buffer) {
            return self.post_rider(key, &collective, &values, buffer);
        }
        let block = self.block(key);
        if !block.run_through || block.context < FIRST_SHARED_CONTEXT {
            return self.post(key, Need::All, &Operation::Collective(collective), buffer);
        }
        let (comm, context) = (block.comm, block.context);
        let need = Need::Living(self.contents(key).exchanges.len() as u32);
        self.note_synchronising(key, &collective, buffer.elements());
        let refusal = match self.process.doom(key, need) {
            None if self.comm(comm).data.is_none() => Some(FaultCode::Abandoned),
            doom => doom,
        };
        if let Some(code) = refusal {
            return self.add_failed(key, Need::All, (code, buffer));
        }
        let state = self.process.comm_mut(comm);
        let number = state.count_collective(context);
        let me = state.me;
        let view = self.exchanges.view(self.process.comm(comm));
        let bytes = buffer.elements() * buffer.element_bytes();
        let root = collective.root();
        let mut exchange = Exchange::new(buffer, 2);
        let tag = FIRST_COLLECTIVE + number % COLLECTIVES;
        match Schedule::new(collective, (view, me), tag, bytes) {
            Some(schedule) => exchange.schedule = Some(Box::new(schedule)),
            None => exchange.blame(root.unwrap_or(me), FaultCode::ProcessFailed),
        }
        exchange.prepare(self.contents(key).size as usize);
        let index = self.add_exchange(key, exchange, Need::Living);
        self.exchanges.collectives.push((key, index));
        self.defer_commands(|engine| engine.test_request(key, index));
        index
    }

    /// Notes whether a block has an operation now that needs something of every rank.
    pub(super) fn note_synchronising(
        &mut self,
        key: BlockKey,
        collective: &Collective,
        elements: usize,
    ) {
        let size = self.comm(self.block(key).comm).size();
        self.contents_mut(key).has_synchronised |= collective.needs_every_rank(size, elements);
    }

    /// Goes on with all collectives and codes that are made of messages: others may wait for this
    /// rank's part, whatever this rank waits for.
    pub(super) fn advance_collectives(&mut self) {
        self.defer_commands(|engine| {
            let mut at = 0;
            while let Some(&(key, index)) = engine.exchanges.collectives.get(at) {
                let goes_on = engine.process.current(key).is_some()
                    && engine.test_request(key, index) == Progress::Pending;
                if goes_on {
                    at += 1;
                } else {
                    engine.exchanges.collectives.remove(at);
                }
            }
        });
    }

    /// Starts the next round of an operation, all of whose messages are over. Nothing when there
    /// is none; false when it has to wait for an older operation with the same tag.
    pub(super) fn start_round(&mut self, key: BlockKey, at: usize) -> Option<bool> {
        let exchange = &self.contents(key).exchanges[at];
        let tag = exchange.tag()?;
        if exchange.is_to_begin() && self.is_tag_taken(key, (at, tag)) {
            return Some(false);
        }
        // It is not in its place while its messages start, of which nothing is told meanwhile.
        let nothing = Exchange::new(AnyBuffer::nothing(), 0);
        let mut exchange = core::mem::replace(&mut self.contents_mut(key).exchanges[at], nothing);
        let started = self.start_round_of(key, &mut exchange);
        if !started {
            exchange.conclude(self.contents(key).size as usize);
        }
        self.contents_mut(key).exchanges[at] = exchange;
        started.then_some(true)
    }

    /// Starts the next round of an exchange that is not in its place; false when there is none.
    fn start_round_of(&mut self, key: BlockKey, exchange: &mut Exchange) -> bool {
        if let Some(coding) = exchange.coding.take() {
            exchange.begin_round();
            self.pass_parities(key, exchange, *coding);
            return true;
        }
        let Some(schedule) = &mut exchange.schedule else { return false };
        let tag = schedule.tag;
        if core::mem::take(&mut schedule.direct) {
            let [from, to] = schedule.partners();
            for (peers, receives) in [(from, true), (to, false)] {
                for peer in peers {
                    let part = exchange.part(peer, self.contents(key).size as usize, receives);
                    self.add_part(key, exchange, (peer, tag), &part, receives);
                }
            }
            return true;
        }
        let (round, view) = (schedule.next_round(), schedule.view.clone());
        exchange.begin_round();
        let whole = 0..exchange.buffer.as_ref().map_or(0, AnyBuffer::elements);
        for Move { peer, act, .. } in &round {
            let role = match act {
                Act::Send => Role::Sent,
                Act::Take => Role::Received(whole.clone()),
                Act::CombineBefore => Role::Combined { before: true },
                Act::CombineAfter => Role::Combined { before: false },
            };
            self.add_elements(key, exchange, (view[*peer], tag), role, &whole);
        }
        !round.is_empty()
    }

    /// True when an older operation on the same communicator has the tag of this one on the wire.
    fn is_tag_taken(&self, block: BlockKey, (at, tag): (usize, u32)) -> bool {
        let (comm, wire) = (self.block(block).comm, self.blocks.wire_tag(block, tag));
        let known = |(key, index): &&(BlockKey, usize)| {
            self.process.current(*key).is_some()
                && self.contents(*key).records.get(*index).is_some_and(|it| !it.is_over())
        };
        let mut under_way =
            self.exchanges.collectives.iter().filter(known).filter_map(|(key, index)| {
                match self.contents(*key).records[*index].need {
                    Need::Living(at) | Need::Coded(at) => Some((*key, at as usize)),
                    _ => None,
                }
            });
        let older = under_way.by_ref().take_while(|it| *it != (block, at));
        let mut same = older.filter(|(key, at)| {
            let tag = self.contents(*key).exchanges[*at].tag();
            let tag = tag.map(|tag| self.blocks.wire_tag(*key, tag));
            self.block(*key).comm == comm && tag == Some(wire)
        });
        same.next().is_some()
    }
}
