//! The memory that the processes of the node read, of which this process is the only writer.
//!
//! It is an anonymous file of fixed length. Processes are handed a descriptor that can only be
//! read, and map it; we write to the file, entries before the head that counts them, so there is no
//! pointer into shared memory in here. [`crate::protocol::board`] says what is where, and
//! why a reader needs no more.

use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd},
    os::unix::fs::FileExt as _,
};

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::{
    clock::now,
    protocol::{
        board::{self, Entry, Head},
        diagnosis::Opinion,
        plan::Plan,
    },
};

/// Entries beyond two for each rank of the launch.
const SPARE_ROOM: usize = 1024;
const WORD: u64 = size_of::<u64>() as u64;

/// The board of this node.
#[derive(Debug)]
pub struct Board {
    file: File,
    for_readers: File,
    opinions: u32,
    room: u32,
    /// What the head should say; entries count when they are published.
    pub head: Head,
    published: Head,
}

impl Board {
    /// A board for what there may be to show in the job of this plan.
    pub fn of(plan: &Plan) -> Result<Self> {
        let opinions = (plan.nodes_of.len() + plan.nodes.len()) as u32;
        let room = (2 * plan.nodes_of.len() + SPARE_ROOM) as u32;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("fampi-board", flags);
        let file = File::from(file.context("cannot make shared memory")?);
        file.set_len(board::words(opinions, room) as u64 * WORD)
            .context("no room for the board")?;
        // Whoever maps it never falls off its end.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let for_readers = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let for_readers = for_readers.context("cannot open the board for reading")?;
        let zeta = plan.timing.diagnosis.map_or(0, |it| it.zeta);
        let (head, published) = (Head { zeta, ..Head::default() }, Head::default());
        let mut board = Self { file, for_readers, opinions, room, head, published };
        board.write_head()?;
        Ok(board)
    }

    /// How many entries there can be.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// What processes get.
    pub fn for_readers(&self) -> BorrowedFd<'_> {
        self.for_readers.as_fd()
    }

    /// Writes an entry that nobody looks at before it is published.
    pub fn write(&mut self, entry: Entry) -> Result<()> {
        let place = self.head.entries;
        if place == self.room {
            self.head.no_room += 1;
            return Ok(());
        }
        let at = board::entry_at(self.opinions, place) as u64 * WORD;
        self.file.write_all_at(&bytes(&entry.to_words(place, now())), at)?;
        self.head.entries += 1;
        Ok(())
    }

    /// Shows what is thought of a rank of the launch, or, behind these, of a node.
    pub fn think(&mut self, target: u32, opinion: Opinion) -> Result<()> {
        let at = board::opinion_at(target) as u64 * WORD;
        self.file.write_all_at(&board::opinion_to_word(opinion).to_ne_bytes(), at)?;
        Ok(())
    }

    /// Shows what was written, all at once, and what was counted.
    pub fn publish(&mut self) -> Result<()> {
        if self.head == self.published { Ok(()) } else { self.write_head() }
    }

    fn write_head(&mut self) -> Result<()> {
        self.file.write_all_at(&bytes(&self.head.to_words()), 0)?;
        self.published = self.head;
        Ok(())
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
