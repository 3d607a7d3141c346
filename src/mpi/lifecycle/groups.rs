//! Communicators made together with others: split, shrink, regroup, gather.
//!
//! Each is short and may fail anywhere when a process dies in it. Two rules keep the living from
//! waiting for each other: all parts of a creation run over one communicator that everybody in it
//! has, and whoever gets an error revokes that communicator before leaving. A shrink, whose result
//! is such a communicator, is confirmed by an agreement over the old one. A handle that a failed
//! call has written is garbage and never looked at.

use std::time::Instant;

use crate::{
    error::Error,
    mpi::{
        calls::{
            comm::Comm,
            library::{Checked, PROC_FAILED, Refusal},
            meeting::Meeting,
            ulfm::Ulfm,
        },
        deaths::watcher,
        operations::{attempts::Attempts, contexts::DataComm, platform::MpiPlatform},
        this_mpi,
        transport::acquaintance::{self, Acquaintance},
    },
    rank::{Rank, RankSet},
    seam::{
        entry::{self, Call, Entry},
        platform::{DataId, Derived, Made, Place, UniverseId},
    },
};

/// A creation failed here: the others are told by revocation of `common`.
pub(in crate::mpi) fn failed(refusal: Refusal, common: &[Comm], ulfm: &Ulfm) -> Error {
    tracing::debug!(?refusal, "creation failed");
    for comm in common {
        comm.revoke(ulfm);
    }
    Error::CreationFailed
}

/// What was made with the others on this communicator, if all living ranks have it. They wait for
/// each other here. A rank that lacks it first ends the waits of the others for this rank, on this
/// communicator and on `others`.
pub(super) fn all_or_nobody<T>(
    comm: &Comm,
    ulfm: &Ulfm,
    others: &[Comm],
    made: Checked<T>,
) -> Checked<T> {
    if made.is_err() {
        others.iter().chain([comm]).for_each(|comm| comm.revoke(ulfm));
    }
    if !this_mpi::can_agree(comm) {
        return made;
    }
    let all = comm.unanimous_in_time(ulfm, made.is_ok());
    made.and_then(|made| {
        let elsewhere = Refusal { call: "MPIX_Comm_agree", class: PROC_FAILED };
        if all { Ok(made) } else { Err(elsewhere) }
    })
}

/// Control channel and source of universe 0, and who is in it; on all living ranks of `comm`, or on
/// none. Collective.
pub(in crate::mpi) fn found(comm: &Comm, ulfm: &Ulfm) -> Result<(Comm, Comm, Acquaintance), Error> {
    let made = comm
        .duplicate()
        .and_then(|frames| Ok((frames, comm.duplicate()?, acquaintance::meet_observed(comm)?)));
    if made.is_err() {
        comm.revoke(ulfm);
    }
    comm.acknowledge_failures(ulfm);
    let all = comm.unanimous(ulfm, made.is_ok());
    match made {
        Ok(found) if all => Ok(found),
        Err(refusal) if !refusal.is_failure() => Err(refusal.into()),
        _ => Err(Error::DiedAtStart),
    }
}

/// The part of `parent` that has our colour, as a data communicator. All its communicators are made
/// from the parent: a rank that waits in one of these calls is freed when the parent is revoked.
fn part(parent: &Comm, color: Option<u32>, key: u32) -> Checked<Option<DataComm>> {
    DataComm::of(|| parent.split(color, key))
}

/// The position of the distinct `value` at `at` among all, in ascending order.
fn place<T: Ord>(values: &[T], at: usize) -> u32 {
    let mut below: Vec<&T> = values.iter().filter(|value| **value < values[at]).collect();
    below.sort_unstable();
    below.dedup();
    below.len() as u32
}

impl MpiPlatform {
    /// Nothing under way may hold up a creation.
    pub(in crate::mpi) fn settle(&mut self) {
        for data in self.data.iter_mut().flatten() {
            data.settle(self.ulfm);
        }
        this_mpi::before_creation();
    }

    /// An attempt of all living ranks to add processes, which makes no other communicators. Gives,
    /// too, those that it has made.
    pub(super) fn attempt<T>(
        &mut self,
        make: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<(T, Vec<Comm>), Error> {
        let before = self.attempts.begin();
        let result = make(self);
        let made = Attempts::made_since(&before);
        match result {
            Ok(result) => Ok((result, made)),
            Err(error) => {
                self.attempts.give_up(made);
                Err(error)
            }
        }
    }

    pub(in crate::mpi) fn make_split(
        &mut self,
        parent: DataId,
        color: Option<u32>,
        key: u32,
    ) -> Result<Derived, Error> {
        self.settle();
        let ulfm = self.ulfm;
        let data = self.data[parent.0 as usize].as_mut().ok_or(Error::CreationFailed)?;
        let source = data.source();
        let made = source
            .gather_numbers([color.map_or(u64::MAX, u64::from), key.into(), data.started().into()])
            .and_then(|rows| {
                // Others may have started contexts that we have not: the order must be the same.
                let started = rows.iter().map(|row| row[2]).max().unwrap_or(0) as u32;
                if !data.complete(started, ulfm) {
                    return Err(Refusal { call: "MPI_Comm_idup", class: 16 });
                }
                let me = source.rank().index();
                let colors: Vec<u64> = rows.iter().map(|row| row[0]).collect();
                let keys: Vec<(u64, usize)> =
                    rows.iter().enumerate().map(|(rank, row)| (row[1], rank)).collect();
                // MPI wants colours and keys that fit its `int`.
                let color = color.map(|_| place(&colors, me));
                Ok((part(&source, color, place(&keys, me))?, rows))
            });
        let (data, rows) = made.map_err(|refusal| failed(refusal, &[source], ulfm))?;
        let color = |row: &[u64; 3]| u32::try_from(row[0]).ok();
        let table = rows.iter().map(|row| (color(row), row[1] as u32)).collect();
        Ok(Derived { data: data.map(|data| self.add_data(data)), table })
    }

    /// The meeting before a shrink.
    pub(in crate::mpi) fn meet_at(&mut self, place: Place, dead: &RankSet) -> bool {
        let comm = match place {
            Place::Universe(universe) => self.control.source(universe),
            Place::Data(data) => self.data[data.0 as usize].as_ref().map(DataComm::source),
        };
        let Some(comm) = comm else { return true };
        if !self.has_come_to(&comm) {
            self.tell_dead(place, &comm, dead);
        }
        self.meet_over(&comm)
    }

    fn has_come_to(&self, comm: &Comm) -> bool {
        self.meetings.iter().any(|meeting| meeting.is_at(comm))
    }

    /// Comes to a meeting of all living processes of a communicator; true when all have come.
    pub(super) fn meet_over(&mut self, comm: &Comm) -> bool {
        if !self.has_come_to(comm) {
            if !this_mpi::can_agree(comm) {
                return true;
            }
            match Meeting::start(*comm, self.ulfm) {
                Ok(meeting) => self.meetings.push(meeting),
                // The call that follows is refused as well.
                Err(refusal) => {
                    tracing::debug!(?refusal, "no meeting");
                    return true;
                }
            }
        }
        let Some(at) = self.meetings.iter().position(|it| it.is_at(comm)) else { return false };
        if self.meetings[at].is_over() {
            self.meetings.swap_remove(at).end();
            return true;
        }
        self.meetings[at].in_doubt().inspect(this_mpi::ask_again);
        false
    }

    /// The living of `comm`, when they are all but `dead`: all get one answer.
    pub(in crate::mpi) fn shrink_exactly(
        &mut self,
        comm: &Comm,
        dead: &RankSet,
    ) -> Result<Comm, Error> {
        self.settle();
        comm.acknowledge_failures(self.ulfm);
        let made = comm.shrink(self.ulfm);
        let exact = made.and_then(|part| comm.is_all_but(dead, &part));
        if let Err(refusal) = exact {
            tracing::debug!(?refusal, "not shrunk");
        }
        comm.acknowledge_failures(self.ulfm);
        if comm.unanimous(self.ulfm, exact == Ok(true)) {
            return made.map_err(|_| Error::CreationFailed);
        }
        self.attempts.give_up(made);
        Err(Error::CreationFailed)
    }

    /// All that we have agreed to be dead is so for MPI, too: it may have been seen elsewhere.
    fn tell_dead(&self, place: Place, comm: &Comm, dead: &RankSet) {
        let (universe, all) = match place {
            Place::Universe(universe) => return watcher::tell(universe, dead.iter()),
            Place::Data(data) => {
                let users = self.users.get(data).map(|(universe, _)| universe);
                let Some(known) = users.or(self.control.newest()) else { return };
                (known, self.control.source(known))
            }
        };
        if let Some(all) = all
            && let Ok(places) = all.positions_of(comm)
        {
            let place = |rank: Rank| places.get(rank.index()).copied().flatten();
            watcher::tell(universe, dead.iter().filter_map(place));
        }
    }

    pub(in crate::mpi) fn make_shrunken(
        &mut self,
        parent: DataId,
        dead: &RankSet,
    ) -> Result<Derived, Error> {
        if let Some((universe, _)) = self.users.get(parent) {
            let data = Some(self.shrink_guest(parent, universe, dead)?);
            return Ok(Derived { data, ..Derived::default() });
        }
        let data = self.data[parent.0 as usize].as_ref().ok_or(Error::CreationFailed)?;
        let (old, ulfm) = (data.source(), self.ulfm);
        let source = self.shrink_exactly(&old, dead)?;
        let mut first = Some(source);
        let made = DataComm::of(|| first.take().map_or_else(|| source.duplicate(), Ok).map(Some));
        let made = made.map_err(|refusal| failed(refusal, &[source], ulfm))?;
        let data = made.map(|made| self.add_data(made));
        Ok(Derived { data, ..Derived::default() })
    }

    pub(in crate::mpi) fn make_universe(
        &mut self,
        old: UniverseId,
        dead: &RankSet,
        spawn: u32,
        brought: &[u8],
    ) -> Result<Made, Error> {
        // Every communicator of the old world is broken or about to be left.
        for data in self.data.iter_mut().flatten() {
            data.abandon(self.ulfm);
        }
        this_mpi::before_creation();
        let old = self.control.source(old).ok_or(Error::CreationFailed)?;
        let (universe, made) = self.attempt(|platform| {
            let began = Instant::now();
            let living = platform.shrink_exactly(&old, dead)?;
            entry::tell(&Entry::Called { work: Call::Shrink, began });
            let added = |platform: &mut Self| platform.spawn_into(&old, &living, spawn);
            let source = if spawn == 0 { living } else { added(platform)? };
            let made = platform.settle_universe(source, brought, &[source, living]);
            made.inspect_err(|_| old.acknowledge_failures(platform.ulfm))
        })?;
        if let Made::Universe(id, ..) = universe {
            self.attempts.keep(id, made);
        }
        Ok(universe)
    }

    /// The part of a regroup that all processes do, new ones included: a control channel, and
    /// what all have brought.
    pub(in crate::mpi) fn settle_universe(
        &mut self,
        source: Comm,
        brought: &[u8],
        common: &[Comm],
    ) -> Result<Made, Error> {
        // What failed long ago may have locked it since.
        this_mpi::before_creation();
        let made = source.duplicate().and_then(|control| {
            Ok((control, acquaintance::meet_again(&source)?, source.gather_bytes(brought)?))
        });
        let (control, all, brought) = made.map_err(|refusal| failed(refusal, common, self.ulfm))?;
        let nodes = all.nodes();
        let Acquaintance { processes, mailbox, marks, .. } = all;
        let universe = self.control.add(control, source, mailbox, nodes);
        watcher::add(universe, processes, marks);
        Ok(Made::Universe(universe, source.rank(), brought))
    }

    pub(in crate::mpi) fn make_gathered(
        &mut self,
        universe: UniverseId,
        members: &[Rank],
    ) -> Result<Derived, Error> {
        self.settle();
        let source = self.control.source(universe).ok_or(Error::CreationFailed)?;
        let position = members.iter().position(|member| *member == source.rank());
        let color = position.map(|_| members[0].number());
        let made = part(&source, color, position.unwrap_or(0) as u32);
        let data = made.map_err(|refusal| failed(refusal, &[source], self.ulfm))?;
        Ok(Derived { data: data.map(|data| self.add_data(data)), ..Derived::default() })
    }

    pub(in crate::mpi) fn add_data(&mut self, data: DataComm) -> DataId {
        self.data.push(Some(data));
        DataId(self.data.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_keys_become_small_numbers_in_the_same_order() {
        let colors = [u64::MAX, 4_000_000_000, 7, 7];
        let places: Vec<u32> = (0..4).map(|at| place(&colors, at)).collect();
        assert_eq!(places, [2, 1, 0, 0]);
        let keys = [(9, 0), (1, 1), (9, 2), (0, 3)];
        let places: Vec<u32> = (0..4).map(|at| place(&keys, at)).collect();
        assert_eq!(places, [2, 1, 3, 0]);
    }
}
