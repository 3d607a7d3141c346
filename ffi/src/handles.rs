//! The table of requests that fampi made: a place for each, which is used again with its memory.
//!
//! Requests are found by their handle, which is an address: MPI often has the same one for the
//! next request, so that nothing has to be noted anew.

use std::{collections::HashMap, ffi::c_int, hash::BuildHasherDefault};

use fampi_core::{
    engine::platform::PostId,
    guest::{GuestBlock, Part},
    mpi::Spread,
};
use mpi::ffi::MPI_Request;

use crate::{
    making::Making,
    numbers::Target,
    request::{Handle, key, null},
    running::Running,
};

/// A block and the list that was given to its finish.
pub(crate) struct Block {
    pub(crate) name: GuestBlock,
    pub(crate) finished: bool,
    /// For each part of the block its place in the list; nothing if they are the same.
    pub(crate) places: Vec<usize>,
    /// What was in the list.
    pub(crate) parts: Vec<Part>,
    /// Communicators that were in the making when it was finished, in its list or in that of a
    /// block inside of it: a wait for the block takes their steps.
    pub(crate) makings: Vec<MPI_Request>,
    /// Where the result of a reduction on the commit goes.
    pub(crate) result: Option<Target>,
    /// Where the flag of an agreement goes.
    pub(crate) flag: Option<*mut c_int>,
    /// States that were brought back in it, by their slots.
    pub(crate) restored: Vec<(u32, Vec<u8>)>,
}

impl Block {
    fn new(name: GuestBlock) -> Self {
        let (places, parts, makings) = (Vec::new(), Vec::new(), Vec::new());
        let (result, flag, restored) = (None, None, Vec::new());
        Self { name, finished: false, places, parts, makings, result, flag, restored }
    }

    /// The next one, in the memory of this one.
    fn renew(&mut self, name: GuestBlock) {
        (self.name, self.finished, self.result, self.flag) = (name, false, None, None);
        self.places.clear();
        self.parts.clear();
        self.makings.clear();
        if !self.restored.is_empty() {
            self.drop_restored();
        }
    }

    #[cold]
    fn drop_restored(&mut self) {
        self.restored.clear();
    }
}

/// What of a list belongs to its block. It is empty between calls, and keeps its memory.
#[derive(Default)]
pub(crate) struct List {
    pub(crate) parts: Vec<Part>,
    /// For each part its place in the list, if one of them has another number there.
    pub(crate) places: Vec<usize>,
    /// Collectives of ours, by their places among the parts.
    pub(crate) collectives: Vec<(usize, MPI_Request)>,
    /// Communicators in the making, by their places among the parts.
    pub(crate) makings: Vec<(usize, MPI_Request)>,
    /// Those of blocks in the list.
    pub(crate) inner_makings: Vec<MPI_Request>,
    /// Requests of ours, of which none is to be there twice.
    pub(crate) ours: Vec<usize>,
}

/// What is waited for.
#[derive(Clone, Copy)]
pub(crate) enum Awaited {
    Operation(PostId),
    Block(GuestBlock),
    Collective(GuestBlock, usize),
    Making,
}

/// What a request of ours stands for.
pub(crate) enum Kind {
    Block(Block),
    Making(Box<Making>),
    Collective(Box<Running>),
    /// Nothing: the place is free.
    Nothing,
}

pub(crate) struct Entry {
    pub(crate) handle: Handle,
    pub(crate) kind: Kind,
    /// The program has it.
    pub(crate) held: bool,
}

impl Entry {
    /// The program has it by this handle.
    #[inline]
    fn is(&self, raw: MPI_Request) -> bool {
        self.held && self.handle.raw == raw
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
    /// Free places that never had a block.
    free: Vec<u32>,
    /// Free places that have the memory of a block, and no request.
    free_blocks: Vec<u32>,
    /// Requests that are not complete as far as MPI knows: first those in use, then those of
    /// blocks that the program has freed, which the next blocks get.
    unheard: Vec<u32>,
    /// How many of them are in use.
    used: usize,
}

impl Handles {
    /// True for a block that is not decided.
    pub(crate) fn has_open(&self, name: GuestBlock) -> bool {
        let is_it = |kind: &Kind| matches!(kind, Kind::Block(block) if block.name == name);
        self.entries.iter().any(|entry| is_it(&entry.kind) && !entry.handle.is_complete())
    }

    /// A request that the program has not freed.
    #[inline]
    pub(crate) fn entry(&mut self, raw: MPI_Request) -> Option<&mut Entry> {
        let newest = self.newest as usize;
        if self.entries.get(newest).is_some_and(|entry| entry.is(raw)) {
            return self.entries.get_mut(newest);
        }
        self.older(raw)
    }

    /// Finds any request but the newest.
    #[inline(never)]
    fn older(&mut self, raw: MPI_Request) -> Option<&mut Entry> {
        let place = self.by_key.get(&key(raw))?;
        self.entries.get_mut(*place as usize).filter(|entry| entry.is(raw))
    }

    /// True for a request of ours that the program has freed, and that we keep for the next block.
    pub(crate) fn is_freed(&self, raw: MPI_Request) -> bool {
        self.before(raw).is_some_and(|entry| entry.handle.is_to_be_announced())
    }

    /// True for the handle of a request that we made and the program has freed, unless MPI has
    /// given it to us again.
    pub(crate) fn was_freed(&self, raw: MPI_Request) -> bool {
        self.before(raw).is_some()
    }

    /// The entry that had this handle, and has no request now.
    fn before(&self, raw: MPI_Request) -> Option<&Entry> {
        let place = self.by_key.get(&key(raw))?;
        self.entries.get(*place as usize).filter(|entry| !entry.held && entry.handle.raw == raw)
    }

    /// What is at a place.
    #[inline]
    pub(crate) fn at(&mut self, place: u32) -> &mut Entry {
        &mut self.entries[place as usize]
    }

    /// A new request for a block.
    #[inline]
    pub(crate) fn add_block(&mut self, name: GuestBlock) -> Result<MPI_Request, c_int> {
        let Some(place) = self.unheard.get(self.used).copied() else {
            return self.add_new_block(name);
        };
        let entry = &mut self.entries[place as usize];
        let Kind::Block(block) = &mut entry.kind else { return self.add_new_block(name) };
        block.renew(name);
        entry.handle.start_again();
        entry.held = true;
        self.newest = place;
        self.used += 1;
        Ok(entry.handle.raw)
    }

    /// Adds a block whose request MPI has to make.
    #[inline(never)]
    fn add_new_block(&mut self, name: GuestBlock) -> Result<MPI_Request, c_int> {
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
        self.unheard.push(place);
        let last = self.unheard.len() - 1;
        self.unheard.swap(self.used, last);
        self.used += 1;
        Ok((place, raw))
    }

    /// Takes what is at this place of the list out of it.
    fn hear(&mut self, at: usize) {
        self.used -= 1;
        self.unheard.swap(at, self.used);
        self.unheard.swap_remove(self.used);
    }

    /// Looks at all requests that are not complete.
    pub(crate) fn for_pending(&mut self, mut look: impl FnMut(&mut Entry)) {
        for place in &self.unheard[..self.used] {
            let entry = &mut self.entries[*place as usize];
            if !entry.handle.is_complete() {
                look(entry);
            }
        }
    }

    /// The communicators in the making.
    pub(crate) fn makings(&self) -> Vec<MPI_Request> {
        let used = self.unheard[..self.used].iter().map(|place| &self.entries[*place as usize]);
        let pending = used
            .filter(|entry| matches!(entry.kind, Kind::Making(_)) && !entry.handle.is_complete());
        pending.map(|entry| entry.handle.raw).collect()
    }

    /// How many requests in use are not complete as far as MPI knows.
    #[inline]
    pub(crate) fn unheard(&self) -> usize {
        self.used
    }

    /// Tells MPI of what is complete.
    #[inline]
    pub(crate) fn announce(&mut self) {
        if self.used > 0 {
            self.announce_all();
        }
    }

    #[inline(never)]
    fn announce_all(&mut self) {
        let mut at = 0;
        while let Some(place) = self.unheard[..self.used].get(at).copied() {
            if self.at(place).handle.announce() {
                self.hear(at);
            } else {
                at += 1;
            }
        }
    }

    /// MPI ends, and gets what we kept to use it again.
    pub(crate) fn close(&mut self) {
        self.announce();
        for entry in self.entries.iter_mut().filter(|entry| !entry.held) {
            entry.handle.discard();
        }
    }

    /// The program has freed this block, which MPI does not know to be complete: its request is
    /// kept for the next one.
    #[inline]
    pub(crate) fn keep(&mut self, place: u32) {
        let last = self.used - 1;
        if self.unheard[last] != place {
            self.bring_last(place);
        }
        self.used = last;
    }

    /// Moves a request to the end of those that are in use.
    #[inline(never)]
    fn bring_last(&mut self, place: u32) {
        let used = &mut self.unheard[..self.used];
        let at = used.iter().rposition(|other| *other == place);
        used.swap(at.expect("MPI has a request that is in use"), self.used - 1);
    }

    /// Frees a place that is no block, whose request is kept with it.
    pub(crate) fn give_back_unheard(&mut self, place: u32) {
        self.bring_last(place);
        self.hear(self.used - 1);
        self.give_back(place);
    }

    /// The request at a place was freed: the place is free.
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
