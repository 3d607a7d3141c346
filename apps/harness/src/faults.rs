//! What a command line says about faults: the same options in all applications.

use std::time::Duration;

use fampi::{Interval, Redundancy};

use crate::kill_plan::{Kill, KillPlan, Phases};
use crate::words::{self, FaultTolerance, Protect, Recovery, WordError, switch};

/// How a run meets faults, and which ones are made for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Whether the run survives failures.
    pub tolerance: FaultTolerance,
    /// Whether the reductions of an iteration ride on commits.
    pub fused: bool,
    /// How a lost rank is dealt with.
    pub recovery: Recovery,
    /// When the state is protected.
    pub protect: Protect,
    /// Where it is kept then, beside its rank.
    pub redundancy: Redundancy,
    /// The mean time between failures of the whole job.
    pub mtbf: Duration,
    /// Who dies when.
    pub kills: KillPlan,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            tolerance: FaultTolerance::On,
            fused: true,
            recovery: Recovery::Rebuild,
            protect: Protect::Auto,
            redundancy: Redundancy::Partner,
            mtbf: Interval::USUAL_MTBF,
            kills: KillPlan::default(),
        }
    }
}

/// The names of the options, in the spelling of [`crate::words::split`].
pub const NAMES: [&str; 7] =
    ["fault_tolerance", "fused", "recovery", "protect_every", "redundancy", "mtbf", "kill"];

impl Faults {
    /// Sets the option of one of the [`NAMES`], for a program with these phases.
    ///
    /// # Errors
    /// [`WordError`] if it cannot have this value.
    pub fn set(&mut self, name: &str, value: &str, phases: &Phases) -> Result<(), WordError> {
        let needs = |needs| WordError::wrong(name, value, needs);
        match name {
            "fault_tolerance" => {
                self.tolerance =
                    FaultTolerance::of(value).ok_or_else(|| needs(FaultTolerance::NEEDS))?;
            }
            "fused" => self.fused = switch(value).ok_or_else(|| needs("on or off"))?,
            "recovery" => {
                self.recovery = Recovery::of(value).ok_or_else(|| needs(Recovery::NEEDS))?;
            }
            "protect_every" => {
                self.protect = Protect::of(value).ok_or_else(|| needs(Protect::NEEDS))?;
            }
            "redundancy" => {
                self.redundancy =
                    words::redundancy(value).ok_or_else(|| needs(words::REDUNDANCY))?;
            }
            "mtbf" => {
                let seconds = value.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
                let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                let time = time.filter(|time| !time.is_zero());
                self.mtbf = time.ok_or_else(|| needs("a number of seconds above 0"))?;
            }
            _ => self.kills.add(Kill::parse(value, phases)?),
        }
        Ok(())
    }

    /// How many iterations lie between two copies.
    #[must_use]
    pub fn interval(&self) -> Interval {
        match self.protect {
            Protect::Never => Interval::Never,
            Protect::Every(iterations) => Interval::Every(iterations),
            Protect::Auto => Interval::Auto { mtbf: self.mtbf },
        }
    }

    /// Looks at the plan of deaths.
    ///
    /// # Errors
    /// [`WordError::KillBeyond`] if it kills a rank that does not exist among `ranks`.
    pub fn check_ranks(&self, ranks: usize) -> Result<(), WordError> {
        let beyond = self.kills.beyond(ranks);
        let error = |kill: Kill| WordError::KillBeyond { kill: kill.to_string(), ranks };
        beyond.map_or(Ok(()), |kill| Err(error(kill)))
    }

    /// Adds the deaths that the launcher asks for.
    ///
    /// # Errors
    /// [`WordError::Kill`]; [`WordError::KillOfPlain`] when the plain program is to die by its own
    /// options, which it cannot.
    pub fn add_kills_of_launcher(&mut self, phases: &Phases) -> Result<(), WordError> {
        if self.tolerance == FaultTolerance::Off && !self.kills.is_empty() {
            return Err(WordError::KillOfPlain);
        }
        fampi::mpi::leave_the_plan_to_the_program();
        let kills = std::env::var("FAMPI_KILL").unwrap_or_default();
        for kill in kills.split(',').filter(|kill| !kill.is_empty()) {
            self.kills.add(Kill::parse(kill, phases)?);
        }
        Ok(())
    }
}
