//! Communicators derived from each other at random, with blocks on several of them at a time.
//!
//! A job goes through seasons. In each, communicators are derived from a shrunk world, from each
//! other, and kept or not; then all ranks follow one script of starts, messages, sums, ends, waits,
//! objections, handles that a rank drops and panics that it catches, in an outer block or in none;
//! the verdict of a block of all ends the season. Who died is shrunk away. The last season is calm,
//! and everything in it must commit.

mod script;
mod walk;

use std::{collections::BTreeMap, fmt, time::Duration};

use fampi::{
    FaultReport,
    protocol::exchange::Shape,
    sim::{Crash, Draw, Ending, Report, Simulation},
};

use self::walk::Walk;

/// How long after the storm a job may take, in virtual time, until it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(20);
/// Everything that a job depends on. Times are in microseconds of virtual time.
#[derive(Clone, Debug)]
pub struct Forest {
    seed: u64,
    ranks: u32,
    seasons: u64,
    calm_from: u64,
    crashes: Vec<Crash>,
    detection: [u64; 2],
    latency: [u64; 2],
    exchange: [u32; 2],
    patience: u32,
}

/// What happened in all jobs, to see that everything did.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    committed: u64,
    faulty: u64,
    deaths: u64,
    dropped: u64,
    doomed: u64,
    panics: u64,
    failed_creations: u64,
}

/// A block of a season's script, on the communicator of this name.
type Name = (u64, usize, u64);

/// What one process saw.
#[derive(Debug, Default)]
struct Log {
    ends: BTreeMap<Name, (bool, FaultReport)>,
    wrong: Option<String>,
    seen: Seen,
}

impl Forest {
    pub fn drawn_from(seed: u64) -> Self {
        let mut draw = Draw(seed ^ 0x666f_7265);
        let ranks = 2 + draw.below(7).min(draw.below(7)) as u32;
        let calm_from = draw.one_of(&[1_000, 4_000]);
        let deaths = draw.below(3).min(u64::from(ranks) - 1);
        let crashes = (0..deaths).map(|_| {
            let process = draw.below(u64::from(ranks)) as u32;
            Crash::before_effect(process, 10 + draw.below(300))
        });
        Self {
            seed,
            ranks,
            calm_from,
            crashes: crashes.collect(),
            seasons: 1 + draw.below(5),
            detection: [draw.below(200), 200 + draw.below(600)],
            latency: [1 + draw.below(3), 4 + draw.below(40)],
            exchange: [draw.one_of(&[2, 4, 8]), draw.one_of(&[2, 4])].map(|width| width as u32),
            patience: draw.one_of(&[1, 4, 32]) as u32,
        }
    }

    pub fn run(&self, told: bool) -> Result<Seen, String> {
        let micros =
            |range: [u64; 2]| Duration::from_micros(range[0])..=Duration::from_micros(range[1]);
        let (job, calm_from) = (self.clone(), Duration::from_micros(self.calm_from));
        let report = Simulation::new(self.ranks)
            .seed(self.seed)
            .detection(micros(self.detection))
            .latency(micros(self.latency))
            .exchange(Shape::new(self.exchange[0], self.exchange[1]))
            .patience(self.patience)
            .crashes(self.crashes.iter().copied())
            .calm_from(calm_from)
            .time_limit(calm_from + PATIENCE)
            .trace(told)
            .run_world(move |world| Walk::new(&job).through(world));
        if told {
            println!("{report}");
        }
        check(&report)
    }
}

fn check(report: &Report<Log>) -> Result<Seen, String> {
    let (mut seen, mut ends) = (Seen::default(), BTreeMap::new());
    // Whoever ends with something wrong leaves the others waiting.
    let wrongs = report.results().find_map(|log| log.wrong.clone());
    if let Some(wrong) = wrongs {
        return Err(wrong);
    }
    for (process, it) in report.processes.iter().enumerate() {
        let log = match &it.ending {
            Ending::Panicked(what) => return Err(format!("process {process} panicked: {what}")),
            Ending::Stuck(what) => return Err(format!("process {process} waits in {what}")),
            Ending::Crashed | Ending::Exited => {
                seen.deaths += 1;
                continue;
            }
            Ending::Finished(log) => log,
        };
        for (name, end) in &log.ends {
            let (first, expected) = *ends.entry(*name).or_insert((process, end));
            if expected != end {
                return Err(format!(
                    "agreement: {name:?} is {expected:?} at process {first}, {end:?} at {process}"
                ));
            }
            seen.committed += u64::from(end.0);
            seen.faulty += u64::from(!end.0);
        }
        seen.add(&log.seen);
    }
    Ok(seen)
}

impl Seen {
    pub fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.faulty += other.faulty;
        self.deaths += other.deaths;
        self.dropped += other.dropped;
        self.doomed += other.doomed;
        self.panics += other.panics;
        self.failed_creations += other.failed_creations;
    }

    pub fn assert_everything_happened(&self) {
        let counts = [
            self.committed,
            self.faulty,
            self.deaths,
            self.dropped,
            self.doomed,
            self.panics,
            self.failed_creations,
        ];
        assert!(counts.iter().all(|count| *count > 100), "the jobs are too tame: {self}");
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} commits, {} faulty blocks, {} deaths, {} handles dropped, {} waits in doomed \
             blocks, {} panics, {} communicators not made",
            self.committed,
            self.faulty,
            self.deaths,
            self.dropped,
            self.doomed,
            self.panics,
            self.failed_creations
        )
    }
}
