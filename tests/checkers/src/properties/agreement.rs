//! "Once this synchronization is done, every participating rank will have the same failure
//! information and can make a unified failure recovery decision." (Hassani et al. 2015, §3.1)
//!
//! The limit is that of the early-returning agreement (ULFM team 2015, "Logarithmic Agreement
//! Routine"): a rank that decided and then died does not bind the others.

use super::{Verdict, living};
use crate::record::Record;

/// No two living ranks hold different decisions, in any part of them, nor different deaths in a
/// step.
pub(crate) fn living_ranks_agree(records: &[Record], block: usize) -> Verdict {
    let decided = living(records).filter_map(|(rank, record)| {
        let entry = &record.blocks[block];
        Some((rank, (entry.decision.as_ref()?, entry.is_step.then_some(&entry.known_then))))
    });
    let mut first: Option<(usize, (_, Option<_>))> = None;
    for (rank, decision) in decided {
        let (other, expected) = *first.get_or_insert((rank, decision));
        let both_in_step = decision.1.is_some() && expected.1.is_some();
        if decision.0 != expected.0 || both_in_step && decision.1 != expected.1 {
            return Err(format!(
                "ranks {other} and {rank} live with two decisions on block {block}: \
                 {expected:?} and {decision:?}"
            ));
        }
    }
    Ok(())
}
