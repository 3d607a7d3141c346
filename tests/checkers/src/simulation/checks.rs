//! Runs a job, and checks what must hold after it, whatever happened in it.

use fampi::sim::Report;

use super::{
    job::{Job, Log, RANKS},
    oracle::{agreed, alike, caused, ended},
    program::Program,
    rounds,
    setting::Setting,
    tally::Tally,
};

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
    caused(&agreed(ends, &mut tally)?)?;
    alike(logs.iter().map(|(_, log)| &log.gave_up))?;
    Ok(tally)
}

impl Job {
    /// The whole story, with a transcript if it is to be told.
    pub fn report(&self, told: bool) -> Report<Log> {
        let job = self.clone();
        self.setting.simulation(told).run_world(move |world| rounds::run(world, &job))
    }
}

impl Program for Job {
    const HAPPENS: &[(&'static str, u64)] = &[
        ("commits", 100),
        ("faulty blocks", 100),
        ("deaths", 100),
        ("recoveries", 100),
        ("replacements at work", 100),
        ("refused for want of spares", 0),
    ];
    const TEST: &str = "one_job";

    fn drawn_from(seed: u64) -> Self {
        Self::drawn_among(seed, &RANKS)
    }

    fn run(&self, told: bool) -> Result<Tally, String> {
        let report = self.report(told);
        if told {
            println!("{report}");
        }
        check(self, &report)
    }

    fn setting(&mut self) -> &mut Setting {
        &mut self.setting
    }

    fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut job = self.clone();
            change(&mut job);
            simpler.extend((job.calm < job.work.len()).then_some(job));
        };
        for at in 0..self.work.len() {
            add(&|job| _ = job.work.remove(at));
        }
        add(&|job| job.calm = 0);
        add(&|job| job.slow = None);
        add(&|job| job.rows = false);
        add(&|job| job.depth = 1);
        add(&|job| job.outstanding = 2);
        simpler
    }

    fn described(&self) -> String {
        format!("cargo fampi sim --job '{self}'")
    }

    fn repeated(seed: u64) -> String {
        format!("cargo fampi sim --seed {seed}")
    }
}
