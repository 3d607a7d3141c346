//! What happens to the processes of a program, whatever it does: deaths, latencies, shapes.

use std::time::Duration;

use fampi::{
    Cause, Patience,
    protocol::exchange::Shape,
    sim::{Crash, CrashPoint, Draw, Simulation},
};

/// Everything about a run but the program. Times are in microseconds of virtual time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Setting {
    pub seed: u64,
    pub ranks: u32,
    pub spares: u32,
    pub crashes: Vec<Crash>,
    /// From when on no process dies, and everything must complete.
    pub calm_from: u64,
    pub detection: [u64; 2],
    pub latency: [u64; 2],
    /// Ranks that exchange votes in the first round, and in later ones.
    pub exchange: [u32; 2],
    /// How many nodes there are, which take turns, and how many processes each takes in its turn;
    /// 0 nodes where they are unknown.
    pub nodes: [u32; 2],
    /// How often a process polls in vain before it falls idle.
    pub patience: u32,
    /// Deaths end only what needed the dead.
    pub patient: bool,
    /// How long a process that was spawned takes to run.
    pub spawn: [u64; 2],
    /// Replacements can be spawned; otherwise they are spares.
    pub spawns: bool,
}

/// How long after the storm a program may take, in virtual time, until it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(20);

impl Setting {
    /// Four ranks, of which none dies.
    pub fn plain() -> Self {
        Self {
            seed: 0,
            ranks: 4,
            spares: 0,
            crashes: Vec::new(),
            calm_from: 5_000,
            detection: [100, 100],
            latency: [5, 5],
            exchange: [2, 2],
            nodes: [0, 1],
            patience: 32,
            patient: false,
            spawn: [2_000, 2_000],
            spawns: true,
        }
    }

    /// The nodes of a program with this seed.
    pub fn nodes_of(seed: u64) -> [u32; 2] {
        let nodes = (seed / 3 % 5) as u32;
        if nodes == 0 { Self::plain().nodes } else { [nodes, 1 + (seed / 15 % 3) as u32] }
    }

    /// What a death does to the blocks of all.
    pub fn at_a_death(&self) -> Patience {
        if self.patient { Patience::Patient } else { Patience::Prompt }
    }

    /// The setting with other latencies and shapes.
    #[must_use]
    pub fn with_drawn_times(self, draw: &mut Draw) -> Self {
        Self {
            detection: [draw.below(200), 200 + draw.below(600)],
            latency: [1 + draw.below(3), 4 + draw.below(40)],
            exchange: [draw.one_of(&[2, 4, 8]), draw.one_of(&[2, 4])],
            patience: draw.one_of(&[1, 4, 32]),
            patient: self.seed % 3 == 2,
            nodes: Self::nodes_of(self.seed),
            ..self
        }
    }

    /// The world in which a program runs, with a transcript if it is to be told.
    pub fn simulation(&self, told: bool) -> Simulation {
        let micros =
            |range: [u64; 2]| Duration::from_micros(range[0])..=Duration::from_micros(range[1]);
        let calm_from = Duration::from_micros(self.calm_from);
        Simulation::new(self.ranks)
            .seed(self.seed)
            .spares(self.spares)
            .detection(micros(self.detection))
            .latency(micros(self.latency))
            .exchange(Shape::new(self.exchange[0], self.exchange[1]))
            .nodes((0..self.nodes[0] * self.nodes[1]).map(|place| place / self.nodes[1]))
            .patience(self.patience)
            .spawn_time(micros(self.spawn))
            .spawns(self.spawns)
            .causes(cause)
            .crashes(self.crashes.iter().copied())
            .calm_from(calm_from)
            .time_limit(calm_from + PATIENCE)
            .trace(told)
    }

    /// The setting itself, or with another seed and other moments of death.
    #[must_use]
    pub fn varied(mut self, way: u64) -> Self {
        if way > 0 {
            let mut draw = Draw(way);
            self.seed = way;
            for crash in &mut self.crashes {
                if let CrashPoint::Effect(effect) = &mut crash.at {
                    *effect = 1 + draw.below(*effect);
                }
            }
        }
        self
    }

    /// Settings that lack something: a death, a rank, a delay.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut setting = self.clone();
            change(&mut setting);
            smaller.push(setting);
        };
        for at in 0..self.crashes.len() {
            add(&|it| _ = it.crashes.remove(at));
        }
        if self.ranks > 2 {
            add(&|it| it.ranks = 2);
            add(&|it| it.ranks /= 2);
            add(&|it| it.ranks -= 1);
            // Everything with all ranks moved down, so that the one that dies has still a place.
            add(&|it| {
                it.ranks -= 1;
                let processes = it.crashes.iter_mut().map(|crash| &mut crash.process);
                processes.for_each(|process| *process = process.saturating_sub(1));
            });
        }
        let plain = Self::plain();
        add(&|it| it.spares = 0);
        add(&|it| it.latency = plain.latency);
        add(&|it| it.exchange = plain.exchange);
        add(&|it| it.nodes = plain.nodes);
        add(&|it| it.patient = false);
        add(&|it| it.patience = 1);
        add(&|it| it.detection = plain.detection);
        add(&|it| it.spawn = plain.spawn);
        add(&|it| it.spawns = true);
        smaller
    }
}

/// How a process has died, as this observer knows at this moment: some know at once, some a little
/// later, some never, and some hear that they never will. In most jobs nobody waits for it.
fn cause(seed: u64, observer: u32, dead: u32, now: Duration) -> Option<Cause> {
    let how = [Cause::Killed(9), Cause::Exited(3), Cause::NodeLost][dead as usize % 3];
    match (seed % 4, (u64::from(observer) * 5 + u64::from(dead) * 3 + seed / 4) % 5) {
        (1, 0) => None,
        (1, 1) => (now.as_micros() / 700).is_multiple_of(2).then_some(how),
        (1, 2) | (2, _) => Some(how),
        (0, it) if it < 2 => Some(how),
        _ => Some(Cause::Unknown),
    }
}
