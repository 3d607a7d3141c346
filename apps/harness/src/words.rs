//! Words of a command line: `nx=20`, `nx:20`, `nx 20`, `--nx=20` and `--nx 20` are the same.

use fampi::Redundancy;

use crate::kill_plan::KillError;

/// What a command line means.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<O> {
    /// Run.
    Run(Box<O>),
    /// Print the help.
    Help,
    /// Print the version.
    Version,
}

/// Why a command line cannot be followed. Nothing has been done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WordError {
    /// A name that is no option.
    #[error("there is no option '{0}'; --help lists them")]
    Unknown(String),
    /// An option at the end without its value.
    #[error("the option '{0}' needs a value")]
    ValueMissing(String),
    /// A value that the option cannot have.
    #[error("the option '{name}' cannot be '{value}', it needs {needs}")]
    ValueWrong {
        /// The option.
        name: String,
        /// What was given.
        value: String,
        /// What can be given.
        needs: &'static str,
    },
    /// A kill that cannot be understood.
    #[error(transparent)]
    Kill(#[from] KillError),
    /// A kill of a rank beyond the last.
    #[error("the kill {kill} names a rank that does not exist, there are {ranks} ranks")]
    KillBeyond {
        /// The kill.
        kill: String,
        /// The number of ranks.
        ranks: usize,
    },
    /// A kill in a program that has no blocks.
    #[error("a kill needs blocks: leave it out, or fault-tolerance=off")]
    KillOfPlain,
    /// A problem that does not fit into the memory.
    #[error(
        "the ranks of this machine need at least {needed} GiB for this problem, and it has \
         {memory} GiB: take a smaller one, or more machines"
    )]
    TooLarge {
        /// What the ranks of this machine allocate, in GiB.
        needed: u64,
        /// What it has, in GiB.
        memory: u64,
    },
}

impl WordError {
    /// A value that the option cannot have.
    #[must_use]
    pub fn wrong(name: &str, value: &str, needs: &'static str) -> Self {
        Self::ValueWrong { name: name.to_owned(), value: value.to_owned(), needs }
    }
}

/// How a lost rank is dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// A replacement takes the rank; the result has the bits of the undisturbed run.
    Rebuild,
    /// The survivors shrink, and merge with a new process at the end of the ranks.
    Merge,
    /// The survivors shrink, and share the work of the lost rank out among themselves. Only an
    /// application whose work can be shared out anew has a word for this.
    Survivors,
}

impl Recovery {
    /// What the words are.
    pub const NEEDS: &'static str = "rebuild or merge";

    /// The recovery of this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "rebuild" => Some(Self::Rebuild),
            "merge" => Some(Self::Merge),
            _ => None,
        }
    }

    /// Where the replacements go, if there are any.
    #[must_use]
    pub const fn placement(self) -> Option<fampi::Placement> {
        match self {
            Self::Rebuild => Some(fampi::Placement::SameRanks),
            Self::Merge => Some(fampi::Placement::Append),
            Self::Survivors => None,
        }
    }
}

/// When the state is copied to a partner.
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
        match word {
            "auto" => Some(Self::Auto),
            "0" => Some(Self::Never),
            number => number.parse().ok().map(Self::Every),
        }
    }
}

/// What the words for a redundancy are.
pub const REDUNDANCY: &str =
    "partner, own, or the ranks of a group and the losses that it survives, as in 4:1";

/// Where the word says that states are kept.
#[must_use]
pub fn redundancy(word: &str) -> Option<Redundancy> {
    match word {
        "partner" => Some(Redundancy::Partner),
        "own" => Some(Redundancy::Own),
        group => {
            let (ranks, losses) = group.split_once(':')?;
            let (ranks, losses) = (ranks.parse().ok()?, losses.parse().ok()?);
            (1..ranks).contains(&losses).then_some(Redundancy::Group { ranks, losses })
        }
    }
}

/// Whether an application survives failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTolerance {
    /// Every iteration is a block that commits.
    On,
    /// The plain program, for measuring.
    Off,
}

impl FaultTolerance {
    /// What the words are.
    pub const NEEDS: &'static str = "on or off";

    /// What this word says.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        switch(word).map(|on| if on { Self::On } else { Self::Off })
    }
}

/// The name of a word, dashes made underscores, and its value if it carries one.
#[must_use]
pub fn split(word: &str) -> (String, Option<String>) {
    let bare = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or(word);
    match bare.split_once(['=', ':']) {
        Some((name, value)) => (name.replace('-', "_"), Some(value.to_owned())),
        None => (bare.replace('-', "_"), None),
    }
}

/// A whole number of at least 1.
#[must_use]
pub fn count(value: &str) -> Option<usize> {
    value.parse().ok().filter(|&count| count > 0)
}

/// Yes or no.
#[must_use]
pub fn switch(value: &str) -> Option<bool> {
    match value {
        "1" | "on" | "true" | "yes" => Some(true),
        "0" | "off" | "false" | "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_made_never_every_so_often_or_as_measured() {
        for (word, protect) in [
            ("0", Some(Protect::Never)),
            ("1", Some(Protect::Every(1))),
            ("3", Some(Protect::Every(3))),
            ("auto", Some(Protect::Auto)),
            ("-1", None),
            ("often", None),
        ] {
            assert_eq!(Protect::of(word), protect);
        }
    }
}
