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
//! **Guarantees.** A frame is seen whole or not at all, once, and in order, whatever the memory of
//! the two processors does: the tests try every order of the accesses and every value that each may
//! see (`loom`), up to a number of preemptions.
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
        self.0[ATTACHED].store(1, Release);
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
mod tests {
    use super::*;
    use loom::{model::Builder, sync::Arc, thread};

    impl Word for loom::sync::atomic::AtomicU64 {
        fn load(&self, order: Ordering) -> u64 {
            Self::load(self, order)
        }

        fn store(&self, word: u64, order: Ordering) {
            Self::store(self, word, order);
        }
    }

    /// A bug: what is written last may be seen first.
    struct Careless(loom::sync::atomic::AtomicU64);

    impl Word for Careless {
        fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        fn store(&self, word: u64, _: Ordering) {
            self.0.store(word, Relaxed);
        }
    }

    /// A bug: what is read last may be read first.
    struct Hasty(loom::sync::atomic::AtomicU64);

    impl Word for Hasty {
        fn load(&self, _: Ordering) -> u64 {
            self.0.load(Relaxed)
        }

        fn store(&self, word: u64, order: Ordering) {
            self.0.store(word, order);
        }
    }

    /// A frame with so many values.
    fn frame(number: u64, values: usize) -> (Vote, Vec<u64>) {
        let word = |at: u64| number << 8 | at;
        let vote = [word(1), word(2), word(3), word(4), values as u64];
        (vote, (0..values as u64).map(|at| word(16 + at)).collect())
    }

    /// Sends frames with these numbers of values through a lane, in every order of events.
    fn every_order<W: Word + Send + Sync + 'static, const SLOTS: usize>(
        frames: &'static [usize],
        word: impl Fn() -> W + Send + Sync + 'static,
    ) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(3);
        builder.max_branches = 10_000;
        builder.check(move || {
            let words = Lane::<W, SLOTS>::WORDS;
            let memory: Arc<Vec<W>> = Arc::new((0..words).map(|_| word()).collect());
            let theirs = Arc::clone(&memory);
            let writer = thread::spawn(move || {
                let lane = Lane::<W, SLOTS>::new(&theirs);
                let mut writer = Writer::default();
                for (number, values) in frames.iter().enumerate() {
                    let (vote, values) = frame(number as u64, *values);
                    while !writer.put(lane, &vote, &values) {
                        thread::yield_now();
                    }
                }
            });
            let lane = Lane::<W, SLOTS>::new(&memory);
            let mut reader = Reader::default();
            for (number, values) in frames.iter().enumerate() {
                while !reader.has_come(lane) {
                    thread::yield_now();
                }
                let vote = reader.vote(lane);
                let mut found = vec![0; *values];
                reader.values(lane, &mut found);
                assert_eq!((vote, found), frame(number as u64, *values), "frame {number}");
                reader.advance(lane, *values);
            }
            assert!(!reader.has_come(lane), "each comes once");
            writer.join().expect("it ends");
        });
    }

    fn zero() -> loom::sync::atomic::AtomicU64 {
        loom::sync::atomic::AtomicU64::new(0)
    }

    #[test]
    fn frames_come_whole_once_and_in_order_in_every_order_of_events() {
        every_order::<_, 2>(&[0, 0, 0, 0], zero);
        every_order::<_, 2>(&[2, 0], zero);
    }

    #[test]
    fn frames_of_two_slots_come_whole_in_every_order_of_events() {
        every_order::<_, 2>(&[3, 3], zero);
        every_order::<_, 3>(&[0, 3, 0], zero);
    }

    #[test]
    #[should_panic = "frame"]
    fn a_number_that_can_overtake_its_frame_is_found() {
        every_order::<_, 2>(&[0, 0], || Careless(zero()));
    }

    #[test]
    #[should_panic = "frame"]
    fn a_frame_that_can_be_read_before_its_number_is_found() {
        every_order::<_, 2>(&[0, 0], || Hasty(zero()));
    }
}
