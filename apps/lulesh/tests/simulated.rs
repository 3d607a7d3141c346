//! `LULESH` itself on simulated ranks, with deaths cut anywhere by a seed.
//!
//! `FAMPI_SEEDS=5000 cargo test --release -p lulesh --test simulated -- thousands` runs more seeds;
//! `FAMPI_SEED=42 cargo test --release -p lulesh --test simulated -- one_seed --nocapture` repeats
//! one, with its transcript.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fampi::Error;
use fampi::sim::{Crash, Ending, Report, Simulation, crash};
use harness::draw::Draw;
use harness::kill_plan::Mode;
use lulesh::domain::Broken;
use lulesh::options::{Options, Recovery, Request};
use lulesh::report::FinalLine;
use lulesh::resilience::{self, Hooks, SimulationError};
use lulesh::state::State;

const RANKS: u32 = 8;
/// How many seeds run when nobody says how many.
const SEEDS: u64 = 100;
const CYCLES: u32 = 12;
/// The first effects of a process belong to the launch, which nobody could recover from.
const LAUNCH_EFFECTS: u64 = 8;

/// The last line, which must not depend on deaths, and the lost cycles, on which all agree.
type Simulated = Result<(String, u32), SimulationError>;

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    spares: u32,
    recovery: Recovery,
    every: u64,
    fused: bool,
    crashes: Vec<Crash>,
}

impl Case {
    fn undisturbed(spares: u32) -> Self {
        let (recovery, crashes) = (Recovery::Rebuild, Vec::new());
        Self { seed: 0, spares, recovery, every: 1, fused: true, crashes }
    }

    fn drawn_from(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let spares = draw.below(2) as u32;
        let recovery = if draw.below(4) == 0 { Recovery::Merge } else { Recovery::Rebuild };
        let every = draw.one_of(&[0, 1, 1, 1, 3]);
        let crashes = (0..=draw.below(3)).map(|_| {
            // Spares and those that are spawned later may be struck, too.
            let process = draw.below(u64::from(RANKS) + 2) as u32;
            let first = if process < RANKS { LAUNCH_EFFECTS } else { 1 };
            if process < RANKS && draw.below(4) == 0 {
                Crash::at_time(process, Duration::from_micros(300 + draw.below(4_000)))
            } else {
                Crash::before_effect(process, first + draw.below(calm().1))
            }
        });
        let crashes = crashes.collect();
        let fused = draw.below(4) > 0;
        Self { seed, spares, recovery, every, fused, crashes }
    }

    fn run(&self, words: &[&str], trace: bool) -> Report<Simulated> {
        let Self { recovery, every, fused, .. } = *self;
        let line = format!("-s 2 -i {CYCLES} --protect-every={every} --fused={}", u8::from(fused));
        let Ok(Request::Run(mut options)) =
            Options::parse(line.split(' ').chain(words.iter().copied()))
        else {
            panic!("these are options")
        };
        options.faults.recovery = recovery;
        let options: Arc<Options> = Arc::from(options);
        Simulation::new(RANKS)
            .seed(self.seed)
            .spares(self.spares)
            .crashes(self.crashes.iter().copied())
            .trace(trace)
            .run_world(move |world| {
                let mut watch = |_: &mut State| {};
                let die = |_: Mode| crash();
                let hooks = Hooks { die: &die, watch: &mut watch };
                let (world, result) = resilience::simulate(world, &options, hooks);
                world.finalize();
                let mesh = options.mesh(0, RANKS as usize)?;
                result.map(|simulated| {
                    let line = FinalLine::new(mesh, &simulated.summary).to_string();
                    (line, simulated.resilience.lost)
                })
            })
    }

    /// What is wrong with a run, if something is; else whether its data were lost.
    fn judge(&self, report: &Report<Simulated>) -> Result<bool, String> {
        let mut deaths = 0;
        for process in &report.processes {
            match &process.ending {
                Ending::Panicked(message) => return Err(format!("a process panicked: {message}")),
                Ending::Stuck(what) => return Err(format!("termination: {what}")),
                Ending::Crashed => deaths += 1,
                Ending::Finished(_) | Ending::Exited => {}
            }
        }
        let mut results = report.results();
        let first = results.next().ok_or("nobody finished")?;
        if let Some(other) = results.find(|other| *other != first) {
            return Err(format!("agreement: {first:?} and {other:?}"));
        }
        match first {
            Ok((line, _)) if *line == calm().0 => Ok(false),
            Ok((line, _)) => Err(format!("digits: {line} and not {}", calm().0)),
            Err(SimulationError::Lost(Error::StateLost { rank, partner })) => {
                // After a merge ranks are numbered anew.
                let apart = rank.number().abs_diff(partner.number());
                let partners = apart == RANKS / 2 || self.recovery == Recovery::Merge;
                if !partners || deaths < 2 {
                    return Err(format!("{rank} and {partner} were not lost together"));
                }
                Ok(true)
            }
            Err(error) => Err(format!("the simulation was given up: {error}")),
        }
    }
}

/// The last line when nobody dies, and how many effects a process has.
fn calm() -> &'static (String, u64) {
    static CALM: OnceLock<(String, u64)> = OnceLock::new();
    CALM.get_or_init(|| {
        let report = Case::undisturbed(0).run(&[], false);
        let effects = report.processes.iter().map(|process| process.effects).max();
        let (line, lost) = report.expect_orderly().swap_remove(0).expect("nothing happened");
        assert_eq!(lost, 0);
        (line, effects.expect("eight processes"))
    })
}

fn reproduce(seed: u64) -> String {
    format!(
        "REPRODUCE WITH: FAMPI_SEED={seed} cargo test --release -p lulesh --test simulated -- \
         one_seed --nocapture"
    )
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn thousands_of_seeds_of_deaths_change_no_bit() {
    let began = std::time::Instant::now();
    let seeds = number("FAMPI_SEEDS").unwrap_or(SEEDS);
    let mut lost = 0;
    for seed in 0..seeds {
        let case = Case::drawn_from(seed);
        match case.judge(&case.run(&[], false)) {
            Ok(data_lost) => lost += u64::from(data_lost),
            Err(violation) => panic!("{violation}\n{case:?}\n{}", reproduce(seed)),
        }
    }
    println!("{seeds} seeds in {:?}, data lost in {lost}", began.elapsed());
    assert!(lost < seeds / 4, "{lost}");
}

#[test]
fn one_seed() {
    let Some(seed) = number("FAMPI_SEED") else { return };
    let case = Case::drawn_from(seed);
    let report = case.run(&[], true);
    println!("{case:#?}\n{report}");
    if let Err(violation) = case.judge(&report) {
        panic!("{violation}\n{}", reproduce(seed));
    }
}

#[test]
fn a_plan_of_deaths_works_on_simulated_ranks_and_all_know_what_was_lost() {
    for (kills, every, lost) in [
        (&["kill=2@cycle:1"][..], 1, 1),
        (&["kill=2@cycle:5"], 1, 2),
        (&["kill=2@forces:5", "kill=3@positions:5"], 1, 2),
        (&["kill=0@update:12"], 1, 1),
        (&["kill=7@gradients:9"], 5, 4),
        (&["kill=7@gradients:12"], 5, 2),
        (&["kill=5@step:6", "kill=5@finish:8"], 1, 2),
        (&["kill=4@cycle:7"], 0, 7),
        (&["kill=1@forces:5", "kill=2@recovery:1"], 1, 2),
        (&["kill=3@cycle:11", "kill=3@join:1"], 1, 2),
    ] {
        for (spares, fused) in [(0, true), (1, true), (0, false)] {
            let report = Case { every, fused, ..Case::undisturbed(spares) }.run(kills, false);
            let results = report.expect_orderly();
            assert!(results.len() >= RANKS as usize - 1);
            for result in results {
                assert_eq!(result, Ok((calm().0.clone(), lost)), "{kills:?}");
            }
        }
    }
}

#[test]
fn an_interval_that_the_ranks_choose_changes_no_bit() {
    for kills in [&["kill=2@forces:19"][..], &["kill=2@step:7", "kill=0@cycle:29"]] {
        let words = ["-i", "30", "protect-every=auto", "mtbf=10"];
        let run = |kills: &[&str]| {
            let results = Case::undisturbed(0).run(&[&words, kills].concat(), false);
            results.expect_orderly().into_iter().map(|result| result.expect("copies").0)
        };
        let expected = run(&[]).next().expect("eight ranks");
        assert!(run(kills).all(|line| line == expected), "{kills:?}");
    }
}

#[test]
fn partners_that_die_together_are_named_on_all_living_ranks() {
    let results = Case::undisturbed(0).run(&["kill=1@forces:9", "kill=5@forces:9"], false);
    for result in results.expect_orderly() {
        let Err(SimulationError::Lost(Error::StateLost { rank, partner })) = result else {
            panic!("{result:?}")
        };
        assert_eq!([rank.number(), partner.number()], [1, 5]);
    }
}

#[test]
fn a_simulation_that_makes_no_sense_ends_with_the_same_sentence_on_all_ranks() {
    let report = Simulation::new(RANKS).run_world(|world| {
        let options = Options { edge: 2, most_cycles: CYCLES, ..Options::default() };
        let me = world.rank().number();
        let mut watch = |state: &mut State| {
            if me == 3 && state.clock.cycle == 5 {
                state.volume[7] = f64::NAN;
            }
        };
        let hooks = Hooks { die: &|_| (), watch: &mut watch };
        let (world, result) = resilience::simulate(world, &options, hooks);
        world.finalize();
        result.map(|_| ())
    });
    for result in report.expect_orderly() {
        let error = result.expect_err("a volume is impossible");
        let broken = Broken::Volume;
        assert_eq!(error, SimulationError::Broken { broken, rank: 3, cycle: 6 });
    }
}

#[test]
fn equal_seeds_tell_equal_stories() {
    for seed in 0..4 {
        let [one, other] = [0; 2].map(|_| Case::drawn_from(seed).run(&[], false).fingerprint);
        assert_eq!(one, other, "{}", reproduce(seed));
    }
}
