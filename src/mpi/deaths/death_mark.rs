//! A sign in shared memory that the kernel leaves when a process begins to end.
//!
//! A process that is killed first gives its memory back, which takes a millisecond or more, and is
//! seen to have ended only after that. Before it, the kernel goes through the locks that the
//! process holds (`robust` ones, POSIX.1-2008) and marks them. So each process takes a lock in
//! memory that its neighbours see, and keeps it: a process that finds the lock marked knows.
//!
//! The mark is a bit of the lock's word (`FUTEX_OWNER_DIED`), and no process takes the lock again,
//! as `glibc` then loses it: to look is to read one word. The word is the first or the second of a
//! lock in the libraries of Linux, and no other bit there can be taken for the mark.
//!
//! **Guarantees.** A mark that is set says that the thread which made it has ended, not that the
//! process has: ask that, too.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Acquire},
    thread,
};

use crate::mpi::node::memory::Shared;

/// Words that a mark takes.
pub(in crate::mpi) const WORDS: usize = 6;
/// What the kernel sets in the word of a lock whose owner has ended, wherever the word is.
const MARK: u64 = 0x4000_0000_4000_0000;
const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= WORDS * size_of::<u64>());

/// The mark of this process; it is taken back when this is dropped, unless by a panic.
#[derive(Debug)]
pub(in crate::mpi) struct Own {
    memory: Arc<Shared>,
    at: usize,
}

/// The mark of a neighbour.
#[derive(Debug)]
pub(in crate::mpi) struct DeathMark {
    memory: Arc<Shared>,
    at: usize,
}

fn lock(memory: &Shared, at: usize) -> *mut libc::pthread_mutex_t {
    memory.words()[at..at + WORDS].as_ptr().cast_mut().cast()
}

/// The error that a call returned, if it is one.
fn check(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

impl Own {
    /// Makes a mark, for the thread that calls, in these words of new memory.
    pub(in crate::mpi) fn make(memory: &Arc<Shared>, at: usize) -> io::Result<Self> {
        let mut how = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let how = how.as_mut_ptr();
        // SAFETY: room for the attributes, which the call fills.
        check(unsafe { libc::pthread_mutexattr_init(how) })?;
        // SAFETY: they are filled.
        check(unsafe { libc::pthread_mutexattr_setpshared(how, libc::PTHREAD_PROCESS_SHARED) })?;
        // SAFETY: as above.
        check(unsafe { libc::pthread_mutexattr_setrobust(how, libc::PTHREAD_MUTEX_ROBUST) })?;
        let lock = lock(memory, at);
        // SAFETY: no other process knows the memory yet, and it is large enough.
        check(unsafe { libc::pthread_mutex_init(lock, how) })?;
        // SAFETY: just made; the word that others read is reached atomically.
        check(unsafe { libc::pthread_mutex_lock(lock) })?;
        Ok(Self { memory: memory.clone(), at })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // A panic takes nothing back: most likely the process is about to end.
        let stays = thread::panicking() || {
            // SAFETY: made above; in a thread that does not hold it the call is an error.
            unsafe { libc::pthread_mutex_unlock(lock(&self.memory, self.at)) != 0 }
        };
        if stays {
            // The kernel will look for it when its thread ends: it stays where it is.
            std::mem::forget(self.memory.clone());
        }
    }
}

impl DeathMark {
    pub(in crate::mpi) fn of(memory: &Arc<Shared>, at: usize) -> Self {
        Self { memory: memory.clone(), at }
    }

    /// True when the thread that made the mark has ended without taking it back.
    pub(in crate::mpi) fn is_set(&self) -> bool {
        self.memory.words()[self.at].load(Acquire) & MARK != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{process, sync::mpsc};

    /// A mark of another thread, which goes on when it is told to, with what it keeps.
    fn mark_of_another(
        keep: impl FnOnce(Own) + Send + 'static,
    ) -> (DeathMark, impl FnOnce() -> thread::Result<()>) {
        let (memory, door) = Shared::new(64).expect("Linux");
        let descriptor = door.descriptor();
        let (made, was_made) = mpsc::channel();
        let (go, may_go) = mpsc::channel();
        let owner = thread::spawn(move || {
            let memory = Shared::of(process::id().into(), descriptor, 64).expect("our own");
            let own = Own::make(&Arc::new(memory), 8).expect("a mark");
            made.send(()).expect("somebody waits");
            may_go.recv().expect("somebody says so");
            keep(own);
        });
        was_made.recv().expect("made");
        let finish = move || {
            go.send(()).expect("it waits");
            owner.join()
        };
        (DeathMark::of(&Arc::new(memory), 8), finish)
    }

    #[test]
    fn a_mark_is_set_by_the_end_of_its_maker_and_stays_set() {
        let (mark, finish) = mark_of_another(std::mem::forget);
        assert!(!mark.is_set() && !mark.is_set());
        finish().expect("no panic");
        assert!((0..9).all(|_| mark.is_set()));
    }

    #[test]
    fn a_mark_that_was_taken_back_is_never_set() {
        let (mark, finish) = mark_of_another(drop);
        finish().expect("no panic");
        assert!(!mark.is_set() && !mark.is_set());
    }

    #[test]
    fn a_panic_does_not_take_a_mark_back() {
        let (mark, finish) = mark_of_another(|_own| panic!("part of this test"));
        assert!(!mark.is_set());
        assert!(finish().is_err());
        assert!(mark.is_set());
    }
}
