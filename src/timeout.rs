//! How long a wait may last, stated by the caller.

use core::time::Duration;

/// A bound on waiting. There is no default: each wait says what it can afford.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Timeout {
    /// Look once, do not wait.
    Poll,
    /// Wait at most this long.
    After(Duration),
    /// Wait as long as it takes.
    Never,
}

impl Timeout {
    /// Wait at most this many seconds; fractions count. Zero, a negative number and not-a-number
    /// mean [`Timeout::Poll`]; infinity, and more than a [`Duration`] holds, mean
    /// [`Timeout::Never`].
    pub fn seconds(seconds: f64) -> Self {
        if seconds > 0.0 {
            Duration::try_from_secs_f64(seconds).map_or(Self::Never, Self::After)
        } else {
            Self::Poll
        }
    }

    /// The moment at which the wait that begins `now` ends; `None` when it never does.
    pub fn deadline(self, now: Duration) -> Option<Duration> {
        match self {
            Self::Poll => Some(now),
            Self::After(limit) => now.checked_add(limit),
            Self::Never => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_of_any_kind_become_a_timeout() {
        assert_eq!(Timeout::seconds(0.5), Timeout::After(Duration::from_millis(500)));
        assert_eq!(Timeout::seconds(0.0), Timeout::Poll);
        assert_eq!(Timeout::seconds(-1.0), Timeout::Poll);
        assert_eq!(Timeout::seconds(f64::NAN), Timeout::Poll);
        assert_eq!(Timeout::seconds(f64::INFINITY), Timeout::Never);
    }
}
