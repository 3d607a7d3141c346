//! Groups of processes: who is where in which communicator.

use std::ffi::c_int;

use mpi::ffi;

use super::library::{Checked, check};
use crate::rank::Rank;

/// A group of MPI, which is freed with this.
#[derive(Debug)]
pub(super) struct Group(pub(super) ffi::MPI_Group);

impl Group {
    pub(super) fn size(&self) -> Checked<usize> {
        let mut size = 0;
        // SAFETY: the group lives until our drop; the result is a variable of ours.
        check("MPI_Group_size", unsafe { ffi::MPI_Group_size(self.0, &raw mut size) })?;
        Ok(size as usize)
    }

    /// The positions of our first `count` processes in another group.
    pub(super) fn ranks_in(&self, count: usize, other: &Self) -> Checked<Vec<Option<Rank>>> {
        let own: Vec<c_int> = (0..count as c_int).collect();
        let mut there = vec![-1; count];
        let (from, to) = (own.as_ptr(), there.as_mut_ptr());
        // SAFETY: both arrays have `count` entries; both groups live.
        check("MPI_Group_translate_ranks", unsafe {
            ffi::MPI_Group_translate_ranks(self.0, count as c_int, from, other.0, to)
        })?;
        Ok(there.into_iter().map(|rank| u32::try_from(rank).ok().map(Rank::new)).collect())
    }

    /// The processes at these positions, in this order.
    pub(super) fn part(&self, ranks: &[u32]) -> Checked<Self> {
        let ranks: Vec<c_int> = ranks.iter().map(|rank| rank.cast_signed()).collect();
        // SAFETY: reading a constant that MPI's library defines.
        let mut part = unsafe { ffi::RSMPI_GROUP_NULL };
        let count = ranks.len() as c_int;
        // SAFETY: the list has `count` entries; the group lives; the result is ours.
        let code = unsafe { ffi::MPI_Group_incl(self.0, count, ranks.as_ptr(), &raw mut part) };
        check("MPI_Group_incl", code)?;
        Ok(Self(part))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: ours alone, and used no more; a refusal only leaks it.
        let _ = unsafe { ffi::MPI_Group_free(&raw mut self.0) };
    }
}
