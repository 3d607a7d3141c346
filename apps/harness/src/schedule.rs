//! When the state is copied to a partner: before every iteration, every so many, or as often as
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
//! While it learns, a run copies before every other iteration. The cost of a copy is what an
//! iteration with one takes longer, but not less than what making it takes. Then all ranks take
//! the largest cost and the longest iteration of any rank, and so the same interval.
//!
//! **Assumes** that iterations take about the same time, and failures come at random.

use std::time::Duration;

/// Iterations in which `auto` learns.
const LEARNING: u32 = 16;
/// Between copies while it learns.
const LEARNING_INTERVAL: u32 = 2;

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protect {
    /// No copies: after a failure all begins anew.
    Never,
    /// Every so many iterations, at least one.
    Every(u32),
    /// As measured.
    Auto,
}

impl Protect {
    /// What the words are.
    pub const NEEDS: &'static str = "a whole number, 0 for no copies, or auto";

    /// What this word says.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        if word == "auto" {
            return Some(Self::Auto);
        }
        word.parse().ok().map(Self::every)
    }

    const fn every(iterations: u32) -> Self {
        if iterations == 0 { Self::Never } else { Self::Every(iterations) }
    }
}

/// Daly's interval between copies, in seconds of work.
#[must_use]
pub fn best_interval(copy_seconds: f64, mtbf_seconds: f64) -> f64 {
    let share = copy_seconds / (2.0 * mtbf_seconds);
    if share >= 1.0 {
        return mtbf_seconds;
    }
    let first = (2.0 * copy_seconds * mtbf_seconds).sqrt();
    first * (1.0 + share.sqrt() / 3.0 + share / 9.0) - copy_seconds
}

/// What one rank has measured, in seconds; of all ranks the larger numbers count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A copy.
    pub copy: f64,
    /// An iteration without a copy.
    pub iteration: f64,
}

/// The schedule of a run; all ranks have the same at all times.
#[derive(Clone, Debug)]
pub struct Schedule {
    protect: Protect,
    mtbf: Duration,
    /// What `auto` has come to.
    chosen: Option<u32>,
    making: Vec<f64>,
    with_copy: Vec<f64>,
    without: Vec<f64>,
}

impl Schedule {
    /// As the user wants it; the time between failures counts for [`Protect::Auto`] only.
    #[must_use]
    pub fn new(protect: Protect, mtbf: Duration) -> Self {
        let (making, with_copy, without) = Default::default();
        Self { protect, mtbf, chosen: None, making, with_copy, without }
    }

    /// Whether there is a copy of the state before iteration `k`, counted from one.
    #[must_use]
    pub fn is_due(&self, k: u32) -> bool {
        let every = match self.protect {
            Protect::Never => return false,
            Protect::Every(every) => every,
            Protect::Auto => self.chosen.unwrap_or(LEARNING_INTERVAL),
        };
        (k - 1).is_multiple_of(every)
    }

    /// The chosen interval.
    #[must_use]
    pub const fn chosen(&self) -> Option<u32> {
        self.chosen
    }

    /// Whether the ranks shall choose an interval in the block of iteration `k`.
    #[must_use]
    pub fn is_open(&self, k: u32) -> bool {
        self.protect == Protect::Auto && self.chosen.is_none() && k > LEARNING
    }

    /// Notes how long the committed iteration `k` took, and what of it went into making a copy.
    pub fn note(&mut self, k: u32, iteration: Duration, making: Duration) {
        if self.protect != Protect::Auto || self.chosen.is_some() {
            return;
        }
        let iteration = iteration.as_secs_f64();
        if self.is_due(k) {
            self.making.push(making.as_secs_f64());
            self.with_copy.push(iteration);
        } else {
            self.without.push(iteration);
        }
    }

    /// What this rank has measured: nothing if it has just joined.
    #[must_use]
    pub fn costs(&self) -> Costs {
        let iteration = median(&self.without);
        let more = median(&self.with_copy) - iteration;
        Costs { copy: more.max(median(&self.making)), iteration }
    }

    /// The interval that follows from these costs.
    #[must_use]
    pub fn interval(&self, costs: Costs) -> u32 {
        let best = best_interval(costs.copy, self.mtbf.as_secs_f64());
        // A conversion ends at the greatest number; what is not a number is 0.
        ((best / costs.iteration).round() as u32).max(1)
    }

    /// Takes the interval that all ranks take.
    pub fn choose(&mut self, interval: u32) {
        self.chosen = Some(interval);
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
        for (word, due) in [("1", [1, 2, 3]), ("3", [1, 4, 7]), ("auto", [1, 3, 5])] {
            let schedule = Schedule::new(Protect::of(word).unwrap(), seconds(1.0));
            assert_eq!((1..).filter(|k| schedule.is_due(*k)).take(3).collect::<Vec<_>>(), due);
            assert_eq!(schedule.is_open(100), word == "auto");
        }
        assert!(!Schedule::new(Protect::of("0").unwrap(), seconds(1.0)).is_due(1));
        assert_eq!([Protect::of("-1"), Protect::of("often")], [None; 2]);
    }

    #[test]
    fn auto_learns_from_iterations_with_and_without_a_copy() {
        let mut schedule = Schedule::new(Protect::Auto, seconds(100.0));
        for k in 1..=LEARNING {
            assert!(!schedule.is_open(k));
            let copies = schedule.is_due(k);
            schedule.note(k, seconds(if copies { 0.0125 } else { 0.010 }), seconds(0.0005));
        }
        assert!(schedule.is_open(LEARNING + 1));
        let costs = schedule.costs();
        assert!((costs.copy - 0.0025).abs() < 1e-9 && (costs.iteration - 0.01).abs() < 1e-9);
        let interval = schedule.interval(costs);
        assert_eq!(interval, 71, "√(2 · 0.0025 · 100) s of 0.01 s each, and a little more");
        schedule.choose(interval);
        assert!(!schedule.is_open(LEARNING + 1));
        assert_eq!((1..200).filter(|k| schedule.is_due(*k)).collect::<Vec<_>>(), [1, 72, 143]);
    }

    #[test]
    fn what_was_not_measured_leads_to_a_copy_each_time() {
        let schedule = Schedule::new(Protect::Auto, seconds(100.0));
        assert_eq!(schedule.interval(schedule.costs()), 1);
        let costs = Costs { copy: 0.0, iteration: 0.01 };
        assert_eq!(schedule.interval(costs), 1);
    }
}
