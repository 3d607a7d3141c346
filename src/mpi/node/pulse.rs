//! The memory by which an observer sees that this process makes progress.
//!
//! It is made once, when it is first asked for, and stays until the process ends: the engine
//! writes to it without asking whether there is an observer by now. The observer gets a descriptor
//! with the registration.

use std::{
    os::fd::BorrowedFd,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::memory::{Door, Shared};
use crate::seam::pulse::{Pulse, Rest, THREAD, WORDS};

#[derive(Debug)]
struct Page {
    words: Shared,
    door: Door,
}

static PAGE: OnceLock<Option<Page>> = OnceLock::new();

/// The words of this process. The thread that asks first is the one whose progress counts.
pub(in crate::mpi) fn pulse() -> Option<Pulse> {
    PAGE.get_or_init(|| Page::new().ok()).as_ref().and_then(Page::pulse)
}

/// What an observer is handed.
pub(in crate::mpi) fn descriptor() -> Option<BorrowedFd<'static>> {
    pulse()?;
    shown().map(|page| page.door.as_fd())
}

/// What begins may last, until the guard goes.
pub(in crate::mpi) fn rest() -> Rest {
    shown().and_then(Page::pulse).map(Pulse::rest).unwrap_or_default()
}

/// From now on this process need not make progress.
pub(in crate::mpi) fn leave() {
    shown().and_then(Page::pulse).into_iter().for_each(Pulse::leave);
}

fn shown() -> Option<&'static Page> {
    PAGE.get()?.as_ref()
}

impl Page {
    fn new() -> std::io::Result<Self> {
        let (words, door) = Shared::new(WORDS).inspect_err(
            |error| tracing::debug!(%error, "nobody sees this process make progress"),
        )?;
        // SAFETY: the call takes nothing, and gives a number.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        words.words()[THREAD].store(thread.unsigned_abs(), Relaxed);
        Ok(Self { words, door })
    }

    fn pulse(&'static self) -> Option<Pulse> {
        let words: &'static [AtomicU64; WORDS] = self.words.words().try_into().ok()?;
        Some(Pulse(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    #[test]
    fn what_is_written_is_seen_through_the_descriptor() {
        let page: &'static Page = Box::leak(Box::new(Page::new().expect("memory")));
        let own = page.pulse().expect("its words");
        own.beat();
        let descriptor: OwnedFd = page.door.as_fd().try_clone_to_owned().expect("a descriptor");
        let seen = super::super::memory::View::of(descriptor, WORDS).expect("of this length");
        own.commit();
        assert_eq!([0, 1, 2].map(|at| seen.word(at)), [1, 0, 1]);
        let thread = std::fs::exists(format!("/proc/self/task/{}", seen.word(THREAD)));
        assert!(thread.expect("we may look"));
    }
}
