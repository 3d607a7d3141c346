//! Fused commits: a reduction of a few numbers that rides on the end of a block.

use super::{Finished, Outcome, Pending, TryBlock};
use crate::{
    error::Error,
    seam::reduction::{Fusible, MAX_VALUES, ReduceOp, Values},
    timeout::Timeout,
};

/// A block that was finished with a reduction and is not known to be decided.
///
/// When it is dropped, the block is decided all the same; this rank does not see how.
#[must_use = "the result is not known before the block was waited for"]
#[derive(Debug)]
pub struct Reducing<T, const N: usize> {
    pending: Pending,
    numbers: core::marker::PhantomData<[T; N]>,
}

/// What waiting for a block with a reduction came to. There is a result if, and only if, the
/// block is committed; it has the same bits on every living rank.
#[must_use]
#[derive(Debug)]
pub enum Reduced<T, const N: usize> {
    /// All ranks voted *yes*: the reduced numbers of all of them.
    Committed([T; N], Finished),
    /// The block is faulty, with the same report on every living rank.
    Faulty(Finished),
    /// Not decided within the wait's timeout. It says nothing about the verdict: wait again.
    TimedOut(Reducing<T, N>),
}

impl TryBlock {
    /// Ends a block on whose verdict the ranks agree as [`Self::finish`] does, and reduces up to
    /// eight numbers over all its ranks with the messages of the commit. All ranks give as many
    /// numbers of the same type for the same operation; otherwise the block is faulty with
    /// [`FaultCode::Mismatched`](crate::FaultCode::Mismatched).
    ///
    /// It is a collective that needs every rank, as a block of
    /// [`Level::WithCollective`](crate::Level::WithCollective) has to hold one.
    ///
    /// The ranks that count are those that the commit is among: all but the known dead. The order
    /// of the operations depends on their number alone, so that sums of floats have the same bits
    /// on all ranks and in every run, on whichever nodes the ranks are. (Where ranks that share a
    /// node are so scattered that what the node has together is more than eight partial sums or
    /// products of floats, the values of all ranks go to one, which takes longer.) Of floats, `Min`
    /// and `Max` pass over what is no number.
    ///
    /// ```
    /// use fampi::{Level, ReduceOp, Reduced, Timeout, sim::Simulation};
    ///
    /// let report = Simulation::new(3).run_world(|world| {
    ///     let step = [0.5 / f64::from(world.rank().number() + 1)];
    ///     let block = world.start(Level::Global)?;
    ///     let reducing = block.finish_allreduce(step, ReduceOp::Min, Timeout::Never)?;
    ///     match reducing.wait_local(Timeout::Never)? {
    ///         Reduced::Committed([step], _) => assert_eq!(step, 0.5 / 3.0),
    ///         Reduced::Faulty(_) | Reduced::TimedOut(_) => unreachable!("nobody fails here"),
    ///     }
    ///     Ok::<(), fampi::Error>(())
    /// });
    /// assert_eq!(report.results().filter(|result| result.is_ok()).count(), 3);
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchReduction`] for bit operations on floats, [`Error::NotGlobal`] in a local
    /// block; this rank has left the block then, and votes *no*.
    ///
    /// # Paper
    ///
    /// Not in it: Hassani et al. 2015, §3.1 commits beside the reductions of the application.
    #[inline]
    pub fn finish_allreduce<T: Fusible, const N: usize>(
        self,
        numbers: [T; N],
        op: ReduceOp,
        timeout: Timeout,
    ) -> Result<Reducing<T, N>, Error> {
        const { assert!(0 < N && N <= MAX_VALUES, "a commit carries one to eight numbers") };
        let values = Values::new(op, &numbers).ok_or(Error::NoSuchReduction)?;
        if !self.engine().borrow().block(self.key).level.is_agreed() {
            return Err(Error::NotGlobal);
        }
        Ok(self.finish_fused(&values, timeout))
    }

    /// Ends a block that is agreed upon, with these numbers.
    #[inline]
    pub(super) fn finish_fused<T: Fusible, const N: usize>(
        self,
        values: &Values,
        timeout: Timeout,
    ) -> Reducing<T, N> {
        self.engine().borrow_mut().finish_fused(self.key, values, timeout);
        Reducing { pending: self.end(), numbers: core::marker::PhantomData }
    }
}

impl<T: Fusible, const N: usize> Reducing<T, N> {
    /// Waits for the verdict, and the result; see [`Pending::wait_local`].
    ///
    /// # Errors
    ///
    /// As [`Pending::wait_local`].
    #[inline]
    pub fn wait_local(self, timeout: Timeout) -> Result<Reduced<T, N>, Error> {
        Ok(match self.pending.wait_local(timeout)? {
            Outcome::Committed(finished) => {
                let Some(numbers) = finished.reduced() else {
                    unreachable!("what is committed has values of the shape that all brought")
                };
                Reduced::Committed(numbers, finished)
            }
            Outcome::Faulty(finished) => Reduced::Faulty(finished),
            Outcome::TimedOut(pending) => Reduced::TimedOut(Self { pending, ..self }),
        })
    }

    /// Waits as long as it takes: the result, if the block is committed, and the block.
    ///
    /// # Errors
    ///
    /// As [`Pending::wait_local`].
    pub fn wait(self) -> Result<(Option<[T; N]>, Finished), Error> {
        let finished = self.pending.wait()?;
        Ok((finished.is_committed().then(|| finished.reduced()).flatten(), finished))
    }

    /// Looks once; like [`Self::wait_local`] with [`Timeout::Poll`].
    ///
    /// # Errors
    ///
    /// As [`Pending::wait_local`].
    pub fn test(self) -> Result<Reduced<T, N>, Error> {
        self.wait_local(Timeout::Poll)
    }

    /// Finishes again, after a timeout; see [`Pending::finish`].
    pub fn finish(&mut self, timeout: Timeout) {
        self.pending.finish(timeout);
    }
}

impl Finished {
    /// The result of the block's reduction.
    #[inline]
    fn reduced<T: Fusible, const N: usize>(&self) -> Option<[T; N]> {
        self.engine.borrow().fused(self.key)?.numbers()
    }
}
