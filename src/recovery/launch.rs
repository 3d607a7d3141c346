//! How processes enter the job and leave it: ranks, parked spares, replacements.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Placement, rebuild::Rebuild, roster::Roster};
use crate::{
    engine::{
        Engine, Level,
        platform::{Idle, Origin, UniverseId},
    },
    error::Error,
    rank::Rank,
    timeout::Timeout,
};

/// How long a rank that is done waits for the others, in case one of them still has questions.
const FAREWELL: Duration = Duration::from_secs(1);

impl Engine {
    /// Enters the job. Returns when this process holds a rank of the world: at once for the ranks
    /// of the launch, after the rebuild that needs it for spares and replacements. A spare that
    /// nobody ever needs does not return; its process ends successfully.
    pub(crate) fn launch(&mut self) -> Result<(), Error> {
        match self.platform.origin() {
            Origin::Launched { rank, size, spares } => {
                if spares >= size {
                    let hint = "start more processes than spares";
                    return Err(Error::Unsupported(hint.into()));
                }
                self.enter_first_universe(rank, size, spares)
            }
            Origin::Spawned => match Rebuild::join(self) {
                Ok(rebuild) => self.serve(rebuild),
                Err(Error::NotNeeded | Error::CreationFailed) => self.go_home(),
                Err(error) => Err(error),
            },
        }
    }

    fn enter_first_universe(&mut self, rank: Rank, size: u32, spares: u32) -> Result<(), Error> {
        let roster = Roster::launch(size, spares);
        let universe = UniverseId(0);
        let everybody: Vec<Rank> = (0..size).map(Rank::new).collect();
        let members = roster.members.clone();
        let (universe_id, world_id) = (roster.universe_id(), roster.world_id());
        let data = self.platform.gather(universe, &members)?;
        let key = self.register(universe_id, universe, everybody, rank, None);
        self.job.universe = Some(key);
        self.job.roster = roster;
        if let Some(data) = data {
            let world = self.register(world_id, universe, members, rank, Some(data));
            self.comm_mut(world).lineage = Some(0);
            self.job.world = Some(world);
            return Ok(());
        }
        self.job.replacement = true;
        let rebuild = Rebuild::start(self, Placement::SameRanks)?;
        self.serve(rebuild)
    }

    /// Takes part in rebuilds until one gives this process a rank.
    fn serve(&mut self, mut rebuild: Rebuild) -> Result<(), Error> {
        loop {
            let mut result = None;
            let how = if self.job.world.is_some() { Idle::Busy } else { Idle::Parked };
            self.wait(Some(rebuild.awaits()), Timeout::Never, how, |engine| {
                if engine.job.dismissed || engine.verdict(rebuild.awaits()).is_some() {
                    result = rebuild.step(engine);
                    // The next step has another block to look at.
                    return true;
                }
                false
            });
            match result {
                None => {}
                Some(Ok(())) if self.job.world.is_some() => return Ok(()),
                Some(Ok(())) => rebuild = Rebuild::start(self, Placement::SameRanks)?,
                Some(Err(_)) => self.go_home(),
            }
        }
    }

    /// Nobody needs this process.
    fn go_home(&mut self) -> ! {
        self.platform.finalize();
        self.platform.exit()
    }

    /// Leaves the job: waits a moment for ranks that still have questions, dismisses the spares.
    pub(crate) fn leave(&mut self) {
        if let Some(world) = self.job.world {
            let key = self.start_block(world, Level::Global);
            self.finish_block(key, Timeout::Never);
            self.wait_block(key, Timeout::After(FAREWELL));
            self.detach(key);
        }
        if let Some(universe) = self.job.universe
            && !self.job.roster.spares.is_empty()
        {
            let next = self.comm(universe).next_block;
            self.interrupt(universe, next);
        }
        self.platform.finalize();
    }
}
