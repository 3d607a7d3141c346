//! How this process enters the world.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Instant,
};

use super::{groups, origin, spawn, watchdog};
use crate::{
    error::Error,
    mpi::{
        calls::{comm::Comm, library, ulfm},
        deaths::{observer, watcher},
        node::{environment, status, trace},
        operations::{
            attempts::Attempts,
            files::Files,
            in_flight::Flights,
            platform::{Finalizer, MpiPlatform},
            probe::Messages,
            table::Table,
            users::UsersComms,
        },
        this_mpi::{self, unreported_exit},
        transport::{acquaintance::Acquaintance, control::Control},
    },
    native::Request,
    protocol::{exchange::Shape, pages},
    seam::platform::{Origin, Setup},
};

impl MpiPlatform {
    /// Refuses to enter the job again.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`].
    pub fn require_first() -> Result<(), Error> {
        static HAS_COME: AtomicBool = AtomicBool::new(false);
        let why = if library::finalized()? {
            "MPI has ended in this process, and starts only once: call `init` before"
        } else if HAS_COME.swap(true, Relaxed) {
            "this process has entered the job before: call `init` once, and hand its `World` on"
        } else {
            return Ok(());
        };
        Err(Error::Unsupported(why.into()))
    }

    /// Initialises MPI if nobody has, and takes this process's place in the job.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] says in a sentence why this MPI, or this launch, will not do.
    ///
    /// # MPI
    ///
    /// Collective over the launch. Errors of `MPI_COMM_WORLD` and `MPI_COMM_SELF` return from now
    /// on. A process that exits before [`Platform::finalize`] dies by a signal.
    pub fn new() -> Result<Self, Error> {
        environment::check()?;
        observer::check_environment()?;
        watchdog::start();
        watchdog::set_parent(origin::parent_on_this_node());
        let owns_mpi = !library::initialized()?;
        if owns_mpi {
            status::report_launch();
            library::initialize()?;
        }
        let world = Comm::world()?;
        let parent = Comm::parent()?;
        if parent.is_none() {
            watchdog::set_parent(None);
        }
        let origin = match parent {
            None => spawn::launched(&world, true)?,
            Some(_) => Origin::Spawned,
        };
        let mut platform = Self::over(world, origin)?;
        platform.spawned = parent.map(|parent| (parent, world));
        if owns_mpi {
            platform.finalizer = Finalizer::Library;
        }
        Ok(platform)
    }

    /// Universe 0 becomes a duplicate of `comm`, except for replacements.
    pub(in crate::mpi) fn over(comm: Comm, origin: Origin) -> Result<Self, Error> {
        let ulfm = ulfm::require()?;
        if library::finalized()? {
            return Err(Error::Unsupported("MPI was finalised before fampi started".into()));
        }
        unreported_exit::guard();
        status::report_start();
        watchdog::set_rank(comm.rank().number());
        this_mpi::after_init();
        let mut control = Control::new(ulfm);
        if origin != Origin::Spawned {
            if !this_mpi::ends_waits_for_the_dead() {
                watcher::add_launch();
            }
            let (frames, source, all) = groups::found(&comm, ulfm)?;
            let nodes = all.nodes();
            let Acquaintance { processes, mailbox, marks, .. } = all;
            watcher::add(control.add(frames, source, mailbox, nodes), processes, marks);
        }
        Self::with(control, origin, Finalizer::Caller)
    }

    /// A process that has this control channel, and nothing under way.
    pub(super) fn with(
        control: Control,
        origin: Origin,
        finalizer: Finalizer,
    ) -> Result<Self, Error> {
        let max_tag = library::greatest_tag(Comm::world()?.raw())?;
        let finished = Request::finished()?;
        trace::record();
        let killed_at = match origin {
            Origin::Launched { rank, .. } => environment::killed_at(rank.number()),
            Origin::Spawned => None,
        };
        Ok(Self {
            ulfm: ulfm::require()?,
            started: Instant::now(),
            setup: Setup {
                origin,
                shape: Shape::WIDE,
                patience: 32,
                max_tag,
                page_bytes: pages::BYTES,
                killed_at,
            },
            control,
            table: Table::default(),
            messages: Messages::default(),
            files: Files::default(),
            users: UsersComms::default(),
            flights: Flights::new(finished, Comm::alone()?),
            data: Vec::new(),
            unneeded: Vec::new(),
            attempts: Attempts::default(),
            meetings: Vec::new(),
            spawned: None,
            finalizer,
        })
    }
}
