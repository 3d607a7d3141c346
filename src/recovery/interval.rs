//! When a run copies the states to partners: with every step, every so many steps, or as often as
//! failures are worth it.
//!
//! A copy costs time in every case, and saves the work since the copy before in case of a failure.
//! The best interval between copies is Daly's (J. T. Daly, "A higher order estimate of the optimum
//! checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006) 303–312,
//! equation 37): with the cost δ of a copy and the mean time M between failures,
//!
//! ```text
//!   √(2δM) · (1 + ⅓·√(δ/2M) + ⅑·δ/2M) − δ      if δ < 2M, else M
//! ```
//!
//! While it learns, in its first steps, a run copies with every other one. The cost of a copy is
//! what a step with one takes longer, but not less than what making it takes. Then all ranks take
//! the largest cost and the longest step of any rank, and so one interval. After a fault the mean
//! time between failures is what the run has seen so far, if that is shorter. A run that comes no
//! farther between two failures halves its interval for each of them, down to a copy with every
//! step, until it does: so it goes on where failures let it make one step.
//!
//! **Assumes** that steps take about equally long, and failures come at random.

use alloc::vec::Vec;
use core::time::Duration;

/// Steps in which [`Interval::Auto`] learns.
const LEARNING: u64 = 6;
/// Between copies while it learns.
const LEARNING_INTERVAL: u32 = 2;

/// How many steps of a run lie between two copies of its state. All ranks have the same.
///
/// By default as is best for a failure an hour: then copies take √(2δ/M) of the time, which is
/// 0.1 % for copies of δ = 2 ms, and a failure costs half an interval, 2 s, of work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interval {
    /// No copies, except one of what the ranks came with, where they make it
    /// ([`State::begin`](crate::State::begin)), and those for checkpoints after so many steps:
    /// after a failure all begins anew, or with the last of these.
    Never,
    /// So many steps; 0 counts as 1.
    Every(u32),
    /// As is best for the measured cost of a copy; [`Step::interval`](crate::Step::interval) tells.
    /// With each failure that comes before the run has come farther, half of that.
    Auto {
        /// The mean time between failures of the whole job.
        mtbf: Duration,
    },
}

impl Default for Interval {
    fn default() -> Self {
        Self::Auto { mtbf: Self::USUAL_MTBF }
    }
}

impl Interval {
    /// The mean time between failures of a job, an hour, where nothing else is known.
    pub const USUAL_MTBF: Duration = Duration::from_secs(3600);
}

/// Daly's interval between copies, in seconds of work.
fn best_interval(copy_seconds: f64, mtbf_seconds: f64) -> f64 {
    let share = copy_seconds / (2.0 * mtbf_seconds);
    if share >= 1.0 {
        return mtbf_seconds;
    }
    let first = (2.0 * copy_seconds * mtbf_seconds).sqrt();
    first * (1.0 + share.sqrt() / 3.0 + share / 9.0) - copy_seconds
}

/// How many steps of work that take so many seconds each lie between copies.
pub(crate) fn steps_between(copy_seconds: f64, step_seconds: f64, mtbf: Duration) -> u32 {
    let best = best_interval(copy_seconds, mtbf.as_secs_f64());
    // A conversion ends at the greatest number; what is not a number is 0.
    ((best / step_seconds).round() as u32).max(1)
}

/// What one rank has measured, in seconds; of all ranks the larger numbers count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// A copy.
    pub(crate) copy: f64,
    /// A step without a copy.
    pub(crate) step: f64,
}

/// When copies are due in a run; equal on all ranks at all times, but for what they have measured.
/// A state is counted by the steps that lead to it.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    interval: Interval,
    /// What [`Interval::Auto`] has come to.
    chosen: Option<u32>,
    /// The costs that led to it; nothing on a rank that has joined later.
    costs: Option<Costs>,
    making: Vec<f64>,
    with_copy: Vec<f64>,
    without: Vec<f64>,
}

impl Schedule {
    pub(crate) fn new(interval: Interval) -> Self {
        let (making, with_copy, without) = Default::default();
        Self { interval, chosen: None, costs: None, making, with_copy, without }
    }

    /// True when the state after so many steps is to be copied, in a run that has met so many
    /// faults in a row without progress.
    pub(crate) fn is_due(&self, steps: u64, faulty_in_a_row: u32) -> bool {
        let every = match self.interval {
            Interval::Never => return false,
            Interval::Every(every) => every.max(1),
            Interval::Auto { .. } => {
                let halvings = faulty_in_a_row.saturating_sub(1);
                let usual = self.chosen.unwrap_or(LEARNING_INTERVAL);
                usual.checked_shr(halvings).unwrap_or_default().max(1)
            }
        };
        steps.is_multiple_of(u64::from(every))
    }

    /// The chosen interval.
    pub(crate) const fn chosen(&self) -> Option<u32> {
        self.chosen
    }

    /// True as long as steps are measured.
    pub(crate) const fn is_learning(&self) -> bool {
        matches!(self.interval, Interval::Auto { .. }) && self.chosen.is_none()
    }

    /// What the ranks have to tell each other in the block that may copy the state after so many
    /// steps, to choose an interval.
    pub(crate) fn asks(&self, steps: u64) -> Option<Costs> {
        (self.is_learning() && steps >= LEARNING).then(|| self.measured())
    }

    /// Notes how long a committed step took, and what of it went into making a copy, if it did.
    pub(crate) fn note(&mut self, step: Duration, making: Option<Duration>) {
        let step = step.as_secs_f64();
        if let Some(making) = making {
            self.making.push(making.as_secs_f64());
            self.with_copy.push(step);
        } else {
            self.without.push(step);
        }
    }

    /// What this rank has measured: nothing if it has just joined.
    fn measured(&self) -> Costs {
        // Under many failures each step may have had a copy.
        let without = if self.without.is_empty() { &self.with_copy } else { &self.without };
        let step = median(without);
        let more = median(&self.with_copy) - step;
        Costs { copy: more.max(median(&self.making)), step }
    }

    /// The interval that follows from these costs, if failures come at least this often.
    fn interval(&self, costs: Costs, seen: Duration) -> u32 {
        let Interval::Auto { mtbf } = self.interval else { return 1 };
        steps_between(costs.copy, costs.step, mtbf.min(seen))
    }

    /// Takes the interval that follows from the costs of all ranks.
    pub(crate) fn agree(&mut self, costs: Costs) {
        self.chosen = Some(self.interval(costs, Duration::MAX));
        self.costs = Some(costs);
    }

    /// The interval for a run that has met so many faults in this time; 0 while it learns, and of
    /// all ranks the greatest counts.
    pub(crate) fn after_faults(&self, faults: u32, time: Duration) -> u32 {
        match self.costs {
            Some(costs) if faults > 0 => self.interval(costs, time / faults),
            _ => self.chosen.unwrap_or_default(),
        }
    }

    /// Takes the interval that the ranks have agreed on; 0 if they have not.
    pub(crate) fn take(&mut self, chosen: u32) {
        if chosen > 0 {
            self.chosen = Some(chosen);
        }
    }
}

/// The middle value, zero of none.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn auto(mtbf: f64) -> Schedule {
        Schedule::new(Interval::Auto { mtbf: seconds(mtbf) })
    }

    /// What fraction of the time is not work, by Daly's model of failures at any moment,
    /// equation 20: the time to solution with intervals of `tau`, without the cost of restarts.
    fn waste(tau: f64, copy: f64, mtbf: f64) -> f64 {
        mtbf * ((tau + copy) / mtbf).exp_m1() / tau
    }

    #[test]
    fn the_interval_is_where_the_model_has_its_minimum() {
        for (copy, mtbf) in [(1e-3, 100.0), (0.1, 10.0), (5.0, 24.0 * 3600.0), (60.0, 3600.0)] {
            let best = best_interval(copy, mtbf);
            let least = waste(best, copy, mtbf);
            for factor in [0.9, 1.1] {
                assert!(least < waste(best * factor, copy, mtbf), "{copy} {mtbf}");
            }
        }
        assert_eq!(best_interval(9.0, 4.0), 4.0);
    }

    #[test]
    fn a_fixed_interval_is_kept_and_never_chosen_again() {
        let mtbf = seconds(1.0);
        for (interval, due) in [
            (Interval::Every(0), [0, 1, 2]),
            (Interval::Every(1), [0, 1, 2]),
            (Interval::Every(3), [0, 3, 6]),
            (Interval::Auto { mtbf }, [0, 2, 4]),
        ] {
            let schedule = Schedule::new(interval);
            let found: Vec<u64> =
                (0..).filter(|steps| schedule.is_due(*steps, 0)).take(3).collect();
            assert_eq!(found, due);
            assert_eq!(schedule.asks(99).is_some(), interval == Interval::Auto { mtbf });
        }
        assert!(!Schedule::new(Interval::Never).is_due(0, 0));
    }

    #[test]
    fn auto_learns_from_steps_with_and_without_a_copy() {
        let mut schedule = auto(100.0);
        for steps in 0..LEARNING {
            assert_eq!(schedule.asks(steps), None);
            let copies = schedule.is_due(steps, 0);
            let step = seconds(if copies { 0.0125 } else { 0.010 });
            schedule.note(step, copies.then(|| seconds(0.0005)));
        }
        assert_eq!(schedule.after_faults(1, seconds(0.1)), 0);
        let costs = schedule.asks(LEARNING).unwrap();
        assert!((costs.copy - 0.0025).abs() < 1e-9 && (costs.step - 0.01).abs() < 1e-9);
        schedule.agree(costs);
        let chosen = schedule.chosen();
        assert_eq!(chosen, Some(71), "√(2 · 0.0025 · 100) s of 0.01 s each, and a little more");
        assert!(schedule.asks(LEARNING).is_none() && !schedule.is_learning());
        let due = (0..200).filter(|steps| schedule.is_due(*steps, 0));
        assert_eq!(due.collect::<Vec<_>>(), [0, 71, 142]);
        assert_eq!(schedule.after_faults(0, seconds(5.0)), 71);
        assert_eq!(schedule.after_faults(1, seconds(500.0)), 71);
        let often = schedule.after_faults(100, seconds(100.0));
        assert_eq!(often, 7, "√(2 · 0.0025 · 1) s of 0.01 s each");
        let mut replacement = auto(100.0);
        replacement.take(0);
        assert!(replacement.is_learning());
        replacement.take(71);
        assert_eq!(replacement.chosen(), chosen);
        assert_eq!(replacement.after_faults(100, seconds(100.0)), 71, "it knows no costs");
        schedule.take(often);
        assert!(schedule.is_due(7, 0) && !schedule.is_due(71, 0));
    }

    #[test]
    fn the_interval_is_halved_with_each_fault_that_comes_before_any_progress() {
        let mut schedule = auto(100.0);
        let every = |schedule: &Schedule, faulty| {
            (1..=71).find(|steps| schedule.is_due(*steps, faulty)).unwrap()
        };
        assert_eq!([0, 1, 2, 3].map(|faulty| every(&schedule, faulty)), [2, 2, 1, 1]);
        schedule.take(71);
        assert_eq!([0, 1, 2, 3, 7, 8, 99].map(|n| every(&schedule, n)), [71, 71, 35, 17, 1, 1, 1]);
        let asked_for = Schedule::new(Interval::Every(71));
        assert_eq!(every(&asked_for, 99), 71);
        assert!(!Schedule::new(Interval::Never).is_due(0, 99));
    }

    #[test]
    fn a_step_takes_no_longer_than_one_with_a_copy_where_each_had_one() {
        let mut schedule = auto(100.0);
        schedule.note(seconds(0.0125), Some(seconds(0.0005)));
        let costs = schedule.measured();
        assert!((costs.step - 0.0125).abs() < 1e-9 && (costs.copy - 0.0005).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_measured_leads_to_a_copy_each_time() {
        let schedule = auto(100.0);
        assert_eq!(schedule.interval(schedule.measured(), seconds(9.0)), 1);
        assert_eq!(schedule.interval(Costs { copy: 0.0, step: 0.01 }, seconds(9.0)), 1);
    }
}
