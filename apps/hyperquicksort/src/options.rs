//! The command line, in the style of `MiniFE`: `n=1000`, `n:1000`, `n 1000`, `--n=1000` and
//! `--n 1000` are the same. Later words win.

mod slow;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use harness::faults::Faults;
use harness::memory;
pub use harness::words::{FaultTolerance, Recovery, WordError};
use harness::words::{count, split};
pub use slow::Slow;

use crate::keys::{Input, Keys};
use crate::kill_plan::PHASES;
use crate::local::Local;
use crate::owners::Rule;
use crate::sorter::Way;
use crate::table::{Pivot, Split};

/// The type of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// 32 bits, signed.
    I32,
    /// 64 bits, signed.
    I64,
}

impl KeyType {
    const fn bytes(self) -> usize {
        match self {
            Self::I32 => 4,
            Self::I64 => 8,
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::I32 { "i32" } else { "i64" })
    }
}

/// Where lists survive the rank that has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Nowhere: they are made again from the input.
    Lineage,
    /// In the memory of another rank.
    Copies,
    /// In files that all ranks can read.
    Files,
}

/// Which program sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Halves of lists are exchanged in as many rounds as the hypercube has dimensions.
    HyperQuickSort,
    /// Each key travels once, to the rank that samples name; without fault tolerance.
    SampleSort,
}

/// Who works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// All living ranks work.
    Failures,
    /// Those of the living ranks work that pass the tests of the observers.
    Tests,
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What to sort.
    pub keys: Keys,
    /// The type of the keys.
    pub key_type: KeyType,
    /// How many parts; as few as there can be if this is not said.
    pub parts: Option<u32>,
    /// Who gets parts that have no process of their own.
    pub owners: Rule,
    /// How pivots are chosen.
    pub pivot: Pivot,
    /// Where keys go that equal the pivot.
    pub split: Split,
    /// How own keys are sorted.
    pub local: Local,
    /// Where lists survive.
    pub store: Store,
    /// Where files with lists are.
    pub folder: Option<PathBuf>,
    /// Which program.
    pub algorithm: Algorithm,
    /// Sort so many times.
    pub repeat: u32,
    /// Write the sorted keys there.
    pub output: Option<PathBuf>,
    /// Print a line for each step.
    pub progress: bool,
    /// Who works.
    pub membership: Members,
    /// Who was found slow may come back.
    pub rejoin: bool,
    /// Who takes the place of a dead one works after its first tests, if it is tested.
    pub probation: bool,
    /// Who is slow when.
    pub slow: Vec<Slow>,
    /// How the sort meets failures.
    pub faults: Faults,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keys: Keys { count: 1_000_000, seed: 1, input: Input::Uniform },
            key_type: KeyType::I32,
            parts: None,
            owners: Rule::Balanced,
            pivot: Pivot::Sample,
            split: Split::Even,
            local: Local::Radix,
            store: Store::Lineage,
            folder: None,
            algorithm: Algorithm::HyperQuickSort,
            repeat: 1,
            output: None,
            progress: false,
            membership: Members::Failures,
            rejoin: true,
            probation: true,
            slow: Vec::new(),
            faults: Faults { recovery: Recovery::Survivors, ..Faults::default() },
        }
    }
}

/// What a command line means.
pub type Request = harness::words::Request<Options>;

/// Why a command line cannot be followed. Nothing has been done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// What is wrong in any application.
    #[error(transparent)]
    Word(#[from] WordError),
    /// A file with keys that cannot be opened.
    #[error("there is no input '{name}', and no file of this name can be read: {reason}")]
    Unreadable {
        /// The word.
        name: String,
        /// What the system says.
        reason: String,
    },
    /// A file that does not consist of keys.
    #[error("the file '{name}' has {bytes} bytes, which are not a whole number of {width}")]
    OddSize {
        /// The file.
        name: String,
        /// Its size.
        bytes: u64,
        /// The bytes of a key.
        width: usize,
    },
    /// More keys than were said.
    #[error("the file '{name}' has {there} keys and not n={said}")]
    OtherCount {
        /// The file.
        name: String,
        /// How many there are.
        there: u64,
        /// How many were said.
        said: u64,
    },
    /// Keys that the type does not have.
    #[error("there are not so many different keys of type i32: take type=i64")]
    TooMany,
    /// Parts that cannot be divided among the ranks.
    #[error("there are {ranks} ranks: parts must be a power of two from {ranks} to {MOST_PARTS}")]
    TooFewParts {
        /// The number of ranks.
        ranks: u32,
    },
    /// Lists are to be kept in files nowhere.
    #[error("store=files needs a folder that all ranks can write to: folder=PATH")]
    NoFolder,
    /// A slow rank that does not exist.
    #[error("slow names rank {rank}, and there are {ranks} ranks")]
    SlowBeyond {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
}

/// The text of `--help`.
pub const HELP: &str = "\
HyperQuickSort: parallel quicksort on a hypercube, surviving lost ranks

Options are written n=1000, n:1000, n 1000, --n=1000 or --n 1000.

  n N                     keys [1000000, or those of the file]
  type i32|i64            type of the keys [i32]
  seed N                  which random numbers [1]
  input NAME|FILE         uniform, sorted, reverse, equal, few, zipf, staggered, or a file of
                          little-endian keys that all ranks can read [uniform]
  parts N                 lists, a power of two [as few as there are ranks, at least]
  owners balanced|paper   who gets the lists that have no rank of their own [balanced]
  pivot sample|medians|root  how pivots are chosen [sample]
  split even|strict       cut equal keys where the list is halved best, or above them [even]
  paper                   owners=paper pivot=root split=strict store=files
  local radix|comparison  how own keys are sorted [radix]
  store lineage|copies|files  where lists survive their rank: in the input, in the memory of
                          another rank, in files [lineage]
  folder PATH             where files with lists are while the sort runs
  fault-tolerance on|off  survive failures, or be the plain program [on]
  recovery none|rebuild   after a failure the survivors take over, or replacements come [none]
  algorithm hyperquicksort|samplesort  samplesort is plain, for comparison [hyperquicksort]
  repeat N                sort so many times [1]
  output FILE             write the sorted keys, little-endian
  progress                print a line for each step
  membership failures|tests  who works: all who live, or those of them that pass the tests of
                          fampi run --diagnosis [failures]
  rejoin on|off           whoever passes enough tests again works again [on]
  probation on|off        replacements of the dead work when they have passed enough tests [on]
  slow RANK@round:K:MS[:ROUNDS]  stop a rank for MS milliseconds at the end of its work of round
                          K, and of as many rounds from there on [1]
  kill RANK@PHASE:K[:MODE]  end a rank; may be repeated; PHASE is local, pivot, exchange, merge,
                          store, finish, update, recovery or join; MODE kill, segv, exit, panic
                          or stop
  help, version
";

const OWN_NAMES: [&str; 21] = [
    "n",
    "type",
    "seed",
    "input",
    "parts",
    "owners",
    "pivot",
    "split",
    "local",
    "store",
    "folder",
    "recovery",
    "algorithm",
    "repeat",
    "output",
    "membership",
    "rejoin",
    "probation",
    "slow",
    "fault_tolerance",
    "kill",
];

/// The most parts: each has some message tags of its own.
pub const MOST_PARTS: u32 = 4096;
/// A list, the buffer for the next one, and what sorting or sending needs meanwhile.
const BUFFERS: u64 = 3;

/// What one of some words means.
fn one_of<T: Copy>(value: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning)
}

impl Options {
    /// Reads the words after the program's name.
    ///
    /// # Errors
    /// [`OptionsError`] about the first word that cannot be followed.
    pub fn parse<I>(words: I) -> Result<Request, OptionsError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let mut options = Self::default();
        let mut said = None;
        let mut words = words.into_iter().map(Into::into);
        while let Some(word) = words.next() {
            let (name, value) = split(&word);
            match (name.as_str(), &value) {
                ("h" | "help", None) => return Ok(Request::Help),
                ("V" | "version", None) => return Ok(Request::Version),
                ("progress", None) => options.progress = true,
                ("paper", None) => {
                    (options.owners, options.pivot) = (Rule::Paper, Pivot::Root);
                    (options.split, options.store) = (Split::Strict, Store::Files);
                }
                (known, _) if OWN_NAMES.contains(&known) => {
                    let value = value.or_else(|| words.next());
                    options.set(&name, &value.ok_or(WordError::ValueMissing(word))?)?;
                    if name == "n" {
                        said = Some(options.keys.count);
                    }
                }
                _ => return Err(WordError::Unknown(word).into()),
            }
        }
        options.finish(said)?;
        Ok(Request::Run(Box::new(options)))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), WordError> {
        let needs = |needs| WordError::wrong(name, value, needs);
        let whole = || needs("a whole number");
        match name {
            "n" => self.keys.count = value.parse().map_err(|_| whole())?,
            "seed" => self.keys.seed = value.parse().map_err(|_| whole())?,
            "input" => self.keys.input = Input::of(value),
            "folder" => self.folder = Some(value.into()),
            "output" => self.output = Some(value.into()),
            "parts" => {
                let parts = value
                    .parse()
                    .ok()
                    .filter(|parts: &u32| parts.is_power_of_two() && *parts <= MOST_PARTS);
                self.parts = Some(parts.ok_or_else(|| needs("a power of two up to 4096"))?);
            }
            "repeat" => {
                let times = count(value).and_then(|times| u32::try_from(times).ok());
                self.repeat = times.ok_or_else(|| needs("a whole number of at least 1"))?;
            }
            "slow" => {
                let slow = Slow::of(value);
                self.slow.push(slow.ok_or_else(|| needs("RANK@round:K:MS[:ROUNDS]"))?);
            }
            _ => return self.choose(name, value),
        }
        Ok(())
    }

    /// Sets an option whose values are words.
    fn choose(&mut self, name: &str, value: &str) -> Result<(), WordError> {
        let needs = |needs| move || WordError::wrong(name, value, needs);
        match name {
            "type" => {
                let words = [("i32", KeyType::I32), ("i64", KeyType::I64)];
                self.key_type = one_of(value, &words).ok_or_else(needs("i32 or i64"))?;
            }
            "owners" => {
                let words = [("balanced", Rule::Balanced), ("paper", Rule::Paper)];
                self.owners = one_of(value, &words).ok_or_else(needs("balanced or paper"))?;
            }
            "pivot" => {
                let words =
                    [("sample", Pivot::Sample), ("medians", Pivot::Medians), ("root", Pivot::Root)];
                let needs = needs("sample, medians or root");
                self.pivot = one_of(value, &words).ok_or_else(needs)?;
            }
            "split" => {
                let words = [("even", Split::Even), ("strict", Split::Strict)];
                self.split = one_of(value, &words).ok_or_else(needs("even or strict"))?;
            }
            "local" => {
                let words = [("radix", Local::Radix), ("comparison", Local::Comparison)];
                self.local = one_of(value, &words).ok_or_else(needs("radix or comparison"))?;
            }
            "store" => {
                let words = [
                    ("lineage", Store::Lineage),
                    ("copies", Store::Copies),
                    ("files", Store::Files),
                ];
                let needs = needs("lineage, copies or files");
                self.store = one_of(value, &words).ok_or_else(needs)?;
            }
            "recovery" => {
                let words = [("none", Recovery::Survivors), ("rebuild", Recovery::Rebuild)];
                let needs = needs("none or rebuild");
                self.faults.recovery = one_of(value, &words).ok_or_else(needs)?;
            }
            "membership" => {
                let words = [("failures", Members::Failures), ("tests", Members::Tests)];
                self.membership = one_of(value, &words).ok_or_else(needs("failures or tests"))?;
            }
            "rejoin" | "probation" => {
                let words = [("on", true), ("off", false)];
                let on = one_of(value, &words).ok_or_else(needs("on or off"))?;
                *(if name == "rejoin" { &mut self.rejoin } else { &mut self.probation }) = on;
            }
            "algorithm" => {
                let words = [
                    ("hyperquicksort", Algorithm::HyperQuickSort),
                    ("samplesort", Algorithm::SampleSort),
                ];
                let needs = needs("hyperquicksort or samplesort");
                self.algorithm = one_of(value, &words).ok_or_else(needs)?;
            }
            _ => self.faults.set(name, value, &PHASES)?,
        }
        Ok(())
    }

    /// Looks at options that are wrong together, and opens the input.
    fn finish(&mut self, said: Option<u64>) -> Result<(), OptionsError> {
        if self.algorithm == Algorithm::SampleSort {
            self.faults.tolerance = FaultTolerance::Off;
        }
        let is_on = self.faults.tolerance == FaultTolerance::On;
        if is_on && self.store == Store::Files && self.folder.is_none() {
            return Err(OptionsError::NoFolder);
        }
        if let Input::File(path, file) = &mut self.keys.input {
            let name = path.display().to_string();
            let opened = File::open(&path).and_then(|file| {
                let about = file.metadata()?;
                if about.is_file() {
                    Ok((file, about.len()))
                } else {
                    Err(io::ErrorKind::IsADirectory.into())
                }
            });
            let (opened, bytes) = opened.map_err(|error| OptionsError::Unreadable {
                name: name.clone(),
                reason: error.to_string(),
            })?;
            let width = self.key_type.bytes();
            let there = bytes / width as u64;
            if bytes % width as u64 > 0 {
                return Err(OptionsError::OddSize { name, bytes, width });
            }
            if let Some(said) = said.filter(|said| *said != there) {
                return Err(OptionsError::OtherCount { name, there, said });
            }
            self.keys.count = there;
            *file = Some(Arc::new(opened));
        }
        let by_place = matches!(self.keys.input, Input::Sorted | Input::Reverse);
        if by_place && self.key_type == KeyType::I32 && self.keys.count > 1 << 31 {
            return Err(OptionsError::TooMany);
        }
        Ok(())
    }

    /// How so many ranks sort.
    ///
    /// # Errors
    /// [`OptionsError`] if they cannot: too few parts, kills and slow ranks that do not exist, or
    /// too little memory.
    pub fn way(&self, ranks: u32) -> Result<Way, OptionsError> {
        self.faults.check_ranks(ranks as usize)?;
        if let Some(slow) = self.slow.iter().find(|slow| slow.rank >= ranks) {
            return Err(OptionsError::SlowBeyond { rank: slow.rank, ranks });
        }
        let parts = self.parts.unwrap_or_else(|| ranks.next_power_of_two());
        if parts < ranks || parts > MOST_PARTS {
            return Err(OptionsError::TooFewParts { ranks });
        }
        let bytes = self.keys.count.saturating_mul(BUFFERS * self.key_type.bytes() as u64);
        memory::check(bytes / u64::from(ranks))?;
        let Self { local, pivot, split, .. } = *self;
        Ok(Way { parts, local, pivot, split })
    }

    /// How long a rank stops at the end of a round, over all rounds counted from one.
    #[must_use]
    pub fn slowness(&self, rank: u32, round: u32) -> Duration {
        let here = |slow: &&Slow| {
            let rounds = slow.round..slow.round.saturating_add(slow.rounds);
            slow.rank == rank && rounds.contains(&round)
        };
        self.slow.iter().filter(here).map(|slow| slow.time).sum()
    }
}

#[cfg(test)]
mod tests;
