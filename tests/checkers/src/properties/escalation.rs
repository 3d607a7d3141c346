//! "An outer `TryBlock` sifts out failed and successful `TryBlocks`." (Hassani et al. 2015, §3.1)
//!
//! What failed inside, and was handled by nobody, fails outside.

use fampi::protocol::agreement::Decision;

use super::living;
use crate::record::Record;

/// In a committed block no living rank has a request that failed, or an inner block that was
/// decided faulty. `round` tells in which attempt a rank is, `inside` whether its request there is
/// done, and the inner verdict.
pub(crate) fn an_inner_fault_is_an_outer_fault<'a>(
    records: &[Record],
    round: impl Fn(usize) -> usize,
    inside: impl Fn(usize) -> (bool, Option<&'a Decision>),
) -> bool {
    living(records).all(|(rank, record)| {
        let committed = record.blocks[round(rank)].decision.as_ref().is_some_and(|it| it.committed);
        let (done, inner) = inside(rank);
        !committed || (done && inner.is_none_or(|inner| inner.committed))
    })
}
