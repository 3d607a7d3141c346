//! What must be true of a commit, one file each.
//!
//! A property looks at the records of all ranks and at one block, and says what is wrong. The
//! exhaustive checker asks all of them in every state, the swarm after every decision.

mod agreement;
pub(crate) mod causes;
mod commitment;
pub(crate) mod escalation;
mod fusion;
mod participation;
pub(crate) mod places;
mod report;
mod retention;
mod termination;

use crate::record::Record;

/// A sentence about what is wrong.
pub(crate) type Verdict = Result<(), String>;

/// A property: its name, and its check on one block.
pub(crate) type Property = (&'static str, fn(&[Record], usize) -> Verdict);

/// What holds at any time.
pub(crate) const ALWAYS: [Property; 6] = [
    ("agreement", agreement::living_ranks_agree),
    ("commitment", commitment::committed_means_that_all_voted_yes),
    ("fusion", fusion::the_result_is_that_of_all_voters),
    ("participation", participation::a_decided_rank_has_voted),
    ("report", report::the_report_is_true_and_complete),
    ("retention", retention::decisions_stay_while_a_living_rank_may_ask),
];

/// What holds when nothing is left to happen.
pub(crate) const AT_REST: Property = ("termination", termination::every_living_rank_has_decided);

/// The living ranks with their numbers.
fn living(records: &[Record]) -> impl Iterator<Item = (usize, &Record)> {
    records.iter().enumerate().filter(|(_, record)| record.alive)
}
