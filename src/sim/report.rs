//! What a simulation tells afterwards.

use std::{fmt, time::Duration};

use super::world::{Counters, Pid, World, process::End};
use crate::seam::platform::Origin;

/// How a process ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ending<R> {
    /// Its program returned this.
    Finished(R),
    /// It was crashed on purpose.
    Crashed,
    /// It called [`quit`](crate::seam::platform::Platform::quit).
    Exited,
    /// Its program panicked with this message; the others saw it die.
    Panicked(String),
    /// It waited for something that could never happen, or for too long; this is what for.
    Stuck(String),
}

impl<R> Ending<R> {
    /// What the program returned, if it did.
    pub fn finished(&self) -> Option<&R> {
        match self {
            Self::Finished(result) => Some(result),
            _ => None,
        }
    }
}

impl<R> fmt::Display for Ending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (how, why) = match self {
            Self::Finished(_) => ("finished", ""),
            Self::Crashed => ("crashed", ""),
            Self::Exited => ("exited", ""),
            Self::Panicked(message) => ("panicked: ", &**message),
            Self::Stuck(what) => ("stuck: ", &**what),
        };
        f.write_str(how)?;
        f.write_str(why)
    }
}

/// One process of a simulation.
#[derive(Clone, Debug)]
pub struct ProcessReport<R> {
    /// How it ended.
    pub ending: Ending<R>,
    /// True when it was spawned as a replacement.
    pub spawned: bool,
    /// How many effects it had: `Crash::before_effect` can cut before each of them.
    pub effects: u64,
    /// True when it finalized its platform.
    pub finalized: bool,
    /// Operations neither taken nor given up when it finalized or finished.
    pub open_posts: usize,
    /// Buffers given up and not yet let go of when it finalized or finished.
    pub quarantined_buffers: usize,
}

/// The outcome of a simulation. Its `Display` is a summary and, if kept, the transcript.
#[derive(Clone, Debug)]
pub struct Report<R> {
    /// What all chance came from.
    pub seed: u64,
    /// All processes: launched ones in order, then spawned ones.
    pub processes: Vec<ProcessReport<R>>,
    /// Virtual time at the end.
    pub end: Duration,
    /// What was counted.
    pub counters: Counters,
    /// Equal for two runs exactly when the same things happened at the same times.
    pub fingerprint: u64,
    /// One line per event in the order of virtual time, if [`Simulation::trace`] was asked for.
    ///
    /// [`Simulation::trace`]: super::Simulation::trace
    pub trace: Vec<String>,
}

impl Report<Pid> {
    /// A report with the numbers of the processes in the place of what they returned.
    pub(super) fn of_world(world: &mut World) -> Self {
        let mut trace = world.trace.take().unwrap_or_default();
        trace.sort_by_key(|(time, _)| *time);
        let line = |(time, line): (u64, String)| {
            format!("{:>12.3} µs  {line}", Duration::from_nanos(time).as_secs_f64() * 1e6)
        };
        let processes = world.processes.iter().enumerate().map(|(pid, process)| ProcessReport {
            ending: match process.end.clone().expect("everybody has ended") {
                End::Finished => Ending::Finished(pid),
                End::Crashed => Ending::Crashed,
                End::Exited => Ending::Exited,
                End::Panicked(message) => Ending::Panicked(message),
                End::Stuck(what) => Ending::Stuck(what),
            },
            spawned: process.origin == Origin::Spawned,
            effects: process.effects,
            finalized: process.finalized,
            open_posts: process.open_posts,
            quarantined_buffers: process.quarantined,
        });
        Self {
            seed: world.settings.seed,
            processes: processes.collect(),
            end: Duration::from_nanos(world.clock),
            counters: world.counters,
            fingerprint: world.fingerprint,
            trace: trace.into_iter().map(line).collect(),
        }
    }

    /// The report with what each process returned.
    pub(super) fn with_results<R>(self, results: &mut Vec<(Pid, R)>) -> Report<R> {
        let Self { seed, end, counters, fingerprint, trace, .. } = self;
        let mut processes = Vec::with_capacity(self.processes.len());
        for process in self.processes {
            let ending = match process.ending {
                Ending::Finished(pid) => {
                    let at = results.iter().position(|(known, _)| *known == pid);
                    Ending::Finished(results.swap_remove(at.expect("it returned")).1)
                }
                Ending::Crashed => Ending::Crashed,
                Ending::Exited => Ending::Exited,
                Ending::Panicked(message) => Ending::Panicked(message),
                Ending::Stuck(what) => Ending::Stuck(what),
            };
            let ProcessReport { spawned, effects, finalized, .. } = process;
            let (open_posts, quarantined_buffers) =
                (process.open_posts, process.quarantined_buffers);
            processes.push(ProcessReport {
                ending,
                spawned,
                effects,
                finalized,
                open_posts,
                quarantined_buffers,
            });
        }
        Report { seed, processes, end, counters, fingerprint, trace }
    }
}

impl<R> Report<R> {
    /// What the finished programs returned, in the order of the processes.
    pub fn results(&self) -> impl Iterator<Item = &R> {
        self.processes.iter().filter_map(|process| process.ending.finished())
    }

    /// What the programs returned, after making sure that no process panicked or was stuck.
    ///
    /// # Panics
    ///
    /// With the whole report when a process panicked or was stuck.
    #[track_caller]
    pub fn expect_orderly(self) -> Vec<R> {
        let disorderly = |process: &ProcessReport<R>| {
            matches!(process.ending, Ending::Panicked(_) | Ending::Stuck(_))
        };
        assert!(!self.processes.iter().any(disorderly), "{self}");
        let endings = self.processes.into_iter().map(|process| process.ending);
        endings
            .filter_map(|ending| match ending {
                Ending::Finished(result) => Some(result),
                _ => None,
            })
            .collect()
    }
}

impl<R> fmt::Display for Report<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tell_run(f, &self.trace, self.seed, self.end)?;
        for (pid, process) in self.processes.iter().enumerate() {
            writeln!(f, "p{pid} {} ({} effects)", process.ending, process.effects)?;
        }
        Ok(())
    }
}

fn tell_run(f: &mut fmt::Formatter<'_>, trace: &[String], seed: u64, end: Duration) -> fmt::Result {
    for line in trace {
        writeln!(f, "{line}")?;
    }
    writeln!(f, "seed {seed}, ended after {end:?} of virtual time")
}
