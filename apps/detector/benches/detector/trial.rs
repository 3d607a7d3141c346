//! One failure, or none, in one world: what it took until all who live knew.

use std::{sync::Arc, time::Duration};

use fampi_detector::protocol::{Cause, Incarnation, Process, Rank, Timing, layout::Layout};
use fampi_kit::observers::{
    ring::Ring,
    stations::{Conditions, Station, Told, World},
};
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

use crate::swim::Swim;

/// Processes on each node.
pub(crate) const PROCESSES: u32 = 4;

/// The protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Detector {
    Ring,
    Swim,
}

impl Detector {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Swim => "swim",
        }
    }
}

/// What fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    /// Nothing, for so many periods.
    None(u32),
    /// So many nodes at once, one after the other in the ring.
    Contiguous(u32),
    /// So many nodes at once, anywhere.
    Random(u32),
    /// A process of a node that goes on.
    Process,
}

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) detector: Detector,
    pub(crate) nodes: u32,
    pub(crate) period: Duration,
    pub(crate) failure: Failure,
    pub(crate) conditions: Conditions,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// From the failure until somebody knew; of several nodes, of the one that took longest.
    pub(crate) detection: Duration,
    /// From the failure until all who live knew of all; `None` when that took too long.
    pub(crate) all_know: Option<Duration>,
    /// Packets of a node in one period in which nothing fails.
    pub(crate) calm: f64,
    /// Packets of a node from the first report until all knew.
    pub(crate) news: f64,
    /// How many living nodes somebody declared dead.
    pub(crate) false_reports: u32,
}

/// Periods before the failure, after which every node has been heard of.
const WARM_UP: u32 = 4;
/// Periods after which nobody waits any more.
const PATIENCE: u32 = 400;

impl Trial {
    pub(crate) fn run(&self) -> Outcome {
        match self.detector {
            Detector::Ring => {
                let timing = Timing::with_period(self.period);
                let layout = Arc::new(Layout::regular(self.nodes, PROCESSES));
                let stations = (0..self.nodes).map(|it| Ring::new(it, timing, &layout)).collect();
                let end = |world: &mut World<Ring>, rank: u32| {
                    let process = Process { rank: Rank(rank), incarnation: Incarnation(0) };
                    world.turn(rank / PROCESSES, |station, out| {
                        let signal = Cause::Signal(9);
                        station.turn(out, |it, effects| it.handle_exit(process, signal, effects));
                    });
                };
                self.in_world(stations, end)
            }
            Detector::Swim => {
                let seed = |node: u32| self.seed << 20 | u64::from(node);
                let swim = |node| Swim::new(node, self.nodes, self.period, seed(node));
                self.in_world((0..self.nodes).map(swim).collect(), |_, _| {})
            }
        }
    }

    fn in_world<S: Station>(
        &self,
        stations: Vec<S>,
        end: impl FnOnce(&mut World<S>, u32),
    ) -> Outcome {
        let subjects = self.nodes * (1 + PROCESSES);
        let mut world = World::new(stations, subjects, self.conditions, self.period, self.seed);
        let mut random = SmallRng::seed_from_u64(self.seed ^ 0xfa11);
        let warm = self.period * WARM_UP;
        world.run(warm, |_| false);
        let before = world.messages;
        let calm_periods = if let Failure::None(periods) = self.failure { periods } else { 1 };
        world.run(warm + self.period * calm_periods, |_| false);
        let sent = (world.messages - before) as f64;
        let calm = sent / f64::from(self.nodes) / f64::from(calm_periods);
        let failing = self.failing(&mut random);
        let false_reports = |world: &World<S>| {
            let told = world.told.iter().enumerate().filter(|(_, told)| told.by > 0);
            told.filter(|(subject, _)| !failing.contains(&(*subject as u32))).count() as u32
        };
        if failing.is_empty() {
            return Outcome { calm, false_reports: false_reports(&world), ..Outcome::default() };
        }
        let at = world.now + self.period.mul_f64(random.random());
        world.run(at, |_| false);
        let mut end = Some(end);
        for subject in &failing {
            match subject.checked_sub(self.nodes) {
                Some(rank) => end.take().into_iter().for_each(|end| end(&mut world, rank)),
                None => world.kill(*subject, at),
            }
        }
        let dead_nodes = failing.iter().filter(|subject| **subject < self.nodes).count() as u32;
        let living = self.nodes - dead_nodes;
        let mut begun = None;
        let known = world.run(at + self.period * PATIENCE, |world| {
            let told = |subject: &u32| world.told[*subject as usize].by;
            if begun.is_none() && failing.iter().any(|it| told(it) > 0) {
                begun = Some(world.messages);
            }
            failing.iter().all(|it| told(it) >= living)
        });
        let news = (world.messages - begun.unwrap_or(world.messages)) as f64;
        let of_all = |time: fn(&Told) -> Duration| {
            failing.iter().map(|it| time(&world.told[*it as usize])).max().unwrap_or_default()
        };
        Outcome {
            detection: of_all(|told| told.first).saturating_sub(at),
            all_know: known.then(|| of_all(|told| told.last).saturating_sub(at)),
            calm,
            news: news / f64::from(self.nodes),
            false_reports: false_reports(&world),
        }
    }

    /// The numbers of what fails; processes come after the nodes.
    fn failing(&self, random: &mut SmallRng) -> Vec<u32> {
        let first = random.random_range(0..self.nodes);
        match self.failure {
            Failure::None(_) => Vec::new(),
            Failure::Process => vec![self.nodes + first * PROCESSES],
            Failure::Contiguous(count) => {
                (0..count.min(self.nodes - 1)).map(|it| (first + it) % self.nodes).collect()
            }
            Failure::Random(count) => {
                let mut nodes = vec![first];
                while nodes.len() < count.min(self.nodes - 1) as usize {
                    let node = random.random_range(0..self.nodes);
                    if !nodes.contains(&node) {
                        nodes.push(node);
                    }
                }
                nodes
            }
        }
    }
}
