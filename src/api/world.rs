//! The world: all ranks of the application.

use std::ops::Deref;

use super::{Checkpoints, Comm};
use crate::{
    engine::{Engine, Shared},
    error::Error,
    rank::Rank,
    recovery::{Placement, filing::Filing, rebuild::Rebuild},
    seam::platform::Platform,
    timeout::Timeout,
};

/// All ranks of the application, from `init` or from a rebuild. It is a [`Comm`], too.
///
/// Call [`World::finalize`] at the end. A process that ends without it dies by a signal, so that
/// the others learn of it; but a world that is dropped after an error which all living ranks have
/// got ([`Error::is_agreed`]) is left in order, so that `main` may return that error.
pub struct World {
    comm: Comm,
    /// Where runs save checkpoints, if they do.
    pub(super) filing: Option<Filing>,
}

impl World {
    /// Enters the job on a platform. Returns when this process holds a rank: at once for ranks of
    /// the launch, when it is needed for a spare or a replacement.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] and [`Error::Mpi`] when the job cannot start.
    #[doc(hidden)]
    pub fn enter(platform: Box<dyn Platform>) -> Result<Self, Error> {
        let mut engine = Engine::new(platform);
        engine.launch()?;
        Ok(Self::of(&std::rc::Rc::new(std::cell::RefCell::new(engine))))
    }

    pub(super) fn of(shared: &Shared) -> Self {
        let key = shared.borrow().job.world.expect("a rank of the world");
        Self { comm: Comm::new(shared, key), filing: None }
    }

    /// The world as a [`Comm`] of its own, for code that goes on with a shrunk or split one.
    pub fn comm(&self) -> Comm {
        self.comm.clone()
    }

    /// True when this process took the place of a failed one: a spare, or a process that was
    /// started for it. It stays true as long as the process lives, so ask it once, after
    /// [`World::enter`] or `init`, to learn whether this process has to be given its data.
    pub fn is_replacement(&self) -> bool {
        self.engine().borrow().job.replacement
    }

    /// The rank of the launch that this process stands for. It differs from the rank only after
    /// a rebuild with [`Placement::Append`]. After one of a shrunken
    /// communicator it is the rank there ([`Comm::irebuild`]).
    pub fn origin(&self) -> u32 {
        self.origin_of(self.rank())
    }

    /// The rank of the launch that a rank stands for.
    pub fn origin_of(&self, rank: Rank) -> u32 {
        self.engine().borrow().job.roster.origins[rank.index()]
    }

    /// The rank that stands for a rank of the launch.
    pub fn standing_for(&self, origin: u32) -> Rank {
        self.engine().borrow().job.roster.standing_for(origin)
    }

    /// Number of parked spares that are left.
    pub fn spares(&self) -> usize {
        self.engine().borrow().job.roster.spares.len()
    }

    /// How many rebuilds made this world; 0 for the launch.
    pub fn generation(&self) -> u32 {
        self.engine().borrow().job.roster.generation
    }

    /// The communicators that were derived from the world (or from a duplicate of it), in the
    /// order in which they were made; `None` where this rank had no colour, and for a duplicate
    /// that could not be made yet ([`super::Finished::duplicate`]). After a rebuild these are the
    /// new ones, on replacements, too. What was derived from a part is told by [`Comm::derived`].
    pub fn children(&self) -> Vec<Option<Comm>> {
        let engine = self.engine().borrow();
        let children = engine.job.children.iter().filter(|(path, _)| path.len() == 1);
        let keys: Vec<_> = children.map(|(_, key)| *key).collect();
        drop(engine);
        keys.into_iter().map(|key| key.map(|key| Comm::new(self.engine(), key))).collect()
    }

    /// The communicator of this world that a rebuild has made in the place of one of a world
    /// before: with the same ranks, of which replacements have those that were dead. Local.
    ///
    /// Nothing for one that has not been made again: a shrunken communicator whose world was
    /// rebuilt, what was derived from one, and what a rebuild has lost (see [`Comm::derived`]).
    pub fn in_place_of(&self, old: &Comm) -> Option<Comm> {
        let found = self.engine().borrow().in_place_of(old.key())?;
        let is_world = found == self.key();
        // The world goes with its last handle.
        Some(if is_world { self.comm() } else { Comm::new(self.engine(), found) })
    }

    /// From now on runs save checkpoints. All ranks call it with the same settings, replacements,
    /// too; the tool `fampi` does it for them (`fampi run --checkpoint`). A world that comes out of
    /// a rebuild of the program's own ([`Comm::rebuild`]) has to be told again.
    pub fn set_checkpoints(&mut self, checkpoints: Checkpoints) {
        let filing = Filing::of(checkpoints.0, &mut self.engine().borrow_mut().job);
        self.filing = Some(filing);
    }

    /// Does without the observer of this node, as if it had none, or with it again: for
    /// measurements of what it costs. What it tells meanwhile is heard later.
    #[doc(hidden)]
    pub fn set_observed(&self, observed: bool) {
        self.engine().borrow_mut().set_observed(observed);
    }

    /// Leaves the job in order, as all living ranks do after the same blocks: waits for the
    /// others, answers what they may still ask, dismisses the spares, ends MPI. A block that is
    /// open is left.
    ///
    /// Where others start a block instead, that one and each further one is faulty with
    /// [`FaultCode::Finalized`], until they leave, too.
    ///
    /// [`FaultCode::Finalized`]: crate::FaultCode::Finalized
    pub fn finalize(self) {
        self.comm.engine().borrow_mut().leave();
    }
}

/// # Rebuilds
impl Comm {
    /// Starts to make this communicator complete again after failures (`MPI_Comm_irebuild`, paper
    /// §3.3): spares take the failed ranks first, then processes are spawned.
    ///
    /// Whichever communicator it is, the one of all living ranks from which it was derived is made
    /// again, and with it all that was derived from that, in the same order: the world, then rows
    /// and columns, as in the paper's 2-D case. That communicator is the world, or the last one
    /// that was shrunk from it; it becomes the world, and [`World::in_place_of`] finds there what
    /// takes the place of each other one.
    ///
    /// All living ranks call it, each on any communicator that was derived from the same one. A
    /// replacement enters by `init` (`MPI_Comm_irebuild_join`), and finds its communicators by
    /// [`Grid::sub`](super::Grid::sub), [`World::children`] and [`Self::derived`]. What there was
    /// before is void from the call on. In a world of `init_from` nothing is spawned.
    ///
    /// After the rebuild of a shrunken communicator a rank's [origin](World::origin) is the rank
    /// that it, or the one it replaces, had there. States that were protected on it come back;
    /// others are forgotten.
    ///
    /// # Errors
    ///
    /// [`Error::CreationPending`]: one communicator is made at a time. [`Error::NoPlace`] for one
    /// that was shrunk from a part of the world, which is to be rebuilt instead, and for one that
    /// was derived from a shrunken one whose last handle is gone.
    pub fn irebuild(&self, placement: Placement) -> Result<Rebuilding, Error> {
        let shared = self.engine().clone();
        let rebuild = Rebuild::start(&mut shared.borrow_mut(), self.key(), placement)?;
        Ok(Rebuilding::new(shared, rebuild))
    }

    /// Makes this communicator complete again, waits for it, and gives the world; see
    /// [`Self::irebuild`].
    ///
    /// # Errors
    ///
    /// As [`Self::irebuild`] on this rank; [`Error::Left`], [`Error::RecoveryExhausted`] and
    /// [`Error::TooFewSpares`] on all living ranks.
    pub fn rebuild(&self, placement: Placement) -> Result<World, Error> {
        self.irebuild(placement)?.wait()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking()
            && let Ok(mut engine) = self.comm.engine().try_borrow_mut()
        {
            engine.leave_if_ended(self.comm.key());
        }
    }
}

impl Deref for World {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}

/// A rebuild under way, see [`Comm::irebuild`].
#[must_use = "the rebuild happens in `wait_local`"]
pub struct Rebuilding {
    shared: Shared,
    rebuild: Box<Rebuild>,
}

/// What waiting for a rebuild came to.
#[derive(Debug)]
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
        let result = engine.wait_steps(timeout, |engine| (rebuild.step(engine), rebuild.awaits()));
        drop(engine);
        match result {
            None => Ok(Rebuilt::TimedOut(self)),
            Some(Err(error)) => {
                self.shared.borrow_mut().note_error(&error);
                Err(error)
            }
            Some(Ok(())) => Ok(Rebuilt::World(World::of(&self.shared))),
        }
    }

    /// Waits as long as it takes; see [`Self::wait_local`].
    ///
    /// # Errors
    ///
    /// As [`Self::wait_local`].
    pub fn wait(self) -> Result<World, Error> {
        match self.wait_local(Timeout::Never)? {
            Rebuilt::World(world) => Ok(world),
            Rebuilt::TimedOut(_) => unreachable!("it never times out"),
        }
    }
}
