//! Communicators of survivors, and of replacements, for a guest.

use super::{Guest, GuestComm};
use crate::{
    engine::{BlockKey, making::Making as _},
    error::Error,
    recovery::{
        creation::{Creation, Kind},
        repair::Repair,
    },
};

pub use crate::recovery::repair::Task;

/// A communicator of survivors in the making.
pub struct Shrinking {
    creation: Creation,
}

/// A block of [`Guest::name_dead`].
#[derive(Debug)]
pub struct Reporting(BlockKey);

/// A communicator of survivors and replacements in the making, by calls and with a handle that the
/// binding owns: it does what [`Guest::next_task`] says.
pub struct Repairing {
    repair: Repair,
}

impl Guest {
    /// Starts to make a communicator of survivors and of replacements that are linked to them. All
    /// survivors do so, after a block that has named the dead.
    pub fn repair(&mut self, failed: GuestComm) -> Repairing {
        Repairing { repair: Repair::start(&mut self.engine, failed.0) }
    }

    /// The part of a survivor that knows that it cannot be.
    pub fn decline_repair(&mut self, failed: GuestComm) -> Repairing {
        Repairing { repair: Repair::decline(&mut self.engine, failed.0) }
    }

    /// The part of a replacement in that.
    pub fn enter_repair() -> Repairing {
        Repairing { repair: Repair::enter() }
    }

    /// The part of a survivor that does not even wait for the others, which fail.
    pub fn refuse_repair(&mut self, failed: GuestComm) {
        Repair::refuse(&mut self.engine, failed.0);
    }

    /// Starts a block that names the dead of a communicator, before a repair of it. All survivors
    /// do so, where only a larger communicator has named them.
    pub fn name_dead(&mut self, failed: GuestComm) -> Reporting {
        Reporting(Repair::report(&mut self.engine, failed.0))
    }

    /// The same, by one who does not wait for it.
    pub fn name_dead_unheard(&mut self, failed: GuestComm) {
        let report = Repair::report(&mut self.engine, failed.0);
        self.engine.detach(report);
    }

    /// True, once, when that is over.
    pub fn is_reported(&mut self, reporting: &Reporting) -> bool {
        Repair::is_reported(&mut self.engine, reporting.0)
    }

    /// Goes on with a repair, whose last task is done, as far as possible; gives the next task.
    pub fn next_task(&mut self, repairing: &mut Repairing) -> Option<Task> {
        repairing.repair.step(&mut self.engine)
    }

    /// Starts to make a communicator of the survivors; all of them do so.
    ///
    /// # Errors
    ///
    /// [`Error::CreationPending`]: one communicator is made at a time.
    pub fn shrink(&mut self, comm: GuestComm) -> Result<Shrinking, Error> {
        let engine = &mut self.engine;
        Ok(Shrinking { creation: Creation::start(engine, comm.0, Kind::Shrink)? })
    }

    /// Goes on with it as far as possible.
    pub fn step(&mut self, shrinking: &mut Shrinking) -> Option<Result<GuestComm, Error>> {
        let engine = &mut self.engine;
        let made = shrinking.creation.advance(engine)?;
        Some(made.and_then(|key| {
            engine.job.world = key.or(engine.job.world);
            if let Some(key) = key {
                engine.prepare_for_guest(key);
            }
            key.map(GuestComm).ok_or(Error::CreationFailed)
        }))
    }
}

impl Repairing {
    /// How [`Task::Make`] went here: the communicator, which was adopted, or nothing.
    pub fn handle_made(&mut self, made: Option<GuestComm>) {
        self.repair.handle_made(made.map(|comm| comm.0));
    }
}
