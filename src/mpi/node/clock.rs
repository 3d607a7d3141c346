//! The clock of this node that is never set.

use std::{mem::MaybeUninit, time::Duration};

/// What that clock says, which all processes of a node share.
pub(in crate::mpi) fn monotonic() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is to a value of our own, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
    // SAFETY: all bytes are initialised, by the call or as zeros, and any are a valid value.
    let time = unsafe { time.assume_init() };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
