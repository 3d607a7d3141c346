//! What the interface of ULFM has beside blocks: agreements on a flag, deaths that are
//! acknowledged one after the other, communicators that are revoked.
//!
//! An agreement is a block without requests ([`begin_agreement`]), which counts among the blocks of
//! its communicator and changes nothing for them: no abort follows from it, no data context ends.
//! On a revoked communicator each block is faulty, but for agreements, farewells and the steps of
//! recoveries.
//!
//! Reference: Bland et al. 2013.
//!
//! [`begin_agreement`]: crate::protocol::commit::Commit::begin_agreement

use alloc::vec::Vec;

use super::{Block, BlockKey, CommKey, Command, Level, Outlet, Process};
use crate::{
    fault::FaultCode,
    ids::BlockId,
    protocol::{
        fused::{ReduceOp, Values},
        interrupt::REVOCATION,
    },
    rank::{Rank, RankSet},
};

/// The deaths in a communicator in the order in which this process has told the application of
/// them, which may acknowledge the first so many.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Acknowledged {
    told: Vec<Rank>,
    count: usize,
}

impl Acknowledged {
    /// All deaths that are known now: those of before first, in their order.
    pub fn tell(&mut self, dead: &RankSet) -> &[Rank] {
        let news: Vec<Rank> = dead.iter().filter(|rank| !self.told.contains(rank)).collect();
        self.told.extend(news);
        &self.told
    }

    /// Acknowledges the first so many of those that the application was told; those that are
    /// acknowledged stay so. How many are.
    pub fn acknowledge(&mut self, count: usize) -> usize {
        self.count = self.count.max(count.min(self.told.len()));
        self.count
    }

    /// Those that are acknowledged.
    pub fn ranks(&self) -> RankSet {
        self.told[..self.count].iter().copied().collect()
    }
}

impl Process {
    /// Begins an agreement on the bits that are set in the flags of all: this rank is to vote on it
    /// next.
    pub fn begin_agreement(&mut self, key: BlockKey, flag: i32) {
        let acknowledged = self.comm(self.block(key).comm).acknowledged.ranks();
        let values = Values::new(ReduceOp::And, &[flag]).expect("bits of integers can be combined");
        let block = self.block_mut(key);
        block.agreement = Some(acknowledged);
        block.proviso = Some(FaultCode::NotAgreed);
        block.values.set(&values);
    }

    /// The result of a decided agreement, unless others have ended a block instead.
    pub fn agreed_flag(&self, key: BlockKey) -> Option<i32> {
        let block: &Block = self.block(key);
        let values = block.values.get().filter(|_| self.verdict(key).is_some())?;
        values.numbers::<i32, 1>().map(|[flag]| flag)
    }

    /// True for an agreement of which this process is part, and that has no verdict.
    pub(super) fn is_agreement(&self, comm: CommKey, id: BlockId) -> bool {
        let mut open = self.comm(comm).open.iter().map(|key| self.block(*key));
        open.any(|block| block.scope == id && block.agreement.is_some())
    }

    /// Revokes a communicator: no block on it commits any more on any living rank, and whoever
    /// waits in one stops waiting.
    pub fn revoke(&mut self, comm: CommKey, out: &mut impl Outlet) {
        self.flood(comm, REVOCATION, out);
        self.follow_up(out);
    }

    /// The communicator is revoked: all blocks that this rank is in are cut short, and what the
    /// program does on it beside them.
    pub(super) fn cut_all_short(&mut self, key: CommKey, out: &mut impl Outlet) {
        if let Some(data) = self.comm(key).data {
            // No context of blocks: those that are begun later can be agreements.
            out.command(Command::RetireContexts(data, 0, false));
        }
        let open: Vec<BlockId> =
            self.comm(key).open.iter().map(|block| self.block(*block).scope).collect();
        for id in open {
            self.cut_short(key, id, out);
        }
    }

    /// A block on a revoked communicator is not committed, whether it has requests or not.
    #[inline]
    pub(super) fn refuse_in_revoked(&mut self, key: BlockKey) {
        let block = &self.blocks[key.slot()];
        let state = &self.comms[block.comm.index()];
        if state.interrupts.is_empty() || !state.interrupts.is_revoked() {
            return;
        }
        let is_users = block.level != Level::Local
            && block.agreement.is_none()
            && !matches!(block.proviso, Some(FaultCode::Finalized(_)))
            && !state.commit.is_step(block.scope);
        if is_users && block.faults.is_empty() {
            self.raise(key, FaultCode::Interrupted);
        }
    }
}
