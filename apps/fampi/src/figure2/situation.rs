//! The situations that are compared: those of the paper's figure 2 (Hassani et al. 2015, §5), and
//! two beyond.

/// One of the two applications, with its size.
#[derive(Clone, Debug)]
pub(super) struct Application {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// For a reader.
    pub(super) size: String,
    pub(super) ranks: u32,
    /// For its command line, with blanks between them.
    pub(super) words: String,
    /// What it calls the beginning of an iteration.
    pub(super) phase: &'static str,
}

/// When a process dies.
#[derive(Clone, Copy, Debug)]
enum Moment {
    First,
    Middle,
    Last,
    /// In the first recovery.
    Recovery,
}

/// How a run goes on without the dead.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Recovery {
    /// It cannot: this is the program without FA-MPI.
    None,
    /// Shrink, spawn, merge.
    Merge,
    /// In the same ranks.
    Rebuild,
}

/// Something that a run has to live through.
#[derive(Debug)]
pub(super) struct Situation {
    /// As in the paper, as far as the paper has it.
    pub(super) name: &'static str,
    recovery: Recovery,
    deaths: &'static [(u32, Moment)],
}

/// The paper's situations in its order, then ours.
pub(super) const SITUATIONS: [Situation; 9] = [
    Situation { name: "No FA-MPI", recovery: Recovery::None, deaths: &[] },
    Situation { name: "Fault-Free", recovery: Recovery::Rebuild, deaths: &[] },
    Situation { name: "First-Fault", recovery: Recovery::Merge, deaths: &[(1, Moment::First)] },
    Situation {
        name: "First-2-Fault",
        recovery: Recovery::Merge,
        deaths: &[(1, Moment::First), (2, Moment::First)],
    },
    Situation { name: "Mid-Fault", recovery: Recovery::Merge, deaths: &[(1, Moment::Middle)] },
    Situation { name: "Last-Fault", recovery: Recovery::Merge, deaths: &[(1, Moment::Last)] },
    Situation { name: "First-Fault-R", recovery: Recovery::Rebuild, deaths: &[(1, Moment::First)] },
    Situation {
        name: "In-Recovery-R",
        recovery: Recovery::Rebuild,
        deaths: &[(1, Moment::Middle), (2, Moment::Recovery)],
    },
    Situation { name: "Mid-Rank-0-R", recovery: Recovery::Rebuild, deaths: &[(0, Moment::Middle)] },
];

impl Situation {
    /// For the command line of an application.
    pub(super) fn words(&self, phase: &str, iterations: u32) -> Vec<String> {
        let recovery = match self.recovery {
            Recovery::None => "fault-tolerance=off",
            Recovery::Merge => "recovery=merge",
            Recovery::Rebuild => "recovery=rebuild",
        };
        let kill = |(rank, moment): &(u32, Moment)| match moment {
            Moment::First => format!("kill={rank}@{phase}:1"),
            Moment::Middle => format!("kill={rank}@{phase}:{}", iterations / 2),
            // The 198th of 200, says the paper.
            Moment::Last => format!("kill={rank}@{phase}:{}", iterations - 2),
            Moment::Recovery => format!("kill={rank}@recovery:1"),
        };
        let kills = self.deaths.iter().map(kill);
        std::iter::once(recovery.to_owned()).chain(kills).collect()
    }

    /// How many processes die.
    pub(super) fn deaths(&self) -> usize {
        self.deaths.len()
    }

    /// Whether ranks are in another order afterwards.
    pub(super) fn merges(&self) -> bool {
        self.recovery == Recovery::Merge && !self.deaths.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deaths_are_at_the_iterations_of_the_paper() {
        let words = SITUATIONS.each_ref().map(|situation| situation.words("cycle", 200).join(" "));
        assert_eq!(words[0], "fault-tolerance=off");
        assert_eq!(words[3], "recovery=merge kill=1@cycle:1 kill=2@cycle:1");
        assert_eq!(words[4], "recovery=merge kill=1@cycle:100");
        assert_eq!(words[5], "recovery=merge kill=1@cycle:198");
        assert_eq!(words[7], "recovery=rebuild kill=1@cycle:100 kill=2@recovery:1");
    }
}
