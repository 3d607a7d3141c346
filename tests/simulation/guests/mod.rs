//! Programs that own their MPI, as those in C do: random blocks over requests that they start
//! themselves, on several communicators, inside of each other, with recoveries in their middle.
//!
//! A job goes through seasons. In each, all ranks follow one script: they start blocks, messages
//! and sums, wait for them, finish the blocks with what they started and with other blocks, object
//! or go away, shrink communicators inside of blocks or outside. Deaths cut anywhere after the
//! communicators were taken into use. The last season is calm: in the end a block commits on each
//! communicator, after which some programs free theirs.
//!
//! Checked are agreement, termination, what messages hold, and validity: a committed block was
//! finished by every rank of its communicator, except those that some report there has named dead.

mod script;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use fampi::{
    CommId, Fault, FaultCode, FaultReport, Rank,
    guest::Guest,
    protocol::exchange::Shape,
    sim::{Crash, Ending, Report, Simulation},
};

use self::walk::Walk;
use crate::job::Draw;

/// How long after the storm a job may take, in virtual time, until it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// Everything that a job depends on. Times are in microseconds of virtual time.
#[derive(Clone, Debug)]
pub(crate) struct Guests {
    seed: u64,
    ranks: u32,
    comms: usize,
    seasons: u64,
    calm_from: u64,
    crashes: Vec<Crash>,
    detection: [u64; 2],
    latency: [u64; 2],
    exchange: [u32; 2],
    patience: u32,
    /// The programs free their communicators before they end.
    frees: bool,
}

/// What happened in all jobs, to see that everything did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    committed: u64,
    faulty: u64,
    deaths: u64,
    doomed: u64,
    left: u64,
    late: u64,
    shrunk: u64,
    shrunk_inside: u64,
}

/// A block: the place of its communicator in the list of all, and its number there.
type Name = (usize, u64);

/// Blocks that a process has finished, with a vote of *yes* as far as its program knows. What the
/// dead have done counts, too.
type Finished = Arc<Mutex<BTreeSet<(Name, usize)>>>;

/// What one process saw.
#[derive(Debug, Default)]
struct Log {
    /// The processes of each communicator.
    members: Vec<Vec<usize>>,
    /// Its name in reports.
    ids: Vec<Option<CommId>>,
    ends: BTreeMap<Name, (bool, FaultReport)>,
    wrong: Option<String>,
    seen: Seen,
}

impl Guests {
    pub(crate) fn drawn_from(seed: u64) -> Self {
        let mut draw = Draw(seed ^ 0x6775_6573);
        let ranks = 2 + draw.below(6).min(draw.below(6)) as u32;
        let comms = 1 + draw.below(2) as usize;
        let deaths = draw.below(4).min(u64::from(ranks) - 1);
        let crashes = (0..deaths).map(|_| {
            let process = draw.below(u64::from(ranks)) as u32;
            // Not before all have taken their communicators into use.
            Crash::before_effect(process, walk::effects_of_entering(comms) + draw.below(160))
        });
        Self {
            seed,
            ranks,
            comms,
            crashes: crashes.collect(),
            calm_from: draw.one_of(&[1_000, 4_000]),
            seasons: 1 + draw.below(3),
            detection: [draw.below(200), 200 + draw.below(600)],
            latency: [1 + draw.below(3), 4 + draw.below(40)],
            exchange: [draw.one_of(&[2, 4, 8]), draw.one_of(&[2, 4])].map(|width| width as u32),
            patience: draw.one_of(&[1, 4, 32]) as u32,
            frees: draw.one_in(3),
        }
    }

    pub(crate) fn run(&self, told: bool) -> Result<Seen, String> {
        let micros =
            |range: [u64; 2]| Duration::from_micros(range[0])..=Duration::from_micros(range[1]);
        let (job, calm_from) = (self.clone(), Duration::from_micros(self.calm_from));
        let finished = Finished::default();
        let noted = Arc::clone(&finished);
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
            .run(move |platform| {
                let me = platform.process();
                let guest = Guest::new(Box::new(platform));
                Walk::new(&job, me, guest, Arc::clone(&noted)).through()
            });
        if told {
            println!("{report}");
        }
        let finished = finished.lock().expect("nobody panics with it");
        check(&report, &finished)
    }
}

fn check(report: &Report<Log>, finished: &BTreeSet<(Name, usize)>) -> Result<Seen, String> {
    let (mut seen, mut ends) = (Seen::default(), BTreeMap::new());
    // Whoever ends with something wrong leaves the others waiting.
    if let Some(wrong) = report.results().find_map(|log| log.wrong.clone()) {
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
    let Some(log) = report.results().next() else { return Ok(seen) };
    if let Some(other) = report.results().find(|other| other.members != log.members) {
        return Err(format!("members: {:?} and {:?}", log.members, other.members));
    }
    let committed = ends.iter().filter(|(_, (_, end))| end.0).map(|(name, _)| *name);
    for (comm, number) in committed {
        for (rank, process) in log.members[comm].iter().enumerate() {
            let dead = |fault: &Fault| {
                let place = (Some(fault.comm), fault.rank);
                fault.code == FaultCode::ProcessFailed && place == (log.ids[comm], Rank::from(rank))
            };
            let named = |(name, (_, end)): (&Name, &(usize, &(bool, FaultReport)))| {
                name.0 == comm && end.1.faults().iter().any(dead)
            };
            if !finished.contains(&((comm, number), *process)) && !ends.iter().any(named) {
                return Err(format!(
                    "validity: block {number} of communicator {comm} is committed without rank \
                     {rank}, process {process}, which no report names dead"
                ));
            }
        }
    }
    Ok(seen)
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.faulty += other.faulty;
        self.deaths += other.deaths;
        self.doomed += other.doomed;
        self.left += other.left;
        self.late += other.late;
        self.shrunk += other.shrunk;
        self.shrunk_inside += other.shrunk_inside;
    }

    pub(crate) fn assert_everything_happened(&self) {
        let counts = [
            self.committed,
            self.faulty,
            self.deaths,
            self.doomed,
            self.left,
            self.late,
            self.shrunk,
            self.shrunk_inside,
        ];
        assert!(counts.iter().all(|count| *count > 20), "the jobs are too tame: {self}");
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} commits, {} faulty blocks, {} deaths, {} waits in doomed blocks, {} blocks left, \
             {} late requests, {} shrunken communicators, {} of them inside of blocks",
            self.committed,
            self.faulty,
            self.deaths,
            self.doomed,
            self.left,
            self.late,
            self.shrunk,
            self.shrunk_inside
        )
    }
}
