//! A job: everything that a run of the whole library depends on, drawn from one seed.
//!
//! Its first rounds run in a storm, in which processes and nodes die; from `calm_from` on nobody
//! dies any more, the last rounds are made, and everything must complete.

use std::{ops::RangeInclusive, time::Duration};

use fampi::{
    protocol::exchange::Shape,
    sim::{Crash, Draw, Report, Simulation},
};

use super::{
    checks::{self, Log, Tally},
    rounds,
};

/// How the job answers deaths.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    Rebuild,
    Merge,
    Shrink,
}

/// What all ranks do in one round.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    Nothing,
    Ring,
    LongRing,
    Sum,
    FanIn,
    /// One rank votes no, the first time.
    Vote,
    /// Local blocks in a global one.
    Nested,
    /// A global block on a part of the world in one of the world.
    Row,
    /// Several blocks at a time.
    Outstanding,
    /// One rank forgets to send, the first time.
    Late,
    Collectives,
    /// Windows of each other.
    Accesses,
}

impl Work {
    /// Every kind of round, and its name.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::Nothing, "nothing"),
        (Self::Ring, "ring"),
        (Self::LongRing, "long-ring"),
        (Self::Sum, "sum"),
        (Self::FanIn, "fan-in"),
        (Self::Vote, "vote"),
        (Self::Nested, "nested"),
        (Self::Row, "row"),
        (Self::Outstanding, "outstanding"),
        (Self::Late, "late"),
        (Self::Collectives, "collectives"),
        (Self::Accesses, "accesses"),
    ];
}

/// Everything about a job but its programs. Times are in microseconds of virtual time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Job {
    pub seed: u64,
    pub ranks: u32,
    pub spares: u32,
    pub answer: Answer,
    /// The rounds, of which the last `calm` ones come after the storm.
    pub work: Vec<Work>,
    pub calm: usize,
    pub calm_from: u64,
    pub crashes: Vec<Crash>,
    pub detection: [u64; 2],
    pub latency: [u64; 2],
    /// Ranks that exchange votes in the first round, and in later ones.
    pub exchange: [u32; 2],
    /// How often a process polls in vain before it falls idle.
    pub patience: u32,
    /// How long a process that was spawned takes to run.
    pub spawn: [u64; 2],
    /// Replacements can be spawned; otherwise they are spares.
    pub spawns: bool,
    /// A rank of the launch that computes for so long in every round.
    pub slow: Option<(u32, u64)>,
    /// Local blocks inside each other in a nested round.
    pub depth: u64,
    /// Blocks at a time in an outstanding round.
    pub outstanding: u64,
    /// There is a communicator of every other rank.
    pub rows: bool,
}

/// How long after the storm a job may take, in virtual time, until it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// What jobs have when nobody says how many ranks.
pub const RANKS: RangeInclusive<u32> = 2..=16;

impl Job {
    pub fn drawn_from(seed: u64, ranks: &RangeInclusive<u32>) -> Self {
        let mut draw = Draw(seed);
        let more = u64::from(ranks.end() - ranks.start()) + 1;
        let ranks = ranks.start() + draw.below(more).min(draw.below(more)) as u32;
        let spares = if draw.one_in(3) { 1 + draw.below(2) as u32 } else { 0 };
        let answer = match draw.below(6) {
            0 => Answer::Shrink,
            1 => Answer::Merge,
            _ => Answer::Rebuild,
        };
        let calm = 1;
        let rounds = 1 + draw.below(5) as usize + calm;
        let kinds = Work::ALL.len() as u64;
        let work = (0..rounds).map(|_| Work::ALL[draw.below(kinds) as usize].0).collect();
        let calm_from = draw.one_of(&[2_000, 5_000, 40_000]);
        let job = Self {
            seed,
            ranks,
            spares,
            answer,
            work,
            calm,
            calm_from,
            crashes: deaths(&mut draw, ranks, spares, calm_from),
            detection: [draw.below(200), 200 + draw.below(600)],
            latency: [1 + draw.below(3), 4 + draw.below(40)],
            spawn: [1_000, draw.one_of(&[2_000, 20_000])],
            slow: draw.one_in(6).then(|| (draw.below(u64::from(ranks)) as u32, draw.below(2_000))),
            depth: 1 + draw.below(3),
            outstanding: 2 + draw.below(3),
            rows: draw.one_in(3),
            exchange: [draw.one_of(&[2, 4, 8]), draw.one_of(&[2, 4])].map(|width| width as u32),
            patience: draw.one_of(&[1, 4, 32]) as u32,
            spawns: !draw.one_in(6),
        };
        job.with_a_death_on_entering()
    }

    /// In some jobs a spare, or a process that was spawned, dies while it enters the world, and the
    /// others learn of it at once: before all of them have confirmed that they have the new
    /// universe, or between two of its steps.
    fn with_a_death_on_entering(mut self) -> Self {
        let mut draw = Draw(self.seed ^ 0x656e_7465_7269_6e67);
        if self.answer != Answer::Shrink && !self.crashes.is_empty() && draw.one_in(4) {
            let entering = self.ranks + draw.below(u64::from(self.spares) + 3) as u32;
            self.crashes.push(Crash::before_effect(entering, 1 + draw.below(32)));
            self.detection = [0, 1 + draw.below(60)];
        }
        self
    }

    fn simulation(&self) -> Simulation {
        let micros =
            |range: [u64; 2]| Duration::from_micros(range[0])..=Duration::from_micros(range[1]);
        let calm_from = Duration::from_micros(self.calm_from);
        Simulation::new(self.ranks)
            .seed(self.seed)
            .spares(self.spares)
            .detection(micros(self.detection))
            .latency(micros(self.latency))
            .exchange(Shape::new(self.exchange[0], self.exchange[1]))
            .patience(self.patience)
            .spawn_time(micros(self.spawn))
            .spawns(self.spawns)
            .crashes(self.crashes.iter().copied())
            .calm_from(calm_from)
            .time_limit(calm_from + PATIENCE)
    }

    /// What happened, if nothing was wrong.
    pub fn run(&self) -> Result<Tally, String> {
        checks::check(self, &self.report(false))
    }

    /// The whole story, with a transcript if it is to be told.
    pub fn report(&self, told: bool) -> Report<Log> {
        let job = self.clone();
        self.simulation().trace(told).run_world(move |world| rounds::run(world, &job))
    }

    pub fn fingerprint(&self) -> u64 {
        let report = self.report(false);
        let logs: Vec<&Log> = report.results().collect();
        report.fingerprint ^ logs.iter().map(|log| log.entries.len() as u64).sum::<u64>()
    }
}

/// Who dies: single processes, some of them spawned to replace others, and whole nodes.
fn deaths(draw: &mut Draw, ranks: u32, spares: u32, calm_from: u64) -> Vec<Crash> {
    let deaths = draw.below(4).min(u64::from(ranks) - 1);
    let mut crashes = Vec::new();
    // Not before the job has begun: nobody could answer.
    let moment = |draw: &mut Draw| Duration::from_micros(200 + draw.below(calm_from.min(3_200)));
    for _ in 0..deaths {
        let process = draw.below(u64::from(ranks + spares + 2)) as u32;
        crashes.push(if draw.one_in(3) {
            Crash::at_time(process, moment(draw))
        } else {
            Crash::before_effect(process, 4 + draw.below(160))
        });
    }
    if draw.one_in(6) {
        let per_node = 2 + draw.below(3) as u32;
        let node = draw.below(u64::from(ranks.div_ceil(per_node))) as u32;
        let at = moment(draw);
        let processes = node * per_node..((node + 1) * per_node).min(ranks);
        // Somebody has to be left.
        if processes.len() < ranks as usize {
            crashes.extend(processes.map(|process| Crash::at_time(process, at)));
        }
    }
    crashes
}
