//! The steps of a sort, in their order.

use std::fmt;

/// One step. Each ends with a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The keys are made.
    Keys,
    /// Each rank sorts its own.
    Local,
    /// A round, counted from one.
    Round(u32),
    /// The result is looked at.
    End,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys => f.write_str("keys"),
            Self::Local => f.write_str("local"),
            Self::Round(round) => write!(f, "round {round}"),
            Self::End => f.write_str("end"),
        }
    }
}

/// How many steps of which kind there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Rounds of one repetition.
    pub rounds: u32,
    /// Repetitions.
    pub repeat: u32,
}

impl Stages {
    /// The step after so many.
    #[must_use]
    pub fn after(self, done: u64) -> Stage {
        let each = u64::from(self.rounds) + 2;
        match done % each {
            _ if done >= each * u64::from(self.repeat) => Stage::End,
            0 => Stage::Keys,
            1 => Stage::Local,
            round => Stage::Round(round as u32 - 1),
        }
    }

    /// The repetition, counted from one, in which the step after so many is.
    #[must_use]
    pub fn repetition(self, done: u64) -> u32 {
        (done / (u64::from(self.rounds) + 2)) as u32 + 1
    }

    /// The number of a round among those of all repetitions, both counted from one.
    #[must_use]
    pub fn round(self, done: u64, round: u32) -> u32 {
        (self.repetition(done) - 1) * self.rounds + round
    }

    /// The step that has made the lists that are there after so many steps.
    #[must_use]
    pub fn made_by(self, done: u64) -> Option<Stage> {
        match self.after(done) {
            Stage::Keys => None,
            _ => done.checked_sub(1).map(|before| self.after(before)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other_and_begin_again_with_each_repetition() {
        let stages = Stages { rounds: 2, repeat: 2 };
        let names: Vec<_> = (0..9).map(|done| stages.after(done).to_string()).collect();
        let each = ["keys", "local", "round 1", "round 2"];
        assert_eq!(names, [&each[..], &each, &["end"]].concat());
        assert_eq!((stages.repetition(3), stages.repetition(4)), (1, 2));
        assert_eq!((stages.round(3, 2), stages.round(6, 1)), (2, 3));
        assert_eq!((stages.made_by(0), stages.made_by(4)), (None, None));
        assert_eq!(stages.made_by(2), Some(Stage::Local));
        assert_eq!(stages.made_by(8), Some(Stage::Round(2)));
        let alone = Stages { rounds: 0, repeat: 1 };
        assert_eq!((alone.after(2), alone.made_by(2)), (Stage::End, Some(Stage::Local)));
    }
}
