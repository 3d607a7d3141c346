//! What the user asks for: how often there are tests, how strict they are, and who is well again.
//!
//! ```text
//! 1s:2.5:5      τ · κ · ζ
//! ```

use core::{ops::RangeInclusive, time::Duration};

use super::Terms;

/// Less is no time for an answer, more no news.
const MILLISECONDS: RangeInclusive<f64> = 10.0..=60_000.0;
const KAPPA: RangeInclusive<f64> = 1.0..=100.0;
const ZETA: RangeInclusive<u32> = 1..=1000;
const PERCENT: f64 = 100.0;

/// How ranks and observers are tested in a job.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Schedule {
    /// τ: between two tests of a target.
    pub interval: Duration,
    /// κ, in hundredths: an answer may take so many times what answers take, with their variation.
    pub kappa_percent: u32,
    /// ζ: after so many good tests in a row a target is not slow any more.
    pub zeta: u32,
}

impl Schedule {
    /// What a text has to be, for who wrote another one.
    pub const ADVICE: &str = "write the time between tests from 10ms to 60s, how many times the \
                              usual time an answer may take from 1 to 100, and the good tests in a \
                              row before a process counts as well from 1 to 1000, as in 1s:2.5:5";

    /// The schedule in this text, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(':');
        let [interval, kappa, zeta] = [words.next()?, words.next()?, words.next()?];
        let milliseconds = match interval.strip_suffix("ms") {
            Some(number) => number.parse().ok()?,
            None => interval.strip_suffix('s')?.parse::<f64>().ok()? * 1000.0,
        };
        let (kappa, zeta) = (kappa.parse::<f64>().ok()?, zeta.parse().ok()?);
        let makes_sense = MILLISECONDS.contains(&milliseconds)
            && KAPPA.contains(&kappa)
            && ZETA.contains(&zeta)
            && words.next().is_none();
        makes_sense.then(|| Self {
            interval: Duration::from_micros((milliseconds * 1000.0) as u64),
            kappa_percent: (kappa * PERCENT) as u32,
            zeta,
        })
    }

    /// How a tester goes about it.
    pub fn terms(self) -> Terms {
        Terms { interval: self.interval, kappa_percent: self.kappa_percent, ..Terms::USUAL }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_an_interval_a_factor_and_a_number_of_tests() {
        let usual = Schedule { interval: Duration::from_secs(1), kappa_percent: 250, zeta: 5 };
        assert_eq!(Schedule::parse("1s:2.5:5"), Some(usual));
        assert_eq!(usual.terms(), Terms::USUAL);
        let quick = Schedule { interval: Duration::from_millis(50), kappa_percent: 300, zeta: 1 };
        assert_eq!(Schedule::parse("50ms:3:1"), Some(quick));
        assert_eq!(Schedule::parse("0.05s:3:1"), Some(quick));
        for nonsense in [
            "",
            "1s",
            "1s:2.5",
            "1s:2.5:",
            "1s:2.5:5:",
            "1s:2.5:5:1",
            "1:2.5:5",
            "9ms:2.5:5",
            "61s:2.5:5",
            "-1s:2.5:5",
            "1s:0.9:5",
            "1s:NaN:5",
            "NaNs:2:5",
            "infs:2:5",
            "1s:2.5:0",
            "1s:2.5:1001",
            "1s:2.5:-1",
            "1s:2.5:2.5",
            " 1s:2.5:5",
            "1 s:2.5:5",
        ] {
            assert_eq!(Schedule::parse(nonsense), None, "{nonsense:?}");
        }
    }
}
