//! A virtual world behind [`Platform`](crate::seam::platform::Platform): many processes in one,
//! with deaths on order, in virtual time, every run the same for the same seed.
//!
//! ```text
//!     program(p0)  program(p1)  program(p2)      a stack each, exactly one running
//!    ─────┬────────────┬────────────┬─────
//!     SimPlatform  SimPlatform  SimPlatform      calls cost a little virtual time
//!         └────────────┼────────────┘
//!                      ▼
//!        ┌───────────────────────────┐           frames      ── latency ──▶ inbox
//!        │ World: clock, event queue │           data        ── latency ──▶ matching
//!        │ chance from one seed      │           death       ── detection ▶ every survivor
//!        └───────────────────────────┘           idle, call  ──────────────▶ who runs next
//! ```
//!
//! **Guarantees**: nothing but the seed and the programs decides what happens (no clock, no
//! thread timing, no hash order). A run ends: at the latest at the limit of virtual time, or when
//! nothing can happen any more, all processes are stopped and the report says what each waited
//! for.
//!
//! **Assumes**: programs are deterministic themselves and wait only by calls of the platform; a
//! loop without a call hangs. Computation costs no virtual time unless
//! [`compute`] says so.
//!
//! As in Open MPI, an operation of all ranks that a death or a retirement has ended may fail with
//! an error class that does not say so.
//!
//! Deaths cut anywhere: at a time, or right before the k-th effect of a process (a frame sent, an
//! operation posted, a collective call entered or left, contexts retired, the end). A program
//! that runs once without crashes tells in [`ProcessReport::effects`] how many cuts there are.
//!
//! Reference: the method is that of `FoundationDB` (Zhou et al., SIGMOD 2021, §4).

#![forbid(unsafe_code)]

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::Duration,
};

mod baton;
mod carrier;
mod disk;
mod draw;
mod guest;
mod here;
mod platform;
mod report;
#[cfg(test)]
mod tests;
mod world;

pub use disk::Disk;
pub use draw::Draw;
pub use here::{compute, compute_until, crash, note, process};
#[doc(hidden)]
pub use platform::SimPlatform;
pub use report::{Ending, ProcessReport, Report};
pub use world::Counters;

use crate::{
    fault::Cause,
    protocol::{
        exchange::Shape,
        membership::evidence::{Opinion, Tested},
        pages,
    },
};
use baton::{FAILED, Shared};
use world::{Pid, Time, World};

/// When a process dies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CrashPoint {
    /// At this moment of virtual time.
    Time(Duration),
    /// Right before its effect of this number; the first is 1.
    Effect(u64),
}

/// A death on order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Crash {
    /// Launch position; spawned processes are numbered onwards in the order of their spawn.
    pub process: u32,
    /// When.
    pub at: CrashPoint,
}

impl Crash {
    /// The process dies at this moment of virtual time.
    pub const fn at_time(process: u32, time: Duration) -> Self {
        Self { process, at: CrashPoint::Time(time) }
    }

    /// The process dies right before this effect; the first is 1.
    pub const fn before_effect(process: u32, effect: u64) -> Self {
        Self { process, at: CrashPoint::Effect(effect) }
    }
}

/// What an observer has counted of a process by a moment of virtual time, given the seed, the
/// number of the process, and the moment; counts of failures never fall.
pub type Tests = fn(u64, u32, Duration) -> Tested;

/// What the observer of a node has counted of that of another by a moment of virtual time, given
/// the seed, the numbers of the two nodes, and the moment; counts of failures never fall.
pub type NodeTests = fn(u64, (u32, u32), Duration) -> Opinion;

/// How a process has died, as an observer can say at a moment of virtual time, given the seed, the
/// number of the observer, that of the dead process, and the moment; `None` while it may still come
/// to know.
pub type Causes = fn(u64, u32, u32, Duration) -> Option<Cause>;

/// What to simulate. All ranges are drawn from with the seed, evenly.
#[derive(Clone, Debug)]
pub struct Simulation {
    seed: u64,
    ranks: u32,
    spares: u32,
    latency: RangeInclusive<Time>,
    detection: RangeInclusive<Time>,
    spawn_time: RangeInclusive<Time>,
    spawns: bool,
    call_cost: Time,
    exchange: Shape,
    nodes: Vec<u32>,
    patience: u32,
    page_bytes: usize,
    tests: Option<Tests>,
    node_tests: Option<NodeTests>,
    causes: Option<Causes>,
    crashes: Vec<Crash>,
    calm_from: Time,
    time_limit: Time,
    trace: bool,
}

impl Simulation {
    fn node_of(&self, process: usize) -> u32 {
        let nodes = &self.nodes;
        if nodes.is_empty() { 0 } else { nodes[process % nodes.len()] }
    }

    fn tested(&self, process: usize, now: Duration) -> Option<Tested> {
        let tested = self.tests?(self.seed, process as u32, now);
        let nodes = self.nodes.iter().max().map_or(1, |most| most + 1);
        Some(Tested { node: (self.node_of(process), nodes), ..tested })
    }

    fn tested_node(&self, process: usize, node: u32, now: Duration) -> Opinion {
        let both = (self.node_of(process), node);
        self.node_tests.map_or_else(Opinion::default, |tested| tested(self.seed, both, now))
    }
}

impl Simulation {
    /// This many ranks, seed 0, no spares, no crash: messages take 1 to 20 µs, a death is known
    /// after 50 to 500 µs, a spawn takes 5 to 20 ms, a call 50 ns, and a minute is the limit.
    pub fn new(ranks: u32) -> Self {
        Self {
            seed: 0,
            ranks,
            spares: 0,
            latency: 1_000..=20_000,
            detection: 50_000..=500_000,
            spawn_time: 5_000_000..=20_000_000,
            spawns: true,
            call_cost: 50,
            exchange: Shape::WIDE,
            nodes: Vec::new(),
            patience: 32,
            page_bytes: pages::BYTES,
            tests: None,
            node_tests: None,
            causes: None,
            crashes: Vec::new(),
            calm_from: Time::MAX,
            time_limit: 60_000_000_000,
            trace: false,
        }
    }

    /// Where all chance comes from.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Launches this many parked spares behind the ranks.
    #[must_use]
    pub fn spares(mut self, spares: u32) -> Self {
        self.spares = spares;
        self
    }

    /// How long messages and the ends of collective calls take.
    #[must_use]
    pub fn latency(mut self, range: RangeInclusive<Duration>) -> Self {
        self.latency = nanoseconds(&range);
        self
    }

    /// How long it takes until a survivor learns of a death.
    #[must_use]
    pub fn detection(mut self, range: RangeInclusive<Duration>) -> Self {
        self.detection = nanoseconds(&range);
        self
    }

    /// How long it takes until a spawned process runs.
    #[must_use]
    pub fn spawn_time(mut self, range: RangeInclusive<Duration>) -> Self {
        self.spawn_time = nanoseconds(&range);
        self
    }

    /// Replacements may be spawned; otherwise they are spares, as in a world of `init_from`.
    #[must_use]
    pub fn spawns(mut self, spawns: bool) -> Self {
        self.spawns = spawns;
        self
    }

    /// How long a call of the platform takes; at least a nanosecond.
    #[must_use]
    pub fn call_cost(mut self, cost: Duration) -> Self {
        self.call_cost = (cost.as_nanos() as Time).max(1);
        self
    }

    /// How wide the rounds are in which votes are exchanged.
    #[must_use]
    pub fn exchange(mut self, shape: Shape) -> Self {
        self.exchange = shape;
        self
    }

    /// The nodes of the processes: numbers of any kind, equal for processes that share memory.
    /// Where there are more processes than numbers, the others are placed as the first were.
    #[must_use]
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = u32>) -> Self {
        self.nodes = nodes.into_iter().collect();
        self
    }

    /// How often a process that waits polls in vain before it falls idle, until something happens
    /// to it. A busy process is nearer to real ranks, an idle one costs less.
    #[must_use]
    pub fn patience(mut self, polls: u32) -> Self {
        self.patience = polls;
        self
    }

    /// The size of the pages by which states are compared with their last valid copies; 4 KiB
    /// without it. A state of at least 16 pages is sent as what has changed in it.
    #[must_use]
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// There are observers that test who is slow, and this is what they find.
    #[must_use]
    pub fn tests(mut self, tests: Tests) -> Self {
        self.tests = Some(tests);
        self
    }

    /// Observers test each other, too, and this is what they find. The nodes are those of
    /// [`Self::nodes`], numbered from 0 without gaps.
    #[must_use]
    pub fn node_tests(mut self, tests: NodeTests) -> Self {
        self.node_tests = Some(tests);
        self
    }

    /// How processes die, and who comes to know it. Without it nobody ever does.
    #[must_use]
    pub fn causes(mut self, causes: Causes) -> Self {
        self.causes = Some(causes);
        self
    }

    /// One more death.
    #[must_use]
    pub fn crash(mut self, crash: Crash) -> Self {
        self.crashes.push(crash);
        self
    }

    /// More deaths.
    #[must_use]
    pub fn crashes(mut self, crashes: impl IntoIterator<Item = Crash>) -> Self {
        self.crashes.extend(crashes);
        self
    }

    /// From this moment of virtual time on no process dies any more, whatever was ordered.
    #[must_use]
    pub fn calm_from(mut self, moment: Duration) -> Self {
        self.calm_from = moment.as_nanos() as Time;
        self
    }

    /// When the simulation is stopped, in virtual time.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit.as_nanos() as Time;
        self
    }

    /// Keeps a transcript.
    #[must_use]
    pub fn trace(mut self, keep: bool) -> Self {
        self.trace = keep;
        self
    }

    /// Runs the program on every process, launched or spawned, until all have ended.
    ///
    /// # Panics
    ///
    /// When the simulator itself is wrong. Panics of the program are in the report.
    pub fn run<R: Send + 'static>(
        self,
        program: impl Fn(SimPlatform) -> R + Send + Sync + 'static,
    ) -> Report<R> {
        let results = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&results);
        let report = self.run_each(Box::new(move |platform, process| {
            let result = program(platform);
            keep.lock().expect("nobody panics here").push((process, result));
        }));
        let mut results = results.lock().expect("nobody panics here");
        report.with_results(&mut results)
    }

    /// What is compiled once, and not for each program: a report with the numbers of the processes
    /// in the place of what they returned.
    fn run_each(self, program: Box<dyn Fn(SimPlatform, Pid) + Send + Sync>) -> Report<Pid> {
        let shared = Shared::new(
            World::new(self),
            Box::new(move |shared, process| {
                SimPlatform::new(Arc::clone(shared), process).begin();
                program(SimPlatform::new(Arc::clone(shared), process), process);
            }),
        );
        shared.run();
        let mut world = shared.lock().unwrap_or_else(|_| panic!("{FAILED}"));
        Report::of_world(&mut world)
    }
}

fn nanoseconds(range: &RangeInclusive<Duration>) -> RangeInclusive<Time> {
    range.start().as_nanos() as Time..=range.end().as_nanos() as Time
}
