//! Which rank dies when, and how: `RANK@PHASE:K[:MODE]`.
//!
//! The plan is data; the driver asks it at each phase whether this rank is due, and does the
//! deed. What phases there are is the application's; in `MiniFE`, for one, `2@iteration:40` kills
//! rank 2 by SIGKILL as iteration 40 begins, `0@dot:7:segv` lets rank 0 fault between posting and
//! finishing the dot product of iteration 7.

use std::fmt;

/// How a process ends, or stops being useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// SIGKILL: gone at once.
    Kill,
    /// SIGSEGV: as after a wild pointer.
    Segv,
    /// `exit(1)`: runs exit handlers, but not MPI's finalization.
    Exit,
    /// A panic that is not caught.
    Panic,
    /// SIGSTOP: alive for the system, silent for all others.
    Stop,
}

const MODES: [(&str, Mode); 5] = [
    ("kill", Mode::Kill),
    ("segv", Mode::Segv),
    ("exit", Mode::Exit),
    ("panic", Mode::Panic),
    ("stop", Mode::Stop),
];

/// A point of a program at which a kill can strike, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phase(pub &'static str);

impl Phase {
    /// In iteration K, just before its block is finished.
    pub const FINISH: Self = Self("finish");
    /// After the commit of iteration K.
    pub const UPDATE: Self = Self("update");
    /// In the K-th recovery that this process takes part in.
    pub const RECOVERY: Self = Self("recovery");
    /// A replacement that takes the rank in the K-th rebuilt world, while it joins.
    pub const JOIN: Self = Self("join");
}

/// The points of one program.
#[derive(Debug, PartialEq, Eq)]
pub struct Phases {
    /// All of them.
    pub all: &'static [Phase],
    /// The beginning of a step, which all programs have, by whatever word.
    pub step: Phase,
    /// What a kill looks like, for those who wrote it wrongly.
    pub examples: &'static str,
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
pub struct Kill {
    /// The rank, of the ranks of the launch.
    pub rank: usize,
    /// Where in the program.
    pub phase: Phase,
    /// At which passage, counted from one.
    pub count: u32,
    /// How.
    pub mode: Mode,
}

impl Kill {
    /// What this text says, in a program with these phases.
    ///
    /// # Errors
    /// [`KillError`].
    pub fn parse(text: &str, phases: &Phases) -> Result<Self, KillError> {
        let wrong = |what: String| KillError {
            examples: phases.examples,
            wrong: format!("in '{text}' {what}"),
        };
        let (rank, rest) =
            text.split_once('@').ok_or_else(|| wrong("the @ is missing".to_owned()))?;
        let rank = rank.parse().map_err(|_| wrong(format!("'{rank}' is not a rank")))?;
        let mut parts = rest.split(':');
        let phase = parts.next().unwrap_or_default();
        let known = phases.all.iter().find(|known| known.0 == phase);
        let is_step = ["step", "iteration", "cycle"].contains(&phase);
        let phase = *known.or(is_step.then_some(&phases.step)).ok_or_else(|| {
            let names = phases.all.iter().map(|phase| phase.0).collect::<Vec<_>>().join(", ");
            wrong(format!("'{phase}' is not a phase; the phases are {names}"))
        })?;
        let count = parts.next().unwrap_or_default();
        let count = count.parse().ok().filter(|&count| count > 0).ok_or_else(|| {
            wrong(format!("K must be a whole number of at least 1, not '{count}'"))
        })?;
        let mode = parts.next().unwrap_or("kill");
        let known = MODES.iter().find(|(known, _)| *known == mode);
        let (_, mode) = *known.ok_or_else(|| {
            let names = MODES.map(|(name, _)| name).join(", ");
            wrong(format!("'{mode}' is not a mode; the modes are {names}"))
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
        let mode = MODES.iter().find(|(_, known)| known == mode).map_or("?", |(name, _)| name);
        write!(f, "{rank}@{}:{count}:{mode}", phase.0)
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

    /// Whether no rank dies.
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
    /// that replaces a rank must ask for nothing but its joining, or it would die of the cause
    /// that made it necessary.
    #[must_use]
    pub fn due(&self, rank: usize, phase: Phase, count: u32) -> Option<Mode> {
        let here = |kill: &&Kill| (kill.rank, kill.phase, kill.count) == (rank, phase, count);
        self.kills.iter().find(here).map(|kill| kill.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOT: Phase = Phase("dot");
    const ITERATION: Phase = Phase("iteration");
    const PHASES: Phases = Phases {
        all: &[ITERATION, DOT],
        step: ITERATION,
        examples: "2@iteration:40 or 0@dot:7:segv",
    };

    fn parse(text: &str) -> Result<Kill, KillError> {
        Kill::parse(text, &PHASES)
    }

    #[test]
    fn a_kill_is_by_sigkill_unless_it_says_otherwise() {
        let kill = parse("2@iteration:40").unwrap();
        let (phase, mode) = (ITERATION, Mode::Kill);
        assert_eq!(kill, Kill { rank: 2, phase, count: 40, mode });
        for text in ["0@dot:7:segv", "3@iteration:1:kill", "1@dot:2:panic", "5@iteration:9:stop"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn iteration_cycle_and_step_are_one_word() {
        for word in ["step", "cycle", "iteration"] {
            assert_eq!(parse(&format!("2@{word}:40")), parse("2@iteration:40"));
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
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(complaint), "{error}");
            assert!(error.starts_with("a kill is written"), "{error}");
        }
    }

    #[test]
    fn only_the_named_rank_is_due_and_only_there() {
        let mut plan = KillPlan::default();
        plan.add(parse("1@dot:3:exit").unwrap());
        plan.add(parse("3@iteration:5").unwrap());
        assert_eq!(plan.due(1, DOT, 3), Some(Mode::Exit));
        assert_eq!(plan.due(1, DOT, 4), None);
        assert_eq!(plan.due(0, DOT, 3), None);
        assert_eq!(plan.due(1, ITERATION, 3), None);
        assert_eq!(plan.beyond(4), None);
        assert_eq!(plan.beyond(3).map(|kill| kill.rank), Some(3));
    }
}
