//! The threshold: how long an answer may take, by what earlier ones took.
//!
//! ```text
//! first     mean = x        var = x/2
//! later     var = α var + (1 − α) |x − mean|        mean = α mean + (1 − α) x        α = 0.9
//! θ         max(κ (mean + β var), floor)            β = 4
//! ```
//!
//! The paper once adds the user's factor to the estimate and twice multiplies by it, as its
//! experiments do; so does this. The variation is taken with the old mean, as in RFC 6298.

use core::time::Duration;

use super::Terms;

/// 1 / (1 − α).
const MEMORY: u64 = 10;
/// β.
const BETA: u64 = 4;
const PERCENT: u64 = 100;

/// What the answers of one target take, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Estimator {
    /// Mean and variation, once an answer has come.
    known: Option<(u64, u64)>,
}

impl Estimator {
    /// An answer has taken so long.
    pub fn handle_sample(&mut self, sample: Duration) {
        let x = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX) / MEMORY;
        self.known = Some(match self.known {
            None => (x * MEMORY, x * MEMORY / 2),
            Some((mean, variation)) => {
                let old = |value: u64| value / MEMORY * (MEMORY - 1) + value % MEMORY;
                (old(mean).saturating_add(x), old(variation) + x.abs_diff(mean / MEMORY))
            }
        });
    }

    /// True when no answer has come yet.
    pub fn is_new(&self) -> bool {
        self.known.is_none()
    }

    /// θ: how long the next answer may take.
    pub fn threshold(&self, terms: &Terms) -> Duration {
        let Some((mean, variation)) = self.known else { return terms.first.max(terms.floor) };
        let expected = mean.saturating_add(BETA.saturating_mul(variation));
        let most = expected.saturating_mul(u64::from(terms.kappa_percent)) / PERCENT;
        Duration::from_nanos(most).max(terms.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms::USUAL;

    fn tenths(duration: Duration) -> u64 {
        (duration.as_micros() as u64 + 50) / 100
    }

    fn after(samples: u32, each: Duration) -> Estimator {
        let mut it = Estimator::default();
        (0..samples).for_each(|_| it.handle_sample(each));
        it
    }

    #[test]
    fn answers_that_all_take_10_ms_bring_the_threshold_from_8_s_down_to_25_ms() {
        let ten = Duration::from_millis(10);
        assert_eq!(after(0, ten).threshold(&TERMS), Duration::from_secs(8));
        let before = |test: u32| tenths(after(test - 1, ten).threshold(&TERMS));
        let table = [2, 3, 6, 11, 21, 31, 61].map(before);
        assert_eq!(table, [750, 700, 578, 444, 318, 274, 251]);
    }

    #[test]
    fn a_lasting_slow_down_is_too_late_once() {
        let ten = Duration::from_millis(10);
        for slow in [60, 200, 5000].map(Duration::from_millis) {
            let mut it = after(200, ten);
            assert!(it.threshold(&TERMS) < slow);
            it.handle_sample(slow);
            assert!(it.threshold(&TERMS) >= slow, "{slow:?}");
        }
    }

    #[test]
    fn one_outlier_raises_it_by_a_quarter_more_than_itself_and_is_forgotten_by_halves() {
        let (ten, more) = (Duration::from_millis(10), Duration::from_millis(40));
        let mut it = after(400, ten);
        let calm = it.threshold(&TERMS);
        it.handle_sample(ten + more);
        let raised = it.threshold(&TERMS).saturating_sub(calm);
        assert_eq!(tenths(raised), tenths(more.mul_f64(1.25)));
        (0..13).for_each(|_| it.handle_sample(ten));
        let left = it.threshold(&TERMS).saturating_sub(calm);
        assert!(left > raised / 4 && left < raised * 3 / 4, "{left:?} of {raised:?}");
    }

    #[test]
    fn no_threshold_is_below_the_floor_and_none_overflows() {
        assert_eq!(after(90, Duration::from_micros(1)).threshold(&TERMS), TERMS.floor);
        let most = after(9, Duration::MAX).threshold(&TERMS);
        assert!(most > Duration::from_secs(60));
    }
}
