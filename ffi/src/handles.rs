//! The table of requests that fampi made: a place for each, which is used again with its memory.
//!
//! Requests are found by their handle, which is an address: MPI often has the same one for the
//! next request, so that nothing has to be noted anew.

use std::{
    collections::HashMap,
    ffi::c_int,
    hash::{BuildHasherDefault, Hasher},
};

use fampi_core::{engine::platform::PostId, guest::GuestBlock};
use mpi::ffi::MPI_Request;

use crate::{
    fused::Target,
    recover::Making,
    request::{Handle, key, null},
};

/// A block and the list that was given to its finish.
pub(crate) struct Block {
    pub(crate) name: GuestBlock,
    pub(crate) finished: bool,
    /// For each part of the block its place in the list.
    pub(crate) places: Vec<usize>,
    pub(crate) operations: Vec<PostId>,
    /// Where the result of a reduction on the commit goes.
    pub(crate) result: Option<Target>,
    /// States that were brought back in it, by their slots.
    pub(crate) restored: Vec<(u32, Vec<u8>)>,
}

impl Block {
    fn new(name: GuestBlock) -> Self {
        let (places, operations, restored) = (Vec::new(), Vec::new(), Vec::new());
        Self { name, finished: false, places, operations, result: None, restored }
    }

    /// The next one, in the memory of this one.
    fn renew(&mut self, name: GuestBlock) {
        (self.name, self.finished, self.result) = (name, false, None);
        self.places.clear();
        self.operations.clear();
        self.restored.clear();
    }
}

/// What a request of ours stands for.
pub(crate) enum Kind {
    Operation(PostId),
    Block(Block),
    Making(Box<Making>),
    /// Nothing: the place is free.
    Nothing,
}

pub(crate) struct Entry {
    pub(crate) handle: Handle,
    pub(crate) kind: Kind,
    /// The program has it.
    pub(crate) held: bool,
}

/// Addresses are spread by a multiplication; nobody attacks a table with them.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        let product = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// All requests of ours.
#[derive(Default)]
pub(crate) struct Handles {
    entries: Vec<Entry>,
    /// At most one handle for each place: the last that it had.
    by_key: HashMap<usize, u32, BuildHasherDefault<Spread>>,
    /// The newest request, which is most often asked for.
    newest: u32,
    free: Vec<u32>,
    /// Free places that have the memory of a block.
    free_blocks: Vec<u32>,
    /// Requests that are not complete.
    pub(crate) pending: Vec<u32>,
    /// Requests that are complete, which MPI does not know.
    pub(crate) unannounced: Vec<u32>,
}

impl Handles {
    /// The place of a request that the program has not freed.
    #[inline]
    fn find(&self, raw: MPI_Request) -> Option<u32> {
        let is = |place: &u32| {
            let entry = self.entries.get(*place as usize);
            entry.is_some_and(|it| it.held && it.handle.raw == raw)
        };
        Some(self.newest).filter(is).or_else(|| self.by_key.get(&key(raw)).copied().filter(is))
    }

    /// A request that the program has not freed.
    #[inline]
    pub(crate) fn entry(&mut self, raw: MPI_Request) -> Option<&mut Entry> {
        let place = self.find(raw)?;
        Some(self.at(place))
    }

    /// What is at a place.
    #[inline]
    pub(crate) fn at(&mut self, place: u32) -> &mut Entry {
        &mut self.entries[place as usize]
    }

    /// A new request for a block.
    #[inline]
    pub(crate) fn add_block(&mut self, name: GuestBlock) -> Result<MPI_Request, c_int> {
        let place = self.free_blocks.pop();
        let (place, raw) = self.start(place).inspect_err(|_| self.free_blocks.extend(place))?;
        match &mut self.at(place).kind {
            Kind::Block(block) => block.renew(name),
            kind => *kind = Kind::Block(Block::new(name)),
        }
        Ok(raw)
    }

    /// A new request for anything but a block.
    pub(crate) fn add(&mut self, kind: Kind) -> Result<MPI_Request, c_int> {
        let place = self.free.pop();
        let (place, raw) = self.start(place).inspect_err(|_| self.free.extend(place))?;
        self.at(place).kind = kind;
        Ok(raw)
    }

    /// Starts a request in a free place, or a new one.
    #[inline]
    fn start(&mut self, place: Option<u32>) -> Result<(u32, MPI_Request), c_int> {
        let place = place.unwrap_or_else(|| {
            let (place, kind) = (self.entries.len() as u32, Kind::Nothing);
            self.entries.push(Entry { handle: Handle::new(place), kind, held: false });
            place
        });
        let entry = self.at(place);
        let before = entry.handle.raw;
        entry.handle.start()?;
        entry.held = true;
        let raw = entry.handle.raw;
        if raw != before {
            self.by_key.remove(&key(before));
            if let Some(other) = self.by_key.insert(key(raw), place) {
                // Its request was freed: the handle is ours now.
                self.at(other).handle.raw = null();
            }
        }
        self.newest = place;
        self.pending.push(place);
        Ok((place, raw))
    }

    /// Tells MPI of what is complete.
    #[inline]
    pub(crate) fn announce(&mut self) {
        while let Some(place) = self.unannounced.pop() {
            self.at(place).handle.announce();
        }
    }

    /// MPI ends, and gets what we kept to use it again.
    pub(crate) fn close(&mut self) {
        self.announce();
        for entry in self.entries.iter_mut().filter(|entry| !entry.held) {
            entry.handle.discard();
        }
    }

    /// Takes a request off the list of those that MPI is to hear of; nothing when it has.
    #[inline]
    pub(crate) fn take_unannounced(&mut self, raw: MPI_Request) -> Option<u32> {
        let place = self.find(raw)?;
        let at = self.unannounced.iter().rposition(|other| *other == place)?;
        Some(self.unannounced.swap_remove(at))
    }

    /// The request at a place was freed: the place is free.
    #[inline]
    pub(crate) fn give_back(&mut self, place: u32) {
        let entry = self.at(place);
        entry.held = false;
        match &mut entry.kind {
            Kind::Block(_) => self.free_blocks.push(place),
            kind => {
                *kind = Kind::Nothing;
                self.free.push(place);
            }
        }
    }
}
