//! Which rank dies when, and how: `RANK@PHASE:K[:MODE]`.
//!
//! The plan is data; the driver asks it at each phase whether this rank is due, and does the
//! deed. `2@iteration:40` kills rank 2 by SIGKILL as iteration 40 begins, `0@dot:7:segv` lets
//! rank 0 fault between posting and finishing the dot product of iteration 7.

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

/// Where in the program a kill strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// At the beginning of iteration K.
    Iteration,
    /// In iteration K, while halo messages are on their way.
    Exchange,
    /// In iteration K, between the exchange and the matrix product.
    Multiply,
    /// In iteration K, between posting and finishing the second dot product.
    Dot,
    /// In iteration K, just before its block is finished.
    Finish,
    /// In iteration K, after its commit and before the update of the solution.
    Update,
    /// In the K-th recovery that this process takes part in.
    Recovery,
    /// A replacement that takes the rank in the K-th rebuilt world, while it joins.
    Join,
}

const PHASES: [(&str, Phase); 8] = [
    ("iteration", Phase::Iteration),
    ("exchange", Phase::Exchange),
    ("spmv", Phase::Multiply),
    ("dot", Phase::Dot),
    ("finish", Phase::Finish),
    ("update", Phase::Update),
    ("recovery", Phase::Recovery),
    ("join", Phase::Join),
];

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
#[error("a kill is written RANK@PHASE:K[:MODE], such as 2@iteration:40 or 0@dot:7:segv; {0}")]
pub struct KillError(String);

/// One rank's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kill {
    /// The rank, of the ranks that solve.
    pub rank: usize,
    /// Where in the program.
    pub phase: Phase,
    /// At which iteration, recovery or replacement, counted from one.
    pub count: u32,
    /// How.
    pub mode: Mode,
}

impl FromStr for Kill {
    type Err = KillError;

    fn from_str(text: &str) -> Result<Self, KillError> {
        let wrong = |what: String| KillError(format!("in '{text}' {what}"));
        let (rank, rest) =
            text.split_once('@').ok_or_else(|| wrong("the @ is missing".to_owned()))?;
        let rank = rank.parse().map_err(|_| wrong(format!("'{rank}' is not a rank")))?;
        let mut parts = rest.split(':');
        let phase = parts.next().unwrap_or_default();
        let phase = named(&PHASES, phase).ok_or_else(|| {
            wrong(format!("'{phase}' is not a phase; the phases are {}", names(&PHASES)))
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

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, phase, count, mode } = self;
        write!(f, "{rank}@{}:{count}:{}", name_of(&PHASES, phase), name_of(&MODES, mode))
    }
}

/// All kills of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillPlan {
    kills: Vec<Kill>,
}

impl KillPlan {
    /// Adds a kill.
    pub fn add(&mut self, kill: Kill) {
        self.kills.push(kill);
    }

    /// All kills, as given.
    #[must_use]
    pub fn kills(&self) -> &[Kill] {
        &self.kills
    }

    /// Whether nobody dies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kills.is_empty()
    }

    /// The kill of a rank that does not exist among `ranks`, if there is one.
    #[must_use]
    pub fn beyond(&self, ranks: usize) -> Option<Kill> {
        self.kills.iter().copied().find(|kill| kill.rank >= ranks)
    }

    /// How `rank` has to end at the `count`-th passage through `phase`, if it has to. A process
    /// that replaces a rank must ask for [`Phase::Join`] only, or it would die of the cause that
    /// made it necessary.
    #[must_use]
    pub fn due(&self, rank: usize, phase: Phase, count: u32) -> Option<Mode> {
        let here = |kill: &&Kill| (kill.rank, kill.phase, kill.count) == (rank, phase, count);
        self.kills.iter().find(here).map(|kill| kill.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_by_sigkill_unless_it_says_otherwise() {
        let kill: Kill = "2@iteration:40".parse().unwrap();
        let (phase, mode) = (Phase::Iteration, Mode::Kill);
        assert_eq!(kill, Kill { rank: 2, phase, count: 40, mode });
        for text in ["0@dot:7:segv", "3@recovery:1:kill", "1@join:2:panic", "5@finish:9:stop"] {
            assert_eq!(text.parse::<Kill>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_one_sentence() {
        for (text, complaint) in [
            ("2", "the @ is missing"),
            ("x@dot:1", "'x' is not a rank"),
            ("1@lunch:1", "'lunch' is not a phase; the phases are iteration, exchange"),
            ("1@dot", "K must be a whole number of at least 1, not ''"),
            ("1@dot:0", "at least 1, not '0'"),
            ("1@dot:1:poison", "'poison' is not a mode; the modes are kill, segv"),
            ("1@dot:1:kill:now", "':now' is too much"),
        ] {
            let error = text.parse::<Kill>().unwrap_err().to_string();
            assert!(error.contains(complaint), "{error}");
            assert!(error.starts_with("a kill is written"), "{error}");
        }
    }

    #[test]
    fn only_the_named_rank_is_due_and_only_there() {
        let mut plan = KillPlan::default();
        plan.add("1@dot:3:exit".parse().unwrap());
        plan.add("3@iteration:5".parse().unwrap());
        assert_eq!(plan.due(1, Phase::Dot, 3), Some(Mode::Exit));
        assert_eq!(plan.due(1, Phase::Dot, 4), None);
        assert_eq!(plan.due(0, Phase::Dot, 3), None);
        assert_eq!(plan.due(1, Phase::Iteration, 3), None);
        assert_eq!(plan.beyond(4), None);
        assert_eq!(plan.beyond(3).map(|kill| kill.rank), Some(3));
    }
}
