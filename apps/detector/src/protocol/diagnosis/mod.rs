//! Slow is not dead: who answers tests later than it used to.
//!
//! A tester gives each of its targets a small job in every interval and measures until the answer
//! comes. The answer has to be right, and in time, which is a threshold that follows what the
//! target's answers took before. What comes of it are counts, an [`Opinion`]: no single test is a
//! proof, and nothing is decided here.
//!
//! ```text
//! interval   tester ── test, attempt 0 ──▶ target ── answer ──▶ tester      measured, passed
//! θ/2        tester ── test, attempt 1 ──▶ target      once: channels lose packets
//! θ          failed; an answer that still comes is measured, so that θ follows
//! give up    what is later than 4 θ, and than an interval, is never taken for normal
//! begins     target ── answers from now on ──▶ tester      its first answer is measured from here
//! ```
//!
//! | file | idea | source |
//! |---|---|---|
//! | [`tester`] | all targets of one tester, and whether it was stalled | Camargo 2018 §3.2 |
//! | [`test`] | one test of one target | Camargo 2018 §3.2 |
//! | [`estimator`] | the threshold | Jacobson 1988 |
//! | [`clusters`] | who tests whom | Camargo 2018 §4.1, Duarte 2014 |
//! | [`primes`] | the job | Camargo 2018 §3.2 |
//! | [`schedule`] | what the user asks for | – |
//!
//! **Guarantees.** One test of a target at a time, and one verdict of it at most. A target that
//! does not answer fails within an interval and θ. A tester that was kept from running
//! fails none of its targets for that. An answer is measured from the attempt that it answers.
//!
//! **Assumes** that the driver hands over what has arrived before it says what time it is, as that
//! of the observer does.
//!
//! **Differs from the paper.** There a threshold is both the verdict and the end of the wait. A
//! lost packet is no verdict here. A tester distrusts its own clock (the idea is Lifeguard's): the
//! paper's groups that fall from 18 to 3 at once are what one stalled tester does. Thresholds have
//! a floor, or the tick of a scheduler would be a suspicion.
//!
//! With κ of 2 and more a lasting slow-down costs a target one failed test by each tester and is
//! then normal: the test is relative to the target's own past.
//!
//! Reference: Camargo and Duarte 2018 §3; Jacobson 1988; RFC 6298; Dadgar 2018.

pub mod clusters;
pub mod estimator;
pub mod primes;
pub mod schedule;
pub mod test;
pub mod tester;

use alloc::vec::Vec;
use core::time::Duration;

/// The process that is tested: a replacement has the number of the dead, and another life.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Target {
    /// Its number among those that the tester may test.
    pub number: u32,
    /// A new life has no past.
    pub life: u32,
}

/// How tests go; all testers of a job have the same.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Terms {
    /// τ: between two tests of a target.
    pub interval: Duration,
    /// κ, in hundredths: the threshold is so many times what an answer takes, with its variation.
    pub kappa_percent: u32,
    /// No threshold is less.
    pub floor: Duration,
    /// The threshold before the first answer.
    pub first: Duration,
    /// How often the job is to be done for one answer.
    pub work: u16,
    /// A tester that was kept from running fails none of its targets in that interval.
    pub stall_guard: bool,
}

impl Terms {
    /// A test a second, which fails above 2.5 times what an answer takes.
    pub const USUAL: Self = Self {
        interval: Duration::from_secs(1),
        kappa_percent: 250,
        floor: Duration::from_millis(2),
        first: Duration::from_secs(8),
        work: 1,
        stall_guard: true,
    };
}

impl Default for Terms {
    fn default() -> Self {
        Self::USUAL
    }
}

/// What a tester asks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Question {
    /// Which test of this target.
    pub sequence: u32,
    /// 0, or 1 if it asks again.
    pub attempt: u8,
    /// How often the job is to be done.
    pub work: u16,
}

impl Question {
    /// Does the job.
    pub fn answer(self) -> Answer {
        let Self { sequence, attempt, work } = self;
        Answer { sequence, attempt, result: primes::found(work) }
    }
}

/// What a target answers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Answer {
    /// The test that it answers.
    pub sequence: u32,
    /// The attempt that it answers.
    pub attempt: u8,
    /// What came out of the job.
    pub result: primes::Sum,
}

impl Answer {
    /// What a target says before it answers anything: that it does so from now on. No test has its
    /// number.
    pub const BEGINS: Self = Self { sequence: 0, attempt: 0, result: primes::RIGHT };
}

/// What a test has come to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Verdict {
    /// The right answer, in time.
    Passed,
    /// No answer within the threshold.
    Late,
    /// An answer that is wrong.
    Wrong,
}

/// What a tester has counted of a target.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Opinion {
    /// Tests that it failed, ever.
    pub fails: u32,
    /// Tests that it passed since the last that it failed.
    pub streak: u32,
}

impl Opinion {
    /// True when a test failed, and fewer than so many passed since.
    pub const fn is_slow(self, zeta: u32) -> bool {
        self.fails > 0 && self.streak < zeta
    }

    /// The opinion after one more test.
    #[must_use]
    pub fn after(self, verdict: Verdict) -> Self {
        match verdict {
            Verdict::Passed => Self { streak: self.streak.saturating_add(1), ..self },
            Verdict::Late | Verdict::Wrong => {
                let kept = if crate::planted::planted!(KeepTheStreak) { self.streak } else { 0 };
                Self { fails: self.fails.saturating_add(1), streak: kept }
            }
        }
    }
}

/// What a tester wants done, or tells.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Effect {
    /// Ask; it may be lost, come twice, or late.
    Ask(Target, Question),
    /// An answer has taken so long; the threshold was this.
    Measured(Target, Duration, Duration),
    /// A test has ended so.
    Verdict(Target, Verdict),
}

/// Where effects go.
pub type Effects = Vec<Effect>;
