//! The command line: the letters of the reference program, and options in the style of `MiniFE`.
//!
//! `-s 20`, `s=20`, `edge=20`, `--edge=20` and `--edge 20` are the same. Later words win.

pub use harness::faults::Faults;
use harness::faults::NAMES;
use harness::memory;
pub use harness::words::{FaultTolerance, Recovery, WordError};
use harness::words::{count, split};

use crate::kill_plan::PHASES;
use crate::mesh::{Mesh, NotCubic};
use crate::regions::Division;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Elements along an edge of each rank's cube.
    pub edge: usize,
    /// The most cycles.
    pub most_cycles: u32,
    /// How elements are divided into regions.
    pub division: Division,
    /// Print a line for each cycle.
    pub progress: bool,
    /// Print nothing but the last line.
    pub quiet: bool,
    /// How the simulation meets failures.
    pub faults: Faults,
}

impl Default for Options {
    /// Those of the reference.
    fn default() -> Self {
        Self {
            edge: 30,
            most_cycles: 9_999_999,
            division: Division::default(),
            progress: false,
            quiet: false,
            faults: Faults::default(),
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
    /// An option of the reference that this program does not have.
    #[error("the option '{0}' is for pictures by VisIt, which this program does not write")]
    NoPictures(String),
    /// A number of ranks that cannot share the domain.
    #[error(transparent)]
    NotCubic(#[from] NotCubic),
}

/// The text of `--help`.
pub const HELP: &str = "\
LULESH: a blast wave through hexahedra, by shock hydrodynamics, surviving lost ranks

Options are written -s 20, edge=20, edge:20, --edge=20 or --edge 20. The number of ranks is a cube.

  s, edge N               elements along an edge of each rank's cube [30]
  i, cycles N             most cycles [9999999]
  r, regions N            regions of elements with a cost of their own [11]
  b, balance N            region k has a size of about k to the power N [1]
  c, cost N               how much more the costly regions cost [1]
  p, progress             print a line for each cycle
  q, quiet                print nothing but the last line
  fault-tolerance on|off  survive failures, or be the plain program [on]
  fused on|off            agree on the time step with the commit, or by a reduction [on]
  recovery rebuild|merge  what to do after a failure [rebuild]
  protect-every K|auto    cycles between copies of the state, 0 for none; auto: as is best for the
                          measured cost of a copy and mtbf [auto]
  redundancy partner|own|RANKS:LOSSES  where copies are kept: at a partner, by the own rank, or in a
                          code over groups of so many ranks that survives so many losses [partner]
  mtbf SECONDS            mean time between failures of the whole job, for auto [3600]
  kill RANK@PHASE:K[:MODE]  end a rank; may be repeated; PHASE is cycle, step, forces, positions,
                          gradients, finish, update, recovery or join; MODE kill, segv, exit, panic
                          or stop
  h, help; version
";

/// The options with a value that only this program has.
const OWN_NAMES: [&str; 10] =
    ["s", "edge", "i", "cycles", "r", "regions", "b", "balance", "c", "cost"];

/// The most elements along an edge: node numbers have 32 bits.
const LARGEST_EDGE: usize = 1000;
/// Some thirty numbers of it and of its node, at least: state, copy, forces and gradients.
const BYTES_OF_ELEMENT: u64 = 240;
const MOST_REGIONS: usize = 10_000;
const MOST_BALANCE: u32 = 60;
const MOST_COST: u32 = 1_000_000;

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
        let mut words = words.into_iter().map(Into::into);
        while let Some(word) = words.next() {
            let (name, value) = split(&word);
            match (name.as_str(), &value) {
                ("h" | "help", None) => return Ok(Request::Help),
                ("V" | "version", None) => return Ok(Request::Version),
                ("p" | "progress", None) => options.progress = true,
                ("q" | "quiet", None) => options.quiet = true,
                ("f" | "v", _) => return Err(OptionsError::NoPictures(word)),
                (known, _) if OWN_NAMES.contains(&known) || NAMES.contains(&known) => {
                    let value = value.or_else(|| words.next());
                    options.set(&name, &value.ok_or(WordError::ValueMissing(word))?)?;
                }
                _ => return Err(WordError::Unknown(word).into()),
            }
        }
        Ok(Request::Run(Box::new(options)))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), WordError> {
        let needs = |needs| WordError::wrong(name, value, needs);
        match name {
            "s" | "edge" => {
                self.edge = count(value)
                    .filter(|edge| *edge <= LARGEST_EDGE)
                    .ok_or_else(|| needs("a whole number from 1 to 1000"))?;
            }
            "i" | "cycles" => {
                self.most_cycles = value.parse().map_err(|_| needs("a whole number"))?;
            }
            "r" | "regions" => {
                self.division.regions = count(value)
                    .filter(|regions| *regions <= MOST_REGIONS)
                    .ok_or_else(|| needs("a whole number from 1 to 10000"))?;
            }
            "b" | "balance" => {
                self.division.balance = number(value, MOST_BALANCE)
                    .ok_or_else(|| needs("a whole number from 0 to 60"))?;
            }
            "c" | "cost" => {
                self.division.extra_cost = number(value, MOST_COST)
                    .ok_or_else(|| needs("a whole number from 0 to 1000000"))?;
            }
            _ => self.faults.set(name, value, &PHASES)?,
        }
        Ok(())
    }

    /// The cube of `rank` of `ranks`.
    ///
    /// # Errors
    /// [`OptionsError::NotCubic`]; [`WordError::KillBeyond`] if the plan kills a rank that does not
    /// exist; [`WordError::TooLarge`].
    pub fn mesh(&self, rank: usize, ranks: usize) -> Result<Mesh, OptionsError> {
        self.faults.check_ranks(ranks)?;
        memory::check((self.edge as u64).pow(3) * BYTES_OF_ELEMENT)?;
        Ok(Mesh::new(self.edge, rank, ranks)?)
    }
}

fn number(value: &str, most: u32) -> Option<u32> {
    value.parse().ok().filter(|number| *number <= most)
}

#[cfg(test)]
mod tests {
    use harness::words::Protect;

    use super::*;
    use crate::kill_plan;
    use harness::kill_plan::Mode;

    fn run(line: &str) -> Options {
        match Options::parse(line.split_whitespace()) {
            Ok(Request::Run(options)) => *options,
            other => panic!("'{line}' gives {other:?}"),
        }
    }

    #[test]
    fn the_letters_of_the_reference_and_the_words_mean_the_same() {
        assert_eq!(run(""), Options::default());
        let options = run("-s 10 -i 50 -r 22 -b 2 -c 8 -p -q");
        assert_eq!((options.edge, options.most_cycles), (10, 50));
        assert_eq!(options.division, Division { regions: 22, balance: 2, extra_cost: 8 });
        assert!(options.progress && options.quiet);
        let words = "edge=10 --cycles=50 --regions 22 balance:2 cost 8 progress --quiet";
        assert_eq!(run(words), options);
    }

    #[test]
    fn the_resilience_options_are_those_of_minife() {
        let line = "--fault-tolerance off --recovery merge --protect-every 5 kill=1@forces:4:exit";
        let options = run(line);
        assert_eq!(options.faults.tolerance, FaultTolerance::Off);
        assert_eq!(options.faults.recovery, Recovery::Merge);
        assert_eq!(options.faults.protect, Protect::Every(5));
        assert_eq!(options.faults.kills.due(1, kill_plan::FORCES, 4), Some(Mode::Exit));
        assert!(run("").faults.fused && !run("fused=off").faults.fused);
        assert_eq!(run("protect-every=auto mtbf=60").faults.protect, Protect::Auto);
        assert!(options.mesh(0, 8).is_ok());
    }

    #[test]
    fn what_cannot_be_followed_is_said_in_one_sentence() {
        for (line, complaint) in [
            ("lunch", "there is no option 'lunch'"),
            ("-s", "the option '-s' needs a value"),
            ("-s 0", "the option 's' cannot be '0', it needs a whole number from 1 to 1000"),
            ("-i -1", "cannot be '-1', it needs a whole number"),
            ("-s 99999999999", "from 1 to 1000"),
            ("-b 61", "from 0 to 60"),
            ("regions=none", "from 1 to 10000"),
            ("-v", "pictures by VisIt"),
            ("recovery=prayer", "rebuild or merge"),
            ("protect-every=often", "a whole number, 0 for no copies, or auto"),
            ("redundancy=4:4", "partner, own, or the ranks of a group"),
            ("mtbf=0", "a number of seconds above 0"),
            ("kill=1@lunch:3", "'lunch' is not a phase; the phases are cycle, step"),
        ] {
            let error = Options::parse(line.split_whitespace()).expect_err(line).to_string();
            assert!(error.contains(complaint), "{error}");
        }
        let complaint = |ranks| run("kill=9@cycle:1").mesh(0, ranks).unwrap_err().to_string();
        assert!(complaint(8).contains("there are 8 ranks"));
        assert!(complaint(10).contains("start it on 8 or 27"));
    }

    #[test]
    fn help_and_version_are_asked_for_in_two_ways() {
        for (word, request) in [
            ("-h", Request::Help),
            ("--help", Request::Help),
            ("-V", Request::Version),
            ("--version", Request::Version),
        ] {
            assert_eq!(Options::parse([word]), Ok(request));
        }
    }
}
