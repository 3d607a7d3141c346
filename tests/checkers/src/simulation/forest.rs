//! Communicators derived from each other at random, with blocks on several of them at a time.
//!
//! A job goes through seasons. In each, communicators are derived from a shrunk world, from each
//! other, and kept or not; then all ranks follow one script of starts, messages, sums, ends, waits,
//! objections, handles that a rank drops and panics that it catches, in an outer block or in none;
//! the verdict of a block of all ends the season. Who died is shrunk away. The last season is calm,
//! and everything in it must commit.

mod script;
mod walk;

use std::collections::BTreeMap;

use fampi::sim::{Crash, Draw};

use self::walk::Walk;
use super::{
    oracle::{End, agreed, ended},
    program::Program,
    setting::Setting,
    tally::Tally,
};

/// A setting, and the number of seasons in its storm.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    setting: Setting,
    seasons: u64,
}

/// A block of a season's script, on the communicator of this name.
type Name = (u64, usize, u64);

/// What one process saw.
#[derive(Debug, Default)]
struct Log {
    ends: BTreeMap<Name, End>,
    wrong: Option<String>,
    seen: Tally,
}

impl Program for Forest {
    const HAPPENS: &[(&'static str, u64)] = &[
        ("commits", 100),
        ("faulty blocks", 100),
        ("deaths", 100),
        ("handles dropped", 100),
        ("waits in doomed blocks", 100),
        ("panics", 100),
        ("communicators not made", 100),
    ];
    const TEST: &str = "one_forest";

    fn drawn_from(seed: u64) -> Self {
        let mut draw = Draw(seed ^ 0x666f_7265);
        let ranks = 2 + draw.below(7).min(draw.below(7)) as u32;
        let calm_from = draw.one_of(&[1_000, 4_000]);
        let deaths = draw.below(3).min(u64::from(ranks) - 1);
        let crashes = (0..deaths).map(|_| {
            let process = draw.below(u64::from(ranks)) as u32;
            Crash::before_effect(process, 10 + draw.below(300))
        });
        let setting =
            Setting { seed, ranks, calm_from, crashes: crashes.collect(), ..Setting::plain() };
        let seasons = 1 + draw.below(5);
        Self { setting: setting.with_drawn_times(&mut draw), seasons }
    }

    fn run(&self, told: bool) -> Result<Tally, String> {
        let (job, mut tally) = (self.clone(), Tally::default());
        let simulation = self.setting.simulation(told);
        let report = simulation.run_world(move |world| Walk::new(&job).through(world));
        if told {
            println!("{report}");
        }
        let logs = ended(&report, |log| log.wrong.as_ref(), &mut tally)?;
        let ends =
            logs.iter().flat_map(|(at, log)| log.ends.iter().map(|(it, end)| (*at, *it, end)));
        agreed(ends, &mut tally)?;
        for (_, log) in &logs {
            tally.add(&log.seen);
        }
        Ok(tally)
    }

    fn setting(&mut self) -> &mut Setting {
        &mut self.setting
    }

    fn simpler(&self) -> Vec<Self> {
        (0..self.seasons).map(|seasons| Self { seasons, ..self.clone() }).collect()
    }
}
