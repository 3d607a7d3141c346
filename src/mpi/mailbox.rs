//! Frames between processes of one node, through memory that both see.
//!
//! A fast frame to a neighbour is five words (more with values) written where it reads them,
//! without a call of MPI; a commit among the ranks of a node is as fast as their caches. What this
//! way does not reach goes by MPI.
//!
//! ```text
//! inbox   of a process, for one universe: │ token, bell, will │ lane of sender 0 │ lane of 1 │ …
//! lane    │ frames read (owner), attached (sender) │ slot 0 │ … │ slot 31 │, a cache line each
//! slot    │ number of the frame, written last │ its bytes │
//! ```
//!
//! A frame with values of a fused reduction has a word for each: two fit beside the vote, more go
//! to the next slot, which is written first. A slow frame is cut into pieces of a slot each, and
//! its sender rings the bell, as nobody may be looking into its lane: who hears it looks into all.
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
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread,
};

use super::{
    memory::{Door, Shared},
    process::{Process, processors},
    will::{self, Will},
};
use crate::{
    ids::{BlockId, CommId},
    protocol::{
        codec::Frame,
        fused::{MAX_VALUES, Values},
        message::Yes,
    },
    rank::Rank,
};

/// A message. Its values, if it has any, are elsewhere: most have none, and are to stay small.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Letter {
    pub(super) comm: CommId,
    pub(super) yes: Yes,
    pub(super) has_values: bool,
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
/// Looks for a frame, close together, before the caller sees to other things.
const LOOKS: u32 = 256;
/// Words of a vote, after its number.
const WORDS: usize = 5;
/// Words of a slot, after its number.
const ROOM: usize = LINE - 1;
/// Values that fit beside the vote.
const BESIDE: usize = ROOM - WORDS;
const _: () = assert!(WILL + will::WORDS <= LINE, "the will fits");
const _: () = assert!(BESIDE + ROOM >= MAX_VALUES, "a message fits in two slots");

/// Where the bell is in the first line, and the will of the owner.
const BELL: usize = 1;
const WILL: usize = 2;

/// The word of a slot that says what is in it, and its bit for a piece of a slow frame. The rest of
/// it are then the bytes that are left of the frame, with this piece.
const HEADER: usize = 2;
const SLOW: u64 = 1 << 63;
/// Bytes of a slow frame in a slot.
const PIECE: usize = (ROOM - 1) * size_of::<u64>();
/// No slow frame has more bytes than this; what says so was not written by us.
const MOST: u64 = 1 << 32;

/// Positions in the first line of a lane.
const READ: usize = 0;
const ATTACHED: usize = 1;

/// What a look into a lane found.
pub(super) enum Found {
    Letter(Letter),
    Frame(Frame),
    Nothing,
    /// The sender does not write here, as far as we know.
    Elsewhere,
}

/// The words of a vote.
type Vote = [u64; WORDS];

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
    memory: Arc<Shared>,
    /// Opened when this process begins to end.
    _will: Option<will::Own>,
    token: u64,
    /// Open until the neighbours have come in.
    door: Option<Door>,
}

/// Where a neighbour reads what we write.
#[derive(Debug)]
struct Outbox {
    memory: Arc<Shared>,
    sent: u64,
    /// How many of them were read when we last looked.
    read: u64,
    /// They wait for room.
    kept: VecDeque<(Vote, Vec<u64>)>,
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
    /// What has come of a slow frame, by sender.
    begun: Vec<Frame>,
    /// What the bell said when the lanes were last looked into, for slow frames.
    heard: u64,
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
        let memory = Arc::new(memory);
        let will = will::Own::make(&memory, WILL);
        let will = will.inspect_err(|error| tracing::debug!(%error, "no will")).ok();
        // The standard library gives each of these another, random seed.
        let token = RandomState::new().hash_one(0).max(1);
        memory.words()[0].store(token, Release);
        Some(Self { memory, _will: will, token, door: Some(door) })
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
        Some(Self { memory: Arc::new(memory), sent: 0, read: 0, kept: VecDeque::new() })
    }

    #[inline]
    fn send(&mut self, me: usize, vote: &Vote, values: &[u64]) {
        if !self.kept.is_empty() {
            self.flush(me);
        }
        if !self.kept.is_empty() || !self.put(me, vote, values) {
            self.kept.push_back((*vote, values.to_vec()));
        }
    }

    /// Sends a slow frame, in pieces.
    fn send_slow(&mut self, me: usize, frame: &[u8]) {
        for at in (0..frame.len().max(1)).step_by(PIECE) {
            let left = &frame[at..];
            let mut words = [0; ROOM - 1];
            for (word, bytes) in words.iter_mut().zip(left.chunks(size_of::<u64>())) {
                let mut whole = [0; size_of::<u64>()];
                whole[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_le_bytes(whole);
            }
            let [first, second, rest @ ..] = words;
            let vote = [first, second, SLOW | left.len() as u64, rest[0], rest[1]];
            self.send(me, &vote, &rest[2..]);
        }
        self.ring();
    }

    fn ring(&self) {
        self.memory.words()[BELL].fetch_add(1, Release);
    }

    fn flush(&mut self, me: usize) {
        if !self.kept.is_empty() {
            self.flush_kept(me);
            self.ring();
        }
    }

    fn flush_kept(&mut self, me: usize) {
        while let Some((vote, values)) = self.kept.pop_front() {
            if !self.put(me, &vote, &values) {
                return self.kept.push_front((vote, values));
            }
        }
    }

    /// Writes a frame if there is room.
    #[inline]
    fn put(&mut self, me: usize, vote: &Vote, values: &[u64]) -> bool {
        let lane = lane(&self.memory, me);
        let slots = if values.len() > BESIDE { 2 } else { 1 };
        if self.sent + slots - self.read > SLOTS as u64 {
            // Never beyond what was sent, whatever stands there.
            self.read = lane[READ].load(Acquire).clamp(self.read, self.sent);
            if self.sent + slots - self.read > SLOTS as u64 {
                return false;
            }
        }
        let first = self.sent + 1;
        self.sent += slots;
        if slots == 2 {
            write(lane, first + 1, &values[BESIDE..], &[]);
        }
        write(lane, first, vote, values);
        if self.sent < self.read + SLOTS as u64 {
            // Our core owns the next slot before there is something to write.
            slot(lane, self.sent + 1)[0].store(0, Relaxed);
        }
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
        let (read, begun) = (vec![0; size], vec![Frame::new(); size]);
        Self { me, inbox, crowded, read, begun, heard: 0, ways }
    }

    /// The wills of the neighbours, by rank.
    pub(super) fn wills(&self) -> Vec<Option<Will>> {
        let will = |way: &Outbox| Will::of(&way.memory, WILL);
        self.ways.iter().map(|way| way.as_ref().map(will)).collect()
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
        let Yes { block, step, view, floor } = *yes;
        way.send(self.me, &[comm.0, block.0, u64::from(step), view, floor.0], &[]);
        true
    }

    /// The same with values.
    #[inline]
    pub(super) fn send_fused(
        &mut self,
        to: Rank,
        comm: CommId,
        yes: &Yes,
        values: &Values,
    ) -> bool {
        let Some(way) = self.ways.get_mut(to.index()).and_then(Option::as_mut) else {
            return false;
        };
        let Yes { block, step, view, floor } = *yes;
        let header = u64::from(values.shape()) << 8 | u64::from(step);
        way.send(self.me, &[comm.0, block.0, header, view, floor.0], values.words());
        true
    }

    /// Sends a slow frame to a neighbour; false when there is no way to it.
    pub(super) fn send_slow(&mut self, to: Rank, frame: &[u8]) -> bool {
        let way = self.ways.get_mut(to.index()).and_then(Option::as_mut);
        way.map(|way| way.send_slow(self.me, frame)).is_some()
    }

    /// True when slow frames may have come since this was last asked: look into all lanes.
    #[inline]
    pub(super) fn hears_the_bell(&mut self) -> bool {
        let rings = self.inbox.memory.words()[BELL].load(Acquire);
        std::mem::replace(&mut self.heard, rings) != rings
    }

    /// True when the next frame of a process is there.
    pub(super) fn has(&self, from: Rank) -> bool {
        let next = self.read[from.index()] + 1;
        slot(lane(&self.inbox.memory, from.index()), next)[0].load(Acquire) == next
    }

    /// The next frame of a process; its values, if it has any, go to `values`.
    #[inline]
    pub(super) fn take(&mut self, from: Rank, values: &mut Option<Values>) -> Found {
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
        if header & SLOW != 0 {
            return self.take_piece(from, header & !SLOW);
        }
        let yes = Yes { block: BlockId(block), step: header as u8, view, floor: BlockId(floor) };
        let shape = (header >> 8) as u32;
        let letter = Letter { comm: CommId(comm), yes, has_values: shape != 0 };
        let slots = if shape == 0 { 1 } else { take_values(lane, *read + 1, shape, values) };
        have_read(lane, read, slots);
        if shape != 0 && values.is_none() { Found::Nothing } else { Found::Letter(letter) }
    }

    /// Takes a piece of a slow frame that has come, of which so many bytes are left.
    #[cold]
    fn take_piece(&mut self, from: Rank, left: u64) -> Found {
        let lane = lane(&self.inbox.memory, from.index());
        let read = &mut self.read[from.index()];
        let body = &slot(lane, *read + 1)[1..];
        let words = body.iter().enumerate().filter(|(at, _)| *at != HEADER);
        let bytes = words.flat_map(|(_, word)| word.load(Relaxed).to_le_bytes());
        let begun = &mut self.begun[from.index()];
        begun.extend(bytes.take(PIECE.min(left as usize)));
        have_read(lane, read, 1);
        if left > PIECE as u64 && left < MOST {
            return Found::Nothing;
        }
        Found::Frame(std::mem::take(begun))
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

/// Notes that slots were read, and tells the sender now and then.
#[inline]
fn have_read(lane: &[AtomicU64], read: &mut u64, slots: u64) {
    let told = *read / TELL_EVERY;
    *read += slots;
    if *read / TELL_EVERY != told {
        lane[READ].store(*read, Release);
    }
}

/// Takes the values of a frame that has come, if they are any; the slots that it takes.
#[inline]
fn take_values(lane: &[AtomicU64], number: u64, shape: u32, values: &mut Option<Values>) -> u64 {
    let count = (shape as usize & 0xff).min(MAX_VALUES);
    let mut numbers = [0; MAX_VALUES];
    let (beside, rest) = numbers[..count].split_at_mut(count.min(BESIDE));
    read(&slot(lane, number)[1 + WORDS..], beside);
    let slots = if rest.is_empty() { 1 } else { 2 };
    if slots == 2 {
        read(&slot(lane, number + 1)[1..], rest);
    }
    *values = Values::from_words(shape, numbers);
    slots
}

#[inline]
fn read(from: &[AtomicU64], to: &mut [u64]) {
    to.iter_mut().zip(from).for_each(|(to, word)| *to = word.load(Relaxed));
}

/// Writes what fits into a slot, its number last.
#[inline]
fn write(lane: &[AtomicU64], number: u64, words: &[u64], more: &[u64]) {
    let (place, body) = slot(lane, number).split_at(1);
    body.iter().zip(words.iter().chain(more)).for_each(|(place, word)| place.store(*word, Relaxed));
    place[0].store(number, Release);
}

/// Gives a frame a moment to come; true when it came. A core that others wait for is theirs.
#[inline]
fn wait(crowded: bool, came: impl Fn() -> bool) -> bool {
    if crowded {
        thread::yield_now();
        return came();
    }
    (0..LOOKS).any(|_| came())
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
