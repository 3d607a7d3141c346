//! `LULESH` itself on simulated ranks, with deaths cut anywhere by a seed.
//!
//! `FAMPI_SEEDS=5000 cargo test --release -p lulesh --test simulated -- thousands` runs more seeds;
//! `FAMPI_SEED=42 cargo test --release -p lulesh --test simulated -- one_seed --nocapture` repeats
//! one, with its transcript.

use std::sync::{Arc, OnceLock};

use fampi::Error;
use fampi::sim::{Report, Simulation, crash};
use harness::kill_plan::Mode;
use harness::simulated::{self, Case};
use lulesh::domain::Broken;
use lulesh::options::{Options, Request};
use lulesh::report::FinalLine;
use lulesh::resilience::{self, Hooks, SimulationError};
use lulesh::state::State;

const RANKS: u32 = 8;
/// How many seeds run unless a variable says how many.
const SEEDS: u64 = 100;
const CYCLES: u32 = 12;

/// The last line, which must not depend on deaths, and the lost cycles, on which all agree.
type Simulated = Result<(String, u32), SimulationError>;

fn drawn_from(seed: u64) -> Case {
    Case::drawn_from(seed, RANKS, calm().1, &[0, 1, 1, 1, 3])
}

fn run(case: &Case, words: &[&str], trace: bool) -> Report<Simulated> {
    let Case { recovery, every, fused, .. } = *case;
    let line = format!("-s 2 -i {CYCLES} --protect-every={every} --fused={}", u8::from(fused));
    let Ok(Request::Run(mut options)) =
        Options::parse(line.split(' ').chain(words.iter().copied()))
    else {
        panic!("these are options")
    };
    options.faults.recovery = recovery;
    let options: Arc<Options> = Arc::from(options);
    case.simulation(RANKS, trace).run_world(move |world| {
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
fn judge(case: &Case, report: &Report<Simulated>) -> Result<bool, String> {
    match simulated::agreed(report)? {
        (Ok((line, _)), _) if *line == calm().0 => Ok(false),
        (Ok((line, _)), _) => Err(format!("digits: {line} and not {}", calm().0)),
        (Err(SimulationError::Lost(error)), deaths) => {
            case.may_lose(error, RANKS, deaths).map(|()| true)
        }
        (Err(error), _) => Err(format!("the simulation was given up: {error}")),
    }
}

/// The last line when no rank dies, and how many effects a process has.
fn calm() -> &'static (String, u64) {
    static CALM: OnceLock<(String, u64)> = OnceLock::new();
    CALM.get_or_init(|| {
        let report = run(&Case::undisturbed(0), &[], false);
        let effects = simulated::most_effects(&report);
        let (line, lost) = report.expect_orderly().swap_remove(0).expect("nothing happened");
        assert_eq!(lost, 0);
        (line, effects)
    })
}

#[test]
fn thousands_of_seeds_of_deaths_change_no_bit() {
    let verdict = |case: &Case| judge(case, &run(case, &[], false));
    let verdicts = simulated::search("lulesh", SEEDS, drawn_from, verdict);
    let lost = verdicts.iter().filter(|data_lost| **data_lost).count();
    assert!(lost < verdicts.len() / 4, "{lost}");
}

#[test]
fn one_seed() {
    let Some(seed) = simulated::number("FAMPI_SEED") else { return };
    let case = drawn_from(seed);
    let report = run(&case, &[], true);
    println!("{case:#?}\n{report}");
    if let Err(violation) = judge(&case, &report) {
        panic!("{violation}\n{}", simulated::reproduce("lulesh", seed));
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
            let report = run(&Case { every, fused, ..Case::undisturbed(spares) }, kills, false);
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
            let results = run(&Case::undisturbed(0), &[&words, kills].concat(), false);
            results.expect_orderly().into_iter().map(|result| result.expect("copies").0)
        };
        let expected = run(&[]).next().expect("eight ranks");
        assert!(run(kills).all(|line| line == expected), "{kills:?}");
    }
}

#[test]
fn partners_that_die_together_are_named_on_all_living_ranks() {
    let results = run(&Case::undisturbed(0), &["kill=1@forces:9", "kill=5@forces:9"], false);
    for result in results.expect_orderly() {
        let Err(SimulationError::Lost(Error::StateLost { rank, partner: Some(partner) })) = result
        else {
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
        let [one, other] = [0; 2].map(|_| run(&drawn_from(seed), &[], false).fingerprint);
        assert_eq!(one, other, "{}", simulated::reproduce("lulesh", seed));
    }
}
