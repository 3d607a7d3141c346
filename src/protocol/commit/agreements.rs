//! Agreements on a flag: what `MPIX_Comm_agree` of ULFM is, by the machine that decides blocks.
//!
//! ```text
//! flags       combined by the bits, as values of a fused reduction; also when somebody dies
//! deaths      those that not all voters had acknowledged make it an error, on all living ranks
//! ```
//!
//! Whoever votes says what it has acknowledged. The fast path is for those who know of no other
//! death than all have decided on before, and have acknowledged them; on the slow path the sets go
//! up the tree beside the flags, and the root compares. All votes are [`FaultCode::NotAgreed`],
//! which is a fault where others end a block instead.
//!
//! Nothing that an agreement finds counts as reported: blocks of the communicator tell of it.
//!
//! [`FaultCode::NotAgreed`]: crate::fault::FaultCode::NotAgreed

use super::Commit;
use crate::{ids::BlockId, protocol::planted::planted, rank::RankSet};

impl Commit {
    /// The block is an agreement, on all ranks that vote on it, and this rank has acknowledged
    /// these deaths. Right before the vote.
    pub fn begin_agreement(&mut self, id: BlockId, acknowledged: RankSet) {
        let forgiven = planted!(ForgiveTheUnacknowledged);
        let acknowledged = if forgiven { self.dead.clone() } else { acknowledged };
        self.agreements.push((id, acknowledged));
    }

    /// What this rank has acknowledged of the dead, in an agreement that is not decided.
    #[inline]
    pub(super) fn acknowledged_in(&self, id: BlockId) -> Option<&RankSet> {
        let found = self.agreements.iter().find(|(agreement, _)| *agreement == id);
        found.map(|(_, acknowledged)| acknowledged)
    }

    /// True when this rank knows of deaths that a decision on the block has to name, or of ranks
    /// that the fast path would wait for in vain.
    #[inline]
    pub(super) fn has_news_for(&self, id: BlockId) -> bool {
        match self.acknowledged_in(id) {
            None => self.dead.len() != self.known_to(id).len(),
            Some(acknowledged) => {
                self.dead.len() != self.view.dead().len() || !self.dead.is_subset(acknowledged)
            }
        }
    }

    #[inline]
    pub(super) fn end_agreement(&mut self, id: BlockId) {
        if !self.agreements.is_empty() {
            self.agreements.retain(|(agreement, _)| *agreement != id);
        }
    }
}
