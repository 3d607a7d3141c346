//! Where requests of the program came from: their communicators, and whom they need.
//!
//! Ranks of one communicator become those of another by their groups, without a message.

use std::ffi::c_int;

use fampi_core::{
    Rank,
    engine::platform::PostId,
    guest::Part,
    mpi::{InNumbers as _, MpiPlatform, Origin},
};
use mpi::ffi::{self, MPI_Comm, MPI_Group, MPI_Request};

use crate::codes::{FAMPI_ERR_COMM, Result};

/// The processes of a communicator.
struct Group(MPI_Group);

impl Group {
    fn of(comm: MPI_Comm) -> Result<Self> {
        // SAFETY: reading a constant that MPI's library defines.
        let mut group = unsafe { ffi::RSMPI_GROUP_NULL };
        // SAFETY: MPI refuses what is no communicator; the result is ours.
        let code = unsafe { ffi::MPI_Comm_group(comm, &raw mut group) };
        if code == 0 { Ok(Self(group)) } else { Err(code) }
    }

    fn ranks(&self) -> Result<Vec<c_int>> {
        let mut size = 0;
        // SAFETY: the group is live, the result ours.
        let code = unsafe { ffi::MPI_Group_size(self.0, &raw mut size) };
        if code == 0 { Ok((0..size).collect()) } else { Err(code) }
    }

    /// The ranks that these have in another one, if they are in it.
    fn places_in(&self, ranks: &[c_int], other: &Self) -> Result<Vec<Option<c_int>>> {
        let (count, mut there) = (ranks.len() as c_int, vec![0; ranks.len()]);
        let (from, to) = (ranks.as_ptr(), there.as_mut_ptr());
        // SAFETY: both groups are live, the ranks are ranks of the first; as much room.
        let code = unsafe { ffi::MPI_Group_translate_ranks(self.0, count, from, other.0, to) };
        if code != 0 {
            return Err(code);
        }
        // SAFETY: reading a constant that MPI's library defines.
        let nowhere = unsafe { ffi::RSMPI_UNDEFINED };
        Ok(there.into_iter().map(|rank| (rank != nowhere).then_some(rank)).collect())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: ours, and used no more.
        unsafe { ffi::MPI_Group_free(&raw mut self.0) };
    }
}

/// The ranks that processes of a communicator have in another one, if they are in it.
pub(crate) fn places(of: MPI_Comm, ranks: &[c_int], there: MPI_Comm) -> Result<Vec<Option<c_int>>> {
    if of == there {
        return Ok(ranks.iter().copied().map(Some).collect());
    }
    Group::of(of)?.places_in(ranks, &Group::of(there)?)
}

/// True when all processes of a communicator are in another one, too.
pub(crate) fn is_part(part: MPI_Comm, whole: MPI_Comm) -> Result<bool> {
    let group = Group::of(part)?;
    Ok(group.places_in(&group.ranks()?, &Group::of(whole)?)?.iter().all(Option::is_some))
}

/// The communicator of a request of the program, if it is known.
pub(crate) fn comm_of(mpi: &MpiPlatform, raw: MPI_Request) -> Option<MPI_Comm> {
    // SAFETY: live, as MPI keeps it.
    match unsafe { mpi.origin(raw) } {
        Origin::Message(comm, _) | Origin::Collective(comm) => Some(comm),
        Origin::Other => None,
    }
}

/// What a request of the program is in a local block on this communicator: a message needs its
/// peer, and no other rank.
#[cold]
pub(crate) fn part(mpi: &MpiPlatform, post: PostId, raw: MPI_Request, own: MPI_Comm) -> Part {
    // SAFETY: live, as the program gave it to us.
    match unsafe { mpi.origin(raw) } {
        Origin::Message(comm, peer @ 0..) => match places(comm, &[peer], own).as_deref() {
            Ok([Some(rank)]) => Part::Message(post, Some(Rank::new(rank.cast_unsigned()))),
            Ok([None]) => Part::Elsewhere(post),
            _ => Part::Request(post),
        },
        _ => Part::Request(post),
    }
}

/// True for a collective that needs all processes of this communicator.
pub(crate) fn needs_all(mpi: &MpiPlatform, raw: MPI_Request, own: MPI_Comm) -> bool {
    // SAFETY: live, as the program gave it to us.
    match unsafe { mpi.origin(raw) } {
        Origin::Collective(comm) => comm == own || is_part(own, comm) == Ok(true),
        _ => false,
    }
}

pub(crate) fn no_comm() -> MPI_Comm {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_COMM_NULL }
}

/// Frees a communicator; nothing happens to none.
pub(crate) fn free_comm(mut comm: MPI_Comm) {
    if comm != no_comm() {
        // SAFETY: live, and this is the last use of it.
        unsafe { ffi::MPI_Comm_free(&raw mut comm) };
    }
}

/// The rank of this process in a communicator, and the number of its ranks.
pub(crate) fn place_in(comm: MPI_Comm) -> Result<(c_int, c_int)> {
    let (mut me, mut size) = (0, 0);
    // SAFETY: the communicator is in use; the results are ours.
    let rank = unsafe { ffi::MPI_Comm_rank(comm, &raw mut me) };
    // SAFETY: as above.
    let count = unsafe { ffi::MPI_Comm_size(comm, &raw mut size) };
    if rank == 0 && count == 0 { Ok((me, size)) } else { Err(FAMPI_ERR_COMM) }
}

/// How many processes our own group of a link has, and how many the other one.
pub(crate) fn groups_of(link: MPI_Comm) -> Result<[c_int; 2]> {
    if !links_two_groups(link)? {
        return Err(FAMPI_ERR_COMM);
    }
    let (_, own) = place_in(link)?;
    let mut other = 0;
    // SAFETY: a live link, as MPI has just said; the result is ours.
    let code = unsafe { ffi::MPI_Comm_remote_size(link, &raw mut other) };
    if code == 0 { Ok([own, other]) } else { Err(FAMPI_ERR_COMM) }
}

/// Whether a communicator has two groups; an error for what is no communicator.
pub(crate) fn links_two_groups(raw: MPI_Comm) -> Result<bool> {
    // SAFETY: reading a constant that MPI's library defines.
    if raw.0.number() == 0 || raw == unsafe { ffi::RSMPI_COMM_NULL } {
        return Err(FAMPI_ERR_COMM);
    }
    let mut flag = 0;
    // SAFETY: the result is ours; that the handle is one of MPI's is the program's promise.
    let code = unsafe { ffi::MPI_Comm_test_inter(raw, &raw mut flag) };
    if code == 0 { Ok(flag != 0) } else { Err(FAMPI_ERR_COMM) }
}
