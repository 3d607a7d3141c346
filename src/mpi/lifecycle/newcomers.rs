//! New processes, from before they are started until MPI has linked them to this one.
//!
//! ```text
//! this thread   start ─────────── link … (waits for the first of them, in a lock of MPI)
//! a second one  children of the launcher? ─ ours ─ ours ─ one has ended ─▶ end the others, give up
//! ```
//!
//! A process that dies in its `MPI_Init` has told nobody that it exists. The launcher on this node
//! is its parent, and its environment names the port of its spawn: so it is found, and missed.
//!
//! **Guarantees.** Only processes of this spawn are ended. When one of the new processes
//! of this node has died, all of them have, and the call returns.
//!
//! One that was never seen is missed, too, once the launcher has started all: another one of this
//! node knows how many they should be.
//!
//! Those of other nodes are not seen. Our own launcher answers in their place when one of them has
//! died, so that the link fails. Under that of Open MPI the wait is bounded: all are given up
//! before the watchdog takes this process for dead.
//!
//! **Assumes** that at least one process of this node is seen once: the looks are half a
//! millisecond apart.

use std::{
    ffi::CString,
    fs, str,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crate::mpi::{
    calls::library::Checked,
    deaths::pidfd,
    node::{
        environment::stuck_limit,
        process::{Process, children, describe, is_living_child, node, value_in},
        signals,
    },
    this_mpi::{launch_census, spawn_lookup::Spawning},
};

/// Between two looks.
const PERIOD: Duration = Duration::from_micros(500);
/// How much of the watchdog's limit new processes get to start and to link. They get less for
/// their `MPI_Init` alone, so that they have ended by then.
const PATIENCE: f64 = 0.8;
/// A longer pause between two looks is one in which this process did not run.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long a child of the launcher may be the launcher's copy before it becomes a new process.
const BECOMES_ANOTHER: Duration = Duration::from_millis(200);

/// What is known of a child that the launcher has had for a short time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Belongs {
    /// It has not begun yet.
    Unknown,
    ToUs,
    ToOthers,
}

/// The new processes of one spawn.
#[derive(Debug)]
struct Newcomers<'a> {
    spawning: &'a Spawning,
    launcher: u32,
    /// Children that the launcher had before.
    before: Vec<u64>,
    children: Vec<(u64, Belongs)>,
    /// How many of them are on this node, once that is known.
    expected: Option<usize>,
    /// One of them is dead, or late.
    is_in_vain: bool,
}

/// Where a spawn is, as the thread that watches needs to know it.
#[derive(Debug, Default)]
struct Course {
    /// The launcher has started all processes.
    has_started: AtomicBool,
    is_over: AtomicBool,
}

/// Runs `start`, which has the launcher start processes, and `link`, which links them to this one.
/// Returns, too, those of this node; nothing when one of them has died meanwhile.
pub(super) fn watched<T>(
    spawning: &Spawning,
    start: impl FnOnce() -> Checked<()>,
    link: impl FnOnce() -> Checked<T>,
) -> (Checked<T>, Option<Vec<Process>>) {
    let Some(mut newcomers) = Newcomers::of(spawning) else {
        return (start().and_then(|()| link()), Some(Vec::new()));
    };
    let course = Course::default();
    let made = thread::scope(|scope| {
        let thread = thread::Builder::new().name("fampi-newcomers".into()).stack_size(128 << 10);
        let watch = thread.spawn_scoped(scope, || newcomers.watch(&course));
        if let Err(error) = &watch {
            tracing::warn!(%error, "deaths of new processes are not seen");
        }
        let made = start().and_then(|()| {
            course.has_started.store(true, Relaxed);
            link()
        });
        course.is_over.store(true, Relaxed);
        made
    });
    let processes = newcomers.processes();
    // One that has ended by now cannot be described, so that nobody would watch it.
    let living = !newcomers.is_in_vain && newcomers.all_live();
    (made, living.then_some(processes))
}

impl<'a> Newcomers<'a> {
    fn of(spawning: &'a Spawning) -> Option<Self> {
        let launcher = launch_census::launcher()?;
        let before = children(launcher)?;
        let (children, expected) = (Vec::new(), None);
        Some(Self { spawning, launcher, before, children, expected, is_in_vain: false })
    }

    fn watch(&mut self, course: &Course) {
        signals::block_signals_of_this_thread();
        let limit = stuck_limit().mul_f64(PATIENCE);
        let (mut waited, mut last) = (Duration::ZERO, Instant::now());
        while !course.is_over.load(Relaxed) {
            // Read before the look, which then sees all of them.
            let has_started = course.has_started.load(Relaxed);
            self.look(has_started);
            let passed = last.elapsed().min(LONGEST_PAUSE);
            (waited, last) = (waited + passed, Instant::now());
            if has_started && !limit.is_zero() && waited > limit {
                self.give_up("new processes are late, and given up");
            }
            thread::sleep(PERIOD);
        }
        self.look(course.has_started.load(Relaxed));
        let ended = Instant::now();
        // Those who have not begun yet are ended, too.
        while self.is_in_vain && self.has_unknown() && ended.elapsed() < BECOMES_ANOTHER {
            thread::sleep(PERIOD);
            self.look(false);
        }
    }

    fn has_unknown(&self) -> bool {
        self.children.iter().any(|(_, belongs)| *belongs == Belongs::Unknown)
    }

    /// True when fewer are here than the launcher has started.
    fn one_is_missing(&self) -> bool {
        let ours = self.children.iter().filter(|(_, belongs)| *belongs == Belongs::ToUs);
        !self.has_unknown() && self.expected.is_some_and(|expected| ours.count() < expected)
    }

    fn look(&mut self, has_started: bool) {
        for child in children(self.launcher).unwrap_or_default() {
            if !self.before.contains(&child) && self.children.iter().all(|(it, _)| *it != child) {
                self.children.push((child, Belongs::Unknown));
            }
        }
        let mark = self.spawning.mark();
        for (child, belongs) in &mut self.children {
            if *belongs == Belongs::Unknown {
                let environment = environment(*child);
                *belongs = belonging(&environment, &mark);
                if *belongs == Belongs::ToUs {
                    self.expected = launch_census::expected_in(&environment).or(self.expected);
                }
            }
        }
        let launcher = self.launcher;
        let dead = self.children.extract_if(.., |(child, _)| !is_living_child(*child, launcher));
        let is_ours = |(_, belongs): (u64, Belongs)| belongs != Belongs::ToOthers;
        let now_dead = dead.filter(|child| is_ours(*child)).count() > 0;
        if now_dead || has_started && self.one_is_missing() {
            self.give_up("a new process of this node has died");
        }
        if self.is_in_vain {
            for (child, _) in self.children.iter().filter(|(_, it)| *it == Belongs::ToUs) {
                let is_ours = || belonging(&environment(*child), &mark) == Belongs::ToUs;
                pidfd::kill(*child, is_ours);
            }
        }
    }

    /// Lets the link fail, once.
    fn give_up(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_in_vain, true) {
            tracing::debug!(why);
            self.spawning.give_up();
        }
    }

    /// True unless one of them ends: its environment is the first that it loses.
    fn all_live(&self) -> bool {
        let mut ours = self.children.iter().filter(|(_, belongs)| *belongs == Belongs::ToUs);
        ours.all(|(child, _)| !environment(*child).is_empty())
    }

    /// Those that are ours.
    fn processes(&self) -> Vec<Process> {
        let ours = self.children.iter().filter(|(_, belongs)| *belongs == Belongs::ToUs);
        ours.filter_map(|(child, _)| self.describe(*child)).collect()
    }

    fn describe(&self, pid: u64) -> Option<Process> {
        let (node, started) = (node()?, describe(pid)?);
        let environment = environment(pid);
        let job = CString::new(value_in(&environment, launch_census::JOB)?).ok()?;
        let rank = value_in(&environment, launch_census::RANK)?;
        let rank = str::from_utf8(rank).ok()?.parse().ok()?;
        let name = self.spawning.name(&job, rank)?.0;
        Some(Process { node, pid, started, name })
    }
}

fn environment(pid: u64) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

fn belonging(environment: &[u8], mark: &[u8]) -> Belongs {
    if environment.split(|byte| *byte == 0).any(|entry| entry == mark) {
        Belongs::ToUs
    } else if value_in(environment, launch_census::RANK).is_some() {
        Belongs::ToOthers
    } else {
        Belongs::Unknown
    }
}
