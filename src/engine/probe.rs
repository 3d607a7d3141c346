//! Messages that are matched before they are received (MPI 4.1 §3.8.2).
//!
//! A matched message belongs to its block: it is received in it, or dropped with its end, so that
//! its sender does not wait and nothing of it is met by a later block.

use super::{
    BlockKey, Engine, Need,
    buffer::{AnyBuffer, Buffer},
    platform::{Idle, Lane, MessageId, Operation, Status},
};
use crate::{
    fault::FaultCode, protocol::agreement::FIRST_SHARED_CONTEXT, rank::Rank, timeout::Timeout,
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
        self.wait(timeout, Idle::Busy, |engine| {
            // Asked again after it was true, it must not look for another message.
            if !matches!(found, Ok(None)) {
                return true;
            }
            found = match (engine.doom(key, need, false), engine.comm(comm).data) {
                (None, Some(data)) => engine.platform.probe(Lane { data, context }, envelope, like),
                (code, _) => Err(code.unwrap_or(FaultCode::Abandoned)),
            };
            if context >= FIRST_SHARED_CONTEXT
                && let Ok(Some((message, status))) = found
                && !engine.is_of(key, status.tag)
            {
                // Left behind by an aborted attempt.
                engine.platform.drop_message(message);
                found = Ok(None);
            }
            !matches!(found, Ok(None))
        });
        match found {
            Ok(Some((message, _))) => self.block_mut(key).messages.push(message),
            Ok(None) => {}
            Err(code) => self.note_loss(key, need, code),
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
        let block = self.block_mut(key);
        if block.records[index].is_under_way() {
            block.messages.retain(|kept| *kept != message);
        }
        index
    }

    /// The block ends: what it matched and did not receive is dropped.
    #[cold]
    pub(super) fn drop_messages(&mut self, key: BlockKey) {
        for message in core::mem::take(&mut self.block_mut(key).messages) {
            if !self.left {
                self.platform.drop_message(message);
            }
        }
    }
}
