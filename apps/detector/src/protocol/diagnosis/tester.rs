//! All targets of one tester, and whether it was kept from running itself.
//!
//! Its own pauses are in all that it measures. It knows of one when it comes to a moment later than
//! it had to: then no target fails for being late in this interval.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::{Answer, Effect, Effects, Opinion, Target, Terms, test::Test};
use crate::planted::planted;

/// What one tester knows of all its targets.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Tester {
    terms: Terms,
    tests: BTreeMap<u32, Test>,
    opinions: BTreeMap<u32, Opinion>,
    /// When the next interval begins.
    next: Duration,
    /// It was kept from running in this interval.
    stalled: bool,
    /// Intervals in which it was.
    stalls: u64,
}

impl Tester {
    /// A tester whose first interval begins then.
    pub fn start(terms: Terms, first: Duration) -> Self {
        let (tests, opinions) = (BTreeMap::new(), BTreeMap::new());
        Self { terms, tests, opinions, next: first, stalled: false, stalls: 0 }
    }

    /// No threshold is less from now on.
    pub fn set_floor(&mut self, floor: Duration) {
        self.terms.floor = floor;
    }

    /// When it wants to hear what time it is.
    pub fn due(&self) -> Duration {
        let tests = self.tests.values().filter_map(|test| test.due(&self.terms));
        tests.fold(self.next, Duration::min)
    }

    /// True when an interval has come: its targets are to be named.
    pub fn wants_targets(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// What it has counted of a target.
    pub fn opinion(&self, number: u32) -> Opinion {
        self.opinions.get(&number).copied().unwrap_or_default()
    }

    /// How long the next answer of a target may take.
    pub fn threshold(&self, number: u32) -> Option<Duration> {
        self.tests.get(&number).map(|test| test.threshold(&self.terms))
    }

    /// True when a question to a target waits for its answer.
    pub fn awaits(&self, number: u32) -> bool {
        self.tests.get(&number).is_some_and(Test::awaits)
    }

    /// Intervals in which it was kept from running.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// An answer has come from this life of a target.
    pub fn handle_answer(
        &mut self,
        from: Target,
        answer: Answer,
        now: Duration,
        out: &mut Effects,
    ) {
        self.notice(now);
        let before = out.len();
        let test = self.tests.get_mut(&from.number).filter(|test| test.target() == from);
        if let Some(test) = test {
            test.handle_answer(answer, (now, self.stalled), out);
        }
        self.count(&out[before..]);
    }

    /// It is so late; all that has arrived was handed over.
    pub fn handle_time(&mut self, now: Duration, out: &mut Effects) {
        self.notice(now);
        let before = out.len();
        for test in self.tests.values_mut() {
            test.handle_time((now, self.stalled), &self.terms, out);
        }
        self.count(&out[before..]);
    }

    /// A target is dead; what is known of it is forgotten, but for what was counted.
    pub fn handle_death(&mut self, number: u32) {
        self.tests.remove(&number);
    }

    /// An interval begins, in which these are tested. What is known of others is kept.
    pub fn handle_interval(&mut self, now: Duration, targets: &[Target], out: &mut Effects) {
        self.handle_time(now, out);
        self.stalls += u64::from(self.stalled);
        self.stalled = false;
        for target in targets {
            let test = self.tests.entry(target.number).or_insert_with(|| Test::new(*target));
            if test.target() != *target {
                // Another life: its streak begins anew, and counts of failures never fall.
                *test = Test::new(*target);
                self.opinions.entry(target.number).or_default().streak = 0;
            }
            test.handle_interval(now, &self.terms, out);
        }
        // One that was missed is not made up for.
        self.next = (self.next + self.terms.interval).max(now + self.terms.interval / 2);
    }

    /// Notes when this moment is later than the one that was to come.
    fn notice(&mut self, now: Duration) {
        let least = self.tests.values().map(|test| test.threshold(&self.terms)).min();
        let patience = least.unwrap_or(self.terms.first) / 2;
        let late = now > self.due() + patience;
        self.stalled |= late && self.terms.stall_guard && !planted!(TrustTheClock);
    }

    fn count(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Verdict(target, verdict) = effect {
                let opinion = self.opinions.entry(target.number).or_default();
                *opinion = opinion.after(*verdict);
            }
        }
    }
}

#[cfg(test)]
mod tests;
