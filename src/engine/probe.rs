//! Messages that are matched before they are received (MPI 4.1 §3.8.2).
//!
//! Applications probe for messages whose length they do not know. In a shared context receives of
//! any source or any tag are made of probes, too: what aborted attempts have left behind is seen
//! by its tag, and dropped; and Open MPI 5.0 does not complete a receive of any source with a large
//! message once a member of the communicator is dead.
//!
//! A matched message belongs to its block: it is received in it, or dropped with its end, so that
//! its sender does not wait and nothing of it is met by a later block.

use super::{
    BlockKey, Engine, Need,
    aside::Seen,
    contents::{Contents, Deferred},
};
use crate::{
    fault::FaultCode,
    protocol::agreement::FIRST_SHARED_CONTEXT,
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{self, Found, Idle, Lane, MessageId, Operation, Status, Unneeded},
    },
    timeout::Timeout,
};

impl Engine {
    /// Waits for a message; `None` when the timeout came first.
    pub(crate) fn probe(
        &mut self,
        key: BlockKey,
        envelope: (Option<Rank>, Option<u32>),
        like: &mut dyn Buffer,
        timeout: Timeout,
    ) -> Result<Option<(MessageId, Status)>, FaultCode> {
        self.settle_block(key);
        let block = self.block(key);
        let (comm, context) = (block.comm, block.context);
        let need = envelope.0.map_or(Need::Anybody, Need::Peer);
        let mut found = Ok(None);
        self.contents_mut(key).probing = Some((need, false));
        self.wait(timeout, Idle::Busy, |engine| {
            // Asked again after it was true, it must not look for another message.
            if !matches!(found, Ok(None)) {
                return true;
            }
            found = match (engine.doom(key, need), engine.comm(comm).data) {
                (None, Some(data)) => engine.probe_once(Lane { data, context }, envelope, like),
                (code, _) => Err(code.unwrap_or(FaultCode::Abandoned)),
            };
            let in_vain = engine.contents(key).probing.is_some_and(|(_, in_vain)| in_vain);
            if in_vain && matches!(found, Ok(None)) {
                found = Err(FaultCode::Interrupted);
            }
            !matches!(found, Ok(None))
        });
        self.contents_mut(key).probing = None;
        match found {
            Ok(Some((message, _))) => self.contents_mut(key).messages.push(message),
            Ok(None) => {}
            Err(code) => self.call(|process, out| process.request_failed(key, need, code, out)),
        }
        found
    }

    /// Posts the receive of a matched message. One that cannot start leaves it to the block's end.
    pub(crate) fn post_matched(
        &mut self,
        key: BlockKey,
        (message, from): (MessageId, Rank),
        buffer: AnyBuffer,
    ) -> usize {
        let operation = Operation::ReceiveMatched { message, from };
        let index = self.post(key, Need::Peer(from), &operation, buffer);
        let contents = self.contents_mut(key);
        if contents.records[index].is_under_way() {
            contents.messages.retain(|kept| *kept != message);
        }
        index
    }

    /// Looks for a message of a block in its lane, and takes it out of what receives can match.
    ///
    /// In a shared context a wildcard for tags matches messages of other attempts, too. Those of
    /// older ones are dropped; those of the next ones are early, and stay where they are.
    fn probe_once(
        &mut self,
        lane: Lane,
        mut envelope: (Option<Rank>, Option<u32>),
        like: &mut dyn Buffer,
    ) -> Result<Option<(MessageId, Status)>, FaultCode> {
        if lane.context >= FIRST_SHARED_CONTEXT && envelope.1.is_none() {
            loop {
                let Some(seen) = self.platform.probe(lane, envelope, None)? else {
                    return Ok(None);
                };
                let Status { source: Some(from), tag: wire, .. } = seen.status else {
                    return Ok(None);
                };
                if self.blocks.tags.is_of(wire, lane.context) {
                    match self.see(lane, (from, wire)) {
                        Seen::Theirs => {
                            envelope = (Some(from), Some(wire));
                            break;
                        }
                        Seen::SetAside => continue,
                        Seen::Later => return Ok(None),
                    }
                }
                let older = self.blocks.tags.is_older(wire, lane.context);
                if !older || !self.drop_peeked(lane, (from, wire)) {
                    return Ok(None);
                }
            }
        }
        let found = self.platform.probe(lane, envelope, Some(like))?;
        Ok(found.and_then(|Found { status, message }| Some((message?, status))))
    }

    /// Receives a message into nowhere that was seen by a peek; false if it is not there any more.
    pub(super) fn drop_peeked(&mut self, lane: Lane, (from, wire): (Rank, u32)) -> bool {
        let like = &mut alloc::vec::Vec::<u8>::new();
        let found = self.platform.probe(lane, (Some(from), Some(wire)), Some(like));
        let Ok(Some(Found { message: Some(message), .. })) = found else { return false };
        self.platform.discard(Unneeded::Message(message));
        true
    }

    /// True for a receive that has to wait for a probe, or behind another one that does.
    pub(super) fn defers(&self, key: BlockKey, from: Option<Rank>, tag: Option<u32>) -> bool {
        let wild = from.is_none() || tag.is_none();
        self.block(key).context >= FIRST_SHARED_CONTEXT
            && (wild || !self.contents(key).deferred.is_empty())
    }

    /// Adds a receive as the next request of a block that waits for a probe.
    #[cold]
    pub(super) fn defer(
        &mut self,
        key: BlockKey,
        need: Need,
        (from, tag): (Option<Rank>, Option<u32>),
        buffer: AnyBuffer,
    ) -> usize {
        if let Some(code) = self.doom(key, need) {
            return self.add_failed(key, need, (code, buffer));
        }
        let contents = self.contents_mut(key);
        let index = contents.records.len();
        contents.records.add(need).give(buffer);
        contents.deferred.push(Deferred { index, from, tag });
        index
    }

    /// Looks for the messages of deferred receives. One that two of them match is for the first.
    #[cold]
    pub(super) fn match_deferred(&mut self, key: BlockKey) {
        let mut at = 0;
        while let Some(next) = self.contents(key).deferred.get(at).copied() {
            let block = self.block(key);
            let Some(data) = self.comm(block.comm).data else { return };
            let lane = Lane { data, context: block.context };
            let records = &mut self.contents_mut(key).records;
            let Some(mut buffer) = records[next.index].unload() else { return };
            let found = self.probe_once(lane, (next.from, next.tag), &mut *buffer);
            self.contents_mut(key).records[next.index].give(buffer);
            let Self { platform, blocks, .. } = self;
            let Contents { records, deferred, .. } = blocks.at_mut(key);
            match found {
                Ok(None) => at += 1,
                Ok(Some((message, status))) => {
                    let first = deferred.iter().position(|receive| receive.matches(status));
                    let receive = deferred.remove(first.unwrap_or(at));
                    let from = status.source.expect("a message has a sender");
                    let operation = Operation::ReceiveMatched { message, from };
                    platform::start(&mut **platform, lane, &operation, &mut records[receive.index]);
                }
                Err(code) => {
                    deferred.remove(at);
                    records[next.index].refuse(code);
                }
            }
        }
    }

    /// The block ends: what it matched and did not receive is dropped.
    #[cold]
    pub(super) fn drop_messages(&mut self, key: BlockKey) {
        for message in core::mem::take(&mut self.contents_mut(key).messages) {
            if !self.process.has_left() {
                self.platform.discard(Unneeded::Message(message));
            }
        }
    }
}
