//! Signs of progress: words that the thread of the engine writes and somebody else looks at.
//!
//! What counts as progress, and who is hung without it, is said in
//! [`protocol::detector::pulse`](crate::protocol::detector::pulse).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::protocol::detector::pulse::{BEATS, COMMITS, LEFT, REST, WORDS};

/// The words of this process, of which one thread is the only writer.
#[derive(Clone, Copy, Debug)]
pub struct Pulse(pub &'static [AtomicU64; WORDS]);

impl Pulse {
    /// This process makes progress: it waits for something, or tests it, and takes one more turn.
    #[inline]
    pub fn beat(self) {
        one_more(&self.0[BEATS]);
    }

    /// A block was committed.
    #[inline]
    pub fn commit(self) {
        one_more(&self.0[COMMITS]);
    }

    /// What comes up to the next beat may take long.
    pub fn rest(self) {
        if self.0[REST].load(Relaxed) != LEFT {
            self.0[REST].store(self.0[BEATS].load(Relaxed), Relaxed);
        }
    }

    /// All that comes may take long.
    pub fn leave(self) {
        self.0[REST].store(LEFT, Relaxed);
    }
}

/// Nobody else writes it, so that it takes no locked instruction.
#[inline]
fn one_more(word: &AtomicU64) {
    word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;

    #[test]
    fn a_process_rests_until_its_next_beat_and_leaves_for_ever() {
        let words: &'static [AtomicU64; WORDS] = Box::leak(Box::default());
        let (pulse, shown) = (Pulse(words), || words.each_ref().map(|word| word.load(Relaxed)));
        assert_eq!(shown(), [0; WORDS], "it rests before its first beat");
        pulse.beat();
        pulse.commit();
        pulse.beat();
        assert_eq!(shown(), [2, 0, 1, 0]);
        pulse.rest();
        assert_eq!(shown(), [2, 2, 1, 0]);
        pulse.beat();
        assert_eq!(shown(), [3, 2, 1, 0]);
        pulse.leave();
        pulse.rest();
        pulse.beat();
        assert_eq!(shown(), [4, LEFT, 1, 0]);
    }
}
