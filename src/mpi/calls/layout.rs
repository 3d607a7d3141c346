//! What the types of an MPI look like inside, where the standard leaves that open.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use mpi::ffi;

/// What a handle is made of, as a number: a pointer in Open MPI, a number in MPICH.
pub trait InNumbers {
    /// Two live handles of one kind are the same if their numbers are.
    fn number(self) -> usize;
}

impl<T> InNumbers for *mut T {
    #[inline]
    fn number(self) -> usize {
        self.addr()
    }
}

impl InNumbers for c_int {
    #[inline]
    fn number(self) -> usize {
        self as usize
    }
}

/// The bytes that a receive has brought, as its status has them.
#[cfg(not(mpich))]
#[inline]
pub(super) const fn bytes_of(status: &ffi::MPI_Status) -> usize {
    status._ucount
}

/// The bytes that a receive has brought, as its status has them.
#[cfg(mpich)]
#[inline]
pub(super) const fn bytes_of(status: &ffi::MPI_Status) -> usize {
    // The lowest bit of the upper half says whether it was cancelled.
    let (low, high) = (status.count_lo.cast_unsigned(), status.count_hi_and_cancelled);
    (high.cast_unsigned() as usize >> 1) << 32 | low as usize
}

/// `MPI_IN_PLACE`, a macro that the bindings do not carry.
pub(super) const fn in_place() -> *mut c_void {
    ptr::without_provenance_mut(if cfg!(mpich) { usize::MAX } else { 1 })
}
