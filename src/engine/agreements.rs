//! Agreements, and what else the interface of ULFM has, at the engine.

use super::{BlockKey, CommKey, Engine, Level, Source};
use crate::{rank::Rank, seam::platform::Idle, timeout::Timeout};

impl Engine {
    /// Starts an agreement on the bits that are set in the flags of all living ranks, which call
    /// it in one order with the blocks of the communicator.
    pub(crate) fn start_agreement(&mut self, comm: CommKey, flag: i32) -> BlockKey {
        let key = self.start_block(comm, Level::Global);
        self.process.begin_agreement(key, flag);
        self.finish_block(key, Timeout::Never);
        key
    }

    /// Waits for an agreement, whatever becomes of blocks that this process is in.
    pub(crate) fn wait_agreement(&mut self, key: BlockKey, timeout: Timeout) -> bool {
        self.wait(timeout, Idle::Busy, |engine| engine.verdict(key).is_some())
    }

    /// Takes in what has come, without waiting.
    pub(crate) fn look_around(&mut self) {
        if !self.process.has_left() {
            self.wait(Timeout::Poll, Idle::Busy, |_| false);
        }
    }

    /// The platform has heard of these deaths by other ways.
    pub(crate) fn hear_of(&mut self, comm: CommKey, dead: &[Rank]) {
        for rank in dead {
            let state = self.comm(comm);
            let address = (state.universe, state.members[rank.index()]);
            self.call(|process, out| process.handle_death(address, Source::Platform, out));
        }
    }

    /// The deaths that this process knows of, in the order in which it has told of them.
    pub(crate) fn failed(&mut self, comm: CommKey) -> &[Rank] {
        let state = self.comm_mut(comm);
        state.acknowledged.tell(state.commit.dead())
    }

    /// Revokes a communicator.
    pub(crate) fn revoke(&mut self, comm: CommKey) {
        self.call(|process, out| process.revoke(comm, out));
    }
}
