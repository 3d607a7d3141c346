//! Signs of progress: words that the thread of the engine writes and a watchdog looks at.
//!
//! What counts as progress, and who is hung without it, is for those who look to say.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many words a process shows.
pub const WORDS: usize = 4;
/// The word that counts turns of waits and tests.
pub const BEATS: usize = 0;
/// The word of the state: [`NOT_BEGUN`], [`AT_WORK`], [`AT_REST`] or [`LEFT`].
pub const STATE: usize = 1;
/// The word that counts the blocks which this process has committed.
pub const COMMITS: usize = 2;
/// The word that holds the number of the thread that beats, as the system calls it.
pub const THREAD: usize = 3;
/// The state of a process that has not started its first block.
pub const NOT_BEGUN: u64 = 0;
/// The state of a process that has started a block and is in no call that may last.
pub const AT_WORK: u64 = 1;
/// The state of a process in a call that may last.
pub const AT_REST: u64 = 2;
/// The state of a process that has begun to leave.
pub const LEFT: u64 = 3;

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

    /// A block was started; from the first one on a process without beats is hung.
    #[inline]
    pub fn begin(self) {
        self.turn(NOT_BEGUN, AT_WORK);
    }

    /// What comes may take long, until the guard goes.
    pub fn rest(self) -> Rest {
        Rest(self.turn(AT_WORK, AT_REST).then_some(self))
    }

    /// All that comes may take long.
    pub fn leave(self) {
        self.0[STATE].store(LEFT, Relaxed);
    }

    /// The next state, if this is the state now.
    #[inline]
    fn turn(self, now: u64, next: u64) -> bool {
        let is_so = self.0[STATE].load(Relaxed) == now;
        if is_so {
            self.0[STATE].store(next, Relaxed);
        }
        is_so
    }
}

/// A rest, which ends with it; nothing where the process rests anyway.
#[derive(Debug, Default)]
#[must_use]
pub struct Rest(Option<Pulse>);

impl Drop for Rest {
    fn drop(&mut self) {
        if let Some(pulse) = self.0 {
            pulse.turn(AT_REST, AT_WORK);
        }
    }
}

/// No other thread writes it, so that it takes no locked instruction.
#[inline]
fn one_more(word: &AtomicU64) {
    word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;

    #[test]
    fn a_process_is_at_work_from_its_first_block_on_but_for_its_rests_and_until_it_leaves() {
        let words: &'static [AtomicU64; WORDS] = Box::leak(Box::default());
        let (pulse, shown) = (Pulse(words), || words.each_ref().map(|word| word.load(Relaxed)));
        pulse.beat();
        drop(pulse.rest());
        assert_eq!(shown(), [1, NOT_BEGUN, 0, 0], "waits and calls before it are none");
        pulse.begin();
        pulse.commit();
        assert_eq!(shown(), [1, AT_WORK, 1, 0]);
        let (outer, inner) = (pulse.rest(), pulse.rest());
        pulse.beat();
        drop(inner);
        assert_eq!(shown(), [2, AT_REST, 1, 0], "it is in the outer call");
        drop(outer);
        assert_eq!(shown(), [2, AT_WORK, 1, 0]);
        let last = pulse.rest();
        pulse.leave();
        drop(last);
        pulse.begin();
        drop(pulse.rest());
        assert_eq!(shown(), [2, LEFT, 1, 0]);
    }
}
