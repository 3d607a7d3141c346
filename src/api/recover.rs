//! Communicators in the making: without blocking, with progress in `wait_local`.

use super::{Comm, World};
use crate::{
    engine::{CommKey, Engine, Shared, Span},
    error::Error,
    recovery::{creation::Creation, rebuild::Rebuild},
    seam::platform::Idle,
    timeout::Timeout,
};

/// A derived communicator in the making, see [`Comm::isplit`], [`Comm::idup`], [`Comm::icreate`],
/// [`Comm::ishrink`], [`super::Grid::isub`], [`super::Finished::duplicate`].
///
/// Wait for it to its end: the others wait for this rank, and as long as it is not over no other
/// communicator can be made here ([`Error::CreationPending`]), not even by a rebuild.
#[must_use = "the communicator is made in `wait_local`"]
pub struct Forming {
    parent: Comm,
    work: Work,
}

enum Work {
    Creation(Creation),
    /// It was there before.
    Done(CommKey),
}

/// What waiting for a derived communicator came to.
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
    pub(super) fn new(parent: Comm, creation: Creation) -> Self {
        Self { parent, work: Work::Creation(creation) }
    }

    /// A communicator that is there already.
    pub(super) fn made(parent: Comm, child: CommKey) -> Self {
        Self { parent, work: Work::Done(child) }
    }

    /// Waits until the communicator is made.
    ///
    /// # Errors
    ///
    /// [`Error::Left`] when a rank has left the job; [`Error::CreationFailed`] when somebody died
    /// meanwhile, [`Error::RecoveryExhausted`] when a shrink was disturbed too often; the same on
    /// all living ranks.
    pub fn wait_local(mut self, timeout: Timeout) -> Result<Formed, Error> {
        let shared: Shared = self.parent.engine().clone();
        let creation = match &mut self.work {
            Work::Creation(creation) => creation,
            Work::Done(child) => return Ok(Formed::Comm(Comm::new(&shared, *child))),
        };
        let mut engine = shared.borrow_mut();
        let result =
            wait_steps(&mut engine, timeout, |engine| (creation.step(engine), creation.awaits()));
        if result.is_some() {
            engine.job.creating = false;
        }
        drop(engine);
        Ok(match result {
            None => Formed::TimedOut(self),
            Some(made) => made?.map_or(Formed::None, |key| Formed::Comm(Comm::new(&shared, key))),
        })
    }
}

/// A rebuild under way, see [`World::irebuild`].
#[must_use = "the rebuild happens in `wait_local`"]
pub struct Rebuilding {
    shared: Shared,
    rebuild: Box<Rebuild>,
}

/// What waiting for a rebuild came to.
pub enum Rebuilt {
    /// The world, complete again.
    World(World),
    /// Not ready within the wait's timeout; wait again.
    TimedOut(Rebuilding),
}

impl Rebuilding {
    pub(super) fn new(shared: Shared, rebuild: Rebuild) -> Self {
        Self { shared, rebuild: Box::new(rebuild) }
    }

    /// Waits until the world is complete again.
    ///
    /// # Errors
    ///
    /// [`Error::Left`] when a rank has left the job, [`Error::RecoveryExhausted`] when further
    /// failures disturbed it too often, and [`Error::TooFewSpares`]; the same on all living ranks.
    pub fn wait_local(mut self, timeout: Timeout) -> Result<Rebuilt, Error> {
        let rebuild = &mut self.rebuild;
        let mut engine = self.shared.borrow_mut();
        let result =
            wait_steps(&mut engine, timeout, |engine| (rebuild.step(engine), rebuild.awaits()));
        drop(engine);
        match result {
            None => Ok(Rebuilt::TimedOut(self)),
            Some(result) => {
                result?;
                Ok(Rebuilt::World(World::of(&self.shared)))
            }
        }
    }
}

/// Waits for step after step; `None` when the timeout came first.
fn wait_steps<R>(
    engine: &mut Engine,
    timeout: Timeout,
    mut step: impl FnMut(&mut Engine) -> (Option<R>, crate::engine::BlockKey),
) -> Option<R> {
    let began = engine.platform.now();
    let deadline = match timeout {
        Timeout::After(_) => timeout.deadline(began),
        _ => None,
    };
    let span = Span::new(began, timeout);
    loop {
        let (result, awaits) = step(engine);
        if result.is_some() {
            return result;
        }
        let left = deadline.map_or(timeout, |deadline| {
            Timeout::After(deadline.saturating_sub(engine.platform.now()))
        });
        let happened = engine.within(span, |engine| {
            engine.wait(left, Idle::Busy, |engine| {
                engine.verdict(awaits).is_some() || engine.job.dismissed
            })
        });
        if !happened {
            return None;
        }
    }
}
