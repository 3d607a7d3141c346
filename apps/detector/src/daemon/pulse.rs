//! What a process shows of its progress: a few words in memory of its own, which we may read.
//!
//! The descriptor comes from another process, and nothing is believed of it: it counts if the
//! system says that it is memory of this length, which nobody can make shorter. It is read by a
//! call of the system and never mapped, so that nothing the other does to it can hurt us. Whoever
//! hands over no such memory is watched all the same, and is never hung.

use std::{
    fs::File,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::FileExt as _,
    },
};

use rustix::fs::SealFlags;

use crate::protocol::pulse::{Pulse, WORDS};

const WORD: usize = size_of::<u64>();

/// The memory of a process, in which its pulse is.
#[derive(Debug)]
pub struct Page(File);

impl Page {
    /// The memory behind a descriptor, if it is what it should be.
    pub fn of(descriptor: OwnedFd) -> Option<Self> {
        // Only memory has seals.
        let seals = rustix::fs::fcntl_get_seals(&descriptor).ok()?;
        let file = File::from(descriptor);
        let is_right = seals.contains(SealFlags::SHRINK)
            && file.metadata().is_ok_and(|it| it.is_file() && it.len() == (WORDS * WORD) as u64);
        let page = Self(file);
        page.read().filter(|_| is_right).map(|_| page)
    }

    /// The number of our descriptor.
    pub fn number(&self) -> u32 {
        self.0.as_raw_fd().unsigned_abs()
    }

    /// The pulse now.
    pub fn read(&self) -> Option<Pulse> {
        let mut bytes = [0; WORDS * WORD];
        self.0.read_exact_at(&mut bytes, 0).ok()?;
        let words = bytes.as_chunks().0.first_chunk::<WORDS>()?;
        Some(Pulse::from_words(words.map(u64::from_ne_bytes)))
    }
}
