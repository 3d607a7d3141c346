//! Programs that own their MPI, as those in C do: random blocks over requests that they start
//! themselves, on several communicators, inside of each other, with recoveries in their middle.
//!
//! A job goes through seasons. In each, all ranks follow one script: they start blocks, messages
//! and sums, wait for them, finish the blocks with what they started and with other blocks, object
//! or go away, shrink communicators inside of blocks or outside. Deaths cut anywhere after the
//! communicators were taken into use. The last season is calm: in the end a block commits on each
//! communicator, after which some programs free theirs.
//!
//! Checked are agreement, termination, what messages hold (in a faulty block, that they were sent
//! in it), and validity: a committed block was finished by every rank of its communicator, except
//! those that some report there has named dead.

mod script;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use fampi::{
    CommId, Fault, Rank,
    guest::Guest,
    sim::{Crash, Draw},
};

use self::walk::Walk;
use super::{
    oracle::{End, agreed, alike, ended},
    program::Program,
    setting::Setting,
    tally::Tally,
};

/// A setting, and a program in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Guests {
    setting: Setting,
    comms: usize,
    seasons: u64,
    /// The programs free their communicators before they end.
    frees: bool,
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
    ends: BTreeMap<Name, End>,
    wrong: Option<String>,
    seen: Tally,
}

impl Program for Guests {
    const HAPPENS: &[(&'static str, u64)] = &[
        ("commits", 20),
        ("faulty blocks", 20),
        ("deaths", 20),
        ("waits in doomed blocks", 20),
        ("blocks left", 20),
        ("late requests", 20),
        ("receives completed in faulty blocks", 20),
        ("shrunken communicators", 20),
        ("communicators shrunken inside of blocks", 20),
    ];
    const TEST: &str = "one_guest";

    fn drawn_from(seed: u64) -> Self {
        let mut draw = Draw(seed ^ 0x6775_6573);
        let ranks = 2 + draw.below(6).min(draw.below(6)) as u32;
        let comms = 1 + draw.below(2) as usize;
        let deaths = draw.below(4).min(u64::from(ranks) - 1);
        let crashes = (0..deaths).map(|_| {
            let process = draw.below(u64::from(ranks)) as u32;
            // Not before all have taken their communicators into use.
            Crash::before_effect(process, walk::effects_of_entering(comms) + draw.below(160))
        });
        let crashes = crashes.collect();
        let calm_from = draw.one_of(&[1_000, 4_000]);
        let setting = Setting { seed, ranks, crashes, calm_from, ..Setting::plain() };
        let seasons = 1 + draw.below(3);
        let setting = setting.with_drawn_times(&mut draw);
        Self { setting, comms, seasons, frees: draw.one_in(3) }
    }

    fn run(&self, told: bool) -> Result<Tally, String> {
        let (job, mut tally) = (self.clone(), Tally::default());
        let finished = Finished::default();
        let noted = Arc::clone(&finished);
        let report = self.setting.simulation(told).run(move |platform| {
            let me = platform.process();
            let guest = Guest::new(Box::new(platform));
            Walk::new(&job, me, guest, Arc::clone(&noted)).through()
        });
        if told {
            println!("{report}");
        }
        let logs = ended(&report, |log| log.wrong.as_ref(), &mut tally)?;
        let ends =
            logs.iter().flat_map(|(at, log)| log.ends.iter().map(|(it, end)| (*at, *it, end)));
        let ends = agreed(ends, &mut tally)?;
        for (_, log) in &logs {
            tally.add(&log.seen);
        }
        alike(logs.iter().map(|(_, log)| &log.members))?;
        if let Some((_, log)) = logs.first() {
            let finished = finished.lock().expect("nobody panics with it");
            nobody_is_missing(&ends, log, &finished)?;
        }
        Ok(tally)
    }

    fn setting(&mut self) -> &mut Setting {
        &mut self.setting
    }

    fn simpler(&self) -> Vec<Self> {
        let seasons = (0..self.seasons).map(|seasons| Self { seasons, ..self.clone() });
        let plain = [Self { comms: 1, ..self.clone() }, Self { frees: false, ..self.clone() }];
        seasons.chain(plain).collect()
    }
}

/// Every rank has finished what is committed, but those that some report there has named dead.
fn nobody_is_missing(
    ends: &BTreeMap<Name, &End>,
    log: &Log,
    finished: &BTreeSet<(Name, usize)>,
) -> Result<(), String> {
    let committed = ends.iter().filter(|(_, end)| end.committed).map(|(name, _)| *name);
    for (comm, number) in committed {
        for (rank, process) in log.members[comm].iter().enumerate() {
            let dead = |fault: &Fault| {
                let place = (Some(fault.comm), fault.rank);
                fault.code.is_process_failure() && place == (log.ids[comm], Rank::from(rank))
            };
            let named = |(name, end): (&Name, &&End)| {
                name.0 == comm && end.report.faults().iter().any(dead)
            };
            if !finished.contains(&((comm, number), *process)) && !ends.iter().any(named) {
                return Err(format!(
                    "validity: block {number} of communicator {comm} is committed without rank \
                     {rank}, process {process}, which no report names dead"
                ));
            }
        }
    }
    Ok(())
}
