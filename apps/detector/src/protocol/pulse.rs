//! The pulse of a process: words that it writes and its observer reads, and when it has none.
//!
//! ```text
//! pulse = beats · state · commits · thread
//! ```
//!
//! Every turn of a wait, or of a test, is a beat: who waits for a hung process is not hung itself.
//! A computation between two waits has none, so the limit has to be longer than the longest of
//! them. The state says whether there have to be beats at all: only while it is [`AT_WORK`], which
//! it is from the start of the first block on.
//!
//! **Hung** is who was seen at the same beat in [`LOOKS`] looks after the first, which are at least
//! the limit divided by [`LOOKS`] apart. A look counts once, however long ago the one before was:
//! when nobody looked, as the observer was kept from running or the machine was suspended, no time
//! has passed. Nor does it in looks that find the process
//!
//! - at rest: it has not started its first block, or is in a call of MPI that may last, which is
//!   bounded otherwise; unless the system has stopped it, since that bound is stopped with it,
//! - ready to run, without having run since the look before: others have its processor,
//! - or ended: that is told otherwise.
//!
//! **Guarantees.** A process that beats more often than once in the limit is never hung, whenever
//! looks happen.
//!
//! **Assumes** that the process is one of ours, and does not lie: it can only harm itself.

/// Words of a pulse.
pub const WORDS: usize = 4;
/// The word of the beats.
pub const BEATS: usize = 0;
/// The word of the state: [`NOT_BEGUN`], [`AT_WORK`], [`AT_REST`] or [`LEFT`].
pub const STATE: usize = 1;
/// The word of the blocks that it has committed.
pub const COMMITS: usize = 2;
/// The word of the number of the thread that beats, as the system calls it.
pub const THREAD: usize = 3;
/// The state of a process that has not started its first block.
pub const NOT_BEGUN: u64 = 0;
/// The state of a process that has started a block and is in no call that may last.
pub const AT_WORK: u64 = 1;
/// The state of a process in a call that may last.
pub const AT_REST: u64 = 2;
/// The state of a process that has begun to leave.
pub const LEFT: u64 = 3;
/// So many looks in a row, after the first, have to find the same beat.
pub const LOOKS: u32 = 8;

/// What a process has written.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Pulse {
    /// Turns of waits and tests.
    pub beats: u64,
    /// Whether there have to be beats.
    pub state: u64,
    /// Blocks that it has committed.
    pub commits: u64,
    /// The thread that beats.
    pub thread: u64,
}

impl Pulse {
    /// The pulse in these words, which may have been written one by one.
    pub fn from_words(words: [u64; WORDS]) -> Self {
        let [beats, state, commits, thread] = words;
        Self { beats, state, commits, thread }
    }
}

/// What the system says of the thread that beats.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Thread {
    /// Its state, by the letter of `/proc`.
    pub state: u8,
    /// For how long it has run, in any unit.
    pub ran: u64,
}

impl Thread {
    /// It does nothing before somebody lets it go on: a signal, a debugger.
    fn is_stopped(self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    fn has_ended(self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// It could run, and has not, as far as we know.
    fn is_starved_since(self, before: Option<Self>) -> bool {
        self.state == b'R' && before.is_none_or(|before| before.ran == self.ran)
    }
}

/// For how many looks a process has made no progress.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Stillness {
    beats: Option<u64>,
    thread: Option<Thread>,
    looks: u32,
}

impl Stillness {
    /// A look at the process; its thread is asked for where the pulse alone does not tell, and
    /// `None` if the system does not say. True when it is hung.
    pub fn handle_look(
        &mut self,
        pulse: Pulse,
        thread: impl FnOnce(u64) -> Option<Thread>,
    ) -> bool {
        if self.beats.replace(pulse.beats) != Some(pulse.beats) || pulse.state == LEFT {
            (self.thread, self.looks) = (None, 0);
            return false;
        }
        let now = thread(pulse.thread);
        let before = core::mem::replace(&mut self.thread, now);
        if pulse.state != AT_WORK && !now.is_some_and(Thread::is_stopped) {
            self.looks = 0;
        } else if !now.is_some_and(|now| now.has_ended() || now.is_starved_since(before)) {
            self.looks += 1;
        }
        self.looks >= LOOKS
    }

    /// Counts from now on: it may have waited for one that was hung, inside a call of MPI.
    pub fn forgive(&mut self) {
        self.looks = 0;
    }

    /// Looks in a row without progress.
    pub fn looks(&self) -> u32 {
        self.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUNS: Thread = Thread { state: b'S', ran: 0 };
    const STOPPED: Thread = Thread { state: b'T', ran: 0 };

    fn pulse(beats: u64) -> Pulse {
        Pulse { beats, state: AT_WORK, commits: 0, thread: 7 }
    }

    /// Looks until the verdict, at most a hundred times.
    fn looks(
        still: &mut Stillness,
        mut pulse: impl FnMut(u64) -> Pulse,
        mut thread: impl FnMut(u64) -> Option<Thread>,
    ) -> Option<u64> {
        (1..=100).find(|look| still.handle_look(pulse(*look), |_| thread(*look)))
    }

    #[test]
    fn who_does_not_move_is_hung_after_the_looks_that_follow_the_first() {
        for thread in [Some(RUNS), Some(STOPPED), None] {
            let hung = looks(&mut Stillness::default(), |_| pulse(5), |_| thread);
            assert_eq!(hung, Some(u64::from(LOOKS) + 1), "{thread:?}");
        }
    }

    #[test]
    fn who_spins_without_a_wait_is_hung() {
        let spins = |look| Some(Thread { state: b'R', ran: look });
        assert!(looks(&mut Stillness::default(), |_| pulse(5), spins).is_some());
    }

    #[test]
    fn who_has_no_processor_is_not_hung_and_who_got_one_and_did_nothing_is() {
        let starved = Some(Thread { state: b'R', ran: 3 });
        let mut still = Stillness::default();
        assert_eq!(looks(&mut still, |_| pulse(5), |_| starved), None);
        let sometimes = |look: u64| Some(Thread { state: b'R', ran: look / 4 });
        let hung = looks(&mut still, |_| pulse(5), sometimes).expect("after four times as long");
        assert!((3 * LOOKS..=5 * LOOKS).contains(&(hung as u32)), "{hung}");
    }

    #[test]
    fn who_rests_is_hung_only_while_it_is_stopped() {
        for state in [NOT_BEGUN, AT_REST] {
            let resting = |_| Pulse { state, ..pulse(5) };
            let mut still = Stillness::default();
            assert_eq!(looks(&mut still, resting, |_| Some(RUNS)), None);
            assert_eq!(looks(&mut still, resting, |_| None), None);
            // Stopped now and then, and never for as long.
            let now_and_then = |look: u64| {
                Some(if look.is_multiple_of(u64::from(LOOKS)) { RUNS } else { STOPPED })
            };
            assert_eq!(looks(&mut still, resting, now_and_then), None);
            assert!(looks(&mut still, resting, |_| Some(STOPPED)).is_some());
        }
    }

    #[test]
    fn who_starts_its_first_block_and_sleeps_in_it_has_the_limit_from_that_start_on() {
        let begins = 20;
        let state = |look: u64| if look < begins { NOT_BEGUN } else { AT_WORK };
        let fresh = |look| Pulse { state: state(look), ..pulse(0) };
        let hung = looks(&mut Stillness::default(), fresh, |_| Some(RUNS));
        assert_eq!(hung, Some(begins - 1 + u64::from(LOOKS)));
    }

    #[test]
    fn who_has_left_or_ended_is_not_hung() {
        let left = |_| Pulse { state: LEFT, ..pulse(5) };
        assert_eq!(looks(&mut Stillness::default(), left, |_| Some(STOPPED)), None);
        let ended = Some(Thread { state: b'Z', ran: 0 });
        assert_eq!(looks(&mut Stillness::default(), |_| pulse(5), |_| ended), None);
    }

    #[test]
    fn who_is_forgiven_has_the_whole_time_again() {
        let mut still = Stillness::default();
        assert!(looks(&mut still, |_| pulse(5), |_| Some(RUNS)).is_some());
        assert_eq!(still.looks(), LOOKS);
        still.forgive();
        assert_eq!(looks(&mut still, |_| pulse(5), |_| Some(RUNS)), Some(u64::from(LOOKS)));
    }

    #[test]
    fn of_one_that_moves_the_system_is_not_asked() {
        let mut still = Stillness::default();
        let asked = |_| -> Option<Thread> { unreachable!("it moves") };
        assert_eq!(looks(&mut still, pulse, asked), None);
    }

    proptest! {
        /// Time in periods, which are an eighth of the limit; looks are at least that far apart.
        #[test]
        fn who_beats_within_the_limit_is_never_hung(
            gaps in prop::collection::vec(1.0_f64..30.0, 1..200),
            beats in prop::collection::vec(0.0_f64..f64::from(LOOKS), 200..400),
            states in prop::collection::vec(prop::sample::select(b"RSDTt".to_vec()), 200),
        ) {
            let (mut now, mut beat, mut last) = (0.0, 0_usize, 0.0);
            let mut still = Stillness::default();
            for (gap, state) in gaps.into_iter().zip(states) {
                now += gap;
                while last + beats[beat % beats.len()] < now {
                    last += beats[beat % beats.len()].max(0.01);
                    beat += 1;
                }
                let thread = Some(Thread { state, ran: beat as u64 });
                prop_assert!(!still.handle_look(pulse(1 + beat as u64), |_| thread));
            }
        }

        /// However looks, beats and states mix: hung is told only after so many looks in a row
        /// have seen the same beat.
        #[test]
        fn a_verdict_has_looks_without_any_progress_behind_it(
            seen in prop::collection::vec((0_u64..3, 0_u64..5, any::<u8>(), any::<bool>()), 1..300),
        ) {
            let mut still = Stillness::default();
            let mut same = 0;
            let mut last = None;
            for (beats, state, thread, ran) in seen {
                same = if last == Some(beats) { same + 1 } else { 0 };
                last = Some(beats);
                let seen = Pulse { state, ..pulse(beats) };
                let thread = Thread { state: thread, ran: u64::from(ran) };
                let hung = still.handle_look(seen, |_| Some(thread));
                prop_assert!(!hung || same >= LOOKS);
                prop_assert!(still.looks() <= same);
            }
        }

        #[test]
        fn words_from_outside_never_panic(words in any::<[u64; WORDS]>()) {
            let mut still = Stillness::default();
            for _ in 0..20 {
                still.handle_look(Pulse::from_words(words), |_| None);
            }
        }
    }
}
