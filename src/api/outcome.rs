//! How blocks end.

use super::{Request, RequestId, Status, request};
use crate::{
    engine::{BlockKey, Level, Progress, Shared, Waited},
    error::Error,
    fault::{FaultCode, FaultReport},
    native::Element,
    timeout::Timeout,
};

/// A block that was finished and is not known to be decided. It is a request: it makes progress
/// when it is waited for or tested, and can be an operation of an outer block
/// ([`super::TryBlock::nest`]).
///
/// A pending block that is dropped is decided all the same; this rank does not see how.
#[must_use = "the verdict is not known before the block was waited for"]
pub struct Pending {
    /// Nothing once another handle has the block.
    engine: Option<Shared>,
    key: BlockKey,
}

/// What waiting for a block came to.
#[must_use]
#[derive(Debug)]
pub enum Outcome {
    /// All ranks voted *yes*: what the block did counts.
    Committed(Finished),
    /// The block is faulty, with the same report on every living rank.
    Faulty(Finished),
    /// Not decided within the wait's timeout. It says nothing about the verdict: wait again.
    TimedOut(Pending),
}

/// What a block of the closure form came to, on every living rank the same.
#[must_use]
#[derive(Debug)]
pub enum Tried<R> {
    /// All ranks voted *yes*; the closure's value.
    Committed(R, Finished),
    /// The block is faulty; with the error that all ranks share ([`Finished::agreed_error`]), or
    /// else the one that this rank's closure returned, which is never one of those.
    Faulty(Finished, Option<Error>),
}

impl Pending {
    #[inline]
    pub(super) fn new(engine: Shared, key: BlockKey) -> Self {
        Self { engine: Some(engine), key }
    }

    #[inline]
    fn engine(&self) -> &Shared {
        self.engine.as_ref().expect("only the end of the handle takes it")
    }

    #[inline]
    fn end(mut self) -> Finished {
        let engine = self.engine.take().expect("a handle ends once");
        Finished { engine, key: self.key }
    }

    /// Waits for the verdict (`MPI_Wait_local` on the block's request).
    ///
    /// # Errors
    ///
    /// [`Error::Request`] when this rank waits inside an outer block that has become doomed, so
    /// that the verdict may never come before it leaves that one: pass it on by `?`.
    // What it returns is taken apart at once, and is slow to carry through memory.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub fn wait_local(self, timeout: Timeout) -> Result<Outcome, Error> {
        let (waited, committed) = self.waited(timeout);
        match waited {
            Waited::Decided => {}
            Waited::TimedOut => return Ok(Outcome::TimedOut(self)),
            Waited::Doomed => return Err(Error::Request(FaultCode::Interrupted)),
        }
        let finished = self.end();
        Ok(if committed { Outcome::Committed(finished) } else { Outcome::Faulty(finished) })
    }

    /// What the wait came to, and whether the block is committed.
    fn waited(&self, timeout: Timeout) -> (Waited, bool) {
        let mut engine = self.engine().borrow_mut();
        let waited = engine.wait_block(self.key, timeout);
        (waited, engine.verdict(self.key) == Some(true))
    }

    /// Looks once; like [`Self::wait_local`] with [`Timeout::Poll`].
    ///
    /// # Errors
    ///
    /// As [`Self::wait_local`].
    pub fn test(self) -> Result<Outcome, Error> {
        self.wait_local(Timeout::Poll)
    }

    /// Finishes again, after a timeout (paper algorithm 2): as long as requests are pending it
    /// gives them another limit, later it changes nothing.
    pub fn finish(&mut self, timeout: Timeout) {
        self.engine().borrow_mut().finish_block(self.key, timeout);
    }

    /// Waits as long as it takes; [`Finished::is_committed`] says what the verdict is.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_local`].
    pub fn wait(self) -> Result<Finished, Error> {
        match self.wait_local(Timeout::Never)? {
            Outcome::Committed(finished) | Outcome::Faulty(finished) => Ok(finished),
            Outcome::TimedOut(_) => unreachable!("it never times out"),
        }
    }

    pub(super) fn into_key(mut self) -> BlockKey {
        self.engine = None;
        self.key
    }
}

impl Drop for Pending {
    #[inline]
    fn drop(&mut self) {
        if let Some(engine) = &self.engine {
            release(engine, self.key);
        }
    }
}

/// A decided block: its report, its requests' results, its buffers.
///
/// All queries are local; those about communicators and groups give the same on every living rank
/// of a global block (paper §3.2).
pub struct Finished {
    pub(super) engine: Shared,
    pub(super) key: BlockKey,
}

impl Finished {
    /// True when all ranks voted *yes*.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.engine.borrow().verdict(self.key) == Some(true)
    }

    /// The block's new faults.
    pub fn report(&self) -> FaultReport {
        self.engine.borrow().report(self.key).clone()
    }

    /// The error that all ranks share because the report has it: [`Error::StateLost`] and
    /// [`Error::NothingProtected`] after [`super::TryBlock::restore`].
    ///
    /// Go by this one, not by what `restore` returned here: a rank that was interrupted got another
    /// error from it, and a rank that died since may have been the only one that knew. For the
    /// closure form, [`Tried::Faulty`] carries this error.
    pub fn agreed_error(&self) -> Option<Error> {
        let report = self.report();
        let mut engine = self.engine.borrow_mut();
        let error = engine.agreed_error(&report)?;
        engine.note_error(&error);
        Some(error)
    }

    /// Takes the buffer of a request. One that completed is valid, also in a faulty block; what to
    /// do with it is the application's decision (partial acceptance). The buffer of one that failed
    /// comes back, too, with whatever is in it: ask for its [`Self::fault`] before you read it.
    ///
    /// # Errors
    ///
    /// [`Error::Quarantined`] when the request never completed and MPI may still touch the
    /// buffer: it can be taken later, or is freed when MPI has let go of it;
    /// [`Error::NoSuchRequest`] when it was taken before or is another block's.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub fn take<T: Element>(&self, request: Request<T>) -> Result<Vec<T>, Error> {
        if request.id.block != self.key {
            return Err(Error::NoSuchRequest);
        }
        request::take(&mut self.engine.borrow_mut(), self.key, request.id.index)
    }

    /// What a completed request tells; `None` when it did not complete.
    pub fn status(&self, request: impl Into<RequestId>) -> Option<Status> {
        match self.state(request.into())? {
            Progress::Complete(status) => Some(Status::of(&self.engine.borrow(), status)),
            _ => None,
        }
    }

    /// Why a request failed; `None` when it completed.
    pub fn fault(&self, request: impl Into<RequestId>) -> Option<FaultCode> {
        match self.state(request.into())? {
            Progress::Failed(code) => Some(code),
            _ => None,
        }
    }

    fn state(&self, request: RequestId) -> Option<Progress> {
        let engine = self.engine.borrow();
        let belongs = request.block == self.key;
        belongs.then(|| engine.contents(self.key).records[request.index].state)
    }

    /// The level that the block was started with.
    pub fn level(&self) -> Level {
        self.engine.borrow().block(self.key).level
    }
}

impl Drop for Finished {
    #[inline]
    fn drop(&mut self) {
        release(&self.engine, self.key);
    }
}

impl std::fmt::Debug for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.report())
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a block that is not known to be decided")
    }
}

#[inline]
fn release(engine: &Shared, key: BlockKey) {
    if let Ok(mut engine) = engine.try_borrow_mut() {
        if std::thread::panicking() {
            return engine.process.orphan(key);
        }
        engine.detach(key);
    }
}
