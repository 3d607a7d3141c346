//! Which threads of this process take its signals.

use std::mem::MaybeUninit;

/// Signals go to the application's threads, never to the calling one.
pub(in crate::mpi) fn block_signals_of_this_thread() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is to a set of our own, which the call fills.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set was filled above, and no old one is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut()) };
}
