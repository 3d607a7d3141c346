//! Messages of fampi's own that a probe for any tag has met before their receives were posted.
//!
//! They would be taken for messages of the application, or hide those that came behind them. So
//! they are matched and set aside: the receive that is posted for one of them gets it.

use alloc::vec::Vec;

use super::{
    CommKey, Engine,
    contents::{FIRST_COPY, QUESTION},
    exchange::SetAside,
};
use crate::{
    rank::Rank,
    seam::platform::{DataId, Found, Lane, Operation, Unneeded},
};

/// What is to be done with a message that a probe for any tag has seen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Seen {
    /// It is one of the application.
    Theirs,
    /// It was set aside, and is not seen any more.
    SetAside,
    /// It is of an access to a window, which is looked for in each turn; or it is gone.
    Later,
}

impl Engine {
    /// Sets a message aside if it is not the application's.
    pub(super) fn see(&mut self, lane: Lane, (from, wire): (Rank, u32)) -> Seen {
        match self.blocks.user_tag(wire) {
            ..FIRST_COPY => return Seen::Theirs,
            QUESTION => return Seen::Later,
            _ => {}
        }
        let like = &mut Vec::<u8>::new();
        let found = self.platform.probe(lane, (Some(from), Some(wire)), Some(like));
        let Ok(Some(Found { message: Some(id), .. })) = found else { return Seen::Later };
        self.exchanges.aside.push(SetAside { lane, from, wire, id });
        Seen::SetAside
    }

    /// The receive of a message that was set aside, in the place of this operation of a block.
    pub(super) fn take_aside(&mut self, lane: Lane, operation: &Operation) -> Option<Operation> {
        let Operation::Receive { from: Some(from), tag: Some(tag) } = *operation else {
            return None;
        };
        let aside = &mut self.exchanges.aside;
        let is_it = |it: &SetAside| (it.lane, it.from, it.wire) == (lane, from, tag);
        let at = aside.iter().position(is_it)?;
        Some(Operation::ReceiveMatched { message: aside.remove(at).id, from })
    }

    /// Drops what an aborted attempt on a communicator has left.
    pub(super) fn drop_stale_aside(&mut self, comm: CommKey) {
        let state = self.comm(comm);
        let (data, context, tags) = (state.data, state.context, self.blocks.tags);
        self.drop_aside(|it| Some(it.lane.data) == data && !tags.is_of(it.wire, context));
    }

    /// Drops all that came over a data communicator.
    pub(super) fn drop_aside_of(&mut self, data: DataId) {
        self.drop_aside(|it| it.lane.data == data);
    }

    fn drop_aside(&mut self, is_dropped: impl Fn(&SetAside) -> bool) {
        let Self { exchanges, platform, .. } = self;
        exchanges.aside.retain(|message| {
            let is_kept = !is_dropped(message);
            if !is_kept {
                platform.discard(Unneeded::Message(message.id));
            }
            is_kept
        });
    }
}
