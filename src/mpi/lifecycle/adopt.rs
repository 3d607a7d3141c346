//! A program that owns its MPI comes in, and has its communicators taken into use.
//!
//! ```text
//! users' communicator ── MPI_Comm_dup ──▶ frames   control channel of a universe
//!                     ── MPI_Comm_dup ──▶ source   shrunken communicators are made from it
//! ```

use std::mem;

use mpi::ffi;

use super::{exit, groups, watchdog};
use crate::{
    error::Error,
    ids::CommId,
    mpi::{
        calls::{
            comm::{Borrowed, Comm},
            library::{self, Checked},
            meeting::Meeting,
            ulfm::{self, Ulfm},
        },
        deaths::{observer, watcher},
        node::{environment, status},
        operations::{
            contexts::{DataComm, lane_of},
            platform::{Finalizer, MpiPlatform},
        },
        this_mpi::{self, Keeping, inject_failure, unreported_exit},
        transport::{
            acquaintance::{self, Acquaintance},
            control::Control,
        },
    },
    rank::{Rank, RankSet},
    seam::platform::{DataId, Lane, Origin, UniverseId},
};

/// A communicator of the user that was taken into use.
#[derive(Clone, Copy, Debug)]
pub struct Adopted {
    /// Its processes, in the order of its ranks.
    pub universe: UniverseId,
    /// Where its operations run.
    pub data: DataId,
    /// Our rank, and how many there are.
    pub place: (u32, Rank),
    /// The name, which all ranks have.
    pub id: CommId,
}

impl MpiPlatform {
    /// A platform for a program that has initialised MPI and will finalise it.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] says in a sentence why this MPI, or this launch, will not do.
    pub fn guest() -> Result<Self, Error> {
        if !library::initialized()? {
            return Err(Error::Unsupported("call MPI_Init before fampi".into()));
        }
        if library::finalized()? {
            return Err(Error::Unsupported("MPI was finalised before fampi started".into()));
        }
        environment::check()?;
        observer::check_environment()?;
        watchdog::start();
        let ulfm = ulfm::require()?;
        this_mpi::after_init();
        unreported_exit::guard();
        exit::ignore_broken_pipes();
        status::report_start();
        let world = Comm::world()?;
        watchdog::set_rank(world.rank().number());
        watcher::add_launch();
        Keeping::find()?;
        let origin = Origin::Launched { rank: Rank::new(0), size: 1, spares: 0, spawns: false };
        Self::with(Control::new(ulfm), origin, Finalizer::Host)
    }

    /// Comes to a meeting of all living processes of a communicator, without blocking. True, once,
    /// when all of them have come; to be asked until then.
    ///
    /// # Errors
    ///
    /// Those of MPI.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator.
    pub unsafe fn have_all_come(&mut self, raw: ffi::MPI_Comm) -> Result<bool, Error> {
        // SAFETY: live, says our caller.
        let users = unsafe { Borrowed::of(raw) }?;
        Ok(self.meet_over(&users))
    }

    /// Leaves the meeting before [`Self::adopt_comm`], as some will not come: nobody takes the
    /// communicator into use, which is revoked.
    ///
    /// # Errors
    ///
    /// Those of MPI.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator.
    pub unsafe fn leave_meeting(&mut self, raw: ffi::MPI_Comm) -> Result<(), Error> {
        // SAFETY: live, says our caller.
        let users = unsafe { Borrowed::of(raw) }?;
        let here: Vec<Meeting> = self.meetings.extract_if(.., |it| it.is_at(&users)).collect();
        for meeting in here {
            meeting.leave(self.ulfm);
        }
        Ok(())
    }

    /// Takes a communicator of the user into use, after the meeting over it, or when all have come
    /// for another reason.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process died in it, on all living ranks or on none: the
    /// user's communicator is revoked then. A rank that has left this call may die without that.
    ///
    /// # MPI
    ///
    /// Collective and blocking: two duplicates, two small exchanges, two agreements. Errors of the
    /// communicator return from now on.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator, and stays so until [`Self::forget_comm`].
    pub unsafe fn adopt_comm(&mut self, raw: ffi::MPI_Comm) -> Result<Adopted, Error> {
        // SAFETY: live, says our caller.
        let users = unsafe { Comm::from_raw(raw) }?;
        let ulfm = self.ulfm;
        let universe = self.control.next();
        let met = meet(&users, universe, ulfm);
        let (frames, source, all, id) = met.map_err(|refusal| {
            watcher::forget(universe);
            groups::failed(refusal, &[users], ulfm)
        })?;
        let nodes = all.nodes();
        self.control.add(frames, source, all.mailbox, nodes);
        let data = self.add_data(DataComm::bare(source));
        self.users.comms.push((data, universe, users));
        Ok(Adopted { universe, data, place: (users.size(), users.rank()), id: CommId(id) })
    }

    /// The user's communicator.
    pub fn users_comm(&self, data: DataId) -> Option<ffi::MPI_Comm> {
        self.users.get(data).map(|(_, comm)| comm.raw())
    }

    /// MPI's communicator of a lane of ours, for a message of the user; with the deaths there
    /// acknowledged, so that one may be received from any source, if that is asked for.
    pub fn comm_of_lane(&self, lane: Lane, acknowledged: bool) -> Option<ffi::MPI_Comm> {
        let comm = lane_of(&self.data, lane)?;
        if acknowledged {
            comm.acknowledge_failures(self.ulfm);
        }
        Some(comm.raw())
    }

    /// The user has freed the communicator, or is about to.
    pub fn forget_comm(&mut self, data: DataId) {
        self.users.forget(data);
    }

    /// Makes MPI call this function while it waits inside its own calls, where that is possible.
    pub fn call_back(&self, function: extern "C" fn() -> std::ffi::c_int) -> bool {
        let notice = inject_failure::find();
        notice.inspect(|notice| notice.call_back(function)).is_some()
    }

    /// A communicator of those that live, of one that was never in use, for the user, who frees
    /// it.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`], on all that live.
    ///
    /// # MPI
    ///
    /// Collective over those that live, and blocking: a shrink and an agreement. After a meeting
    /// ([`Self::have_all_come`]), so that nobody waits here for one who needs something of them.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator.
    pub unsafe fn shrink_unused(&mut self, raw: ffi::MPI_Comm) -> Result<ffi::MPI_Comm, Error> {
        // SAFETY: live, says our caller.
        let users = unsafe { Borrowed::of(raw) }?;
        let made = users.shrink(self.ulfm);
        users.acknowledge_failures(self.ulfm);
        let have_all = users.unanimous(self.ulfm, made.is_ok());
        match made {
            Ok(made) if have_all => Ok(made.given_away().raw()),
            Ok(made) => {
                // SAFETY: nobody else has it.
                unsafe { made.free() };
                Err(Error::CreationFailed)
            }
            Err(_) => Err(Error::CreationFailed),
        }
    }

    /// A shrunken communicator for the user, who frees it.
    pub(super) fn shrink_guest(
        &mut self,
        parent: DataId,
        universe: UniverseId,
        dead: &RankSet,
    ) -> Result<DataId, Error> {
        let data = self.data[parent.0 as usize].as_ref().ok_or(Error::CreationFailed)?;
        let (old, ulfm) = (data.source(), self.ulfm);
        let source = self.shrink_exactly(&old, dead)?;
        let users =
            source.duplicate().map_err(|refusal| groups::failed(refusal, &[source], ulfm))?;
        let data = self.add_data(DataComm::bare(source));
        self.users.comms.push((data, universe, users.given_away()));
        Ok(data)
    }
}

/// Two duplicates, who is who, and a name that the first of them invents: on all living ranks, or
/// on none of them. What was made on some only is revoked, so that nobody waits in it.
fn meet(
    users: &Comm,
    universe: UniverseId,
    ulfm: &Ulfm,
) -> Checked<(Comm, Comm, Acquaintance, u64)> {
    let may = this_mpi::may_be_duplicated(users, ulfm);
    let made = may.and_then(|()| users.duplicate());
    let made = made.and_then(|frames| Ok((frames, users.duplicate()?)));
    let (frames, source) = groups::all_or_nobody(users, ulfm, &[], made)?;
    let (met, name) =
        groups::all_or_nobody(&source, ulfm, &[], tell_of_oneself(&source, universe))?;
    Ok((frames, source, met, name))
}

/// What every process tells the others, and the name.
fn tell_of_oneself(source: &Comm, universe: UniverseId) -> Checked<(Acquaintance, u64)> {
    // Observers watch all processes of a launch, or none.
    let is_launch = source.size() == Comm::launch_size()?;
    let mut met = acquaintance::meet_as_guests(source, is_launch)?;
    // The rest takes all of them, too.
    watcher::add(universe, mem::take(&mut met.processes), mem::take(&mut met.marks));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos() as u64);
    let mut name = (now ^ u64::from(std::process::id()) << 40).to_le_bytes();
    source.spread(&mut name, 0)?;
    Ok((met, u64::from_le_bytes(name)))
}
