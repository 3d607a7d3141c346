//! Communicators: a checked call for each thing that we do with one.

use std::{cell::RefCell, ffi::c_int, mem::MaybeUninit, ops::Deref, ptr};

use mpi::ffi;

use super::{
    inside,
    library::{Checked, PROC_FAILED, Refusal, check},
    partners::{Partners, unless_dead},
    ulfm::{self, Ulfm},
};
use crate::{
    fault::FaultCode,
    native::Request,
    rank::{Rank, RankSet},
};

/// A live communicator whose errors return. Freed by [`Comm::free`] only.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Comm {
    raw: ffi::MPI_Comm,
    rank: u32,
    size: u32,
}

/// A communicator of the program, whose errors return as long as we have it: it has its own error
/// handler back afterwards.
#[derive(Debug)]
pub(in crate::mpi) struct Borrowed {
    comm: Comm,
    handler: ffi::MPI_Errhandler,
}

impl Borrowed {
    /// Takes a handle of the program.
    ///
    /// # Safety
    ///
    /// It is a live communicator.
    pub(in crate::mpi) unsafe fn of(raw: ffi::MPI_Comm) -> Checked<Self> {
        let mut handler = MaybeUninit::uninit();
        check("MPI_Comm_get_errhandler", {
            // SAFETY: live, says our caller; the result is a variable of ours.
            unsafe { ffi::MPI_Comm_get_errhandler(raw, handler.as_mut_ptr()) }
        })?;
        // SAFETY: as above.
        let comm = unsafe { Comm::from_raw(raw) };
        // SAFETY: MPI has written it, as the call went well.
        let handler = unsafe { handler.assume_init() };
        comm.map(|comm| Self { comm, handler })
    }
}

impl Deref for Borrowed {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: both are live: the communicator, as it is the program's, and a reference of ours.
        unsafe { ffi::MPI_Comm_set_errhandler(self.comm.raw, self.handler) };
        // SAFETY: the reference is used no more; the communicator has its own.
        unsafe { ffi::MPI_Errhandler_free(&raw mut self.handler) };
    }
}

/// The handle of a live communicator.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Handle(ffi::MPI_Comm);

impl Handle {
    /// [`Comm::acknowledge_failures`].
    pub(in crate::mpi) fn acknowledge_failures(self, ulfm: &Ulfm) {
        let _inside = inside::ordinary();
        // SAFETY: the function has this type; our handle is live.
        let code = unsafe { (ulfm.failure_ack)(self.0) };
        if let Err(refusal) = check("MPIX_Comm_failure_ack", code) {
            tracing::debug!(?refusal, "not acknowledged");
        }
    }
}

thread_local! {
    /// What we made and did not free.
    static LIVE: RefCell<Vec<Comm>> = const { RefCell::new(Vec::new()) };
}

/// How many communicators this library holds in this process, those of worlds that were left
/// included: a number to watch in long runs with many recoveries.
pub fn communicators() -> usize {
    LIVE.with_borrow(Vec::len)
}

/// Frees everything that was made, before `MPI_Finalize`.
///
/// # Safety
///
/// No communicator of ours is used afterwards.
pub(in crate::mpi) unsafe fn free_all() {
    while let Some(comm) = LIVE.with_borrow(|live| live.last().copied()) {
        // SAFETY: live, as it was not freed, and used no more, says our caller.
        unsafe { comm.free() };
    }
}

/// How many communicators were made and not freed.
pub(in crate::mpi) fn live() -> usize {
    LIVE.with_borrow(Vec::len)
}

/// Those that were made and not freed.
pub(in crate::mpi) fn all() -> Vec<Comm> {
    LIVE.with_borrow(Vec::clone)
}

pub(in crate::mpi) fn null() -> ffi::MPI_Comm {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_COMM_NULL }
}

impl Comm {
    /// Takes a handle that MPI gave us, makes its errors return and asks for rank and size.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator and stays so until [`Comm::free`].
    pub(in crate::mpi) unsafe fn from_raw(raw: ffi::MPI_Comm) -> Checked<Self> {
        // SAFETY: reading a constant that MPI's library defines.
        let errors_return = unsafe { ffi::RSMPI_ERRORS_RETURN };
        check("MPI_Comm_set_errhandler", {
            // SAFETY: the handle is live, says our caller.
            unsafe { ffi::MPI_Comm_set_errhandler(raw, errors_return) }
        })?;
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the handle is live, says our caller; the result is a variable of ours.
        check("MPI_Comm_rank", unsafe { ffi::MPI_Comm_rank(raw, &raw mut rank) })?;
        // SAFETY: as above.
        check("MPI_Comm_size", unsafe { ffi::MPI_Comm_size(raw, &raw mut size) })?;
        Ok(Self { raw, rank: rank.cast_unsigned(), size: size.cast_unsigned() })
    }

    /// The world of this launch; its errors return from now on.
    pub(in crate::mpi) fn world() -> Checked<Self> {
        // SAFETY: reading a constant that MPI's library defines.
        let raw = unsafe { ffi::RSMPI_COMM_WORLD };
        // SAFETY: predefined, lives from initialisation on.
        unsafe { Self::from_raw(raw) }
    }

    /// How many processes this launch has; the errors of its world go where they went before.
    pub(in crate::mpi) fn launch_size() -> Checked<u32> {
        // SAFETY: reading a constant that MPI's library defines.
        let raw = unsafe { ffi::RSMPI_COMM_WORLD };
        // SAFETY: predefined, lives from initialisation on.
        Ok(unsafe { Borrowed::of(raw) }?.size())
    }

    /// The communicator of this process alone; its errors return from now on.
    pub(in crate::mpi) fn alone() -> Checked<Self> {
        // SAFETY: reading a constant that MPI's library defines.
        let raw = unsafe { ffi::RSMPI_COMM_SELF };
        // SAFETY: predefined, lives from initialisation on.
        unsafe { Self::from_raw(raw) }
    }

    /// The link to the processes that spawned us, if any did.
    pub(in crate::mpi) fn parent() -> Checked<Option<Self>> {
        let mut raw = null();
        // SAFETY: the result is a variable of ours.
        check("MPI_Comm_get_parent", unsafe { ffi::MPI_Comm_get_parent(&raw mut raw) })?;
        // SAFETY: not null, so the link that MPI keeps until `free_all`.
        let made = (raw != null()).then(|| unsafe { Self::from_raw(raw) }).transpose()?;
        Ok(made.map(Self::remembered))
    }

    /// Our position.
    pub(in crate::mpi) fn rank(&self) -> Rank {
        Rank::new(self.rank)
    }

    /// Number of processes (of our own side, for a link between two groups).
    pub(in crate::mpi) fn size(&self) -> u32 {
        self.size
    }

    /// Number of processes of the other side of a link between two groups.
    pub(in crate::mpi) fn remote_size(&self) -> Checked<u32> {
        let mut size = 0;
        // SAFETY: our handle is live; the result is a variable of ours.
        let code = unsafe { ffi::MPI_Comm_remote_size(self.raw, &raw mut size) };
        check("MPI_Comm_remote_size", code)?;
        Ok(size.cast_unsigned())
    }

    /// The handle.
    pub(in crate::mpi) fn raw(&self) -> ffi::MPI_Comm {
        self.raw
    }

    /// The handle, for what has to be small.
    #[inline]
    pub(in crate::mpi) fn handle(&self) -> Handle {
        Handle(self.raw)
    }

    /// What a creation call gave; a failed one leaves garbage in the handle.
    pub(super) fn made(
        call: &'static str,
        code: c_int,
        raw: ffi::MPI_Comm,
    ) -> Checked<Option<Self>> {
        check(call, code)?;
        // SAFETY: a successful creation call gave the handle; only null means nothing.
        let made = (raw != null()).then(|| unsafe { Self::from_raw(raw) }).transpose()?;
        Ok(made.map(Self::remembered))
    }

    /// True for another handle of this communicator.
    pub(in crate::mpi) fn is(&self, other: &Self) -> bool {
        self.raw == other.raw
    }

    /// This communicator, which [`free_all`] frees unless it was freed before.
    pub(in crate::mpi) fn remembered(self) -> Self {
        LIVE.with_borrow_mut(|live| live.push(self));
        self
    }

    /// This communicator, which another owner has from now on.
    pub(in crate::mpi) fn given_away(self) -> Self {
        LIVE.with_borrow_mut(|live| live.retain(|known| known.raw != self.raw));
        self
    }

    /// A call that makes a communicator with others.
    fn make(
        call: &'static str,
        partners: Partners,
        make: impl FnOnce(*mut ffi::MPI_Comm) -> c_int + 'static,
    ) -> Checked<Option<Self>> {
        let ended = unless_dead(partners, move || {
            let mut raw = null();
            (make(&raw mut raw), raw)
        });
        let (code, raw) = ended.ok_or(Refusal { call, class: PROC_FAILED })?;
        Self::made(call, code, raw)
    }

    /// `MPI_Comm_dup`.
    pub(in crate::mpi) fn duplicate(&self) -> Checked<Self> {
        let _inside = inside::creation();
        let (call, own) = ("MPI_Comm_dup", self.raw);
        let made = Self::make(call, Partners::Of(own), move |to| {
            // SAFETY: our handle is live; the result is our caller's.
            unsafe { ffi::MPI_Comm_dup(own, to) }
        });
        made?.ok_or(absent(call))
    }

    /// `MPI_Comm_dup_with_info`: a duplicate that has these hints.
    pub(in crate::mpi) fn duplicate_with(&self, hints: ffi::MPI_Info) -> Checked<Self> {
        let _inside = inside::creation();
        let (call, own) = ("MPI_Comm_dup_with_info", self.raw);
        let made = Self::make(call, Partners::Of(own), move |to| {
            // SAFETY: both handles are live; the result is our caller's.
            unsafe { ffi::MPI_Comm_dup_with_info(own, hints, to) }
        });
        made?.ok_or(absent(call))
    }

    /// `MPI_Comm_idup`: the new handle appears in the box when the request is complete.
    pub(in crate::mpi) fn start_duplicate(&self) -> Checked<Making> {
        let _inside = inside::ordinary();
        let mut making = Making { request: Request::null(), handle: Box::new(null()) };
        let (handle, request) = (&raw mut *making.handle, making.request.slot());
        // SAFETY: our handle is live; `Making` keeps the box until the request is complete.
        check("MPI_Comm_idup", unsafe { ffi::MPI_Comm_idup(self.raw, handle, request) })?;
        Ok(making)
    }

    /// `MPI_Comm_split`; `None` where our colour is `None`.
    pub(in crate::mpi) fn split(&self, color: Option<u32>, key: u32) -> Checked<Option<Self>> {
        let _inside = inside::creation();
        // SAFETY: reading a constant that MPI's library defines.
        let undefined = unsafe { ffi::RSMPI_UNDEFINED };
        let (color, key) = (color.map_or(undefined, u32::cast_signed), key.cast_signed());
        let own = self.raw;
        Self::make("MPI_Comm_split", Partners::Of(own), move |to| {
            // SAFETY: our handle is live; the result is our caller's.
            unsafe { ffi::MPI_Comm_split(own, color, key, to) }
        })
    }

    /// `MPI_Intercomm_create`: links our group to another one. Its leader knows the other one, by a
    /// communicator that has both. New processes are `behind`.
    pub(in crate::mpi) fn link(
        &self,
        leader: u32,
        other: Option<(&Self, u32)>,
        (behind, all): (bool, Partners),
    ) -> Checked<Self> {
        const TAG: c_int = 77;
        let _inside = inside::meeting(behind);
        let (bridge, remote) = other.map_or((self.raw, 0), |(bridge, rank)| (bridge.raw, rank));
        let (leader, remote) = (leader.cast_signed(), remote.cast_signed());
        let (call, own) = ("MPI_Intercomm_create", self.raw);
        let made = Self::make(call, all, move |to| {
            // SAFETY: both handles are live; MPI looks at the bridge only at the two leaders.
            unsafe { ffi::MPI_Intercomm_create(own, leader, bridge, remote, TAG, to) }
        });
        made?.ok_or(absent(call))
    }

    /// `MPI_Intercomm_merge` of a link; those who are `behind` come after the others.
    pub(in crate::mpi) fn merge(&self, behind: bool, all: Partners) -> Checked<Self> {
        let _inside = inside::meeting(behind);
        let (call, own, high) = ("MPI_Intercomm_merge", self.raw, c_int::from(behind));
        let made = Self::make(call, all, move |to| {
            // SAFETY: our handle is live; the result is our caller's.
            unsafe { ffi::MPI_Intercomm_merge(own, high, to) }
        });
        made?.ok_or(absent(call))
    }

    /// `MPI_Comm_free`; nothing is said when MPI refuses, the handle is just kept.
    ///
    /// # Safety
    ///
    /// No copy of this handle is used afterwards.
    pub(in crate::mpi) unsafe fn free(self) {
        let _inside = inside::creation();
        if let Some(ulfm) = ulfm::find() {
            (ulfm.forget)(self.raw);
        }
        let mut raw = self.given_away().raw;
        // SAFETY: live until now; our caller promises that it is used no more.
        let code = unsafe { ffi::MPI_Comm_free(&raw mut raw) };
        if let Err(refusal) = check("MPI_Comm_free", code) {
            tracing::debug!(?refusal, "communicator kept");
        }
    }

    /// `MPIX_Comm_revoke`: every operation on it ends, everywhere.
    pub(in crate::mpi) fn revoke(&self, ulfm: &Ulfm) {
        let _inside = inside::ordinary();
        // SAFETY: the function has this type; our handle is live.
        let code = unsafe { (ulfm.revoke)(self.raw) };
        if let Err(refusal) = check("MPIX_Comm_revoke", code) {
            tracing::debug!(?refusal, "not revoked");
        }
    }

    /// Why operations on it fail, as far as MPI knows: it is revoked (`MPIX_Comm_is_revoked`), or a
    /// process of it is dead.
    pub(in crate::mpi) fn disturbance(&self, ulfm: &Ulfm) -> Option<FaultCode> {
        let mut flag = 0;
        // SAFETY: the function has this type; our handle is live; the flag is ours.
        let code = unsafe { (ulfm.is_revoked)(self.raw, &raw mut flag) };
        if code == 0 && flag != 0 {
            return Some(FaultCode::Interrupted);
        }
        let lost = self.failed(ulfm, usize::MAX, |_| {}).is_ok_and(|dead| dead > 0);
        lost.then_some(FaultCode::ProcessFailed)
    }

    /// `MPIX_Comm_failure_ack`: wildcard receives and probes work again.
    pub(in crate::mpi) fn acknowledge_failures(&self, ulfm: &Ulfm) {
        self.handle().acknowledge_failures(ulfm);
    }

    /// Calls `told` for every process that is known to be dead, if there are more than `known`.
    /// Gives their number.
    pub(in crate::mpi) fn failed(
        &self,
        ulfm: &Ulfm,
        known: usize,
        mut told: impl FnMut(Rank),
    ) -> Checked<usize> {
        let _inside = inside::ordinary();
        // SAFETY: reading a constant that MPI's library defines.
        let mut group = unsafe { ffi::RSMPI_GROUP_NULL };
        // SAFETY: the function has this type; our handle is live; the result is ours.
        let code = unsafe { (ulfm.get_failed)(self.raw, &raw mut group) };
        check("MPIX_Comm_get_failed", code)?;
        let failed = Group(group);
        let size = failed.size()?;
        if size > known {
            failed.ranks_in(size, &self.group()?)?.into_iter().flatten().for_each(&mut told);
        }
        Ok(size)
    }

    /// The positions in `self` of the processes of `part`, which come from it, in their order.
    pub(in crate::mpi) fn positions_of(&self, part: &Self) -> Checked<Vec<Option<Rank>>> {
        part.group()?.ranks_in(part.size as usize, &self.group()?)
    }

    /// True when `part` holds every process but `dead`, in the same order.
    pub(in crate::mpi) fn is_all_but(&self, dead: &RankSet, part: &Self) -> Checked<bool> {
        let all = (0..self.size).map(Rank::new).filter(|rank| !dead.contains(*rank));
        Ok(self.positions_of(part)?.into_iter().eq(all.map(Some)))
    }

    fn group(&self) -> Checked<Group> {
        // SAFETY: reading a constant that MPI's library defines.
        let mut group = unsafe { ffi::RSMPI_GROUP_NULL };
        // SAFETY: our handle is live; the result is a variable of ours.
        check("MPI_Comm_group", unsafe { ffi::MPI_Comm_group(self.raw, &raw mut group) })?;
        Ok(Group(group))
    }
}

pub(super) fn absent(call: &'static str) -> Refusal {
    // `MPI_ERR_COMM`: success without a communicator.
    Refusal { call, class: 5 }
}

/// A duplicate under way.
#[derive(Debug)]
pub(in crate::mpi) struct Making {
    request: Request,
    handle: Box<ffi::MPI_Comm>,
}

impl Making {
    /// The communicator, once it is complete.
    pub(in crate::mpi) fn test(&mut self) -> Checked<Option<Comm>> {
        if self.request.test()?.is_none() {
            return Ok(None);
        }
        Comm::made("MPI_Comm_idup", 0, *self.handle)?.ok_or(absent("MPI_Comm_idup")).map(Some)
    }

    /// Keeps for ever what MPI may still write to.
    pub(in crate::mpi) fn leak(self) {
        Box::leak(self.handle);
    }
}

/// A set of processes; freed with the scope.
#[derive(Debug)]
struct Group(ffi::MPI_Group);

impl Group {
    fn size(&self) -> Checked<usize> {
        let mut size = 0;
        // SAFETY: the group lives until our drop; the result is a variable of ours.
        check("MPI_Group_size", unsafe { ffi::MPI_Group_size(self.0, &raw mut size) })?;
        Ok(size as usize)
    }

    /// The positions of our first `count` processes in another group.
    fn ranks_in(&self, count: usize, other: &Self) -> Checked<Vec<Option<Rank>>> {
        let own: Vec<c_int> = (0..count as c_int).collect();
        let mut there = vec![-1; count];
        let (from, to) = (own.as_ptr(), there.as_mut_ptr());
        // SAFETY: both arrays have `count` entries; both groups live.
        check("MPI_Group_translate_ranks", unsafe {
            ffi::MPI_Group_translate_ranks(self.0, count as c_int, from, other.0, to)
        })?;
        Ok(there.into_iter().map(|rank| u32::try_from(rank).ok().map(Rank::new)).collect())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: ours alone, and used no more; a refusal only leaks it.
        let _ = unsafe { ffi::MPI_Group_free(&raw mut self.0) };
    }
}

/// No information, or hints for the launcher.
pub(in crate::mpi) fn no_info() -> ffi::MPI_Info {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_INFO_NULL }
}

/// A null pointer where MPI allows one.
pub(in crate::mpi) fn nothing<T>() -> *mut T {
    ptr::null_mut()
}
