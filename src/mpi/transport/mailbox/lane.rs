//! A lane: frames of words from one process to another, in order, through memory that both see.
//!
//! ```text
//! lane    │ frames read (reader), attached (writer) │ slot 0 │ slot 1 │ …, a cache line each
//! slot    │ number of the frame, written last │ vote │ values
//! ```
//!
//! A frame takes one slot, or two if it has more values than fit beside the vote: then the second
//! is written first. Slots are used in a circle: one is written again when the reader has said that
//! it has read what was there.
//!
//! All accesses are relaxed but those of two pairs, a store with *release* and a load with
//! *acquire* that sees it, which order the others:
//!
//! - The writer stores the number of a frame, the reader loads it in `has_come`: the words of the
//!   frame were stored before. If either were relaxed, the reader could take old words for it.
//! - The reader stores how many frames it has read, the writer loads that in `put`: the words of
//!   these frames were loaded before. If the store were relaxed, its processor (ARM, POWER) or the
//!   compiler could let it overtake these loads, which would then see what the writer stores in
//!   answer. If the load were relaxed, the compiler could let the writer's stores overtake it; the
//!   processors keep them behind the branch on what it gives.
//!
//! A bell has one such pair: a reader that hears it sees the numbers of the frames that it was rung
//! for. That a writer is attached says nothing of other words.
//!
//! **Guarantees.** A frame is seen whole or not at all, once, and in order, whatever the memory of
//! the two processors does. The tests try every order of the accesses, and every value stored
//! before that each load may see, up to a number of preemptions (`loom`); and, for a few frames,
//! every execution that the memory model of the language allows, in which a load may also see what
//! is stored after it (`executions.rs`). There, each of the six accesses fails if it is relaxed.
//!
//! **Assumes** one writer and one reader, who keep their counts. What the other one writes is not
//! trusted further than that it may be anything: no index comes from it.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{self, Acquire, Relaxed, Release},
};

/// Words of a cache line.
pub(super) const LINE: usize = 8;
/// Words of a vote, after its number.
pub(super) const WORDS: usize = 5;
/// Words of a slot, after its number.
const ROOM: usize = LINE - 1;
/// Values that fit beside the vote.
const BESIDE: usize = ROOM - WORDS;
/// The most values of a frame.
pub(super) const MOST: usize = BESIDE + ROOM;

/// Positions in the first line of a lane.
pub(super) const READ: usize = 0;
const ATTACHED: usize = 1;

/// The words of a vote.
pub(super) type Vote = [u64; WORDS];

/// A word that two processes reach.
pub(super) trait Word {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, word: u64, order: Ordering);
    fn add(&self, more: u64, order: Ordering);
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    #[inline]
    fn store(&self, word: u64, order: Ordering) {
        Self::store(self, word, order);
    }

    #[inline]
    fn add(&self, more: u64, order: Ordering) {
        self.fetch_add(more, order);
    }
}

/// Tells the owner of a bell that there are frames that it may not be looking for.
#[inline]
pub(super) fn ring(bell: &impl Word) {
    bell.add(1, Release);
}

/// True when the bell was rung since it was last asked; `heard` is what it said then.
#[inline]
pub(super) fn hears(bell: &impl Word, heard: &mut u64) -> bool {
    let rings = bell.load(Acquire);
    std::mem::replace(heard, rings) != rings
}

/// The memory of a lane.
#[derive(Debug)]
pub(super) struct Lane<'a, W, const SLOTS: usize>(&'a [W]);

impl<W, const SLOTS: usize> Clone for Lane<'_, W, SLOTS> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W, const SLOTS: usize> Copy for Lane<'_, W, SLOTS> {}

impl<'a, W: Word, const SLOTS: usize> Lane<'a, W, SLOTS> {
    /// Words of a lane.
    pub(super) const WORDS: usize = (1 + SLOTS) * LINE;
    /// Frames between two times that the reader says how far it has read: each costs the writer,
    /// who looks there when the lane seems full, a way to the other's cache.
    const TELL_EVERY: u64 = if SLOTS < 4 { 1 } else { SLOTS as u64 / 4 };

    /// The lane in these words, of which there are [`Self::WORDS`].
    #[inline]
    pub(super) fn new(words: &'a [W]) -> Self {
        Self(words)
    }

    /// The writer will write here.
    pub(super) fn attach(self) {
        self.0[ATTACHED].store(1, Relaxed);
    }

    /// The writer has said that it will write here.
    #[inline]
    pub(super) fn is_attached(self) -> bool {
        self.0[ATTACHED].load(Relaxed) != 0
    }

    /// The slot of a frame, counted from 1.
    #[inline]
    fn slot(self, number: u64) -> &'a [W] {
        let start = LINE + (number as usize - 1) % SLOTS * LINE;
        &self.0[start..start + LINE]
    }

    /// Writes what fits into a slot, its number last.
    #[inline]
    fn write(self, number: u64, words: &[u64], more: &[u64]) {
        let (place, body) = self.slot(number).split_at(1);
        let words = words.iter().chain(more);
        body.iter().zip(words).for_each(|(place, word)| place.store(*word, Relaxed));
        place[0].store(number, Release);
    }
}

/// What the writer of a lane knows.
#[derive(Debug, Default)]
pub(super) struct Writer {
    sent: u64,
    /// How many of them were read when we last looked.
    read: u64,
}

impl Writer {
    /// Writes a frame if there is room.
    #[inline]
    pub(super) fn put<W: Word, const SLOTS: usize>(
        &mut self,
        lane: Lane<'_, W, SLOTS>,
        vote: &Vote,
        values: &[u64],
    ) -> bool {
        let slots = slots(values.len());
        if self.sent + slots - self.read > SLOTS as u64 {
            // Never beyond what was sent, whatever stands there.
            self.read = lane.0[READ].load(Acquire).clamp(self.read, self.sent);
            if self.sent + slots - self.read > SLOTS as u64 {
                return false;
            }
        }
        let first = self.sent + 1;
        self.sent += slots;
        if slots == 2 {
            lane.write(first + 1, &values[BESIDE..], &[]);
        }
        lane.write(first, vote, values);
        if self.sent < self.read + SLOTS as u64 {
            // Our core owns the next slot before there is something to write.
            lane.slot(self.sent + 1)[0].store(0, Relaxed);
        }
        true
    }

    /// No more was read than was sent.
    #[cfg(test)]
    pub(super) fn is_sane(&self) -> bool {
        self.read <= self.sent
    }
}

/// What the reader of a lane knows: how many slots it has read.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader(u64);

impl Reader {
    /// True when there is a frame that was not taken; ask before the others.
    #[inline]
    pub(super) fn has_come<W: Word, const SLOTS: usize>(&self, lane: Lane<'_, W, SLOTS>) -> bool {
        lane.slot(self.0 + 1)[0].load(Acquire) == self.0 + 1
    }

    /// The vote of the frame that has come.
    #[inline]
    pub(super) fn vote<W: Word, const SLOTS: usize>(&self, lane: Lane<'_, W, SLOTS>) -> Vote {
        let body = &lane.slot(self.0 + 1)[1..];
        std::array::from_fn(|at| body[at].load(Relaxed))
    }

    /// The values of the frame that has come, so many.
    #[inline]
    pub(super) fn values<W: Word, const SLOTS: usize>(
        &self,
        lane: Lane<'_, W, SLOTS>,
        values: &mut [u64],
    ) {
        let (beside, rest) = values.split_at_mut(values.len().min(BESIDE));
        read(&lane.slot(self.0 + 1)[1 + WORDS..], beside);
        if !rest.is_empty() {
            read(&lane.slot(self.0 + 2)[1..], rest);
        }
    }

    /// The frame, which has so many values, was taken: its slots may be written again.
    #[inline]
    pub(super) fn advance<W: Word, const SLOTS: usize>(
        &mut self,
        lane: Lane<'_, W, SLOTS>,
        values: usize,
    ) {
        let told = self.0 / Lane::<W, SLOTS>::TELL_EVERY;
        self.0 += slots(values);
        if self.0 / Lane::<W, SLOTS>::TELL_EVERY != told {
            lane.0[READ].store(self.0, Release);
        }
    }
}

/// The slots that a frame with so many values takes.
#[inline]
const fn slots(values: usize) -> u64 {
    if values > BESIDE { 2 } else { 1 }
}

#[inline]
fn read<W: Word>(from: &[W], to: &mut [u64]) {
    to.iter_mut().zip(from).for_each(|(to, word)| *to = word.load(Relaxed));
}

#[cfg(test)]
mod executions;
#[cfg(test)]
mod tests;
