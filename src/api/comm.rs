//! Communicators.

use alloc::rc::Rc;

use super::{BlockOptions, Finished, Request, RequestId, Tried, TryBlock};
use crate::{
    engine::{
        BlockKey, CommKey, Level, Patience, Remembered, Shared,
        making::{Made, Making},
    },
    error::Error,
    ids::CommId,
    rank::{Rank, RankSet},
    recovery::creation::{Creation, Kind},
    seam::platform::{Tested, Tests as _},
    timeout::Timeout,
};

/// The colour of a rank in a split (MPI 4.1 §7.4.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Color {
    /// Ranks with equal numbers come into one communicator.
    Of(u32),
    /// `MPI_UNDEFINED`: this rank gets none.
    None,
}

/// A communicator: an ordered set of processes and a context of their own.
///
/// Blocks are started on it by all its living ranks, in the same order. When the last handle of a
/// communicator is dropped, this rank votes *no* on every block that the others start later, which
/// is interrupted, and on its own of which requests are pending: wait for their verdicts before.
/// What a rebuild makes again stays, see [`Comm::derived`].
///
/// When a block of a communicator is faulty, communicators that were derived from it start afresh:
/// blocks that are open on them become faulty, too, as their ranks may have left the outer block
/// at different points. So start one on a derived communicator inside of an outer block, or when
/// you know the verdicts on those that you have ended: a rank that knows of an abort would wait for
/// one that does not. A rank that gives a communicator up with which others go on gives up what was
/// derived from it, too, as it hears of no aborts there.
#[derive(Clone)]
pub struct Comm {
    pub(super) handle: Rc<Handle>,
}

/// Retires the communicator when the last user of it is gone.
pub(super) struct Handle {
    pub(super) engine: Shared,
    pub(super) key: CommKey,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Ok(mut engine) = self.engine.try_borrow_mut() {
            // What a rebuild makes again can be had from its parent again.
            if !engine.is_kept(self.key) {
                engine.drop_comm(self.key);
            }
            engine.release_comm(self.key);
        }
    }
}

impl Comm {
    pub(super) fn new(engine: &Shared, key: CommKey) -> Self {
        engine.borrow_mut().comm_mut(key).handles += 1;
        Self { handle: Rc::new(Handle { engine: engine.clone(), key }) }
    }

    pub(crate) fn engine(&self) -> &Shared {
        &self.handle.engine
    }

    pub(crate) fn key(&self) -> CommKey {
        self.handle.key
    }

    /// This process's rank.
    pub fn rank(&self) -> Rank {
        self.engine().borrow().comm(self.key()).me
    }

    /// Number of ranks, living and dead.
    pub fn size(&self) -> u32 {
        self.engine().borrow().comm(self.key()).size()
    }

    /// What the observer of this node has counted of this process, if it tests who is slow
    /// (`FAMPI_DIAGNOSIS`). It is no proof, changes at any time, and other ranks see other numbers:
    /// [`membership`](crate::membership) makes of them what all ranks agree on.
    pub fn tested(&self) -> Option<Tested> {
        self.engine().borrow().tested()
    }

    /// The identifier, the same on all its ranks; fault reports name communicators by it.
    pub fn id(&self) -> CommId {
        self.engine().borrow().comm(self.key()).id
    }

    /// What this process remembers of communicators, in all, for those who look for a leak.
    pub fn remembered(&self) -> Remembered {
        self.engine().borrow().process.remembered()
    }

    /// All ranks that the report of some block has named dead, a block on this communicator or on
    /// one with all its processes: the same on every living rank that has seen the same blocks.
    pub fn known_failed(&self) -> RankSet {
        self.engine().borrow().process.told_dead(self.key())
    }

    /// Says what a death does to the blocks that this rank starts from now on: whether it ends all
    /// their waits, as it does at first, or those alone that needed the dead. See [`Patience`].
    ///
    /// Local. All ranks say the same: what one of them ends by an interruption ends for all. A
    /// communicator that is derived from this one begins as [`Patience::Prompt`].
    pub fn set_patience(&self, patience: Patience) {
        self.engine().borrow_mut().comm_mut(self.key()).patience = patience;
    }

    /// Says whether the collectives of blocks that this rank starts from now on run over the
    /// living (Bland 2012, §IV: *run-through*), see [`TryBlock`]'s operations of all ranks. At
    /// first they do not: after a death a collective is an error until the communicator is whole
    /// again.
    ///
    /// Local. All ranks say the same. Without a report of a death nothing differs. A communicator
    /// that is derived from this one does not begin so.
    pub fn set_run_through(&self, on: bool) {
        self.engine().borrow_mut().comm_mut(self.key()).run_through = on;
    }

    /// Starts a block: local, no message (`MPI_TryBlock_start`, paper §3.1). For
    /// [`Level::Global`] and [`Level::WithCollective`] every living rank does so, in the same order
    /// and with the same level.
    ///
    /// It may be started before the verdict on an earlier one is known. If that is faulty, this one
    /// will be, too, unless all have voted: other ranks may have begun it in another context.
    ///
    /// # Errors
    ///
    /// [`Error::Abandoned`] when the communicator was replaced by a rebuild.
    #[inline]
    pub fn start(&self, level: Level) -> Result<TryBlock, Error> {
        let key = self.begin(level)?;
        Ok(TryBlock::new(self.engine().clone(), key))
    }

    /// Nothing when the communicator was replaced. What it returns fits in registers.
    fn begin(&self, level: Level) -> Result<BlockKey, Error> {
        let mut engine = self.engine().borrow_mut();
        if engine.comm(self.key()).retired {
            return Err(engine.why_retired());
        }
        engine.begin_work();
        Ok(engine.start_block(self.key(), level))
    }

    /// Runs a block as a closure: what it returns with `Ok` counts only if the block commits on
    /// all ranks; an error that leaves it (by `?`) becomes this rank's vote, and the others do
    /// not wait for it.
    ///
    /// The call returns when the block is decided, on every living rank the same way.
    ///
    /// # Errors
    ///
    /// What keeps the block from starting, or, inside an outer block that has become doomed, from
    /// ending: pass it on by `?`. An error of the closure is a vote, and comes back in
    /// [`Tried::Faulty`].
    pub fn try_block<R>(
        &self,
        options: BlockOptions,
        body: impl FnOnce(&mut TryBlock) -> Result<R, Error>,
    ) -> Result<Tried<R>, Error> {
        let mut block = self.start(options.level)?;
        let result = body(&mut block);
        Self::conclude(block, result, options.timeout)
    }

    /// Ends a block as its content wants it, and waits for the verdict.
    pub(super) fn conclude<R>(
        block: TryBlock,
        result: Result<R, Error>,
        timeout: Timeout,
    ) -> Result<Tried<R>, Error> {
        let (pending, result) = match result {
            Ok(value) => (block.finish(timeout), Ok(value)),
            Err(error) => (block.leave(&error), Err(error)),
        };
        let finished: Finished = pending.wait()?;
        let error = match result {
            Ok(value) if finished.is_committed() => return Ok(Tried::Committed(value, finished)),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        // What was only seen here is no reason for all.
        let shared =
            |error: &Error| matches!(error, Error::StateLost { .. } | Error::NothingProtected);
        let error = finished.agreed_error().or(error.filter(|error| !shared(error)));
        Ok(Tried::Faulty(finished, error))
    }

    /// Starts to make a duplicate with contexts of its own (`MPI_Comm_idup`). All ranks call it.
    pub fn idup(&self) -> Result<Forming, Error> {
        let key = self.rank().number();
        self.isplit(Color::Of(0), key)
    }

    /// Starts to split the communicator: ranks of one colour come into one communicator, ordered
    /// by key, then by rank (`MPI_Comm_split`, without blocking). All ranks call it. A rebuild
    /// makes it again, see [`Self::derived`]: split once, not in every step.
    ///
    /// # Errors
    ///
    /// [`Error::CreationPending`]: one communicator is made at a time.
    pub fn isplit(&self, color: Color, key: u32) -> Result<Forming, Error> {
        let color = match color {
            Color::Of(number) => Some(number),
            Color::None => None,
        };
        self.form(Kind::Split { color, key, of_grid: false })
    }

    /// The communicators that were derived from this one by splits, duplicates, groups and grids,
    /// in the order in which they were made; `None` where this rank had no colour.
    ///
    /// A rebuild makes again all that was derived from the world, from parts of it, from parts of
    /// those, and so on, in the same order, on replacements, too. When all members of a part die,
    /// what was derived from it since the previous rebuild is lost. A shrunken one lists nothing,
    /// and ends with its world; where it is rebuilt itself ([`Self::irebuild`]), that makes what
    /// was derived from it, and not dropped, and then it is listed.
    pub fn derived(&self) -> Vec<Option<Self>> {
        let keys = self.engine().borrow().derived_from(self.key());
        keys.into_iter().map(|key| key.map(|key| Self::new(self.engine(), key))).collect()
    }

    /// Starts to make a communicator of the living ranks, in the same order
    /// (`MPI_Comm_ishrink`, paper §3.3). All living ranks call it. It runs no agreement about who
    /// is dead beyond the commit of its own first step.
    ///
    /// # Errors
    ///
    /// [`Error::CreationPending`]: one communicator is made at a time.
    pub fn ishrink(&self) -> Result<Forming, Error> {
        self.form(Kind::Shrink)
    }

    /// Shrinks and waits for the result; see [`Self::ishrink`].
    pub fn shrink(&self) -> Result<Self, Error> {
        let formed = self.ishrink()?.wait_local(Timeout::Never)?;
        formed.into_comm().ok_or(Error::CreationFailed)
    }

    /// This rank's part of a grid: the one that was made before, if a rebuild knows of it.
    pub(super) fn part_of_grid(
        &self,
        table: &[(Option<u32>, u32)],
        (color, key): (u32, u32),
    ) -> Result<Forming, Error> {
        let engine = self.engine().borrow();
        let found = engine.find_part(self.key(), table);
        if let Some(child) = found.filter(|_| !engine.comm(self.key()).retired) {
            return Ok(Forming::made(self.clone(), child));
        }
        drop(engine);
        self.form(Kind::Split { color: Some(color), key, of_grid: true })
    }

    fn form(&self, kind: Kind) -> Result<Forming, Error> {
        let mut engine = self.engine().borrow_mut();
        if engine.comm(self.key()).retired {
            return Err(engine.why_retired());
        }
        let creation = Creation::start(&mut engine, self.key(), kind)?;
        Ok(Forming::new(self.clone(), Box::new(creation)))
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let engine = self.engine().borrow();
        let comm = engine.comm(self.key());
        write!(f, "Comm({:#x}, rank {} of {})", comm.id.0, comm.me, comm.size())
    }
}

/// A derived communicator in the making, see [`Comm::isplit`], [`Comm::idup`], [`Comm::icreate`],
/// [`Comm::ishrink`], [`super::Grid::isub`], [`super::Finished::duplicate`].
///
/// Wait for it to its end: the others wait for this rank, and as long as it is not over no other
/// communicator can be made here ([`Error::CreationPending`]), not even by a rebuild.
#[must_use = "the communicator is made in `wait_local`"]
pub struct Forming {
    parent: Comm,
    made: Made,
}

/// What waiting for a derived communicator came to.
#[derive(Debug)]
pub enum Formed {
    /// The communicator.
    Comm(Comm),
    /// This rank had no colour.
    None,
    /// Not made within the wait's timeout; wait again.
    TimedOut(Forming),
}

impl Formed {
    /// The communicator, if there is one.
    pub fn into_comm(self) -> Option<Comm> {
        match self {
            Self::Comm(comm) => Some(comm),
            _ => None,
        }
    }
}

impl Forming {
    pub(super) fn new(parent: Comm, making: Box<dyn Making>) -> Self {
        Self { parent, made: Made::Pending(making) }
    }

    /// A communicator that is there already.
    pub(super) fn made(parent: Comm, child: CommKey) -> Self {
        Self { parent, made: Made::Over(Ok(Some(child))) }
    }

    /// Waits until the communicator is made.
    ///
    /// # Errors
    ///
    /// [`Error::Left`] when a rank has left the job; [`Error::CreationFailed`] when a process died
    /// meanwhile, [`Error::RecoveryExhausted`] when a shrink was disturbed too often; the same on
    /// all living ranks.
    pub fn wait_local(mut self, timeout: Timeout) -> Result<Formed, Error> {
        let shared: Shared = self.parent.engine().clone();
        shared.borrow().require_here()?;
        let result = match self.made {
            Made::Pending(ref mut making) => shared
                .borrow_mut()
                .wait_steps(timeout, |engine| (making.advance(engine), making.awaits())),
            Made::Over(ref result) => Some(result.clone()),
            Made::Taken => Some(Err(Error::NoSuchRequest)),
        };
        match result {
            None => Ok(Formed::TimedOut(self)),
            Some(Ok(None)) => Ok(Formed::None),
            Some(Ok(Some(key))) => Ok(Formed::Comm(Comm::new(&shared, key))),
            Some(Err(error)) => {
                shared.borrow_mut().note_error(&error);
                Err(error)
            }
        }
    }

    /// Waits as long as it takes: the communicator, if this rank has a colour.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_local`].
    pub fn wait(self) -> Result<Option<Comm>, Error> {
        Ok(self.wait_local(Timeout::Never)?.into_comm())
    }
}

/// # Communicators in the making
impl TryBlock {
    /// Makes the end of a communicator in the making an operation of this block: a shrink, a split,
    /// a duplicate (paper §3.3: *recovery is a block that can be handled inside a TryBlock*). It
    /// goes on in each wait of this rank; [`Finished::formed`] gives the communicator.
    ///
    /// Its failure is a fault of the block, with [`FaultCode::CreationFailed`], on all ranks. A
    /// death that it meets is in the report of the block if that is on the communicator that the
    /// other is made from. All living ranks do so in the same order as they start blocks, and start
    /// none on that communicator until they have the verdict.
    ///
    /// A rebuild cannot be part of a block, as it voids all communicators; its own last step is a
    /// commit of all that are in the new world.
    ///
    /// [`FaultCode::CreationFailed`]: crate::FaultCode::CreationFailed
    pub fn form(&mut self, forming: Forming) -> Request<Comm> {
        let index = self.engine().borrow_mut().add_making(self.key, forming.made);
        Request::of(RequestId { block: self.key, index })
    }
}

impl Finished {
    /// The communicator that was made in the block, once. If the block is faulty it may have been
    /// made all the same, and is good, or be in the making still ([`Formed::TimedOut`]), as that
    /// goes on where a block ends early: then all living ranks wait for it. `comm` is any
    /// communicator of this process.
    ///
    /// # Errors
    ///
    /// As [`Forming::wait_local`]; [`Error::NoSuchRequest`] the second time, and for any other
    /// request.
    pub fn formed(&self, request: Request<Comm>, comm: &Comm) -> Result<Formed, Error> {
        if request.id.block != self.key {
            return Err(Error::NoSuchRequest);
        }
        let made = self.engine.borrow_mut().take_made(self.key, request.index());
        match made {
            Made::Taken => Err(Error::NoSuchRequest),
            Made::Over(Ok(Some(key))) => {
                let formed = Comm::new(&self.engine, key);
                self.engine.borrow_mut().release_comm(key);
                Ok(Formed::Comm(formed))
            }
            Made::Over(over) => over.map(|_| Formed::None),
            made @ Made::Pending(_) => Ok(Formed::TimedOut(Forming { parent: comm.clone(), made })),
        }
    }
}
