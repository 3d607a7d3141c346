//! Communicators of the program that come into use, and go out of it.

use super::{Guest, GuestComm};
use crate::{
    ids::CommId,
    rank::Rank,
    seam::platform::{DataId, Platform, UniverseId},
};

impl Guest {
    /// Waits until all living ranks of a communicator have come to take it into use, as the
    /// platform says. False when a block that this process is in has become doomed before: some may
    /// not come.
    pub fn wait_for_others(
        &mut self,
        mut have_come: impl FnMut(&mut dyn Platform) -> bool,
    ) -> bool {
        self.engine.wait_for_others(|engine| have_come(&mut *engine.platform))
    }

    /// Takes a communicator of a whole universe into use. All its ranks do so, with the same name.
    pub fn adopt(
        &mut self,
        id: CommId,
        universe: UniverseId,
        (size, me): (u32, Rank),
        data: DataId,
    ) -> GuestComm {
        GuestComm(self.engine.adopt_comm(id, universe, (size, me), data))
    }

    /// This process gives the communicator up: it votes *no* on what others still start there.
    pub fn abandon(&mut self, comm: GuestComm) {
        self.engine.abandon_comm(comm.0);
    }
}
