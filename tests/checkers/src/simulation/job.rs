//! A job: everything that a run of the whole library depends on, drawn from one seed.
//!
//! Its first rounds run in a storm, in which processes and nodes die; from `calm_from` on nobody
//! dies any more, the last rounds are made, and everything must complete.

use std::{ops::RangeInclusive, time::Duration};

use fampi::{
    CommId,
    sim::{Crash, Draw},
};

use super::{oracle::End, setting::Setting};

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
    /// Small collectives that ride on the commit.
    Riders,
}

impl Work {
    /// Every kind of round, and its name.
    pub const ALL: [(Self, &'static str); 13] = [
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
        (Self::Riders, "riders"),
    ];
}

/// A setting, and rounds in it. Times are in microseconds of virtual time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Job {
    pub setting: Setting,
    pub answer: Answer,
    /// The rounds, of which the last `calm` ones come after the storm.
    pub work: Vec<Work>,
    pub calm: usize,
    /// A rank of the launch that computes for so long in every round.
    pub slow: Option<(u32, u64)>,
    /// Local blocks inside each other in a nested round.
    pub depth: u64,
    /// Blocks at a time in an outstanding round.
    pub outstanding: u64,
    /// There is a communicator of every other rank.
    pub rows: bool,
}

/// A block: its communicator, and its number there by order of start.
pub type Name = (CommId, u64);

/// What one process saw.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub ends: Vec<(Name, End)>,
    /// A receive, a sum or a state that was not what it must be.
    pub wrong: Option<String>,
    pub gave_up: Option<fampi::Error>,
    pub recoveries: u64,
    pub replacement: bool,
    pub rounds_done: u64,
}

/// What jobs have when nobody says how many ranks.
pub const RANKS: RangeInclusive<u32> = 2..=16;

impl Job {
    /// The job of a seed on so many ranks.
    pub fn drawn_among(seed: u64, ranks: &RangeInclusive<u32>) -> Self {
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
        let work = (0..rounds).map(|_| draw.one_of(&Work::ALL).0).collect();
        let calm_from = draw.one_of(&[2_000, 5_000, 40_000]);
        let crashes = deaths(&mut draw, ranks, spares, calm_from);
        let detection = [draw.below(200), 200 + draw.below(600)];
        let latency = [1 + draw.below(3), 4 + draw.below(40)];
        let spawn = [1_000, draw.one_of(&[2_000, 20_000])];
        let slow = draw.one_in(6).then(|| (draw.below(u64::from(ranks)) as u32, draw.below(2_000)));
        let (depth, outstanding) = (1 + draw.below(3), 2 + draw.below(3));
        let rows = draw.one_in(3);
        let exchange = [draw.one_of(&[2, 4, 8]), draw.one_of(&[2, 4])];
        let (patience, spawns) = (draw.one_of(&[1, 4, 32]), !draw.one_in(6));
        let setting = Setting {
            seed,
            ranks,
            spares,
            crashes,
            calm_from,
            detection,
            latency,
            exchange,
            patience,
            patient: seed % 3 == 2,
            nodes: Setting::nodes_of(seed),
            spawn,
            spawns,
        };
        let job = Self { setting, answer, work, calm, slow, depth, outstanding, rows };
        job.with_a_death_on_entering()
    }

    /// In some jobs a spare, or a process that was spawned, dies while it enters the world, and the
    /// others learn of it at once: before all of them have confirmed that they have the new
    /// universe, or between two of its steps.
    fn with_a_death_on_entering(mut self) -> Self {
        let setting = &mut self.setting;
        let mut draw = Draw(setting.seed ^ 0x656e_7465_7269_6e67);
        if self.answer != Answer::Shrink && !setting.crashes.is_empty() && draw.one_in(4) {
            let entering = setting.ranks + draw.below(u64::from(setting.spares) + 3) as u32;
            setting.crashes.push(Crash::before_effect(entering, 1 + draw.below(32)));
            setting.detection = [0, 1 + draw.below(60)];
        }
        self
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
