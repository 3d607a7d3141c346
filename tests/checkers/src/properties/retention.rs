//! "The decision must remain available after the processes return, in order to serve unexpected
//! message exchanges until the stopping condition can be established."
//! (ULFM team 2015, "Logarithmic Agreement Routine")

use super::{Verdict, living};
use crate::record::Record;

/// No rank forgets a block that a living rank has not decided.
pub(crate) fn decisions_stay_while_a_living_rank_may_ask(records: &[Record], _: usize) -> Verdict {
    let Some((asker, undecided)) = living(records)
        .map(|(rank, record)| (rank, record.undecided()))
        .min_by_key(|(_, low)| *low)
    else {
        return Ok(());
    };
    match living(records).find(|(_, record)| record.base.0 > undecided as u64) {
        Some((rank, record)) => Err(format!(
            "rank {rank} forgot the blocks below {} and rank {asker} has not decided {undecided}",
            record.base.0
        )),
        None => Ok(()),
    }
}
