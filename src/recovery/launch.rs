//! How processes enter the job and leave it: ranks, parked spares, replacements.

use core::time::Duration;

use super::rebuild::Rebuild;
use crate::{
    engine::Engine,
    error::Error,
    protocol::{process::CommKey, roster::Roster},
    seam::platform::{Idle, Origin, Quit},
    timeout::Timeout,
};

/// How long a spawned process waits for the first commit with those who spawned it.
const WELCOME: Duration = Duration::from_secs(10);

impl Engine {
    /// Enters the job. Returns when this process holds a rank of the world: at once for the ranks
    /// of the launch, after the rebuild that needs it for spares and replacements. A spare that
    /// nobody ever needs, or that is too few, does not return; its process ends successfully.
    pub(crate) fn launch(&mut self) -> Result<(), Error> {
        match self.job.origin {
            Origin::Launched { rank, size, spares, .. } => {
                if spares >= size {
                    return Err(Error::Unsupported(alloc::format!(
                        "{spares} of {size} processes cannot be spares; start more processes"
                    )));
                }
                let rebuild = Rebuild::launch(self, Roster::launch(size, spares), rank);
                self.serve(rebuild)
            }
            Origin::Spawned => match Rebuild::join(self) {
                Ok(rebuild) => self.serve(rebuild),
                Err(Error::NotNeeded | Error::CreationFailed) => self.platform.quit(Quit::Visibly),
                Err(error) => Err(error),
            },
        }
    }

    /// Takes part in rebuilds until one gives this process a rank.
    ///
    /// A process that was spawned waits for its welcome for a limited time only: those who
    /// spawned it may all have failed to reach it. It then dies visibly, in case they did not.
    fn serve(&mut self, mut rebuild: Rebuild) -> Result<(), Error> {
        let spawned = self.job.origin == Origin::Spawned;
        loop {
            let (mut result, mut stepped) = (None, false);
            let universe = self.job.universe.map(|key| self.comm(key).me);
            let rank = universe.and_then(|me| self.job.roster.rank_of(me));
            let parked = rank.is_none();
            let how = if parked { Idle::Parked } else { Idle::Busy };
            let patience =
                if spawned && !parked { Timeout::After(WELCOME) } else { Timeout::Never };
            let happened = self.wait(patience, how, |engine| {
                // The next step has another block to look at.
                let mut due = || engine.job.dismissed || engine.is_step_due(rebuild.awaits());
                if !stepped && due() {
                    result = rebuild.step(engine);
                    stepped = true;
                }
                stepped
            });
            match result {
                None if happened => {}
                None => self.platform.quit(Quit::Visibly),
                Some(Ok(())) if self.job.world.is_some() => return Ok(()),
                Some(Ok(())) => rebuild = Rebuild::park(self),
                Some(Err(_)) if spawned => self.platform.quit(Quit::Visibly),
                Some(Err(error)) => {
                    // A recovery that failed: ranks may not know it yet.
                    if error != Error::NotNeeded {
                        self.say_farewells();
                    }
                    if !parked {
                        return Err(error);
                    }
                    self.sum_up();
                    self.end_own();
                    self.platform.quit(Quit::Unneeded)
                }
            }
        }
    }

    /// All living ranks have got this error, if it is one of those.
    pub(crate) fn note_error(&mut self, error: &Error) {
        self.job.note_error(error, self.process.started());
    }

    /// The program gives its world up without having left. After an error that all living ranks
    /// have got that is the end of the job on all of them, and no death.
    pub(crate) fn leave_if_ended(&mut self, world: CommKey) {
        let is_it = self.job.world.is_none_or(|newest| newest == world);
        if is_it && self.job.has_ended(self.process.started()) {
            self.leave();
        }
    }

    /// Leaves the job when all others leave it, too; then dismisses the spares.
    pub(crate) fn leave(&mut self) {
        self.say_farewells();
        if let Some(universe) = self.job.universe
            && !self.job.roster.spares.is_empty()
        {
            let next = self.comm(universe).next_block;
            self.interrupt(universe, next);
        }
        self.sum_up();
        self.end_own();
        let has_losses = self.has_losses();
        self.platform.finalize(has_losses);
    }

    /// Nothing of this process is under way any more.
    fn end_own(&mut self) {
        self.give_up_requests();
        self.close_comms();
    }
}
