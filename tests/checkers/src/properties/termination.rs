//! "Every participating rank will have the same failure information": every one, so none may be
//! left waiting (Hassani et al. 2015, §3.1).

use super::{Verdict, living};
use crate::record::Record;

/// When no message, no vote and no news of a death is left, every living rank that did not give
/// up has decided the block.
pub(crate) fn every_living_rank_has_decided(records: &[Record], block: usize) -> Verdict {
    match living(records)
        .find(|(_, record)| !record.retired && record.blocks[block].decision.is_none())
    {
        Some((rank, _)) => Err(format!("rank {rank} waits for block {block} for ever")),
        None => Ok(()),
    }
}
