//! Transactions that let MPI applications survive the death of processes.
//!
#![doc = include_str!("docs/overview.md")]
#![cfg_attr(any(target_os = "none", target_os = "unknown"), no_std)]
#![cfg_attr(not(any(feature = "mpi", docsrs)), forbid(unsafe_code))]
#![warn(missing_debug_implementations)]

extern crate alloc;

#[cfg(not(any(target_os = "none", target_os = "unknown")))]
mod api;
pub mod error;
pub mod fault;
pub mod ids;
pub mod rank;
#[cfg(not(any(target_os = "none", target_os = "unknown")))]
pub mod sim;
pub mod timeout;

// For this project's own tests, benchmarks and tools: no part of the stable interface.
#[cfg(not(any(target_os = "none", target_os = "unknown")))]
#[doc(hidden)]
pub mod engine;
#[cfg(feature = "mpi")]
#[doc(hidden)]
pub mod mpi;
#[cfg(all(docsrs, not(feature = "mpi")))]
#[path = "mpi/absent.rs"]
mod mpi;
#[cfg(not(any(target_os = "none", target_os = "unknown")))]
#[doc(hidden)]
pub mod native;
#[doc(hidden)]
pub mod protocol;
#[cfg(not(any(target_os = "none", target_os = "unknown")))]
#[doc(hidden)]
pub mod recovery;
#[cfg(not(any(target_os = "none", target_os = "unknown")))]
#[doc(hidden)]
pub mod seam;

#[cfg(any(feature = "mpi", docsrs))]
use native::rsmpi;

/// Pages to read; there is no code in here.
#[cfg(any(doc, doctest))]
pub mod manual {
    #[allow(unused_imports)]
    use crate::*;

    #[doc = include_str!("docs/guide.md")]
    pub mod guide {}
    #[doc = include_str!("docs/from_rsmpi.md")]
    pub mod from_rsmpi {}
    #[doc = include_str!("docs/ulfm.md")]
    pub mod ulfm {}
    #[doc = include_str!("docs/clusters.md")]
    pub mod clusters {}
    #[doc = include_str!("docs/glossary.md")]
    pub mod glossary {}
    #[doc = include_str!("docs/semantics.md")]
    pub mod semantics {}
    #[doc = include_str!("docs/proof.md")]
    pub mod proof {}
    #[doc = include_str!("docs/internals.md")]
    pub mod internals {}
    #[doc = include_str!("docs/paper.md")]
    pub mod paper {}
}

#[cfg(any(feature = "mpi", docsrs))]
pub use mpi::{Facts, Holdings, facts};
#[cfg(any(feature = "mpi", docsrs))]
pub use native::MpiElement;
#[cfg(not(any(target_os = "none", target_os = "unknown")))]
pub use {
    api::*,
    engine::{Level, Patience, Remembered},
    native::{Element, UserOp},
    recovery::{
        MAX_ATTEMPTS, Placement,
        copies::MAX_SLOTS,
        interval::Interval,
        policy::{self, Policy},
    },
    seam::{
        archive::Files,
        lent::Elements,
        operation::FileMode,
        reduction::{ReduceOp, ReduceWith, Reducible},
        trace,
    },
};
#[doc(inline)]
pub use {
    error::Error,
    fault::{Cause, Codes, Fault, FaultCode, FaultReport},
    ids::CommId,
    protocol::{fused::Fusible, membership},
    rank::{Rank, RankSet},
    recovery::Redundancy,
    timeout::Timeout,
};

/// Enters the MPI job (`MPI_Init`, and `MPI_Comm_irebuild_join` for replacements, paper algorithm
/// 1). Every process calls it once, first. It returns when this process holds a rank: a spare may
/// have to wait for that; a spare that is never needed ends in here, its process successfully.
///
/// # Errors
///
/// [`Error::Unsupported`] says in a sentence what is wrong with the MPI library or the launch, or
/// that this process was in the job before; [`Error::DiedAtStart`] and, from the first rebuild,
/// [`Error::RecoveryExhausted`].
#[cfg(any(feature = "mpi", docsrs))]
pub fn init() -> Result<World, Error> {
    mpi::MpiPlatform::require_first()?;
    enter(mpi::MpiPlatform::new()?)
}

/// Enters the job, and saves checkpoints if the environment wants it.
#[cfg(any(feature = "mpi", docsrs))]
fn enter(platform: mpi::MpiPlatform) -> Result<World, Error> {
    let mut world = World::enter(alloc::boxed::Box::new(platform))?;
    error::show_rank(world.rank());
    if let Some(checkpoints) = checkpoints_by_environment()? {
        world.set_checkpoints(checkpoints);
    }
    Ok(world)
}

/// The checkpoints that the environment wants, as `fampi run --checkpoint` sets it.
///
/// # Errors
///
/// [`Error::Unsupported`] for a variable that makes no sense.
#[cfg(any(feature = "mpi", docsrs))]
#[doc(hidden)]
pub fn checkpoints_by_environment() -> Result<Option<Checkpoints>, Error> {
    let Some(settings) = mpi::checkpoints()? else { return Ok(None) };
    let mut checkpoints = Checkpoints::in_folder(settings.folder).files(settings.files);
    if settings.compressed {
        checkpoints = checkpoints.compressed();
    }
    if let Some(steps) = settings.every {
        checkpoints = checkpoints.every(Interval::Every(steps));
    }
    Ok(Some(if settings.restart { checkpoints.restart() } else { checkpoints }))
}

/// Enters the job in a program that has initialised MPI with rsmpi: a world of the ranks of `comm`,
/// in their order. It may be `MPI_COMM_WORLD`, or a part of it; others have no part in the job.
///
/// MPI stays the caller's to finalise, after [`World::finalize`]; then the process may end as it
/// likes.
///
/// The last `FAMPI_SPARES` ranks of `comm` are spares, as with [`init`]: each of them returns from
/// here as a [replacement](World::is_replacement), or its process ends in here, successfully, with
/// MPI finalised, when the others have finished or failed. So `comm` itself has ranks that answer
/// nothing; use the world instead.
///
/// Replacements come from these spares only, as a process that is started anew would run the part
/// of the program before this call alone. A rebuild that has too few of them starts nothing and is
/// [`Error::TooFewSpares`] on all living ranks. Programs whose world is `MPI_COMM_WORLD` can use
/// [`init`] instead, also with an MPI of their own, and have processes started.
///
/// ```no_run
/// use mpi::topology::{Color, Communicator as _};
///
/// let universe = mpi::initialize().expect("nobody has initialised MPI");
/// let all = universe.world();
/// let half = all.split_by_color(Color::with_value(all.rank() % 2)).expect("a colour");
/// let world = fampi::init_from(&half)?;
/// println!("rank {} of {}, {} spares", world.rank(), world.size(), world.spares());
/// world.finalize();
/// # Ok::<(), fampi::Error>(())
/// ```
///
/// # Errors
///
/// As [`init`], and [`Error::TooFewSpares`] when a process dies in here that no spare stands for.
///
/// # MPI
///
/// Collective over `comm`, whose errors return from now on. It is revoked when a process dies
/// before the world exists.
#[cfg(any(feature = "mpi", docsrs))]
pub fn init_from<C>(comm: &C) -> Result<World, Error>
where
    C: rsmpi::topology::Communicator + rsmpi::raw::AsRaw<Raw = rsmpi::ffi::MPI_Comm>,
{
    enter(mpi::MpiPlatform::adopt(comm)?)
}

#[cfg(feature = "mpi")]
impl guest::Guest {
    /// The platform as what it is.
    ///
    /// # Panics
    ///
    /// In a simulated world.
    pub fn with_mpi<R>(&mut self, use_it: impl FnOnce(&mut mpi::MpiPlatform) -> R) -> R {
        self.with_platform(|platform| use_it(platform.as_world().expect("a guest of MPI")))
    }

    /// [`Self::wait_for_others`] with the platform as what it is.
    ///
    /// # Panics
    ///
    /// In a simulated world.
    pub fn wait_with_mpi(
        &mut self,
        mut have_come: impl FnMut(&mut mpi::MpiPlatform) -> bool,
    ) -> bool {
        self.wait_for_others(|platform| have_come(platform.as_world().expect("a guest of MPI")))
    }
}

#[cfg(any(feature = "mpi", docsrs))]
impl Comm {
    /// A communicator of rsmpi with the same ranks, for calls into other libraries. It is the
    /// caller's, who drops it before the world is finalized.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a rank died, or the communicator was replaced by a rebuild;
    /// [`Error::Unsupported`] in a simulated world.
    ///
    /// # MPI
    ///
    /// `MPI_Comm_dup`, which blocks: all ranks call it, in the same order among their creations.
    /// A death shows on the duplicate as errors that rsmpi does not report; use it where no
    /// failure is expected, or check with a block afterwards.
    pub fn to_rsmpi(&self) -> Result<rsmpi::topology::SimpleCommunicator, Error> {
        let mut engine = self.engine().borrow_mut();
        engine.require_here()?;
        let comm = engine.comm(self.key());
        let (data, context) = (comm.data.ok_or(Error::CreationFailed)?, comm.context);
        let platform = engine.platform.as_world::<mpi::MpiPlatform>();
        let unsupported = "a simulated world has no communicators of MPI";
        let platform = platform.ok_or_else(|| Error::Unsupported(unsupported.into()))?;
        platform.duplicate_for_others(data, context)
    }

    /// What this process holds in MPI, for those who look for a leak; `None` in a simulated world.
    pub fn holdings(&self) -> Option<Holdings> {
        let mut engine = self.engine().borrow_mut();
        let platform = engine.platform.as_world::<mpi::MpiPlatform>();
        platform.map(|platform| platform.holdings())
    }
}
