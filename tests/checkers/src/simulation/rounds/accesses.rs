//! Rounds in which ranks use each other's windows, and what must be in these afterwards.

use fampi::{Comm, Error, Rank, ReduceOp, Timeout, TryBlock, Window};

use super::{Next, Run};

impl Run<'_> {
    /// This rank's part of the window of a round, made before its block starts.
    pub(super) fn window(&self, comm: &Comm) -> Result<Window<u64>, Error> {
        comm.window(self.round as u32, self.memory(comm.rank().number()))
    }

    /// One cell in which all accumulate, and room for what another rank puts.
    fn memory(&self, rank: u32) -> Vec<u64> {
        vec![u64::from(rank) * 7; 1 + [3, 700][self.round as usize % 2]]
    }

    /// Everybody puts to the right, and accumulates at one rank; a window has all of that if the
    /// block is committed, and nothing if not.
    pub(super) fn accesses(
        &mut self,
        comm: &Comm,
        mut block: TryBlock,
        number: u64,
        window: &Window<u64>,
    ) -> Result<Next, Error> {
        let (me, size) = (comm.rank().number(), comm.size());
        let (right, left) = (Rank::new((me + 1) % size), (me + size - 1) % size);
        let root = (number % u64::from(size)) as u32;
        let mut expected = self.memory(me);
        let payload = self.payload(comm, number, me, expected.len() - 1);
        let post = || {
            block.rput(window, right, 1, payload)?;
            let one = vec![u64::from(me) + 1];
            block.raccumulate(window, Rank::new(root), 0, one, ReduceOp::Sum)?;
            let gotten = block.rget(window, right, 0, vec![0])?;
            block.wait_local(gotten, Timeout::Never)?;
            block.take(gotten)
        };
        let next = match post() {
            Ok(gotten) => {
                self.compare(&gotten, &self.memory(right.number())[..1]);
                self.end(comm, number, block.finish(Timeout::Never), true)?
            }
            Err(error) => self.end(comm, number, block.leave(&error), false)?,
        };
        if self.log.ends.last().is_some_and(|(_, end)| end.committed) {
            let put = self.payload(comm, number, left, expected.len() - 1);
            expected[1..].copy_from_slice(&put);
            if me == root {
                expected[0] += u64::from(size) * u64::from(size + 1) / 2;
            }
        }
        window.read(|memory| self.compare(memory, &expected));
        Ok(next)
    }
}
