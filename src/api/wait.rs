//! Waiting inside a block, for one request or the next of many, and ending a receive early.

use super::{RequestId, Status, TryBlock};
use crate::{
    engine::{Engine, Progress},
    error::Error,
    fault::FaultCode,
    seam::platform::Idle,
    timeout::Timeout,
};

/// A request that is over, and how.
pub type Over<R> = (R, Result<Status, FaultCode>);

impl TryBlock {
    /// Looks at a request; `None` when it is not over.
    ///
    /// # Errors
    ///
    /// [`Error::Request`] when it failed, [`Error::NoSuchRequest`] when it is another block's.
    pub fn test(&mut self, request: impl Into<RequestId>) -> Result<Option<Status>, Error> {
        match self.wait_local(request, Timeout::Poll) {
            Ok(status) => Ok(Some(status)),
            Err(Error::WaitTimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits inside the block for one request (`MPI_Wait_local`). If another rank's failure dooms
    /// the block, the wait ends.
    ///
    /// # Errors
    ///
    /// [`Error::Request`] when the request failed, [`Error::WaitTimedOut`] when it is not over,
    /// [`Error::NoSuchRequest`] when it is another block's.
    pub fn wait_local(
        &mut self,
        request: impl Into<RequestId>,
        timeout: Timeout,
    ) -> Result<Status, Error> {
        let index = self.index(request.into())?;
        let mut engine = self.engine().borrow_mut();
        let state = engine.wait_request(self.key, index, timeout);
        result(&engine, state)
    }

    /// Waits inside the block for all these requests (`MPI_Waitall_local`), in any order.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_local`]; of several failures the first in the list is returned.
    pub fn waitall_local<R: Into<RequestId>>(
        &mut self,
        requests: impl IntoIterator<Item = R>,
        timeout: Timeout,
    ) -> Result<(), Error> {
        let deadline = match timeout {
            Timeout::After(_) => timeout.deadline(self.engine().borrow().platform.now()),
            _ => None,
        };
        for request in requests {
            let left = match deadline {
                None => timeout,
                Some(deadline) => {
                    let now = self.engine().borrow().platform.now();
                    Timeout::After(deadline.saturating_sub(now))
                }
            };
            self.wait_local(request, left)?;
        }
        Ok(())
    }

    /// Waits inside the block for the next of these requests (`MPI_Waitany_local`) and takes it
    /// out of the list, whose order stays; `None` when the list is empty.
    ///
    /// ```
    /// # use fampi::{Error, Level, Tag, Timeout, sim::Simulation};
    /// # let report = Simulation::new(3).run_world(|world| -> Result<u32, Error> {
    /// # let mut block = world.start(Level::Global)?;
    /// # let me = world.rank().number();
    /// # let mut sum = 0;
    /// let others: Vec<u32> = (0..world.size()).filter(|rank| *rank != me).collect();
    /// let mut receives = Vec::new();
    /// for rank in others {
    ///     block.isend(vec![me], fampi::Rank::new(rank), Tag(0))?;
    ///     receives.push(block.irecv(vec![0], fampi::Rank::new(rank), Tag(0))?);
    /// }
    /// while let Some((request, status)) = block.waitany_local(&mut receives, Timeout::Never)? {
    ///     assert_eq!(block.take(request)?, [status.source.unwrap().number()]);
    /// #   sum += 1;
    /// }
    /// # let _ = block.finish(Timeout::Never).wait_local(Timeout::Never)?;
    /// # world.finalize();
    /// # Ok(sum)
    /// # });
    /// # assert!(report.expect_orderly().iter().all(|sum| *sum == Ok(2)));
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::wait_local`]. A request that failed is taken out of the list, too;
    /// [`Self::wait_next_local`] says which one it was.
    pub fn waitany_local<R: Copy + Into<RequestId>>(
        &mut self,
        requests: &mut Vec<R>,
        timeout: Timeout,
    ) -> Result<Option<(R, Status)>, Error> {
        let Some(at) = self.first_over(requests, timeout)? else { return Ok(None) };
        let request = requests.remove(at);
        let status = self.wait_local(request, Timeout::Poll)?;
        Ok(Some((request, status)))
    }

    /// Waits as [`Self::waitany_local`] does, and says of a request that failed which one it was:
    /// its fault instead of its status, so that the program can go on with the others.
    ///
    /// # Errors
    ///
    /// [`Error::WaitTimedOut`] when none is over, [`Error::NoSuchRequest`] when one is another
    /// block's.
    pub fn wait_next_local<R: Copy + Into<RequestId>>(
        &mut self,
        requests: &mut Vec<R>,
        timeout: Timeout,
    ) -> Result<Option<Over<R>>, Error> {
        let Some(at) = self.first_over(requests, timeout)? else { return Ok(None) };
        let request = requests.remove(at);
        match self.wait_local(request, Timeout::Poll) {
            Ok(status) => Ok(Some((request, Ok(status)))),
            Err(Error::Request(code)) => Ok(Some((request, Err(code)))),
            Err(error) => Err(error),
        }
    }

    /// Waits inside the block until one of these requests is over, and takes all that are over
    /// out of the list (`MPI_Waitsome_local`), whose order stays. Empty when the list is empty.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_local`]. Requests that failed are taken out of the list, of which the first
    /// is returned; those that completed stay in it for the next call.
    pub fn waitsome_local<R: Copy + Into<RequestId>>(
        &mut self,
        requests: &mut Vec<R>,
        timeout: Timeout,
    ) -> Result<Vec<(R, Status)>, Error> {
        if self.first_over(requests, timeout)?.is_none() {
            return Ok(Vec::new());
        }
        let mut engine = self.engine().borrow_mut();
        let states = requests.iter().map(|it| engine.test_request(self.key, (*it).into().index));
        let states: Vec<Progress> = states.collect();
        let mut failure = None;
        for state in &states {
            if let Progress::Failed(code) = state {
                failure = failure.or(Some(*code));
            }
        }
        let mut over = Vec::new();
        let mut at = 0;
        requests.retain(|request| {
            let state = states[at];
            at += 1;
            match state {
                Progress::Complete(status) if failure.is_none() => {
                    over.push((*request, Status::of(&engine, status)));
                    false
                }
                Progress::Failed(_) => false,
                _ => true,
            }
        });
        failure.map_or(Ok(over), |code| Err(Error::Request(code)))
    }

    /// Why a request failed; `None` when it did not, or not yet.
    pub fn fault(&self, request: impl Into<RequestId>) -> Option<FaultCode> {
        let index = self.index(request.into()).ok()?;
        match self.engine().borrow().contents(self.key).records[index].state {
            Progress::Failed(code) => Some(code),
            _ => None,
        }
    }

    /// Ends a receive that has no message yet (`MPI_Cancel`, MPI 4.1 §3.8.4). It is complete then,
    /// with [`Status::cancelled`], is no fault, and its buffer can be taken as it was. A message
    /// that comes for it later can be received by another receive of this block only.
    ///
    /// False when it was over before, when its message is on its way, and for everything else than
    /// a receive: Open MPI cannot cancel sends, and MPI forbids it for operations of all ranks.
    /// What cannot be cancelled ends with the block.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRequest`] when it is another block's.
    pub fn cancel(&mut self, request: impl Into<RequestId>) -> Result<bool, Error> {
        let index = self.index(request.into())?;
        Ok(self.engine().borrow_mut().cancel_request(self.key, index))
    }

    /// Waits until one of these requests is over; its place in the list.
    fn first_over<R: Copy + Into<RequestId>>(
        &self,
        requests: &[R],
        timeout: Timeout,
    ) -> Result<Option<usize>, Error> {
        for request in requests {
            self.index((*request).into())?;
        }
        let mut engine = self.engine().borrow_mut();
        for request in requests {
            engine.want(self.key, (*request).into().index);
        }
        let mut found = None;
        engine.wait(timeout, Idle::Busy, |engine| {
            let is_over = |request: &R| {
                engine.test_request(self.key, (*request).into().index) != Progress::Pending
            };
            found = requests.iter().position(is_over);
            found.is_some() || requests.is_empty()
        });
        match found {
            None if !requests.is_empty() => Err(Error::WaitTimedOut),
            found => Ok(found),
        }
    }
}

fn result(engine: &Engine, state: Progress) -> Result<Status, Error> {
    match state {
        Progress::Complete(status) => Ok(Status::of(engine, status)),
        Progress::Failed(code) => Err(Error::Request(code)),
        Progress::Pending => Err(Error::WaitTimedOut),
    }
}
