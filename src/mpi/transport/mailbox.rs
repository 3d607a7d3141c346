//! Frames between processes of one node, through memory that both see.
//!
//! A fast frame to a neighbour is five words (more with values) written where it reads them,
//! without a call of MPI; a commit among the ranks of a node is as fast as their caches. What this
//! way does not reach goes by MPI.
//!
//! ```text
//! inbox   of a process, for one universe: │ token, bell, mark │ lane of sender 0 │ lane of 1 │ …
//! ```
//!
//! What is in a [`lane`](mod@lane), and who writes what when, has a file of its own. A slow frame
//! is cut into pieces that pass for votes, and its sender rings the bell, as its receiver may not
//! be looking into its lane: who hears it looks into all.
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
            Ordering::{Acquire, Release},
        },
    },
    thread,
};

mod lane;

use lane::{LINE, Reader, Vote, Writer};

use crate::{
    ids::{BlockId, CommId},
    mpi::{
        deaths::death_mark::{self, DeathMark},
        node::{
            environment,
            memory::{Door, Shared},
            process::Process,
        },
    },
    protocol::{
        codec::Frame,
        fused::{Held, MAX_VALUES, Values},
        message::Yes,
    },
    rank::Rank,
};

/// A message. Its values, if it has any, are elsewhere: most have none, and are to stay small.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) struct Letter {
    pub(in crate::mpi) comm: CommId,
    pub(in crate::mpi) yes: Yes,
    pub(in crate::mpi) has_values: bool,
}

/// Room for 32 frames.
type Lane<'a> = lane::Lane<'a, AtomicU64, 32>;
/// Looks for a frame, close together, before the caller sees to other things.
const LOOKS: u32 = 256;
const _: () = assert!(MARK + death_mark::WORDS <= LINE, "the mark fits");
const _: () = assert!(lane::MOST >= MAX_VALUES, "a message fits in two slots");

/// Where the bell is in the first line, and the mark of the owner.
const BELL: usize = 1;
const MARK: usize = 2;

/// The bit of a vote's third word that makes it a piece of a slow frame. The rest of that word are
/// then the bytes that are left of the frame, with this piece.
const SLOW: u64 = 1 << 63;
/// Words of a slow frame beside the vote, and bytes in a piece.
const BESIDE: usize = 2;
const PIECE: usize = (lane::WORDS - 1 + BESIDE) * size_of::<u64>();

/// What a look into a lane found.
pub(in crate::mpi) enum Found {
    Letter(Letter),
    Frame(Frame),
    Nothing,
    /// The sender does not write here, as far as we know.
    Elsewhere,
}

/// What neighbours find an inbox by.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::mpi) struct Address {
    /// Of the owner, for its memory.
    pub(in crate::mpi) descriptor: u64,
    /// What the memory begins with; 0 for a process without an inbox.
    pub(in crate::mpi) token: u64,
}

/// Memory that neighbours write to.
#[derive(Debug)]
pub(in crate::mpi) struct Inbox {
    memory: Arc<Shared>,
    /// Opened when this process begins to end.
    _mark: Option<death_mark::Own>,
    token: u64,
    /// Open until the neighbours have come in.
    door: Option<Door>,
}

/// Where a neighbour reads what we write.
#[derive(Debug)]
struct Outbox {
    memory: Arc<Shared>,
    writer: Writer,
    /// They wait for room.
    kept: VecDeque<(Vote, Vec<u64>)>,
}

/// The inbox of this process in a universe, and the ways to its neighbours.
#[derive(Debug)]
pub(in crate::mpi) struct Mailbox {
    me: usize,
    inbox: Inbox,
    /// The machine has more processes than processors.
    crowded: bool,
    /// By sender.
    readers: Vec<Reader>,
    /// What has come of a slow frame, by sender.
    begun: Vec<Frame>,
    /// What the bell said when it was last asked.
    heard: u64,
    ways: Vec<Option<Outbox>>,
}

impl Inbox {
    /// Room for the frames of `senders` processes; nothing when this system has none to share.
    pub(in crate::mpi) fn new(senders: usize) -> Option<Self> {
        if !environment::has_mailbox() {
            return None;
        }
        let made = Shared::new(words(senders));
        let (memory, door) = made.inspect_err(|error| tracing::debug!(%error, "no inbox")).ok()?;
        let memory = Arc::new(memory);
        let mark = death_mark::Own::make(&memory, MARK);
        let mark = mark.inspect_err(|error| tracing::debug!(%error, "no mark")).ok();
        // The standard library gives each of these another, random seed.
        let token = RandomState::new().hash_one(0).max(1);
        memory.words()[0].store(token, Release);
        Some(Self { memory, _mark: mark, token, door: Some(door) })
    }

    pub(in crate::mpi) fn address(&self) -> Address {
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
        lane(&memory, me).attach();
        let (memory, writer, kept) = (Arc::new(memory), Writer::default(), VecDeque::new());
        Some(Self { memory, writer, kept })
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
            let mut words = [0; PIECE / size_of::<u64>()];
            for (word, bytes) in words.iter_mut().zip(left.chunks(size_of::<u64>())) {
                let mut whole = [0; size_of::<u64>()];
                whole[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_le_bytes(whole);
            }
            let [first, second, third, fourth, beside @ ..] = words;
            let vote = [first, second, SLOW | left.len() as u64, third, fourth];
            self.send(me, &vote, &beside);
        }
        self.ring();
    }

    fn ring(&self) {
        lane::ring(&self.memory.words()[BELL]);
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
        self.writer.put(lane(&self.memory, me), vote, values)
    }
}

impl Mailbox {
    /// Opens the ways to all neighbours among these processes, of which we are the one at `me`.
    pub(in crate::mpi) fn new(
        inbox: Inbox,
        all: &[(Process, Address)],
        me: Rank,
        crowded: bool,
    ) -> Self {
        let (me, size) = (me.index(), all.len());
        let own = all[me].0;
        let way = |(to, at): &(Process, Address)| {
            to.is_neighbour_of(&own).then(|| Outbox::open(to, *at, me, size)).flatten()
        };
        let ways = all.iter().map(way).collect();
        let (readers, begun) = (vec![Reader::default(); size], vec![Frame::new(); size]);
        Self { me, inbox, crowded, readers, begun, heard: 0, ways }
    }

    /// The marks of the neighbours, by rank.
    pub(in crate::mpi) fn marks(&self) -> Vec<Option<DeathMark>> {
        let mark = |way: &Outbox| DeathMark::of(&way.memory, MARK);
        self.ways.iter().map(|way| way.as_ref().map(mark)).collect()
    }

    /// All neighbours have opened their ways, or never will.
    pub(in crate::mpi) fn close_door(&mut self) {
        self.inbox.door = None;
    }

    /// Sends to a neighbour; false when there is no way to it.
    #[inline]
    pub(in crate::mpi) fn send(&mut self, to: Rank, comm: CommId, yes: &Yes) -> bool {
        let Some(way) = self.ways.get_mut(to.index()).and_then(Option::as_mut) else {
            return false;
        };
        let Yes { block, step, view, floor } = *yes;
        way.send(self.me, &[comm.0, block.0, u64::from(step), view, floor.0], &[]);
        true
    }

    /// Sends a message with values to a neighbour; false when there is no way to it.
    #[inline]
    pub(in crate::mpi) fn send_fused(
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
        let header = u64::from(values.header()) << 8 | u64::from(step);
        way.send(self.me, &[comm.0, block.0, header, view, floor.0], values.words());
        true
    }

    /// Sends a slow frame to a neighbour; false when there is no way to it.
    pub(in crate::mpi) fn send_slow(&mut self, to: Rank, frame: &[u8]) -> bool {
        let way = self.ways.get_mut(to.index()).and_then(Option::as_mut);
        way.map(|way| way.send_slow(self.me, frame)).is_some()
    }

    /// True when slow frames may have come since this was last asked: look into all lanes.
    #[inline]
    pub(in crate::mpi) fn hears_the_bell(&mut self) -> bool {
        lane::hears(&self.inbox.memory.words()[BELL], &mut self.heard)
    }

    /// True when the next frame of a process is there.
    pub(in crate::mpi) fn has(&self, from: Rank) -> bool {
        self.readers[from.index()].has_come(lane(&self.inbox.memory, from.index()))
    }

    /// The next frame of a process; its values, if it has any, go to `values`.
    #[inline]
    pub(in crate::mpi) fn take(&mut self, from: Rank, values: &mut Held) -> Found {
        let lane = lane(&self.inbox.memory, from.index());
        let reader = &mut self.readers[from.index()];
        if !reader.has_come(lane) {
            if !lane.is_attached() {
                return Found::Elsewhere;
            }
            if !wait(self.crowded, || reader.has_come(lane)) {
                return Found::Nothing;
            }
        }
        let vote = reader.vote(lane);
        let [comm, block, header, view, floor] = vote;
        if header & SLOW != 0 {
            return self.take_piece(from, &vote);
        }
        let yes = Yes { block: BlockId(block), step: header as u8, view, floor: BlockId(floor) };
        let header = (header >> 8) as u32;
        let letter = Letter { comm: CommId(comm), yes, has_values: header != 0 };
        if header == 0 {
            reader.advance(lane, 0);
            return Found::Letter(letter);
        }
        values.fill(header, |words| reader.values(lane, words));
        let Some(filled) = values.get() else {
            reader.advance(lane, 0);
            return Found::Nothing;
        };
        reader.advance(lane, filled.words().len());
        Found::Letter(letter)
    }

    /// Takes a piece of a slow frame that has come.
    #[cold]
    fn take_piece(&mut self, from: Rank, vote: &Vote) -> Found {
        let lane = lane(&self.inbox.memory, from.index());
        let reader = &mut self.readers[from.index()];
        let mut beside = [0; BESIDE];
        reader.values(lane, &mut beside);
        reader.advance(lane, BESIDE);
        let [first, second, header, third, fourth] = *vote;
        let left = usize::try_from(header & !SLOW).unwrap_or(0);
        let words = [first, second, third, fourth].into_iter().chain(beside);
        let begun = &mut self.begun[from.index()];
        begun.extend(words.flat_map(u64::to_le_bytes).take(left));
        if left > PIECE { Found::Nothing } else { Found::Frame(std::mem::take(begun)) }
    }

    /// Sends what has waited for room.
    pub(in crate::mpi) fn flush(&mut self) {
        let me = self.me;
        self.ways.iter_mut().flatten().for_each(|way| way.flush(me));
    }

    /// True when votes of this process come here, and each look for one gives the core away.
    #[inline]
    pub(in crate::mpi) fn yields_for(&self, from: Rank) -> bool {
        self.crowded && self.ways.get(from.index()).is_some_and(Option::is_some)
    }

    /// True while something waits for room.
    pub(in crate::mpi) fn is_sending(&self) -> bool {
        self.ways.iter().flatten().any(|way| !way.kept.is_empty())
    }

    /// What is written to a dead process is not read.
    pub(in crate::mpi) fn close(&mut self, to: Rank) {
        self.ways[to.index()] = None;
    }
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
    LINE + senders * Lane::WORDS
}

#[inline]
fn lane(memory: &Shared, sender: usize) -> Lane<'_> {
    let start = LINE + sender * Lane::WORDS;
    Lane::new(&memory.words()[start..start + Lane::WORDS])
}

#[cfg(test)]
mod tests;
