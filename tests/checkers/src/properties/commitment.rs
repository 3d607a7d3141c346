//! Operations are "'committed' when all operations succeed, or else be 'rolled backward' or 'rolled
//! forward' when some operations fail" (Hassani et al. 2015, §3.1).

use fampi::protocol::agreement::{Decision, Vote};

use super::{Verdict, living};
use crate::record::{Entry, Record};

/// A committed block has the *yes* of every rank that no report has named dead, all from attempts
/// in one data context, which is also the next block's. The decision of a step is a report for
/// other steps only. Whoever voted for something that all have to say voted *yes* if all others
/// said so, too. An agreement counts no rank that all living voters have acknowledged dead, runs in
/// no data context, and is no success where one of them knew of a death that it had not
/// acknowledged.
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
        let is_agreement = record.blocks[block].acknowledges.is_some();
        let fits =
            |vote: &Vote| is_agreement || !record.alive || vote.context == decision.next_context;
        let yes = alike && vote.is_none_or(fits);
        if is_agreement && record.alive && !record.blocks[block].unacknowledged.is_empty() {
            return Err(format!("agreement {block} is a success, and rank {rank} knew of a death"));
        }
        let acknowledged = !record.alive && acknowledged_by_all(records, block, rank);
        if !yes && !acknowledged && !reported_dead(records, rank, is_step) {
            return Err(format!(
                "rank {decider} committed block {block} and rank {rank} voted {vote:?}"
            ));
        }
    }
    Ok(())
}

/// True when all living voters of an agreement have acknowledged a death.
fn acknowledged_by_all(records: &[Record], block: usize, dead: usize) -> bool {
    let mut entries = living(records).map(|(_, record)| &record.blocks[block]);
    entries.all(|entry| entry.acknowledges.is_some() && entry.known.contains(dead.into()))
}

/// True when a living rank has decided, on any block, or on any step or agreement if steps count,
/// that `rank` is dead.
fn reported_dead(records: &[Record], rank: usize, steps_count: bool) -> bool {
    let entries = living(records).flat_map(|(_, record)| &record.blocks);
    let is_block = |entry: &&Entry| !entry.is_step && entry.acknowledges.is_none();
    let mut counting = entries.filter(|entry| steps_count || is_block(entry));
    counting.any(|entry| {
        let acknowledged = entry.acknowledges.is_some();
        let dead = |it: &Decision| if acknowledged { it.known.clone() } else { it.dead.clone() };
        entry.decision.as_ref().is_some_and(|it| dead(it).contains(rank.into()))
    })
}
