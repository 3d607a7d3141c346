//! "`TryBlock` completion determines faulty and failed objects, requests, processes, and failures
//! associated with each." (Hassani et al. 2015, §3.1)

use fampi::{
    fault::{Fault, FaultCode},
    protocol::agreement::{Decision, FIRST_SHARED_CONTEXT},
    rank::Rank,
};

use super::{Verdict, living};
use crate::record::{Entry, Record};

/// A report names only what happened, and all that a living rank voted; without a reason no
/// block is faulty, and after a faulty one nobody goes on in a data context of its attempts.
pub(crate) fn the_report_is_true_and_complete(records: &[Record], block: usize) -> Verdict {
    for (rank, record) in living(records) {
        let entry = &record.blocks[block];
        let Some(decision) = &entry.decision else { continue };
        let wrong =
            |what: &str| Err(format!("rank {rank} holds for block {block} {what}: {decision:?}"));
        if decision.dead.iter().any(|dead| records[dead.index()].alive) {
            return wrong("the death of a living rank");
        }
        if decision.dead.iter().any(|dead| known_to_all(records, block, dead)) {
            return wrong("a death that all ranks knew from earlier blocks");
        }
        if !decision.faults.iter().all(|fault| reported(records, block, fault)) {
            return wrong("a fault that nobody reported");
        }
        if let Some(vote) = &entry.vote {
            // That a step is not the last one for all is no news beside another cause.
            let cause = |fault: &Fault| fault.code != FaultCode::NotAllDone;
            let has_cause = !decision.dead.is_empty() || decision.faults.iter().any(cause);
            let told =
                |fault: &Fault| decision.faults.contains(fault) || !cause(fault) && has_cause;
            if !vote.faults.iter().all(told) && !all_say(records, block) {
                return wrong("less than its own faults");
            }
            let is_agreement = entry.acknowledges.is_some();
            if !decision.committed && !is_agreement && decision.next_context <= vote.context {
                return wrong("a data context of the aborted attempt");
            }
            if !decision.dead.is_empty() && decision.next_context < FIRST_SHARED_CONTEXT {
                return wrong("a data context that nobody can make after a death");
            }
        }
        if decision.committed && !(decision.faults.is_empty() && decision.dead.is_empty()) {
            return wrong("a commit with faults");
        }
        if !decision.committed && !has_reason(records, block, decision) {
            return wrong("a fault without a reason");
        }
    }
    Ok(())
}

/// True when the rank that a fault names voted it, or gave up, or brought values that do not fit.
fn reported(records: &[Record], block: usize, fault: &Fault) -> bool {
    let record = &records[fault.rank.index()];
    let voted = record.blocks[block].vote.as_ref();
    voted.is_some_and(|vote| vote.faults.contains(fault))
        || (matches!(fault.code, FaultCode::Abandoned | FaultCode::Finalized(_)) && record.retired)
        || (fault.code == FaultCode::Mismatched && record.blocks[block].values.is_some())
}

/// True when all living voters have said the same, which all have to say.
fn all_say(records: &[Record], block: usize) -> bool {
    let entries = living(records).map(|(_, record)| &record.blocks[block]);
    let mut said = entries.filter(|entry| entry.vote.is_some()).map(Entry::purpose);
    let first = said.next().flatten();
    first.is_some() && said.all(|purpose| purpose == first)
}

/// True when earlier blocks had told everybody of a death before it voted on this block.
fn known_to_all(records: &[Record], block: usize, dead: Rank) -> bool {
    let mut voters =
        records.iter().filter(|record| record.retired || record.blocks[block].vote.is_some());
    voters.all(|record| record.blocks[block].known.contains(dead))
}

/// True when there are faults or deaths, or attempts in different data contexts.
fn has_reason(records: &[Record], block: usize, decision: &Decision) -> bool {
    let votes = records.iter().filter_map(|record| record.blocks[block].vote.as_ref());
    let mut contexts = votes.map(|vote| vote.context);
    let first = contexts.next();
    let torn = contexts.any(|context| Some(context) != first);
    // Whoever left is in no data context.
    let torn = torn || records.iter().any(|record| record.leaving);
    !decision.faults.is_empty() || !decision.dead.is_empty() || torn
}
