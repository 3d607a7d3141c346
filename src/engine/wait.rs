//! Waits of the application: how long they are, what they are for, and when they look at what.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    protocol::{
        planted::planted,
        process::{CommKey, Need},
    },
    seam::platform::PostId,
    timeout::Timeout,
};

/// A wait of the application, perhaps in several steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// When it looked at the clock first.
    began: Duration,
    /// When it ends, if it ever does.
    end: Option<Duration>,
}

impl Span {
    pub(crate) fn new(began: Duration, limit: Timeout) -> Self {
        Self { began, end: limit.deadline(began) }
    }

    pub(super) fn began(self) -> Duration {
        self.began
    }

    pub(super) fn end(self) -> Option<Duration> {
        self.end
    }

    /// The moment at which requests with this limit are late, if it goes on beyond that. A longer
    /// wait counts from its beginning, shorter ones add up from the first; one that is as long ends
    /// before, and one that only looks does not wait.
    pub(super) fn passes(self, limit: Duration, first: Duration) -> Option<Duration> {
        let length = self.end.map(|end| end.saturating_sub(self.began));
        let since = match length {
            Some(Duration::ZERO) => return None,
            Some(length) if length < limit => first,
            _ => self.began,
        };
        since.checked_add(limit).filter(|moment| self.goes_beyond(*moment))
    }

    /// True when it does not end before this moment, or at it.
    pub(crate) fn goes_beyond(self, moment: Duration) -> bool {
        self.end.is_none_or(|end| moment < end)
    }
}

/// What waiting for a block came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Waited {
    Decided,
    TimedOut,
    /// An outer block is doomed; leave it.
    Doomed,
}

/// What the application waits for at present.
#[derive(Default)]
pub(super) struct Waiting {
    /// The wait of the application of which the present one is a step.
    pub(super) span: Option<Span>,
    /// Messages that the application has started itself and has not given to a block, with their
    /// communicators.
    pub(super) messages: Vec<(CommKey, Need, PostId)>,
    /// The application waits for other requests that it has started itself.
    pub(super) foreign: bool,
}

/// How often what is waited for is tested, at most, before everything else is looked at.
const TESTS_PER_TURN: u32 = 8;
/// Requests of a finished block are waited for in their order; how often all are looked at, as
/// one may fail while an earlier one is pending.
const LOOK_PERIOD: Duration = Duration::from_millis(10);
/// How often the living are asked, or their answers looked at.
const ASK_PERIOD: Duration = Duration::from_millis(5);

/// When a wait looks at what.
pub(super) struct Pace {
    /// How often a wait polls in vain before it reads the clock and may sleep.
    pub(super) patience: u32,
    /// How many turns there were.
    turns: u32,
    /// The number of tests that take the place of a turn.
    pub(super) tests_per_turn: u32,
    /// When all requests of the draining blocks are looked at again.
    pub(super) next_look: Duration,
    /// When the living are asked again how far they are.
    pub(super) next_question: Duration,
}

impl Pace {
    /// For a platform of this patience: before a rank sleeps it polls at least once after its last
    /// wake-up.
    pub(super) fn new(patience: u32) -> Self {
        let tests_per_turn = if planted!(TestTooLong) {
            TESTS_PER_TURN
        } else {
            (patience / 2).clamp(1, TESTS_PER_TURN)
        };
        let (next_look, next_question) = (Duration::ZERO, Duration::ZERO);
        Self { patience, turns: 0, tests_per_turn, next_look, next_question }
    }

    /// Begins the next turn: its number.
    #[inline]
    pub(super) fn turn(&mut self) -> u32 {
        self.turns = self.turns.wrapping_add(1);
        self.turns
    }

    /// True in the turns that look at what is rare and costs more than a poll.
    #[inline]
    pub(super) fn looks_at_the_rare(&self) -> bool {
        self.turns.is_multiple_of((self.patience / 2).max(1))
    }

    /// The number of polls in vain after which a wait sleeps: at least one for each of the votes.
    pub(super) fn polls_before_sleep(&self, votes: usize) -> u32 {
        self.patience.max(self.patience / 2 + votes as u32)
    }

    /// True when all requests of draining blocks are to be looked at now.
    pub(super) fn looks(&mut self, now: Duration) -> bool {
        let looks = now >= self.next_look;
        if looks {
            self.next_look = now + LOOK_PERIOD;
        }
        looks
    }

    /// The living are asked again in a moment: when.
    pub(super) fn ask_later(&mut self, now: Duration) -> Duration {
        self.next_question = now + ASK_PERIOD;
        self.next_question
    }
}
