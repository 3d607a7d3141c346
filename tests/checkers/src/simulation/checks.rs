//! What must hold after a job, whatever happened in it.

use std::{collections::BTreeMap, fmt};

use fampi::{
    CommId, Fault, FaultCode, FaultReport,
    sim::{Ending, Report},
};

use crate::simulation::job::Job;

/// What one process saw of one block.
#[derive(Clone, Debug)]
pub struct Entry {
    pub comm: CommId,
    /// Which block of the communicator, by order of start.
    pub number: u64,
    pub committed: bool,
    pub voted_yes: bool,
    pub report: FaultReport,
    /// The bits of the fused reduction, which only a committed block has.
    pub fused: Option<[u64; 2]>,
}

/// What one process saw.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub entries: Vec<Entry>,
    /// A receive, a sum or a state that was not what it must be.
    pub wrong: Option<String>,
    pub gave_up: Option<fampi::Error>,
    pub recoveries: u64,
    pub replacement: bool,
    pub rounds_done: u64,
}

/// What happened in all jobs, to see that everything did.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    committed: u64,
    faulty: u64,
    recoveries: u64,
    replacements: u64,
    crashed: u64,
    gave_up: u64,
    states_lost: u64,
    refused: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.faulty += other.faulty;
        self.recoveries += other.recoveries;
        self.replacements += other.replacements;
        self.crashed += other.crashed;
        self.gave_up += other.gave_up;
        self.states_lost += other.states_lost;
        self.refused += other.refused;
    }

    pub fn assert_everything_happened(&self) {
        let counts =
            [self.committed, self.faulty, self.recoveries, self.replacements, self.crashed];
        let tame = counts.iter().any(|count| *count <= 100) || self.refused == 0;
        assert!(!tame, "the jobs are too tame: {self}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} commits, {} faulty blocks, {} deaths, {} recoveries, {} replacements at work, \
             {} states lost with both holders, {} refused for want of spares, {} others given up",
            self.committed,
            self.faulty,
            self.crashed,
            self.recoveries,
            self.replacements,
            self.states_lost,
            self.refused,
            self.gave_up
        )
    }
}

pub fn check(job: &Job, report: &Report<Log>) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for (process, it) in report.processes.iter().enumerate() {
        match &it.ending {
            Ending::Panicked(what) => return Err(format!("process {process} panicked: {what}")),
            Ending::Stuck(what) => {
                return Err(format!("termination: process {process} waits for ever in {what}"));
            }
            Ending::Crashed => tally.crashed += 1,
            Ending::Finished(_) | Ending::Exited => {}
        }
    }
    let mut blocks: BTreeMap<(CommId, u64), Vec<(usize, &Entry)>> = BTreeMap::new();
    let logs = report.processes.iter().enumerate();
    for (process, log) in logs.filter_map(|(p, it)| it.ending.finished().map(|log| (p, log))) {
        if let Some(wrong) = &log.wrong {
            return Err(format!("process {process}: {wrong}"));
        }
        for entry in &log.entries {
            blocks.entry((entry.comm, entry.number)).or_default().push((process, entry));
            tally.committed += u64::from(entry.committed);
            tally.faulty += u64::from(!entry.committed);
        }
        tally.recoveries += log.recoveries;
        tally.replacements += u64::from(log.replacement);
        match log.gave_up {
            None if log.rounds_done != job.work.len() as u64 => {
                return Err(format!("process {process} ended after {} rounds", log.rounds_done));
            }
            None => {}
            Some(fampi::Error::StateLost { .. }) => tally.states_lost += 1,
            Some(fampi::Error::TooFewSpares { dead, spares }) => {
                if job.spawns || dead <= spares || spares > job.spares {
                    return Err(format!("process {process} refused to replace {dead} by {spares}"));
                }
                tally.refused += 1;
            }
            Some(_) => tally.gave_up += 1,
        }
    }
    agreement_and_validity(&blocks)?;
    same_end(report)?;
    Ok(tally)
}

fn agreement_and_validity(
    blocks: &BTreeMap<(CommId, u64), Vec<(usize, &Entry)>>,
) -> Result<(), String> {
    for ((comm, number), entries) in blocks {
        let (first, expected) = entries[0];
        for (process, entry) in entries {
            if (entry.committed, &entry.report) != (expected.committed, &expected.report) {
                return Err(format!(
                    "agreement: block {number} of {comm:?}: process {first} has committed={} \
                     ({}), process {process} committed={} ({})",
                    expected.committed, expected.report, entry.committed, entry.report
                ));
            }
            if entry.fused != expected.fused {
                return Err(format!(
                    "fusion: block {number} of {comm:?}: {:x?} at process {first} and {:x?} at \
                     process {process}",
                    expected.fused, entry.fused
                ));
            }
            if let Some(fault) = entry.report.faults().iter().find(|it| is_of_mpi(it)) {
                return Err(format!("report: MPI refused nothing, and {process} has {fault:?}"));
            }
            if entry.committed && !entry.voted_yes {
                return Err(format!("validity: {process} voted no on committed block {number}"));
            }
        }
    }
    Ok(())
}

/// True for what MPI said of a request, which no rank of a job has deserved.
fn is_of_mpi(fault: &Fault) -> bool {
    matches!(fault.code, FaultCode::Mpi(_))
}

/// Processes that end without an error, or with one, do so all alike.
fn same_end(report: &Report<Log>) -> Result<(), String> {
    let mut ends = report.results().map(|log| &log.gave_up);
    let Some(first) = ends.next() else { return Ok(()) };
    match ends.find(|end| *end != first) {
        None => Ok(()),
        Some(other) => Err(format!("one process ended with {first:?}, another with {other:?}")),
    }
}
