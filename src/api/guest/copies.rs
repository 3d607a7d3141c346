//! Copies of states, for programs that own their MPI.

use super::{Guest, GuestBlock};
use crate::{
    engine::Engine,
    error::Error,
    fault::FaultCode,
    rank::Rank,
    recovery::{Redundancy, copies::Length},
};

impl Guest {
    /// Says where states are kept that are protected in this block from now on; see
    /// [`crate::TryBlock::set_redundancy`].
    pub fn set_redundancy(&mut self, block: GuestBlock, redundancy: Redundancy) {
        self.engine.contents_mut(block.0).redundancy = redundancy;
    }

    /// Protects bytes of this process in a block that is not finished: a copy goes to the partner
    /// rank, and counts with the block's commit. All ranks do so, in the same order.
    ///
    /// # Errors
    ///
    /// [`Error::NotComplete`] when an earlier block of the communicator is not finished, nothing
    /// has happened then; otherwise those of [`crate::TryBlock::protect`]. After
    /// [`Error::LengthChanged`] this process has left the block.
    pub fn protect(&mut self, block: GuestBlock, slot: u32, state: &[u8]) -> Result<(), Error> {
        let engine = self.settled_before(block)?;
        let done = engine.protect(block.0, slot, state, Length::Fixed);
        if let Err(Error::LengthChanged { .. }) = done {
            // The others wait for a copy that will not come.
            engine.leave_block(block.0, FaultCode::LeftBlock);
        }
        done
    }

    /// Brings back the bytes that the last commit protected. All ranks do so, in the same order.
    ///
    /// # Errors
    ///
    /// As [`Self::protect`], and those of [`crate::TryBlock::restore`]. After [`Error::StateLost`]
    /// in a block with [`Self::restart`] the next one has this, too; otherwise it ends with the
    /// same error, and this process has left it.
    pub fn restore(&mut self, block: GuestBlock, slot: u32) -> Result<Vec<u8>, Error> {
        self.settled_before(block)?;
        let has_told = self.restarted == Some(block);
        let engine = &mut self.engine;
        if let Some((rank, partner)) = engine.job.lost.filter(|_| !has_told) {
            // Some may have their states from a checkpoint already, and others not.
            engine.leave_block(block.0, FaultCode::LeftBlock);
            return Err(Error::StateLost { rank, partner });
        }
        let restored = engine.restore(block.0, slot);
        if let Err(Error::StateLost { rank, partner }) = restored
            && has_told
        {
            engine.job.lost = Some((rank, partner));
        }
        restored
    }

    /// The bytes of a rank that a shrink has left out, if this process keeps their copy.
    ///
    /// # Errors
    ///
    /// Those of [`crate::TryBlock::inherit`].
    pub fn inherit(
        &mut self,
        block: GuestBlock,
        slot: u32,
    ) -> Result<Option<(Rank, Vec<u8>)>, Error> {
        self.engine.inherit(block.0, slot)
    }

    /// Copies of one block are made when those of the blocks before it are decided: what a rank
    /// sends depends on them.
    pub(super) fn settled_before(&mut self, block: GuestBlock) -> Result<&mut Engine, Error> {
        let engine = &mut self.engine;
        let settled = engine.settle_before(block.0);
        let interrupted = engine.is_interrupted(block.0);
        match (settled, interrupted) {
            (true, _) => Ok(engine),
            (false, true) => Err(Error::Request(FaultCode::Interrupted)),
            (false, false) => Err(Error::NotComplete),
        }
    }
}
