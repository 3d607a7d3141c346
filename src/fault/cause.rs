//! How a process has died, as far as anybody who is asked knows.

use core::fmt;

use super::FaultCode;

/// How a process has died, as far as that was known when a block with its death was agreed on.
///
/// Where two ranks know different things, the greater one counts.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Cause {
    /// No living rank could say: MPI tells that a process is dead, and not how it died. It is taken
    /// for a soft failure.
    #[default]
    Unknown,
    /// It ended with this status, before it had left the job in order.
    Exited(u8),
    /// It was ended by this signal.
    Killed(u8),
    /// It made no progress for longer than the user allows, and was ended for that.
    Hung,
    /// Its node was lost, with all processes there: a hard failure, where all others are soft.
    NodeLost,
}

impl Cause {
    /// The code of a death of this cause.
    pub const fn code(self) -> FaultCode {
        match self {
            Self::NodeLost => FaultCode::NodeFailed,
            _ => FaultCode::ProcessFailed,
        }
    }

    /// The stable number of the kind, and the status or the signal (0 without one).
    pub const fn to_numbers(self) -> (u8, u8) {
        match self {
            Self::Unknown => (0, 0),
            Self::Exited(status) => (1, status),
            Self::Killed(signal) => (2, signal),
            Self::Hung => (3, 0),
            Self::NodeLost => (4, 0),
        }
    }

    /// The cause with these numbers, if there is one.
    pub const fn from_numbers(kind: u8, value: u8) -> Option<Self> {
        match (kind, value) {
            (0, 0) => Some(Self::Unknown),
            (1, status) => Some(Self::Exited(status)),
            (2, signal) => Some(Self::Killed(signal)),
            (3, 0) => Some(Self::Hung),
            (4, 0) => Some(Self::NodeLost),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("nobody knows how"),
            Self::Exited(status) => write!(f, "it exited with status {status}"),
            Self::Killed(signal) => write!(f, "it was killed by signal {signal}"),
            Self::Hung => f.write_str("it was hung"),
            Self::NodeLost => f.write_str("its node was lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_causes_come_and_go_without_loss_and_are_never_changed() {
        use Cause::{Exited, Hung, Killed, NodeLost, Unknown};
        let numbers = [Unknown, Exited(3), Killed(9), Hung, NodeLost].map(Cause::to_numbers);
        assert_eq!(numbers, [(0, 0), (1, 3), (2, 9), (3, 0), (4, 0)]);
        for kind in 0..=u8::MAX {
            for value in [0, 7] {
                let cause = Cause::from_numbers(kind, value);
                assert_eq!(cause.is_some(), kind < 5 && (value == 0 || matches!(kind, 1 | 2)));
                assert!(cause.is_none_or(|it| it.to_numbers() == (kind, value)));
            }
        }
    }

    #[test]
    fn only_a_lost_node_is_a_hard_failure() {
        for cause in [Cause::Unknown, Cause::Hung, Cause::Exited(0), Cause::Killed(9)] {
            assert_eq!(cause.code(), FaultCode::ProcessFailed);
            assert!(cause < Cause::NodeLost);
        }
        assert_eq!(Cause::NodeLost.code(), FaultCode::NodeFailed);
    }
}
