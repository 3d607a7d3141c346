//! What a writer and a reader of a lane do, in every order of their accesses.

use super::*;
use loom::{model::Builder, sync::Arc, thread};

impl Word for loom::sync::atomic::AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    fn store(&self, word: u64, order: Ordering) {
        Self::store(self, word, order);
    }

    fn add(&self, more: u64, order: Ordering) {
        self.fetch_add(more, order);
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

    fn add(&self, more: u64, _: Ordering) {
        self.0.fetch_add(more, Relaxed);
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

    fn add(&self, more: u64, order: Ordering) {
        self.0.fetch_add(more, order);
    }
}

/// A frame with so many values.
pub(super) fn frame(number: u64, values: usize) -> (Vote, Vec<u64>) {
    let word = |at: u64| number << 8 | at;
    let vote = [word(1), word(2), word(3), word(4), word(5)];
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
