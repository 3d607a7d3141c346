//! Duplicates of a communicator that exist if and only if a block commits.
//!
//! ```text
//! in the block       all ranks tell each other that they ask: a barrier, with its faults
//! the commit         all have asked; it is the first step of the creation
//! afterwards         make, confirm: the other two steps
//! ```
//!
//! MPI's own `MPI_Comm_idup` would be under way during the block, where a death breaks the
//! numbering of communicators in Open MPI 5. Here an abort has nothing to undo.
//!
//! Reference: MPI 4.1 §7.4.2; the steps are those of the module `recovery`.

use super::{Comm, Finished, Forming, Request, TryBlock};
use crate::{
    engine::Need,
    error::Error,
    recovery::creation::Creation,
    seam::{collective::Collective, platform::Operation},
};

/// # Duplicates
impl TryBlock {
    /// Asks for a duplicate of the block's communicator (`MPI_Comm_idup`, MPI 4.1 §7.4.2), which
    /// exists if and only if the block commits: [`Finished::duplicate`] gives it. It is an
    /// operation of all ranks like [`Self::ibarrier`], and fails like one.
    ///
    /// A step of [`crate::World::run`] has no end that its program sees; there, derive
    /// communicators before the run.
    ///
    /// # Errors
    ///
    /// [`Error::NotGlobal`] in a local block.
    pub fn idup(&mut self) -> Result<Request<Comm>, Error> {
        if !self.engine().borrow().block(self.key).level.is_agreed() {
            return Err(Error::NotGlobal);
        }
        let barrier = Operation::Collective(Collective::Barrier);
        let asked: Request<u8> = self.post(Need::All, &barrier, Vec::new());
        Ok(Request::of(asked.id()))
    }
}

impl Finished {
    /// Starts to make the duplicate of `comm`, the block's communicator, that this block has
    /// committed. All ranks do so, once, in the same order as other creations.
    ///
    /// If a process dies meanwhile it is an error on all living ranks, as for every creation. What
    /// was committed exists all the same: of the world, a rebuild makes it, and it is then the
    /// last of [`crate::World::children`].
    ///
    /// # Errors
    ///
    /// [`Error::NotCommitted`] after an abort; [`Error::NoSuchRequest`] the second time, or when
    /// the block was none of `comm`; as [`Comm::isplit`].
    pub fn duplicate(&self, request: Request<Comm>, comm: &Comm) -> Result<Forming, Error> {
        if request.id.block != self.key {
            return Err(Error::NoSuchRequest);
        }
        if !self.is_committed() {
            return Err(Error::NotCommitted);
        }
        let mut engine = comm.engine().borrow_mut();
        if engine.comm(comm.key()).retired {
            return Err(engine.why_retired());
        }
        let asked = engine.contents(self.key).records[request.index()].buffer();
        if asked.is_none() || engine.block(self.key).comm != comm.key() {
            return Err(Error::NoSuchRequest);
        }
        let creation = Creation::of_block(&mut engine, comm.key())?;
        engine.contents_mut(self.key).records[request.index()].take_any();
        drop(engine);
        Ok(Forming::new(comm.clone(), Box::new(creation)))
    }
}
