//! How a rank gives a communicator up: it votes *no* on whatever it has not voted on.

use super::{Block, Commit, Effects, Fast, Message, Route, Vote, planted};
use crate::{
    fault::{Fault, FaultCode},
    ids::BlockId,
};

impl Commit {
    /// The rank gives the communicator up: from now on it votes *no* on every block that it has
    /// not voted on, as soon as anybody asks.
    pub fn retire(&mut self, out: &mut impl Effects) {
        self.give_up(FaultCode::Abandoned, out);
    }

    /// The rank leaves the job, after so many blocks of this communicator: as [`Self::retire`],
    /// with a vote that says so.
    pub fn leave(&mut self, blocks: BlockId, out: &mut impl Effects) {
        self.give_up(FaultCode::finalized(blocks), out);
    }

    fn give_up(&mut self, code: FaultCode, out: &mut impl Effects) {
        self.retired = Some(code);
        self.tell_retired(out);
        for id in self.blocks.ids() {
            if self.blocks.get(id).is_some_and(|block| block.vote.is_none()) {
                self.enter_slow_path(id, out);
            }
        }
    }

    /// Makes sure that a rank which gave up is asked about every block: who waits for it in the
    /// fast path may say nothing to it before, and what it says may stay unread as long as this
    /// rank awaits another one.
    pub(super) fn tell_retired(&self, out: &mut impl Effects) {
        if self.retired.is_some() && !planted!(SlipAway) {
            let Route { seat, shape, .. } = self.route;
            for partner in seat.partners(shape) {
                out.send(self.view.rank_of(seat, partner), Message::Retired);
            }
        }
    }

    pub(super) fn handle_retired(&mut self, out: &mut impl Effects) {
        self.forsaken = true;
        let exchanging = |block: &Block| matches!(block.fast, Fast::Exchanging { .. });
        for id in self.blocks.ids() {
            if self.blocks.get(id).is_some_and(exchanging) {
                self.enter_slow_path(id, out);
            }
        }
    }

    /// The vote that a rank which gave the communicator up casts on every further block.
    pub(super) fn abandon_vote(&self) -> Option<Vote> {
        let fault = Fault { comm: self.comm, rank: self.me, code: self.retired? };
        Some(Vote { faults: alloc::vec![fault], context: 0 })
    }
}
