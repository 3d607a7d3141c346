//! What this process has of MPI: its control channel, its operations, and what they run on.
//!
//! The rooms above put it together, add to it and end it; `mpi/mod.rs` shows it to the engine.

use std::{mem, time::Instant};

use super::{
    contexts::DataComm,
    files::Files,
    in_flight::Flights,
    probe::Messages,
    table::Table,
    users::{Users, UsersComms},
};
use crate::{
    mpi::{
        calls::{comm::Comm, ulfm::Ulfm},
        transport::control::Control,
    },
    seam::{
        platform::{self, DataId, Settled, Setup},
        record::Record,
    },
};

/// Who ends MPI.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) enum Finalizer {
    /// This library, which has initialised it.
    Library,
    /// The caller, after the end of the world.
    Caller,
    /// A program in whose end of MPI the world ends.
    Host,
}

/// MPI as the engine sees it.
pub struct MpiPlatform {
    pub(in crate::mpi) ulfm: &'static Ulfm,
    pub(in crate::mpi) started: Instant,
    pub(in crate::mpi) setup: Setup,
    pub(in crate::mpi) control: Control,
    pub(in crate::mpi) table: Table,
    pub(in crate::mpi) flights: Flights,
    pub(in crate::mpi) messages: Messages,
    pub(in crate::mpi) files: Files,
    pub(in crate::mpi) users: UsersComms,
    pub(in crate::mpi) data: Vec<Option<DataComm>>,
    /// Old contexts to be freed when nothing is pending on them.
    pub(in crate::mpi) unneeded: Vec<(DataId, u32, Comm)>,
    /// The link to the root, and the processes spawned with us.
    pub(in crate::mpi) spawned: Option<(Comm, Comm)>,
    /// Who ends MPI.
    pub(in crate::mpi) finalizer: Finalizer,
}

impl MpiPlatform {
    pub(in crate::mpi) fn note_unneeded(&mut self, data: DataId, unneeded: Option<(u32, Comm)>) {
        self.unneeded.extend(unneeded.map(|(number, comm)| (data, number, comm)));
    }

    pub(in crate::mpi) fn free_unneeded(&mut self) {
        let (table, flights) = (&self.table, &mut self.flights);
        let idle = |(data, number, _): &mut (DataId, u32, Comm)| {
            !table.needs(*data, *number) && !flights.needs(*data, *number)
        };
        for (.., comm) in self.unneeded.extract_if(.., idle) {
            // SAFETY: its entry among the contexts is gone, and no post is left that names it.
            unsafe { comm.free() };
        }
    }

    /// Ends the requests that are over, messages and others.
    pub(in crate::mpi) fn settle_all(&mut self, records: &mut [Record]) -> Settled {
        let mut settled = self.flights.settle(records);
        loop {
            let others = self.settle_others(&mut records[settled.complete..]);
            settled.complete += others.complete;
            settled.failed |= others.failed;
            if others.complete == 0 || others.failed {
                return settled;
            }
            let rest = self.flights.settle(&mut records[settled.complete..]);
            settled.complete += rest.complete;
            settled.failed |= rest.failed;
        }
    }

    /// Ends requests that are over and no messages with a peer, up to the next that is one.
    fn settle_others(&mut self, records: &mut [Record]) -> Settled {
        let mut complete = 0;
        while let Some(record) = records.get_mut(complete)
            && let (false, Some(id)) = (record.is_over(), record.id())
        {
            if self.table.users.get(id).is_some_and(Users::is_whole) {
                // Written in its place: copied after it was put together it would be waited for.
                record.end_at_once(0);
                complete += 1;
                continue;
            }
            platform::look(self, record);
            if !record.is_complete() {
                return Settled { complete, failed: record.is_over() };
            }
            complete += 1;
        }
        Settled { complete, failed: false }
    }
}

impl Drop for MpiPlatform {
    /// Without an end in order MPI may still write to what is under way: that is leaked.
    fn drop(&mut self) {
        if !self.table.is_closed() {
            mem::forget((mem::take(&mut self.table), mem::take(&mut self.files)));
            mem::forget(mem::replace(&mut self.control, Control::new(self.ulfm)));
            mem::forget(mem::take(&mut self.data));
        }
    }
}
