//! What is to be done now and then while the engine waits.

use super::exit;
use crate::{
    mpi::{deaths::watcher, operations::platform::MpiPlatform},
    seam::platform::DataId,
};

impl MpiPlatform {
    /// Makes progress, now and then, with what is pending in the background.
    #[cold]
    pub(in crate::mpi) fn do_chores(&mut self) {
        if self.control.is_waiting() {
            self.watch();
        }
        self.table.sweep();
        for at in 0..self.data.len() {
            let Some(data) = self.data[at].as_mut().filter(|data| data.is_making()) else {
                continue;
            };
            let unneeded = data.advance(self.ulfm);
            self.note_unneeded(DataId(at as u32), unneeded);
        }
        self.free_unneeded();
        if self.spawned.is_some() && self.control.newest_is_revoked() {
            exit::leave_unneeded();
        }
    }

    /// Looks for deaths that MPI has not told of, when nothing has happened for a while.
    #[cold]
    pub(in crate::mpi) fn watch(&mut self) {
        if watcher::look() {
            self.control.look_for_deaths();
        }
    }
}
