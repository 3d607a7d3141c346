//! How long a node may be silent before others act on it.
//!
//! A daemon that has to wait for a processor is silent, and not dead. So each measures by how much
//! it was late itself, and tells that with its signs of life; they carry back what it has heard of
//! its neighbour. Silence is borne the longer the later either of the two has been.
//!
//! ```text
//! sign of life ── late: by how much I was late ──────────▶ neighbour
//!              ── heard: what I have last heard of you ──▶
//! ```
//!
//! **Guarantees.** A node that hears nothing any more finds its neighbour quiet, and stops itself
//! where it has to, before that neighbour finds it lost: it counts only with lateness that the
//! neighbour has told, or has heard for certain, and the neighbour counts with all of that for at
//! least [`MEMORY`], and waits half as long again.
//!
//! **Assumes** that signs of life come within half of the shortest patience, and clocks that run
//! equally fast.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Lateness is remembered for so long, and at most for twice as long.
pub const MEMORY: Duration = Duration::from_secs(60);
/// Lateness beyond this is not made allowance for: limits stay below [`MEMORY`].
pub const MOST_LATE: Duration = Duration::from_secs(5);
/// How often as long as the greatest lateness a silence may be longer.
const TIMES: u32 = 4;

/// A sign of life.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Beat {
    /// By how many milliseconds who sends it has been late.
    pub late: u32,
    /// What it has last heard of who gets it.
    pub heard: u32,
}

/// The greatest number of the last while.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Greatest {
    now: u32,
    before: u32,
    /// When the while began.
    since: Duration,
}

impl Greatest {
    /// Another number.
    pub fn note(&mut self, number: u32, at: Duration) {
        self.pass(at);
        self.now = self.now.max(number);
    }

    /// The greatest one.
    pub fn get(&self) -> u32 {
        self.now.max(self.before)
    }

    /// Time has passed.
    pub fn pass(&mut self, at: Duration) {
        let passed = at.saturating_sub(self.since);
        if passed >= MEMORY {
            self.before = if passed < 2 * MEMORY { self.now } else { 0 };
            self.now = 0;
            self.since = at;
        }
    }
}

/// What is known of the lateness of this node and of one of its neighbours.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Patience {
    /// What the neighbour has told, of late.
    theirs: Greatest,
    /// What the neighbour told last, and what it had last heard of this node.
    last: Beat,
    /// What this node has told, of late.
    told: Greatest,
}

impl Patience {
    /// The neighbour is heard of.
    pub fn handle_beat(&mut self, beat: Beat, at: Duration) {
        self.theirs.note(beat.late, at);
        self.last = beat;
    }

    /// The sign of life for the neighbour, when this node has been late by so much.
    pub fn beat(&mut self, late: Duration, at: Duration) -> Beat {
        let late = late.min(MOST_LATE).as_millis() as u32;
        self.told.note(late, at);
        self.theirs.pass(at);
        Beat { late, heard: self.last.late }
    }

    /// A neighbour that is silent for longer is quiet.
    pub fn quiet_after(&self, shortest: Duration) -> Duration {
        allowing(shortest, self.last.late.max(self.last.heard))
    }

    /// A neighbour that is silent for longer has found this node quiet, if it lives.
    pub fn lost_after(&self, shortest: Duration) -> Duration {
        allowing(shortest, self.theirs.get().max(self.told.get())) * 3 / 2
    }
}

fn allowing(shortest: Duration, late: u32) -> Duration {
    let late = Duration::from_millis(late.into()).min(MOST_LATE);
    shortest + TIMES * late
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHORTEST: Duration = Duration::from_secs(1);

    fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn silence_is_borne_longer_when_one_of_the_two_was_late() {
        let (mut one, mut other) = (Patience::default(), Patience::default());
        assert_eq!(one.quiet_after(SHORTEST), SHORTEST);
        assert_eq!(one.lost_after(SHORTEST), milliseconds(1500));
        other.handle_beat(one.beat(milliseconds(500), SHORTEST), SHORTEST);
        assert_eq!(other.quiet_after(SHORTEST), milliseconds(3000));
        assert_eq!(one.quiet_after(SHORTEST), SHORTEST, "the other may not have heard of it");
        one.handle_beat(other.beat(Duration::ZERO, SHORTEST), SHORTEST);
        assert_eq!(one.quiet_after(SHORTEST), milliseconds(3000));
        assert_eq!(one.lost_after(SHORTEST), milliseconds(4500));
        let later = SHORTEST + 2 * MEMORY;
        other.handle_beat(one.beat(Duration::ZERO, later), later);
        assert_eq!(other.lost_after(SHORTEST), milliseconds(1500), "it is long ago");
    }

    proptest! {
        /// Both send signs of life, of which the last ones do not arrive.
        #[test]
        fn who_is_cut_off_stops_before_the_other_goes_on(
            beats in prop::collection::vec((0_u64..9000, 0_u64..9000, 0_u64..4000), 0..60),
            cut in (0_usize..4, 0_usize..4),
        ) {
            let mut ends = [Patience::default(), Patience::default()];
            let mut at = SHORTEST;
            let arrive = [beats.len().saturating_sub(cut.0), beats.len().saturating_sub(cut.1)];
            for (number, (one, other, pause)) in beats.into_iter().enumerate() {
                at += milliseconds(pause);
                for (from, late) in [(0, one), (1, other)] {
                    let beat = ends[from].beat(milliseconds(late), at);
                    if number < arrive[from] {
                        ends[1 - from].handle_beat(beat, at);
                    }
                }
            }
            for (stops, goes_on) in [(0, 1), (1, 0)] {
                let (stops, goes_on) = (&ends[stops], &ends[goes_on]);
                prop_assert!(
                    stops.quiet_after(SHORTEST) * 3 / 2 <= goes_on.lost_after(SHORTEST)
                );
            }
        }
    }
}
