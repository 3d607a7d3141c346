//! What must hold after a job, whatever happened in it.

use fampi::{CommId, sim::Report};

use super::{
    job::Job,
    oracle::{End, agreed, alike, ended},
    tally::Tally,
};

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

pub fn check(job: &Job, report: &Report<Log>) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let logs = ended(report, |log| log.wrong.as_ref(), &mut tally)?;
    for (process, log) in &logs {
        tally.count("recoveries", log.recoveries);
        tally.count("replacements at work", u64::from(log.replacement));
        match log.gave_up {
            None if log.rounds_done != job.work.len() as u64 => {
                return Err(format!("process {process} ended after {} rounds", log.rounds_done));
            }
            None => {}
            Some(fampi::Error::StateLost { .. }) => {
                tally.count("states lost with both holders", 1);
            }
            Some(fampi::Error::TooFewSpares { dead, spares }) => {
                let setting = &job.setting;
                if setting.spawns || dead <= spares || spares > setting.spares {
                    return Err(format!("process {process} refused to replace {dead} by {spares}"));
                }
                tally.count("refused for want of spares", 1);
            }
            Some(_) => tally.count("others given up", 1),
        }
    }
    let ends = logs.iter().flat_map(|(at, log)| log.ends.iter().map(|(it, end)| (*at, *it, end)));
    agreed(ends, &mut tally)?;
    alike(logs.iter().map(|(_, log)| &log.gave_up))?;
    Ok(tally)
}
