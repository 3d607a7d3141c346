//! Operations are "'committed' when all operations succeed, or else be 'rolled backward' or 'rolled
//! forward' when some operations fail" (Hassani et al. 2015, §3.1).

use fampi::protocol::agreement::Vote;

use super::{Verdict, living};
use crate::record::Record;

/// A committed block has the *yes* of every rank that no report has named dead, all from attempts
/// in one data context, which is also the next block's. The decision of a step is a report for
/// other steps only. Whoever voted for something that all have to say voted *yes* if all others
/// said so, too.
pub(crate) fn committed_means_that_all_voted_yes(records: &[Record], block: usize) -> Verdict {
    let committed = living(records)
        .filter_map(|(rank, record)| Some((rank, record.blocks[block].decision.as_ref()?)))
        .find(|(_, decision)| decision.committed);
    let Some((decider, decision)) = committed else { return Ok(()) };
    let is_step = records[decider].blocks[block].is_step;
    let purpose = living(records).find_map(|(_, record)| record.purpose(block));
    for (rank, record) in records.iter().enumerate() {
        let vote = record.blocks[block].vote.as_ref();
        let alike = purpose.is_some() && record.purpose(block) == purpose;
        let fits = |vote: &Vote| !record.alive || vote.context == decision.next_context;
        let yes = alike && vote.is_none_or(fits);
        if !yes && !reported_dead(records, rank, is_step) {
            return Err(format!(
                "rank {decider} committed block {block} and rank {rank} voted {vote:?}"
            ));
        }
    }
    Ok(())
}

/// True when a living rank has decided, on any block, or on any step if steps count, that `rank`
/// is dead.
fn reported_dead(records: &[Record], rank: usize, steps_count: bool) -> bool {
    let entries = living(records).flat_map(|(_, record)| &record.blocks);
    let mut counting = entries.filter(|entry| steps_count || !entry.is_step);
    counting.any(|entry| entry.decision.as_ref().is_some_and(|d| d.dead.contains(rank.into())))
}
