//! Fast frames between processes of one node, through memory that both see.
//!
//! A frame to a neighbour is five words (more with values) written where it reads them, without a
//! call of MPI; a commit among the ranks of a node is as fast as their caches. What this way does
//! not reach, and all that is not a fast frame, goes by MPI.
//!
//! ```text
//! inbox   of a process, for one universe: │ token │ lane of sender 0 │ lane of sender 1 │ …
//! lane    │ frames read (owner), attached (sender) │ slot 0 │ … │ slot 31 │, a cache line each
//! slot    │ number of the frame, written last │ its bytes │
//! ```
//!
//! A frame with values of a fused reduction has a word for each: two fit beside the vote, more go
//! to the next slot, which is written first.
//!
//! **Guarantees.** A frame is seen whole or not at all, once, and in order. What a process wrote
//! before its death is read. A sender takes this way for all of its frames or for none: it says
//! so in its lane (*attached*) before the first; until the owner sees that, it looks both ways.
//! A full lane makes the sender keep its frames until there is room.
//!
//! **Assumes** what `process` says of a node is true; the token makes sure that the memory which
//! was opened is the one that was meant. `FAMPI_MAILBOX=off` makes all frames go by MPI.

use std::{
    collections::VecDeque,
    hash::{BuildHasher as _, RandomState},
    hint,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread,
};

use super::{
    memory::{Door, Shared},
    process::{Process, processors},
};
use crate::{
    engine::platform::{Incoming, UniverseId},
    ids::{BlockId, CommId},
    protocol::{
        fused::{MAX_VALUES, Values},
        message::{Fused, Yes},
    },
    rank::Rank,
};

/// A message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Letter {
    Yes(CommId, Yes),
    Fused(CommId, Fused),
}

const SWITCH: &str = "FAMPI_MAILBOX";
/// Words of a cache line.
const LINE: usize = 8;
/// Frames that a lane holds.
const SLOTS: usize = 32;
/// Frames between two times that the owner says how far it has read: each costs the sender, who
/// looks there when the lane seems full, a way to the other's cache.
const TELL_EVERY: u64 = 8;
const LANE: usize = (1 + SLOTS) * LINE;
/// Looks for a frame before the caller sees to other things.
const LOOKS: u32 = 32;
/// Words of a vote, after its number.
const WORDS: usize = 5;
/// Words of a slot, after its number.
const ROOM: usize = LINE - 1;
/// Values that fit beside the vote.
const BESIDE: usize = ROOM - WORDS;
const _: () = assert!(BESIDE + ROOM >= MAX_VALUES, "a message fits in two slots");

/// Positions in the first line of a lane.
const READ: usize = 0;
const ATTACHED: usize = 1;

/// What a look into a lane found.
pub(super) enum Found {
    Letter(Letter),
    Nothing,
    /// The sender does not write here, as far as we know.
    Elsewhere,
}

/// The words of a message, and how many they are.
type Kept = ([u64; WORDS + MAX_VALUES], usize);

/// What neighbours find an inbox by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Address {
    /// Of the owner, for its memory.
    pub(super) descriptor: u64,
    /// What the memory begins with; 0 for a process without an inbox.
    pub(super) token: u64,
}

/// Memory that neighbours write to.
#[derive(Debug)]
pub(super) struct Inbox {
    memory: Shared,
    token: u64,
    /// Open until the neighbours have come in.
    door: Option<Door>,
}

/// Where a neighbour reads what we write.
#[derive(Debug)]
struct Outbox {
    memory: Shared,
    sent: u64,
    /// How many of them were read when we last looked.
    read: u64,
    /// They wait for room.
    kept: VecDeque<Kept>,
}

/// The inbox of this process in a universe, and the ways to its neighbours.
#[derive(Debug)]
pub(super) struct Mailbox {
    me: usize,
    inbox: Inbox,
    /// This node has more processes than processors.
    crowded: bool,
    /// Frames read, by sender.
    read: Vec<u64>,
    ways: Vec<Option<Outbox>>,
}

impl Inbox {
    /// Room for the frames of `senders` processes; nothing when this system has none to share.
    pub(super) fn new(senders: usize) -> Option<Self> {
        if std::env::var_os(SWITCH).is_some_and(|word| word == "off") {
            return None;
        }
        let made = Shared::new(words(senders));
        let (memory, door) = made.inspect_err(|error| tracing::debug!(%error, "no inbox")).ok()?;
        // The standard library gives each of these another, random seed.
        let token = RandomState::new().hash_one(0).max(1);
        memory.words()[0].store(token, Release);
        Some(Self { memory, token, door: Some(door) })
    }

    pub(super) fn address(&self) -> Address {
        let descriptor = self.door.as_ref().map_or(0, Door::descriptor);
        Address { descriptor, token: self.token }
    }
}

impl Outbox {
    /// The way to a neighbour, opened.
    fn open(to: &Process, at: Address, me: usize, senders: usize) -> Option<Self> {
        let Address { descriptor, token } = at;
        if token == 0 {
            return None;
        }
        let memory = Shared::of(to.pid, descriptor, words(senders));
        let memory = memory
            .inspect_err(|error| tracing::debug!(to.pid, %error, "frames to it go by MPI"))
            .ok()?;
        if memory.words()[0].load(Acquire) != token {
            return None;
        }
        lane(&memory, me)[ATTACHED].store(1, Release);
        Some(Self { memory, sent: 0, read: 0, kept: VecDeque::new() })
    }

    #[inline]
    fn send(&mut self, me: usize, letter: &[u64]) {
        self.flush(me);
        if !self.kept.is_empty() || !self.put(me, letter) {
            let mut words = [0; WORDS + MAX_VALUES];
            words[..letter.len()].copy_from_slice(letter);
            self.kept.push_back((words, letter.len()));
        }
    }

    #[inline]
    fn flush(&mut self, me: usize) {
        while let Some((first, length)) = self.kept.front().copied()
            && self.put(me, &first[..length])
        {
            self.kept.pop_front();
        }
    }

    /// Writes a frame if there is room.
    #[inline]
    fn put(&mut self, me: usize, letter: &[u64]) -> bool {
        let lane = lane(&self.memory, me);
        let slots = if letter.len() > ROOM { 2 } else { 1 };
        if self.sent + slots - self.read > SLOTS as u64 {
            // Never beyond what was sent, whatever stands there.
            self.read = lane[READ].load(Acquire).clamp(self.read, self.sent);
            if self.sent + slots - self.read > SLOTS as u64 {
                return false;
            }
        }
        let first = self.sent + 1;
        self.sent += slots;
        if let Some(rest) = letter.get(ROOM..).filter(|rest| !rest.is_empty()) {
            write(lane, first + 1, rest);
        }
        write(lane, first, letter);
        true
    }
}

impl Mailbox {
    /// Opens the ways to all neighbours among these processes, of which we are the one at `me`.
    pub(super) fn new(inbox: Inbox, all: &[(Process, Address)], me: Rank) -> Self {
        let (me, size) = (me.index(), all.len());
        let own = all[me].0;
        let way = |(to, at): &(Process, Address)| {
            to.is_neighbour_of(&own).then(|| Outbox::open(to, *at, me, size)).flatten()
        };
        let ways = all.iter().map(way).collect();
        let neighbours = all.iter().filter(|(process, _)| process.is_neighbour_of(&own)).count();
        let crowded = neighbours >= processors();
        Self { me, inbox, crowded, read: vec![0; size], ways }
    }

    /// All neighbours have opened their ways, or never will.
    pub(super) fn close_door(&mut self) {
        self.inbox.door = None;
    }

    /// Sends to a neighbour; false when there is no way to it.
    #[inline]
    pub(super) fn send(&mut self, to: Rank, comm: CommId, yes: &Yes) -> bool {
        let Some(way) = self.ways.get_mut(to.index()).and_then(Option::as_mut) else {
            return false;
        };
        let Yes { block, round, view, floor } = *yes;
        way.send(self.me, &[comm.0, block.0, u64::from(round), view, floor.0]);
        true
    }

    /// The same with values.
    #[inline]
    pub(super) fn send_fused(&mut self, to: Rank, comm: CommId, fused: &Fused) -> bool {
        let Some(way) = self.ways.get_mut(to.index()).and_then(Option::as_mut) else {
            return false;
        };
        let Fused { yes: Yes { block, round, view, floor }, values } = fused;
        let header = u64::from(values.shape()) << 8 | u64::from(*round);
        let (values, vote) = (values.words(), [comm.0, block.0, header, *view, floor.0]);
        let mut letter = [0; WORDS + MAX_VALUES];
        letter[..WORDS].copy_from_slice(&vote);
        letter[WORDS..WORDS + values.len()].copy_from_slice(values);
        way.send(self.me, &letter[..WORDS + values.len()]);
        true
    }

    /// The next frame of a process.
    #[inline]
    pub(super) fn take(&mut self, from: Rank) -> Found {
        let lane = lane(&self.inbox.memory, from.index());
        let read = &mut self.read[from.index()];
        let (number, body) = slot(lane, *read + 1).split_at(1);
        let came = || number[0].load(Acquire) == *read + 1;
        if !came() {
            if lane[ATTACHED].load(Relaxed) == 0 {
                return Found::Elsewhere;
            }
            if !wait(self.crowded, came) {
                return Found::Nothing;
            }
        }
        let [comm, block, header, view, floor]: [u64; WORDS] =
            std::array::from_fn(|at| body[at].load(Relaxed));
        let yes = Yes { block: BlockId(block), round: header as u8, view, floor: BlockId(floor) };
        let shape = (header >> 8) as u32;
        let (letter, slots) = if shape == 0 {
            (Some(Letter::Yes(CommId(comm), yes)), 1)
        } else {
            let (values, slots) = values(lane, *read + 1, shape);
            (values.map(|values| Letter::Fused(CommId(comm), Fused { yes, values })), slots)
        };
        let told = *read / TELL_EVERY;
        *read += slots;
        if *read / TELL_EVERY != told {
            lane[READ].store(*read, Release);
        }
        letter.map_or(Found::Nothing, Found::Letter)
    }

    /// Sends what has waited for room.
    pub(super) fn flush(&mut self) {
        let me = self.me;
        self.ways.iter_mut().flatten().for_each(|way| way.flush(me));
    }

    /// True while something waits for room.
    pub(super) fn is_sending(&self) -> bool {
        self.ways.iter().flatten().any(|way| !way.kept.is_empty())
    }

    /// Nobody reads what is written to a dead process.
    pub(super) fn close(&mut self, to: Rank) {
        self.ways[to.index()] = None;
    }
}

impl Letter {
    #[inline]
    pub(super) fn incoming(self, universe: UniverseId, from: Rank) -> Incoming {
        match self {
            Self::Yes(comm, yes) => Incoming::Yes(universe, from, comm, yes),
            Self::Fused(comm, fused) => Incoming::Fused(universe, from, comm, fused),
        }
    }
}

/// The values of a frame that has come, if they are any, and the slots that it takes.
#[inline]
fn values(lane: &[AtomicU64], number: u64, shape: u32) -> (Option<Values>, u64) {
    let count = (shape as usize & 0xff).min(MAX_VALUES);
    let mut numbers = [0; MAX_VALUES];
    let (beside, rest) = numbers[..count].split_at_mut(count.min(BESIDE));
    read(&slot(lane, number)[1 + WORDS..], beside);
    if rest.is_empty() {
        return (Values::from_words(shape, numbers), 1);
    }
    read(&slot(lane, number + 1)[1..], rest);
    (Values::from_words(shape, numbers), 2)
}

#[inline]
fn read(from: &[AtomicU64], to: &mut [u64]) {
    to.iter_mut().zip(from).for_each(|(to, word)| *to = word.load(Relaxed));
}

/// Writes what fits into a slot, its number last.
#[inline]
fn write(lane: &[AtomicU64], number: u64, words: &[u64]) {
    let (place, body) = slot(lane, number).split_at(1);
    body.iter().zip(words).for_each(|(place, word)| place.store(*word, Relaxed));
    place[0].store(number, Release);
}

/// Gives a frame a moment to come; true when it came. A core that others wait for is theirs.
#[inline]
fn wait(crowded: bool, came: impl Fn() -> bool) -> bool {
    if crowded {
        thread::yield_now();
        return came();
    }
    (0..LOOKS).any(|_| {
        hint::spin_loop();
        came()
    })
}

/// Words of an inbox.
const fn words(senders: usize) -> usize {
    LINE + senders * LANE
}

#[inline]
fn lane(memory: &Shared, sender: usize) -> &[AtomicU64] {
    let start = LINE + sender * LANE;
    &memory.words()[start..start + LANE]
}

/// The slot of a frame, counted from 1.
#[inline]
fn slot(lane: &[AtomicU64], number: u64) -> &[AtomicU64] {
    let start = LINE + (number as usize - 1) % SLOTS * LINE;
    &lane[start..start + LINE]
}

#[cfg(test)]
mod tests;
