//! What one thread uses, the first that asks for it.
//!
//! A variable of the thread would do the same; in a library that is loaded each look at one is a
//! call of the loader.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A value for one thread.
pub(crate) struct Owned<T> {
    /// The thread, as the system names it; 0 before any thread has asked.
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
        let me = this_thread();
        (self.owner.load(Relaxed) == me || self.own(me)).then_some(&self.value)
    }

    /// The value, if this thread has asked for it before.
    #[cfg(mpich)]
    pub(crate) fn peek(&self) -> Option<&T> {
        (self.owner.load(Relaxed) == this_thread()).then_some(&self.value)
    }

    #[cold]
    fn own(&self, me: usize) -> bool {
        self.owner.compare_exchange(0, me, Relaxed, Relaxed).is_ok()
    }
}

/// A number that no other living thread has, and never 0: what `pthread_self` returns, which on
/// this processor is a word at a fixed place (System V ABI, thread-local storage, §3.4.2).
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[inline]
fn this_thread() -> usize {
    let me: usize;
    // SAFETY: every thread has this word from its start, and no code writes to it.
    unsafe {
        std::arch::asm!(
            "mov {}, fs:0", out(reg) me, options(pure, readonly, nostack, preserves_flags)
        );
    }
    me
}

/// A number that no other living thread has, and never 0.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn this_thread() -> usize {
    // SAFETY: it has no conditions.
    unsafe { libc::pthread_self() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thread_owns_the_value_and_no_other_one_gets_it() {
        static OWNED: Owned<u32> = Owned::new(7);
        assert_eq!((OWNED.get(), OWNED.get()), (Some(&7), Some(&7)));
        assert_eq!(std::thread::spawn(|| OWNED.get()).join().expect("no panic"), None);
        // SAFETY: it has no conditions.
        assert_eq!(this_thread(), unsafe { libc::pthread_self() as usize });
    }
}
