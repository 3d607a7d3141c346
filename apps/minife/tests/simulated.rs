//! `MiniFE` itself on simulated ranks, with deaths cut anywhere by a seed.
//!
//! `FAMPI_SEEDS=5000 cargo test --release -p minife --test simulated -- thousands` runs more seeds;
//! `FAMPI_SEED=42 cargo test --release -p minife --test simulated -- one_seed --nocapture` repeats
//! one, with its transcript.

use std::sync::{Arc, OnceLock};

use fampi::Error;
use fampi::sim::{Ending, Report, Simulation, crash};
use harness::simulated::{self, Case};
use minife::lockstep::Lockstep;
use minife::options::{Options, Recovery, Request};
use minife::resilience::{self, Hooks, SolveError};

const RANKS: u32 = 4;
/// How many seeds run unless a variable says how many.
const SEEDS: u64 = 400;

/// What must not depend on deaths: every bit of the history and of the summary.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bits {
    iterations: u32,
    history: Vec<u64>,
    centre: u64,
    max_error: u64,
    digest: String,
}

type Solved = Result<Bits, SolveError>;

fn drawn_from(seed: u64) -> Case {
    Case::drawn_from(seed, RANKS, calm(true).1, &[1])
}

fn run(case: &Case, words: &[&str], trace: bool) -> Report<Solved> {
    let words = ["nx=10"].iter().chain(words).copied();
    let Ok(Request::Run(mut options)) = Options::parse(words) else { panic!("these are options") };
    options.faults.recovery = case.recovery;
    options.faults.fused = case.fused;
    let options: Arc<Options> = Arc::from(options);
    case.simulation(RANKS, trace).run_world(move |world| {
        let mut watch = |_, _| {};
        let hooks = Hooks { die: &|_| crash(), watch: &mut watch };
        let (world, result) = resilience::solve(world, &options, hooks);
        world.finalize();
        result.map(|solved| Bits {
            iterations: solved.iterations,
            history: solved.history.iter().map(|norm| norm.to_bits()).collect(),
            centre: solved.summary.centre.to_bits(),
            max_error: solved.summary.max_error.to_bits(),
            digest: solved.summary.digest.to_string(),
        })
    })
}

/// What is wrong with a run, if something is.
fn judge(case: &Case, report: &Report<Solved>) -> Result<Tally, String> {
    let (result, deaths) = simulated::agreed(report)?;
    let solved = Tally { solved: 1, lost: 0, deaths };
    match result {
        Ok(bits) if case.recovery == Recovery::Rebuild => {
            let (expected, _) = calm(case.fused);
            if bits != expected {
                return Err(format!("digits: {bits:?} and not {expected:?}"));
            }
            Ok(solved)
        }
        Ok(bits) => near(bits, &calm(true).0).map(|()| solved),
        Err(SolveError::Lost(error)) => {
            let lost = Tally { solved: 0, lost: 1, deaths };
            case.may_lose(error, RANKS, deaths).map(|()| lost)
        }
        Err(error) => Err(format!("the solve was given up: {error}")),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    solved: u64,
    lost: u64,
    deaths: u64,
}

/// Checks that two solutions are alike, as far as another order of the ranks allows.
fn near(bits: &Bits, expected: &Bits) -> Result<(), String> {
    let close =
        |one: u64, other: u64| (f64::from_bits(one) / f64::from_bits(other) - 1.0).abs() < 1e-9;
    let same = bits.iterations.abs_diff(expected.iterations) <= 2
        && close(bits.centre, expected.centre)
        && close(bits.max_error, expected.max_error);
    if same { Ok(()) } else { Err(format!("digits after a merge: {bits:?}")) }
}

/// The bits, and how many effects a process has, when no rank dies. Sums that are requests have an
/// order of their own.
fn calm(fused: bool) -> &'static (Bits, u64) {
    static CALM: [OnceLock<(Bits, u64)>; 2] = [const { OnceLock::new() }; 2];
    CALM[usize::from(fused)].get_or_init(|| {
        let report = run(&Case { fused, ..Case::undisturbed(0) }, &[], false);
        let effects = simulated::most_effects(&report);
        let bits = report.expect_orderly().swap_remove(0).expect("nothing happened");
        (bits, effects)
    })
}

#[test]
fn without_deaths_simulated_ranks_agree_with_the_specification() {
    for spares in [0, 1] {
        let results = run(&Case::undisturbed(spares), &[], false).expect_orderly();
        assert!(results.iter().flatten().count() >= RANKS as usize);
        assert!(results.iter().flatten().all(|bits| bits == &calm(true).0));
    }
    let bits = &calm(true).0;
    assert!(bits.iterations.abs_diff(31) <= 2);
    assert!((f64::from_bits(bits.centre) / 0.218_963_365_351_237_3 - 1.0).abs() < 1e-9);
}

#[test]
fn thousands_of_seeds_of_deaths_change_no_bit() {
    let verdict = |case: &Case| judge(case, &run(case, &[], false));
    let mut sum = Tally::default();
    let verdicts = simulated::search("minife", SEEDS, drawn_from, verdict);
    for seen in &verdicts {
        sum.solved += seen.solved;
        sum.lost += seen.lost;
        sum.deaths += seen.deaths;
    }
    println!("{sum:?}");
    assert!(sum.solved > sum.lost && sum.deaths >= verdicts.len() as u64, "{sum:?}");
}

#[test]
fn one_seed() {
    let Some(seed) = simulated::number("FAMPI_SEED") else { return };
    let case = drawn_from(seed);
    let report = run(&case, &[], true);
    println!("{case:#?}\n{report}");
    if let Err(violation) = judge(&case, &report) {
        panic!("{violation}\n{}", simulated::reproduce("minife", seed));
    }
}

#[test]
fn a_plan_of_deaths_works_on_simulated_ranks_as_on_real_ones() {
    for kills in [
        &["kill=2@iteration:1"][..],
        &["kill=0@dot:12", "kill=3@dot:12"],
        &["kill=1@exchange:5", "kill=2@recovery:1"],
        &["kill=3@iteration:31", "kill=3@join:1"],
    ] {
        for (spares, fused) in [(0, true), (1, true), (0, false)] {
            let report = run(&Case { fused, ..Case::undisturbed(spares) }, kills, false);
            let crashed = |process: &fampi::sim::ProcessReport<Solved>| {
                matches!(process.ending, Ending::Crashed)
            };
            let deaths = report.processes.iter().filter(|process| crashed(process)).count();
            assert_eq!(deaths, kills.len(), "{kills:?}: {report}");
            let results = report.expect_orderly();
            let expected = Ok(&calm(fused).0);
            assert!(results.iter().all(|result| result.as_ref() == expected));
        }
    }
}

#[test]
fn sums_by_commits_have_the_bits_of_the_yardstick_on_any_number_of_ranks_also_after_deaths() {
    for ranks in [1, 2, 3, 4, 5, 7] {
        let deaths = if ranks > 2 { " kill=1@dot:9 kill=2@iteration:15" } else { "" };
        let line = format!("nx=8 protect-every=1{deaths}");
        let Ok(Request::Run(options)) = Options::parse(line.split(' ')) else {
            panic!("these are options")
        };
        let problem = options.problem(ranks).expect("these ranks exist");
        let expected = Lockstep::new(&problem, options.limits).expect("a mesh").solve();
        let report = Simulation::new(ranks as u32).run_world(move |world| {
            let hooks = Hooks { die: &|_| crash(), watch: &mut |_, _| {} };
            let (world, result) = resilience::solve(world, &options, hooks);
            world.finalize();
            result.map(|solved| (solved.history, solved.summary.digest, solved.resilience))
        });
        for result in report.expect_orderly() {
            let (history, digest, account) = result.expect("there are copies");
            assert_eq!((history, digest), (expected.history.clone(), expected.digest));
            // A copy counts from the commit of the iteration that made it.
            let lost = if ranks > 2 { (2, 4) } else { (0, 0) };
            assert_eq!((account.recoveries, account.lost), lost, "{ranks} ranks");
        }
    }
}

#[test]
fn an_interval_that_the_ranks_choose_changes_no_bit() {
    for kills in [&["kill=2@dot:18"][..], &["kill=2@dot:7", "kill=0@iteration:29"]] {
        let words = ["protect-every=auto", "mtbf=10"];
        let report = run(&Case::undisturbed(0), &[&words, kills].concat(), false);
        let results = report.expect_orderly();
        assert!(results.iter().all(|result| result.as_ref() == Ok(&calm(true).0)), "{kills:?}");
    }
}

#[test]
fn partners_that_die_together_are_named_on_all_living_ranks() {
    let kills = ["kill=1@dot:9", "kill=3@dot:9"];
    let results = run(&Case::undisturbed(0), &kills, false).expect_orderly();
    assert!(!results.is_empty());
    for result in results {
        let Err(SolveError::Lost(Error::StateLost { rank, partner: Some(partner) })) = result
        else {
            panic!("{result:?}")
        };
        assert_eq!([rank.number(), partner.number()], [1, 3]);
    }
}

#[test]
fn equal_seeds_tell_equal_stories() {
    for seed in 0..4 {
        let [one, other] = [0; 2].map(|_| run(&drawn_from(seed), &[], false).fingerprint);
        assert_eq!(one, other, "{}", simulated::reproduce("minife", seed));
    }
}
