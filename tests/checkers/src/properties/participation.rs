//! "The unique decided value is the result of a combination of all values proposed by deciding
//! processes" (ULFM team 2015, "Logarithmic Agreement Routine", property 1).

use super::{Verdict, living};
use crate::record::Record;

/// A living rank decides only after it voted, or gave the communicator up.
pub(crate) fn a_decided_rank_has_voted(records: &[Record], block: usize) -> Verdict {
    for (rank, record) in living(records) {
        let entry = &record.blocks[block];
        if entry.decision.is_some() && entry.vote.is_none() && !record.retired {
            return Err(format!("rank {rank} decided block {block} and never voted on it"));
        }
    }
    Ok(())
}
