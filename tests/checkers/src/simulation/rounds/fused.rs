//! Blocks that end with a reduction, and what it must give.

use std::time::Duration;

use fampi::{
    Codes, Comm, Error, ReduceOp, Reduced, Timeout, TryBlock,
    protocol::fused::{Values, combined},
    sim::Draw,
};

use super::{Next, Run, after};

impl Run<'_> {
    /// Every other block ends with a reduction, whatever it does inside.
    pub(super) fn fuses(&self, comm: &Comm, number: u64) -> bool {
        Draw(comm.id().0 ^ number ^ self.job.setting.seed).one_in(2)
    }

    /// What a rank brings to the reduction of a block: a number that shows in which order sums
    /// are made, and one that shows whose they are.
    fn brings(comm: &Comm, number: u64, rank: u32) -> [f64; 2] {
        let mut draw = Draw(comm.id().0 ^ number << 20 ^ u64::from(rank));
        let order = draw.below(1 << 50) as f64 * [1.0, -1e-9, 1e17][draw.below(3) as usize];
        [order, f64::from(1 << rank)]
    }

    pub(super) fn end_fused(
        &mut self,
        comm: &Comm,
        number: u64,
        block: TryBlock,
    ) -> Result<Next, Error> {
        let mine = Self::brings(comm, number, comm.rank().number());
        let mut reducing = block.finish_allreduce(mine, ReduceOp::Sum, Timeout::Never)?;
        let (finished, sum) = loop {
            reducing = match reducing.wait_local(Timeout::After(Duration::from_micros(50)))? {
                Reduced::Committed(sum, finished) => break (finished, Some(sum)),
                Reduced::Faulty(finished) => break (finished, None),
                Reduced::TimedOut(reducing) => reducing,
            };
        };
        let failed = !finished.failed_requests(Codes::Any).is_empty();
        self.note(comm, number, &finished, !failed);
        let bits = sum.map(|sum| sum.map(f64::to_bits));
        self.log.ends.last_mut().expect("just noted").1.fused = bits;
        // Nobody is left out: after a death there is a new communicator.
        let brought = (0..comm.size()).map(|rank| {
            Values::new(ReduceOp::Sum, &Self::brings(comm, number, rank)).expect("sums")
        });
        let expected = combined(brought.collect::<Vec<_>>());
        if bits.is_some()
            && bits.as_ref().map(|bits| &bits[..]) != expected.as_ref().map(Values::words)
        {
            self.log.wrong.get_or_insert(format!("fusion: {sum:?} and not {expected:?}"));
        }
        after(&finished)
    }
}
