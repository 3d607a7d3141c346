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
//! **Guarantees.** A node that is cut off from others finds them all quiet, and stops itself where
//! it has to, before any of these finds it lost: it counts only with lateness that they have told,
//! or have heard for certain. They count with all of that for at least [`MEMORY`], each with the
//! greatest that it knows of any node, and wait half as long again: it is the latest of them that
//! the other side goes on hearing for longest, and may count among those that it hears.
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

    /// By how much this node or the neighbour was late last, as both know.
    pub fn last(&self) -> Duration {
        milliseconds(self.last.late.max(self.last.heard))
    }

    /// By how much one of them was late at most, of late.
    pub fn greatest(&self) -> Duration {
        milliseconds(self.theirs.get().max(self.told.get()))
    }
}

/// A neighbour that is silent for longer is quiet, if this is the [`last`](Patience::last) of it.
pub fn quiet_after(shortest: Duration, last: Duration) -> Duration {
    shortest + TIMES * last.min(MOST_LATE)
}

/// A neighbour that is silent for longer has stopped itself, if it lives, where this is the
/// [`greatest`](Patience::greatest) of all neighbours.
pub fn lost_after(shortest: Duration, greatest: Duration) -> Duration {
    quiet_after(shortest, greatest) * 3 / 2
}

/// A neighbour that is silent for longer has stopped itself, if it lives, where not all nodes are
/// linked. All make the greatest allowance there. One that is cut off hears of others through its
/// neighbours: if one of these dies in silence just before it would tell what it does not hear
/// itself, that it is quiet takes as long again.
pub fn lost_after_in_graph(shortest: Duration) -> Duration {
    2 * quiet_after(shortest, MOST_LATE) + shortest
}

fn milliseconds(number: u32) -> Duration {
    Duration::from_millis(number.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHORTEST: Duration = Duration::from_secs(1);

    #[test]
    fn silence_is_borne_longer_when_one_of_the_two_was_late() {
        let (mut one, mut other) = (Patience::default(), Patience::default());
        assert_eq!(quiet_after(SHORTEST, one.last()), SHORTEST);
        assert_eq!(lost_after(SHORTEST, one.greatest()), milliseconds(1500));
        other.handle_beat(one.beat(milliseconds(500), SHORTEST), SHORTEST);
        assert_eq!(quiet_after(SHORTEST, other.last()), milliseconds(3000));
        let unheard = "the other may not have heard of it";
        assert_eq!(quiet_after(SHORTEST, one.last()), SHORTEST, "{unheard}");
        one.handle_beat(other.beat(Duration::ZERO, SHORTEST), SHORTEST);
        assert_eq!(quiet_after(SHORTEST, one.last()), milliseconds(3000));
        assert_eq!(lost_after(SHORTEST, one.greatest()), milliseconds(4500));
        let later = SHORTEST + 2 * MEMORY;
        other.handle_beat(one.beat(Duration::ZERO, later), later);
        assert_eq!(lost_after(SHORTEST, other.greatest()), milliseconds(1500), "it is long ago");
    }

    proptest! {
        /// All send signs of life to each other until the network is cut. Each of those that are to
        /// stop has found all on the other side quiet before one of these finds any of them lost.
        #[test]
        fn who_is_cut_off_stops_before_the_others_go_on(
            beats in
                prop::collection::vec((prop::array::uniform4(0_u32..9000), 0_u32..4000), 0..60),
            alone in 0_usize..4,
            with in 0_usize..5,
        ) {
            let mut ends = [[Patience::default(); 4]; 4];
            let mut at = SHORTEST;
            for (late, pause) in beats {
                at += milliseconds(pause);
                for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
                    if from != to {
                        let beat = ends[from][to].beat(milliseconds(late[from]), at);
                        ends[to][from].handle_beat(beat, at);
                    }
                }
            }
            let stops = |node: usize| node == alone || node == with;
            let others = || (0..4).filter(|node| !stops(*node));
            let all = |of: usize| (0..4).filter(move |node| *node != of);
            for node in (0..4).filter(|node| stops(*node)) {
                let quiet = others().map(|other| quiet_after(SHORTEST, ends[node][other].last()));
                let greatest = |of: usize| all(of).map(|it| ends[of][it].greatest()).max();
                let lost = others().map(|of| lost_after(SHORTEST, greatest(of).expect("three")));
                let (quiet, lost) = (quiet.max().expect("two"), lost.min().expect("two"));
                prop_assert!(quiet * 3 / 2 <= lost, "{:?} and {:?}", quiet, lost);
            }
        }
    }
}
