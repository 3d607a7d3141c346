//! What one thread uses, the first that asks for it.
//!
//! A variable of the thread would do the same; in a library that is loaded each look at one is a
//! call of the loader.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A value for one thread.
pub(crate) struct Owned<T> {
    /// The thread, as the system names it; 0 before anybody has asked.
    owner: AtomicUsize,
    value: T,
}

// SAFETY: `value` is reached through `get` alone, in one thread.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { owner: AtomicUsize::new(0), value }
    }

    /// The value; nothing in another thread than the first.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: it has no conditions.
        let me = unsafe { libc::pthread_self() } as usize;
        (self.owner.load(Relaxed) == me || self.own(me)).then_some(&self.value)
    }

    #[cold]
    fn own(&self, me: usize) -> bool {
        self.owner.compare_exchange(0, me, Relaxed, Relaxed).is_ok()
    }
}
