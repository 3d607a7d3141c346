//! One test of one target at a time.
//!
//! ```text
//! idle ── interval ──▶ testing ── right answer ──▶ idle         passed, measured
//!                      testing ── wrong answer ──▶ idle         failed
//!                      testing ── θ/2 ──▶ testing               asked once more
//!                      testing ── θ ──▶ overdue                 failed, unless the tester stalled
//!                      overdue ── answer ──▶ idle               measured
//!                      overdue ── give up ──▶ idle
//! ```

use core::time::Duration;

use super::{
    Answer, Effect, Effects, Question, Target, Terms, Verdict, estimator::Estimator, primes,
};
use crate::planted::planted;

/// What a tester knows of a target.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Test {
    target: Target,
    estimator: Estimator,
    sequence: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    Idle,
    Testing(Asked),
    Overdue(Asked),
}

/// A question that waits for its answer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Asked {
    /// When it was asked, and asked again.
    sent: Duration,
    again: Option<Duration>,
    threshold: Duration,
}

impl Asked {
    fn gives_up(self, terms: &Terms) -> Duration {
        self.sent + self.threshold.saturating_mul(4).max(terms.interval)
    }

    fn late(self) -> Duration {
        self.sent + self.threshold
    }

    /// When the attempt that was answered was made.
    fn sent_at(self, attempt: u8) -> Duration {
        match self.again {
            Some(again) if attempt > 0 && !planted!(MeasureFromTheFirst) => again,
            _ => self.sent,
        }
    }
}

impl Test {
    /// A target without a past.
    pub fn new(target: Target) -> Self {
        Self { target, estimator: Estimator::default(), sequence: 0, state: State::Idle }
    }

    /// Which life of whom.
    pub fn target(&self) -> Target {
        self.target
    }

    /// θ: how long the next answer may take.
    pub fn threshold(&self, terms: &Terms) -> Duration {
        self.estimator.threshold(terms)
    }

    /// True when its question waits for an answer.
    pub fn awaits(&self) -> bool {
        self.state != State::Idle
    }

    /// When something has to be done next, if nothing comes.
    pub fn due(&self, terms: &Terms) -> Option<Duration> {
        match self.state {
            State::Idle => None,
            State::Testing(asked) if asked.again.is_none() => {
                Some(asked.sent + asked.threshold / 2)
            }
            State::Testing(asked) => Some(asked.late()),
            State::Overdue(asked) => Some(asked.gives_up(terms)),
        }
    }

    /// A new interval has begun: asks, unless it still waits.
    pub fn handle_interval(&mut self, now: Duration, terms: &Terms, out: &mut Effects) {
        if self.state == State::Idle {
            self.sequence = self.sequence.checked_add(1).unwrap_or(Answer::BEGINS.sequence + 1);
            let threshold = self.estimator.threshold(terms);
            self.state = State::Testing(Asked { sent: now, again: None, threshold });
            self.ask(0, terms, out);
        }
    }

    /// An answer has come. A tester that has stalled draws no conclusion from a late one.
    pub fn handle_answer(
        &mut self,
        answer: Answer,
        (now, stalled): (Duration, bool),
        out: &mut Effects,
    ) {
        if answer.sequence == Answer::BEGINS.sequence {
            return self.handle_begin(now);
        }
        let (asked, in_time) = match self.state {
            State::Testing(asked) => (asked, now <= asked.late()),
            State::Overdue(asked) => (asked, false),
            State::Idle => return,
        };
        if answer.sequence != self.sequence {
            return;
        }
        let judged = matches!(self.state, State::Overdue(_));
        self.state = State::Idle;
        let verdict = match () {
            () if answer.result != primes::RIGHT => Some(Verdict::Wrong),
            () if in_time => Some(Verdict::Passed),
            () => (!stalled).then_some(Verdict::Late),
        };
        if verdict.is_some() && answer.result == primes::RIGHT {
            let took = now.saturating_sub(asked.sent_at(answer.attempt));
            self.estimator.handle_sample(took);
            out.push(Effect::Measured(self.target, took, asked.threshold));
        }
        let verdict = verdict.filter(|_| !judged);
        out.extend(verdict.map(|it| Effect::Verdict(self.target, it)));
    }

    /// The target answers from this moment on, and could not have answered sooner: how long its
    /// process took to start is no measure of its answers.
    fn handle_begin(&mut self, now: Duration) {
        if let State::Testing(asked) = &mut self.state
            && self.estimator.is_new()
        {
            asked.sent = asked.sent.max(now);
            asked.again = asked.again.map(|again| again.max(now));
        }
    }

    /// It is so late, and nothing else has come.
    pub fn handle_time(
        &mut self,
        (now, stalled): (Duration, bool),
        terms: &Terms,
        out: &mut Effects,
    ) {
        if let State::Testing(asked) = &mut self.state
            && asked.again.is_none()
            && now >= asked.sent + asked.threshold / 2
        {
            asked.again = Some(now);
            self.ask(1, terms, out);
        }
        match self.state {
            State::Testing(asked) if now >= asked.late() => {
                self.state = State::Overdue(asked);
                if !stalled {
                    out.push(Effect::Verdict(self.target, Verdict::Late));
                }
            }
            State::Overdue(asked) if now >= asked.gives_up(terms) => self.state = State::Idle,
            _ => {}
        }
    }

    fn ask(&self, attempt: u8, terms: &Terms, out: &mut Effects) {
        let question = Question { sequence: self.sequence, attempt, work: terms.work };
        out.push(Effect::Ask(self.target, question));
    }
}
