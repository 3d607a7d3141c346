//! The command line: the free-form words of the reference program and options in GNU style.
//!
//! `nx=20`, `nx:20`, `nx 20`, `--nx=20` and `--nx 20` are the same, for every option; `-` and `_`
//! in names are the same too. Later words win. `input_file=FILE` reads further words from a file,
//! in its place.

use std::path::PathBuf;

pub use harness::faults::Faults;
use harness::faults::NAMES;
use harness::memory;
pub use harness::words::{FaultTolerance, Recovery, WordError};
use harness::words::{count, split, switch};

use crate::cg::Limits;
use crate::kill_plan::PHASES;
use crate::mesh::Mesh;
use crate::system::Problem;

/// Where the report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum YamlTarget {
    /// A new file in the working directory, named after problem and time.
    Dated,
    /// This file.
    File(PathBuf),
    /// Nowhere.
    Nowhere,
}

/// When progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// If a person watches.
    WhenWatched,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Elements along x, y, z.
    pub elements: [usize; 3],
    /// By how much the largest element box shall exceed the mean, in percent.
    pub load_imbalance_percent: f64,
    /// Multiply interior rows while messages are on their way.
    pub overlap: bool,
    /// Print the verdict of the verification, and let the exit status depend on it.
    pub verify: bool,
    /// A name for the report.
    pub name: String,
    /// Whether the volume source of one is in the right-hand side.
    pub source: bool,
    /// How the solve meets failures.
    pub faults: Faults,
    /// When the solve ends.
    pub limits: Limits,
    /// Where the report goes.
    pub yaml: YamlTarget,
    /// When progress is shown.
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            elements: [10; 3],
            load_imbalance_percent: 0.0,
            overlap: false,
            verify: false,
            name: "miniFE".to_owned(),
            source: true,
            faults: Faults::default(),
            limits: Limits::default(),
            yaml: YamlTarget::Dated,
            progress: Progress::WhenWatched,
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
    /// An input file that cannot be read.
    #[error("the input file '{path}' cannot be read: {reason}")]
    InputFile {
        /// The file.
        path: String,
        /// What the system says.
        reason: String,
    },
}

/// The text of `--help`.
pub const HELP: &str = "\
MiniFE: steady heat conduction on a box of bricks, by conjugate gradients, surviving lost ranks

Options are written name=value, name:value, name value, --name=value or --name value.

  nx, ny, nz N            elements per axis [10; ny = nx; nz = ny]
  load_imbalance P        make the largest part P percent larger than the mean [0]
  mv_overlap_comm_comp B  multiply interior rows while messages travel [0]
  verify_solution B       let the exit status depend on the verification [0]
  source B                volume source as the reference ships it (1), or none (0) [1]
  iterations N            most CG iterations [200]
  tolerance X             residual norm to stop at [2.220446049250313e-16]
  fault-tolerance on|off  survive failures, or be the plain program [on]
  fused on|off            sum with commits, or by reductions [on]
  recovery rebuild|merge  what to do after a failure [rebuild]
  protect-every K|auto    iterations between copies of the state, 0 for none; auto: as is best for
                          the measured cost of a copy and mtbf [auto]
  redundancy partner|own|RANKS:LOSSES  where copies are kept: at a partner, by the own rank, or in a
                          code over groups of so many ranks that survives so many losses [partner]
  mtbf SECONDS            mean time between failures of the whole job, for auto [3600]
  kill RANK@PHASE:K[:MODE]  end a rank; may be repeated; PHASE is iteration, exchange, spmv, dot,
                          finish, update, recovery or join; MODE kill, segv, exit, panic or stop
  yaml FILE|none          where the report goes [a dated file in the working directory]
  name TEXT               a name for the report
  input_file FILE         read more options from a file
  progress                show progress even if nobody watches (progress=never: not at all)
  help, version
";

/// Options of the reference program that have no meaning here: read and ignored.
const IGNORED: [&str; 6] =
    ["numthreads", "num_devices", "device", "skip_gpu", "numa", "use_locking"];

/// So many files with options are read: one may name itself.
const MOST_FILES: u32 = 16;

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
        let (mut reader, mut files) = (Reader::default(), 0);
        let mut words = words.into_iter().map(Into::into).collect::<Vec<String>>();
        words.reverse();
        while let Some(word) = words.pop() {
            let (name, value) = split(&word);
            match name.as_str() {
                "help" | "h" => return Ok(Request::Help),
                "version" | "V" => return Ok(Request::Version),
                "progress" if value.is_none() => {
                    reader.options.progress = Progress::Always;
                    continue;
                }
                _ => {}
            }
            if !is_known(&name) {
                return Err(WordError::Unknown(word).into());
            }
            let Some(value) = value.or_else(|| words.pop()) else {
                return Err(WordError::ValueMissing(word).into());
            };
            if name == "input_file" {
                files += 1;
                if files > MOST_FILES {
                    let reason = format!("it is one of more than {MOST_FILES} that name others");
                    return Err(OptionsError::InputFile { path: value, reason });
                }
                words.extend(read_words(&value)?.into_iter().rev());
            } else {
                reader.set(&name, &value)?;
            }
        }
        let options = reader.finished();
        Ok(Request::Run(Box::new(options)))
    }

    /// The problem to solve on `ranks`.
    ///
    /// # Errors
    /// [`WordError::KillBeyond`] if the plan kills a rank that does not exist;
    /// [`WordError::TooLarge`].
    pub fn problem(&self, ranks: usize) -> Result<Problem, OptionsError> {
        self.faults.check_ranks(ranks)?;
        let mesh = Mesh::new(self.elements);
        memory::check((mesh.nonzeros() / ranks) as u64 * BYTES_OF_NONZERO)?;
        Ok(Problem {
            mesh,
            ranks,
            load_imbalance_percent: self.load_imbalance_percent,
            source: f64::from(u8::from(self.source)),
        })
    }
}

fn read_words(path: &str) -> Result<Vec<String>, OptionsError> {
    let text = std::fs::read_to_string(path).map_err(|error| OptionsError::InputFile {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

#[derive(Default)]
struct Reader {
    options: Options,
    elements: [Option<usize>; 3],
}

const KNOWN: [&str; 12] = [
    "nx",
    "ny",
    "nz",
    "load_imbalance",
    "mv_overlap_comm_comp",
    "verify_solution",
    "name",
    "input_file",
    "source",
    "iterations",
    "tolerance",
    "yaml",
];

/// The most elements along an axis: beyond it the entries of the matrix could not be counted.
const MOST_ELEMENTS: usize = 100_000;
const ELEMENTS: &str = "a whole number from 1 to 100000";
/// A value of the matrix and its column.
const BYTES_OF_NONZERO: u64 = 12;
const SWITCH: &str = "1 or 0";

impl Reader {
    fn set(&mut self, name: &str, value: &str) -> Result<(), WordError> {
        let needs = |needs| WordError::wrong(name, value, needs);
        let options = &mut self.options;
        match name {
            "nx" | "ny" | "nz" => {
                let axis = ["nx", "ny", "nz"].iter().position(|axis| *axis == name);
                let number = count(value).filter(|number| *number <= MOST_ELEMENTS);
                self.elements[axis.unwrap_or(0)] = Some(number.ok_or_else(|| needs(ELEMENTS))?);
            }
            "load_imbalance" => {
                options.load_imbalance_percent =
                    measure(value).ok_or_else(|| needs("a percentage, zero or more"))?;
            }
            "mv_overlap_comm_comp" => {
                options.overlap = switch(value).ok_or_else(|| needs(SWITCH))?;
            }
            "verify_solution" => options.verify = switch(value).ok_or_else(|| needs(SWITCH))?,
            "source" => options.source = switch(value).ok_or_else(|| needs(SWITCH))?,
            "name" => value.clone_into(&mut options.name),
            "iterations" => {
                options.limits.max_iterations =
                    value.parse().map_err(|_| needs("a whole number"))?;
            }
            "tolerance" => {
                options.limits.tolerance =
                    measure(value).ok_or_else(|| needs("a number, zero or more"))?;
            }
            "yaml" => {
                options.yaml = match value {
                    "none" => YamlTarget::Nowhere,
                    file => YamlTarget::File(PathBuf::from(file)),
                };
            }
            "progress" => {
                options.progress = match value {
                    "always" => Progress::Always,
                    "never" => Progress::Never,
                    "auto" => Progress::WhenWatched,
                    _ => return Err(needs("always, never or auto")),
                };
            }
            _ if NAMES.contains(&name) => options.faults.set(name, value, &PHASES)?,
            _ => {}
        }
        Ok(())
    }

    fn finished(mut self) -> Options {
        let [nx, ny, nz] = self.elements;
        let nx = nx.unwrap_or(self.options.elements[0]);
        let ny = ny.unwrap_or(nx);
        self.options.elements = [nx, ny, nz.unwrap_or(ny)];
        self.options
    }
}

fn is_known(name: &str) -> bool {
    let known = [&KNOWN[..], &NAMES, &IGNORED, &["progress"]];
    known.iter().any(|names| names.contains(&name))
}

fn measure(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests;
