//! What must hold after any program: its processes end, and those that know the end of a block
//! know the same of it.

use std::{collections::BTreeMap, fmt::Debug};

use fampi::{
    Fault, FaultCode, FaultReport,
    sim::{Ending, Report},
};

use super::tally::Tally;

/// The end of a block, as one process saw it.
#[derive(Clone, Debug)]
pub struct End {
    pub committed: bool,
    pub report: FaultReport,
    pub voted_yes: bool,
    /// The bits of the fused reduction, which only a committed block has.
    pub fused: Option<[u64; 2]>,
}

/// The numbers and logs of the processes that have ended in order, if no other process waits for
/// ever, has panicked, or has seen something wrong.
pub fn ended<'a, L>(
    report: &'a Report<L>,
    wrong: impl Fn(&L) -> Option<&String>,
    tally: &mut Tally,
) -> Result<Vec<(usize, &'a L)>, String> {
    let logs = report.processes.iter().enumerate();
    let logs = logs.filter_map(|(process, it)| Some((process, it.ending.finished()?)));
    let logs: Vec<_> = logs.collect();
    // Whoever ends with something wrong leaves the others waiting.
    if let Some((process, what)) = logs.iter().find_map(|(at, log)| Some((at, wrong(log)?))) {
        return Err(format!("process {process}: {what}"));
    }
    for (process, it) in report.processes.iter().enumerate() {
        match &it.ending {
            Ending::Panicked(what) => return Err(format!("process {process} panicked: {what}")),
            Ending::Stuck(what) => {
                return Err(format!("termination: process {process} waits for ever in {what}"));
            }
            Ending::Crashed => tally.count("deaths", 1),
            Ending::Finished(_) | Ending::Exited => {}
        }
    }
    Ok(logs)
}

/// One end of each block, if all processes agree on it and nobody voted *no* on what is committed.
pub fn agreed<'a, N: Ord + Debug>(
    ends: impl Iterator<Item = (usize, N, &'a End)>,
    tally: &mut Tally,
) -> Result<BTreeMap<N, &'a End>, String> {
    let mut blocks: BTreeMap<N, (usize, &End)> = BTreeMap::new();
    for (process, name, end) in ends {
        let End { committed, report, voted_yes, fused } = end;
        if *committed && !voted_yes {
            return Err(format!("validity: {process} voted no on committed block {name:?}"));
        }
        if let Some(fault) = report.faults().iter().find(|it| is_of_mpi(it)) {
            return Err(format!("report: MPI refused nothing, and {process} has {fault:?}"));
        }
        tally.count(if *committed { "commits" } else { "faulty blocks" }, 1);
        let Some((first, known)) = blocks.get(&name) else {
            blocks.insert(name, (process, end));
            continue;
        };
        if (*committed, report) != (known.committed, &known.report) {
            return Err(format!(
                "agreement: block {name:?}: process {first} has committed={} ({}), process \
                 {process} committed={committed} ({report})",
                known.committed, known.report
            ));
        }
        if *fused != known.fused {
            return Err(format!(
                "fusion: block {name:?}: {:x?} at process {first} and {fused:x?} at process \
                 {process}",
                known.fused
            ));
        }
    }
    Ok(blocks.into_iter().map(|(name, (_, end))| (name, end)).collect())
}

/// True for what MPI said of a request, which no rank of a program has deserved.
fn is_of_mpi(fault: &Fault) -> bool {
    matches!(fault.code, FaultCode::Mpi(_))
}

/// Whether each report of a block that was interrupted says why, as in programs of one communicator
/// that interrupt no block themselves.
pub fn caused<N: Debug>(ends: &BTreeMap<N, &End>) -> Result<(), String> {
    let of_nothing = |end: &End| {
        let mut faults = end.report.faults().iter();
        !end.report.is_empty() && faults.all(|fault| fault.code == FaultCode::Interrupted)
    };
    match ends.iter().find(|(_, end)| of_nothing(end)) {
        Some((name, _)) => Err(format!("cause: block {name:?} was interrupted by nothing")),
        None => Ok(()),
    }
}

/// What all processes say alike, or which two do not.
pub fn alike<T: PartialEq + Debug>(said: impl IntoIterator<Item = T>) -> Result<Option<T>, String> {
    let mut said = said.into_iter();
    let Some(first) = said.next() else { return Ok(None) };
    match said.find(|other| *other != first) {
        None => Ok(Some(first)),
        Some(other) => Err(format!("one process ended with {first:?}, another with {other:?}")),
    }
}
