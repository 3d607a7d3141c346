//! "All ranks get bit-identical results", which do not depend on who decided how, and count every
//! voter once.

use fampi::{
    fault::FaultCode,
    protocol::fused::{Values, combined},
};

use super::{Verdict, living};
use crate::record::{Entry, Record};

/// The number of what all say in an agreement.
const AGREED: u8 = FaultCode::NotAgreed.to_numbers().0;

/// The result of a committed block is that of the reference, over all ranks but those of whose
/// death the deciders knew before; a faulty block has none. An agreement has one, whoever died.
pub(crate) fn the_result_is_that_of_all_voters(records: &[Record], block: usize) -> Verdict {
    for (rank, record) in living(records) {
        let entry = &record.blocks[block];
        let Some(decision) = &entry.decision else { continue };
        let wrong = |what: &str| Err(format!("rank {rank}, block {block}: {what}: {decision:?}"));
        let agrees = |record: &Record| {
            let entry = &record.blocks[block];
            entry.vote.is_none() && !record.retired || entry.purpose() == Some(AGREED)
        };
        let all_agree = records.iter().all(agrees);
        let living_agree = living(records).all(|(_, record)| agrees(record));
        if decision.values.is_some() && !decision.committed && !living_agree {
            return wrong("a faulty block has a result");
        }
        if all_agree && decision.values.is_none() && !shapes_differ(records, block) {
            return wrong("an agreement has no result");
        }
        let mismatched = decision.faults.iter().any(|it| it.code == FaultCode::Mismatched);
        if mismatched && !shapes_differ(records, block) {
            return wrong("all brought the same");
        }
        let has_result = decision.committed || decision.values.is_some();
        if has_result && decision.values.as_deref().copied() != expected(records, block, entry) {
            return wrong("the result is another");
        }
    }
    Ok(())
}

/// The reference. Who counts is told by the second number of the result; those left out must
/// have been dead, and no others than known before are left out of those that live.
fn expected(records: &[Record], block: usize, entry: &Entry) -> Option<Values> {
    entry.values?;
    let result = entry.decision.as_ref()?.values.as_deref()?;
    let [_, counted] = result.numbers::<f64, 2>()?;
    let counts = |rank: &usize| counted as u64 >> rank & 1 == 1;
    let voters: Vec<usize> = (0..records.len()).filter(counts).collect();
    let left_out = |rank: usize| !voters.contains(&rank);
    let known = |rank: usize| entry.known.contains(rank.into());
    let fair = (0..records.len()).all(|rank| {
        // A rank that is acknowledged dead here may have been heard elsewhere.
        let known = entry.acknowledges.is_none() && known(rank);
        if known { left_out(rank) } else { !left_out(rank) || !records[rank].alive }
    });
    let values: Option<Vec<Values>> =
        voters.into_iter().map(|rank| records[rank].blocks[block].values).collect();
    combined(values?).filter(|_| fair)
}

/// True when not all who voted brought the same reduction.
pub(crate) fn shapes_differ(records: &[Record], block: usize) -> bool {
    let voters = records.iter().map(|record| &record.blocks[block]);
    let mut shapes = voters
        .filter(|entry| entry.vote.is_some())
        .map(|entry| entry.values.map(|values| values.shape()));
    let first = shapes.next();
    shapes.any(|shape| Some(shape) != first)
}
