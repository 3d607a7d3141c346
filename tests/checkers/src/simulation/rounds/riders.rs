//! Blocks with small collectives, the last of which rides on the commit, and what they must give.

use fampi::{
    Codes, Comm, Error, Fault, FaultCode, Rank, ReduceOp, Request, Tag, Timeout, TryBlock,
    protocol::fused::{Values, combined},
    sim::Draw,
};

use super::{Next, Run, after, wait};

/// Sums of so many numbers, or a barrier.
type Posted = (usize, Request<f64>);

impl Run<'_> {
    /// What a rank brings to a sum: numbers that show in which order they are added.
    fn gives(comm: &Comm, (number, at): (u64, u64), rank: u32, count: usize) -> Vec<f64> {
        let mut draw = Draw(comm.id().0 ^ number << 20 ^ at << 12 ^ u64::from(rank));
        let order = [1.0, -1e-9, 1e17];
        (0..count).map(|_| draw.below(1 << 50) as f64 * order[draw.below(3) as usize]).collect()
    }

    /// Compares the sums of a rider with what they must be.
    fn check_sums(&mut self, comm: &Comm, name: (u64, u64), found: &[f64]) {
        let brought = (0..comm.size()).map(|rank| {
            let mine = Self::gives(comm, name, rank, found.len());
            Values::new(ReduceOp::Sum, &mine).expect("sums")
        });
        let expected = combined(brought.collect::<Vec<_>>()).expect("this rank, at least");
        if !found.iter().map(|it| it.to_bits()).eq(expected.words().iter().copied()) {
            self.log.wrong.get_or_insert(format!("riders: {found:?} and not {expected:?}"));
        }
    }

    /// Up to four riders, beside a message; some ranks wait for some of them inside of the block.
    fn post_riders(
        &mut self,
        comm: &Comm,
        block: &mut TryBlock,
        number: u64,
        posted: &mut Vec<Posted>,
    ) -> Result<(), Error> {
        let mut draw = Draw(self.job.setting.seed ^ self.round << 8 ^ self.attempt);
        let (me, size) = (comm.rank().number(), comm.size());
        let mut own = Draw(draw.word() ^ u64::from(me) << 32);
        for at in 0..=draw.below(4) {
            let count = draw.below(5) as usize;
            if draw.one_in(3) {
                let heard = block.irecv(vec![0_u8], Rank::new((me + size - 1) % size), Tag(9))?;
                block.isend(vec![1_u8], Rank::new((me + 1) % size), Tag(9))?;
                if own.one_in(2) {
                    block.wait_local(heard, Timeout::Never)?;
                }
            }
            if count == 0 {
                // Of no type that matters.
                let barrier = block.ibarrier();
                if own.one_in(3) {
                    block.wait_local(barrier, Timeout::Never)?;
                }
                continue;
            }
            let mine = Self::gives(comm, (number, at), me, count);
            posted.push((at as usize, block.iallreduce(mine, ReduceOp::Sum)?));
            if own.one_in(3) {
                let which = own.below(posted.len() as u64) as usize;
                let (at, request) = posted[which];
                block.wait_local(request, Timeout::Never)?;
                if own.one_in(2) {
                    posted.remove(which);
                    let found = block.take(request)?;
                    self.check_sums(comm, (number, at as u64), &found);
                }
            }
        }
        Ok(())
    }

    pub(super) fn riders(
        &mut self,
        comm: &Comm,
        mut block: TryBlock,
        number: u64,
    ) -> Result<Next, Error> {
        let mut posted = Vec::new();
        let result = self.post_riders(comm, &mut block, number, &mut posted);
        if result.is_ok() && self.fuses(comm, number) {
            return self.end_fused(comm, number, block);
        }
        let yes = result.is_ok();
        let ended = match result {
            Ok(()) => block.finish(Timeout::Never),
            Err(error) => block.leave(&error),
        };
        let finished = wait(ended)?;
        let failed = !finished.failed_requests(Codes::Any).is_empty();
        self.note(comm, number, &finished, yes && !failed);
        let is_other = |fault: &Fault| fault.code == FaultCode::Mismatched;
        if finished.report().faults().iter().any(is_other) {
            self.log.wrong.get_or_insert("riders: all ranks have brought the same".into());
        }
        if finished.is_committed() {
            for (at, request) in posted {
                let found = finished.take(request)?;
                self.check_sums(comm, (number, at as u64), &found);
            }
        }
        after(&finished)
    }
}
