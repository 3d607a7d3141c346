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
//! **Assumes** that between its start and its death a process is seen once: the looks are half a
//! millisecond apart. One of another node is not seen; it, and those who wait for it, end at the
//! watchdog's limits.

use std::{
    ffi::CString,
    fs, str,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use super::exit;
use crate::mpi::{
    deaths::pidfd,
    node::process::{Process, children, describe, is_living_child, node},
    this_mpi::{launch_census, spawn_lookup::Spawning},
};

/// Between two looks.
const PERIOD: Duration = Duration::from_micros(500);
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
    one_is_dead: bool,
}

/// Runs `start`, which starts processes and links them to this one. Returns, too, those of this
/// node; nothing when one of them has died meanwhile.
pub(super) fn watched<T>(
    spawning: &Spawning,
    start: impl FnOnce() -> T,
) -> (T, Option<Vec<Process>>) {
    let Some(mut newcomers) = Newcomers::of(spawning) else { return (start(), Some(Vec::new())) };
    let over = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let thread = thread::Builder::new().name("fampi-newcomers".into()).stack_size(128 << 10);
        let watch = thread.spawn_scoped(scope, || newcomers.watch(&over));
        if let Err(error) = &watch {
            tracing::warn!(%error, "deaths of new processes are not seen");
        }
        let made = start();
        over.store(true, Relaxed);
        made
    });
    let living = (!newcomers.one_is_dead).then(|| newcomers.processes());
    (made, living)
}

impl<'a> Newcomers<'a> {
    fn of(spawning: &'a Spawning) -> Option<Self> {
        let launcher = launch_census::launcher()?;
        let before = children(launcher)?;
        Some(Self { spawning, launcher, before, children: Vec::new(), one_is_dead: false })
    }

    fn watch(&mut self, over: &AtomicBool) {
        exit::block_signals_of_this_thread();
        while !over.load(Relaxed) {
            self.look();
            thread::sleep(PERIOD);
        }
        self.look();
        let ended = Instant::now();
        // Those who have not begun yet are ended, too.
        while self.one_is_dead && self.has_unknown() && ended.elapsed() < BECOMES_ANOTHER {
            thread::sleep(PERIOD);
            self.look();
        }
    }

    fn has_unknown(&self) -> bool {
        self.children.iter().any(|(_, belongs)| *belongs == Belongs::Unknown)
    }

    fn look(&mut self) {
        for child in children(self.launcher).unwrap_or_default() {
            if !self.before.contains(&child) && self.children.iter().all(|(it, _)| *it != child) {
                self.children.push((child, Belongs::Unknown));
            }
        }
        let mark = self.spawning.mark();
        for (child, belongs) in &mut self.children {
            if *belongs == Belongs::Unknown {
                *belongs = belonging(*child, &mark);
            }
        }
        let launcher = self.launcher;
        let dead = self.children.extract_if(.., |(child, _)| !is_living_child(*child, launcher));
        let is_ours = |(_, belongs): (u64, Belongs)| belongs != Belongs::ToOthers;
        let now_dead = dead.filter(|child| is_ours(*child)).count() > 0;
        if now_dead && !self.one_is_dead {
            self.one_is_dead = true;
            self.spawning.give_up();
        }
        if self.one_is_dead {
            for (child, _) in self.children.iter().filter(|(_, it)| *it == Belongs::ToUs) {
                pidfd::kill(*child, || belonging(*child, &mark) == Belongs::ToUs);
            }
        }
    }

    /// Those that are ours.
    fn processes(&self) -> Vec<Process> {
        let ours = self.children.iter().filter(|(_, belongs)| *belongs == Belongs::ToUs);
        ours.filter_map(|(child, _)| self.describe(*child)).collect()
    }

    fn describe(&self, pid: u64) -> Option<Process> {
        let (node, started) = (node()?, describe(pid)?);
        let environment = environment(pid);
        let job = CString::new(value(&environment, launch_census::JOB)?).ok()?;
        let rank = str::from_utf8(value(&environment, launch_census::RANK)?).ok()?.parse().ok()?;
        let name = self.spawning.name(&job, rank)?.0;
        Some(Process { node, pid, started, name })
    }
}

fn environment(pid: u64) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

fn entries(environment: &[u8]) -> impl Iterator<Item = &[u8]> {
    environment.split(|byte| *byte == 0)
}

fn value<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    entries(environment).find_map(|it| it.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

fn belonging(pid: u64, mark: &[u8]) -> Belongs {
    let environment = environment(pid);
    if entries(&environment).any(|entry| entry == mark) {
        Belongs::ToUs
    } else if value(&environment, launch_census::RANK).is_some() {
        Belongs::ToOthers
    } else {
        Belongs::Unknown
    }
}
