//! Which rank dies when, and how: `RANK@PHASE:K[:MODE]`.
//!
//! The plan is data; the driver asks it at each phase whether this rank is due, and does the
//! deed. What phases there are is the application's; in `MiniFE`, for one, `2@iteration:40` kills
//! rank 2 by SIGKILL as iteration 40 begins, `0@dot:7:segv` lets rank 0 fault between posting and
//! finishing the dot product of iteration 7.

use std::fmt;
use std::str::FromStr;

/// How a process ends, or stops being useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// SIGKILL: gone at once.
    Kill,
    /// SIGSEGV: as after a wild pointer.
    Segv,
    /// `exit(1)`: runs exit handlers, but not MPI's finalization.
    Exit,
    /// A panic that nobody catches.
    Panic,
    /// SIGSTOP: alive for the system, silent for everybody else.
    Stop,
}

const MODES: [(&str, Mode); 5] = [
    ("kill", Mode::Kill),
    ("segv", Mode::Segv),
    ("exit", Mode::Exit),
    ("panic", Mode::Panic),
    ("stop", Mode::Stop),
];

/// The points of a program at which a kill can strike.
pub trait Phase: Copy + Eq + 'static {
    /// All of them, with the words for them.
    const NAMES: &'static [(&'static str, Self)];

    /// In a recovery that the process takes part in.
    const RECOVERY: Self;

    /// While a replacement joins.
    const JOIN: Self;

    /// What a kill looks like, for those who wrote it wrongly.
    const EXAMPLES: &'static str;
}

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}

fn name_of<'a, T: PartialEq>(table: &[(&'a str, T)], value: &T) -> &'a str {
    table.iter().find(|(_, known)| known == value).map_or("?", |(name, _)| name)
}

fn names<T>(table: &[(&str, T)]) -> String {
    table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Why a kill cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a kill is written RANK@PHASE:K[:MODE], such as {examples}; {wrong}")]
pub struct KillError {
    examples: &'static str,
    wrong: String,
}

/// One rank's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kill<P> {
    /// The rank, of the ranks of the launch.
    pub rank: usize,
    /// Where in the program.
    pub phase: P,
    /// At which passage, counted from one.
    pub count: u32,
    /// How.
    pub mode: Mode,
}

impl<P: Phase> FromStr for Kill<P> {
    type Err = KillError;

    fn from_str(text: &str) -> Result<Self, KillError> {
        let wrong = |what: String| KillError {
            examples: P::EXAMPLES,
            wrong: format!("in '{text}' {what}"),
        };
        let (rank, rest) =
            text.split_once('@').ok_or_else(|| wrong("the @ is missing".to_owned()))?;
        let rank = rank.parse().map_err(|_| wrong(format!("'{rank}' is not a rank")))?;
        let mut parts = rest.split(':');
        let phase = parts.next().unwrap_or_default();
        let phase = named(P::NAMES, phase).ok_or_else(|| {
            wrong(format!("'{phase}' is not a phase; the phases are {}", names(P::NAMES)))
        })?;
        let count = parts.next().unwrap_or_default();
        let count = count.parse().ok().filter(|&count| count > 0).ok_or_else(|| {
            wrong(format!("K must be a whole number of at least 1, not '{count}'"))
        })?;
        let mode = parts.next().unwrap_or("kill");
        let mode = named(&MODES, mode).ok_or_else(|| {
            wrong(format!("'{mode}' is not a mode; the modes are {}", names(&MODES)))
        })?;
        match parts.next() {
            None => Ok(Self { rank, phase, count, mode }),
            Some(extra) => Err(wrong(format!("':{extra}' is too much"))),
        }
    }
}

impl<P: Phase> fmt::Display for Kill<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, phase, count, mode } = self;
        write!(f, "{rank}@{}:{count}:{}", name_of(P::NAMES, phase), name_of(&MODES, mode))
    }
}

/// All kills of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillPlan<P> {
    kills: Vec<Kill<P>>,
}

impl<P> Default for KillPlan<P> {
    /// Nobody dies.
    fn default() -> Self {
        Self { kills: Vec::new() }
    }
}

impl<P: Phase> KillPlan<P> {
    /// Adds a kill.
    pub fn add(&mut self, kill: Kill<P>) {
        self.kills.push(kill);
    }

    /// All kills, as given.
    #[must_use]
    pub fn kills(&self) -> &[Kill<P>] {
        &self.kills
    }

    /// Whether nobody dies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kills.is_empty()
    }

    /// The kill of a rank that does not exist among `ranks`, if there is one.
    #[must_use]
    pub fn beyond(&self, ranks: usize) -> Option<Kill<P>> {
        self.kills.iter().copied().find(|kill| kill.rank >= ranks)
    }

    /// How `rank` has to end at the `count`-th passage through `phase`, if it has to. A process
    /// that replaces a rank must ask for nothing but its joining, or it would die of the cause
    /// that made it necessary.
    #[must_use]
    pub fn due(&self, rank: usize, phase: P, count: u32) -> Option<Mode> {
        let here = |kill: &&Kill<P>| (kill.rank, kill.phase, kill.count) == (rank, phase, count);
        self.kills.iter().find(here).map(|kill| kill.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Point {
        Iteration,
        Dot,
    }

    impl Phase for Point {
        const NAMES: &'static [(&'static str, Self)] =
            &[("iteration", Self::Iteration), ("dot", Self::Dot)];
        const RECOVERY: Self = Self::Iteration;
        const JOIN: Self = Self::Iteration;
        const EXAMPLES: &'static str = "2@iteration:40 or 0@dot:7:segv";
    }

    #[test]
    fn a_kill_is_by_sigkill_unless_it_says_otherwise() {
        let kill: Kill<Point> = "2@iteration:40".parse().unwrap();
        let (phase, mode) = (Point::Iteration, Mode::Kill);
        assert_eq!(kill, Kill { rank: 2, phase, count: 40, mode });
        for text in ["0@dot:7:segv", "3@iteration:1:kill", "1@dot:2:panic", "5@iteration:9:stop"] {
            assert_eq!(text.parse::<Kill<Point>>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_one_sentence() {
        for (text, complaint) in [
            ("2", "the @ is missing"),
            ("x@dot:1", "'x' is not a rank"),
            ("1@lunch:1", "'lunch' is not a phase; the phases are iteration, dot"),
            ("1@dot", "K must be a whole number of at least 1, not ''"),
            ("1@dot:0", "at least 1, not '0'"),
            ("1@dot:1:poison", "'poison' is not a mode; the modes are kill, segv"),
            ("1@dot:1:kill:now", "':now' is too much"),
        ] {
            let error = text.parse::<Kill<Point>>().unwrap_err().to_string();
            assert!(error.contains(complaint), "{error}");
            assert!(error.starts_with("a kill is written"), "{error}");
        }
    }

    #[test]
    fn only_the_named_rank_is_due_and_only_there() {
        let mut plan = KillPlan::<Point>::default();
        plan.add("1@dot:3:exit".parse().unwrap());
        plan.add("3@iteration:5".parse().unwrap());
        assert_eq!(plan.due(1, Point::Dot, 3), Some(Mode::Exit));
        assert_eq!(plan.due(1, Point::Dot, 4), None);
        assert_eq!(plan.due(0, Point::Dot, 3), None);
        assert_eq!(plan.due(1, Point::Iteration, 3), None);
        assert_eq!(plan.beyond(4), None);
        assert_eq!(plan.beyond(3).map(|kill| kill.rank), Some(3));
    }
}
