//! "Soft failures are distinguished from hard ones." (after Hassani et al. 2015, §3.2): what a
//! report says of how a process died is what some rank was told of it.

use fampi::fault::Cause;

use super::{Verdict, living};
use crate::{group::cause_of, record::Record};

/// A decision says how a rank died as it did, or that nobody knows: the latter never where all
/// ranks are told how others die, always where none is. `told` has a bit for each rank.
pub(crate) fn causes_are_what_ranks_were_told(
    records: &[Record],
    block: usize,
    told: u64,
) -> Verdict {
    let all = records.len() >= 64 || told.trailing_ones() as usize >= records.len();
    let none = told.trailing_zeros() as usize >= records.len();
    for (rank, record) in living(records) {
        let Some(decision) = &record.blocks[block].decision else { continue };
        for dead in decision.known.iter() {
            let said = decision.causes.of(dead);
            let (is_true, is_open) = (said == cause_of(dead), said == Cause::Unknown);
            if (is_true || is_open) && !(all && is_open) && !(none && is_true) {
                continue;
            }
            return Err(format!(
                "rank {rank} holds for block {block} that rank {dead} died so: {said:?}, and it \
                 died so: {:?}",
                cause_of(dead)
            ));
        }
    }
    Ok(())
}
