//! `HyperQuickSort` itself on simulated ranks, with deaths cut anywhere by a seed.
//!
//! `FAMPI_SEEDS=1000 cargo test --release -p hyperquicksort --test simulated` runs more seeds;
//! `FAMPI_SEED=42 cargo test --release -p hyperquicksort --test simulated -- one_seed --nocapture`
//! repeats one, with its transcript.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fampi::membership::evidence::{Opinion, Tested};
use fampi::membership::levels::Levels;
use fampi::sim::{Crash, Draw, Ending, Report, Simulation, compute, crash};
use harness::simulated::{agreed, most_effects, number, reproduce};
use hyperquicksort::options::{Options, Request};
use hyperquicksort::report::Events;
use hyperquicksort::resilience::{self, Hooks, SortError};

/// How many seeds run by default.
const SEEDS: u64 = 300;
/// The first effects of a process belong to the launch, which no recovery follows.
const LAUNCH_EFFECTS: u64 = 8;
const COUNT: &str = "n=1000";
const DIGEST: &str = "9eaf8470130d4835";
const STORES: [&str; 3] = ["lineage", "copies", "files"];

/// What must not depend on deaths, and what happened.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    digest: String,
    events: Option<Events>,
    group: Option<Levels>,
}

type Sorted = Result<Seen, SortError>;

/// A run with deaths.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    ranks: u32,
    spares: u32,
    /// Of the processes; all share one if there are none.
    nodes: Vec<u32>,
    words: Vec<String>,
    crashes: Vec<Crash>,
    bug: Option<Bug>,
}

impl Case {
    /// A run without deaths but those of its words.
    fn calm(ranks: u32, words: &str) -> Self {
        let words = words.split_whitespace().map(str::to_owned).collect();
        let (nodes, crashes) = (Vec::new(), Vec::new());
        Self { seed: 0, ranks, spares: 0, nodes, words, crashes, bug: None }
    }

    fn drawn_from(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let ranks = draw.one_of(&[2, 3, 4, 4, 5, 8]);
        let store = draw.one_of(&STORES);
        let recovery = draw.one_of(&["none", "none", "rebuild"]);
        let pivot = draw.one_of(&["sample", "medians", "root"]);
        let owners = draw.one_of(&["balanced", "paper"]);
        let split = draw.one_of(&["even", "strict"]);
        let mut case = Self::calm(
            ranks,
            &format!(
                "store={store} recovery={recovery} pivot={pivot} owners={owners} split={split}"
            ),
        );
        (case.seed, case.spares) = (seed, draw.below(2) as u32);
        let effects = calm_effects(ranks, store);
        // One rank is left; replacements may be struck, too.
        let most = u64::from(ranks) - 1;
        let most = if recovery == "none" { most } else { most.min(3) };
        let mut struck = Vec::new();
        for _ in 0..draw.below(most + 1) {
            let process = draw.below(u64::from(ranks + case.spares)) as u32;
            if struck.contains(&process) || (recovery == "none" && process >= ranks) {
                continue;
            }
            struck.push(process);
            let first = if process < ranks { LAUNCH_EFFECTS } else { 1 };
            case.crashes.push(if process < ranks && draw.below(4) == 0 {
                Crash::at_time(process, Duration::from_micros(300 + draw.below(3_000)))
            } else {
                Crash::before_effect(process, first + draw.below(effects))
            });
        }
        case
    }

    /// The case of this seed, in which observers also test which ranks are slow.
    fn tested(seed: u64) -> Self {
        let mut case = Self::drawn_from(seed);
        let rejoin = if seed.is_multiple_of(4) { "off" } else { "on" };
        let probation = if seed.is_multiple_of(3) { "off" } else { "on" };
        let words = format!("membership=tests rejoin={rejoin} probation={probation}");
        case.words.extend(words.split(' ').map(str::to_owned));
        // Of two ranks each, of one and two, or all on one.
        let nodes: [&[u32]; 3] = [&[0, 0, 1, 1, 2, 2], &[0, 1, 2, 2], &[]];
        case.nodes = nodes[seed as usize % 5 % 3].to_vec();
        case
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }
}

/// What tests every 20 µs find, where a third of the processes fail one in six of them.
fn found_slow(seed: u64, process: u32, now: Duration) -> Tested {
    Tested::of(found(seed, (process, process), now), 3)
}

/// What observers find of each other, which differs by the tester.
fn found_slow_nodes(seed: u64, (tester, target): (u32, u32), now: Duration) -> Opinion {
    found(seed, (100 + 8 * tester + target, 100 + target), now)
}

fn found(seed: u64, (opinion, target): (u32, u32), now: Duration) -> Opinion {
    let fails = |test: u64| {
        let mut draw = Draw(seed ^ u64::from(opinion) << 32 ^ test << 40);
        Draw(seed ^ u64::from(target)).below(3) == 0 && draw.below(6) == 0
    };
    let mut opinion = Opinion::default();
    for test in 0..now.as_micros() as u64 / 20 {
        let Opinion { fails: failed, streak } = opinion;
        opinion = if fails(test) {
            Opinion { fails: failed + 1, streak: 0 }
        } else {
            Opinion { fails: failed, streak: streak + 1 }
        };
    }
    opinion
}

/// How many effects the busiest process has in a run without deaths.
fn calm_effects(ranks: u32, store: &str) -> u64 {
    static KNOWN: Mutex<BTreeMap<(u32, String), u64>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let run = || most_effects(&run(&Case::calm(ranks, &format!("store={store}")), false));
    *known.entry((ranks, store.to_owned())).or_insert_with(run)
}

fn folder(case: &Case) -> PathBuf {
    let Case { seed, ranks, .. } = case;
    let thread = format!("{:?}", std::thread::current().id());
    let name = format!("lists-{}-{seed}-{ranks}", thread.replace(['(', ')'], ""));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn run(case: &Case, trace: bool) -> Report<Sorted> {
    let folder = folder(case);
    let words = [COUNT.to_owned(), format!("folder={}", folder.display())];
    let words = words.into_iter().chain(case.words.iter().cloned());
    let Ok(Request::Run(options)) = Options::parse(words) else { panic!("these are options") };
    let simulation = Simulation::new(case.ranks).seed(case.seed).spares(case.spares).trace(trace);
    let simulation = simulation.crashes(case.crashes.iter().copied()).tests(found_slow);
    let simulation = simulation.nodes(case.nodes.iter().copied()).node_tests(found_slow_nodes);
    let bug = case.bug;
    let report = simulation.run_world(move |world| {
        plant(bug);
        let hooks = Hooks { die: &|_| crash(), pause: &compute, watch: &mut |_| {} };
        let (world, result) = resilience::sort::<i32>(world, &options, hooks);
        world.finalize();
        result.map(|sorted| {
            sorted.clear();
            assert_eq!(sorted.summary.wrong, None);
            let digest = sorted.summary.digest.to_string();
            Seen { digest, events: sorted.events, group: sorted.group.clone() }
        })
    });
    let _ = std::fs::remove_dir_all(folder);
    report
}

/// What is wrong with a run, if something is; else how many died in it.
fn judge(case: &Case, report: &Report<Sorted>) -> Result<u64, String> {
    let mut results = report.results();
    let troubled = results.any(|result| matches!(result, Err(SortError::Trouble(_))));
    if case.has("store=copies") && troubled {
        return lost_with_its_copy(case, report);
    }
    let (result, deaths) = agreed(report)?;
    match result {
        Ok(seen) if seen.digest == DIGEST => Ok(deaths),
        Ok(seen) => Err(format!("digest: {seen:?}")),
        Err(error) => Err(format!("the sort was given up: {error}")),
    }
}

/// Copies may be lost with the lists: then one rank says so, and all end.
fn lost_with_its_copy(case: &Case, report: &Report<Sorted>) -> Result<u64, String> {
    let said = report.results().filter(|it| matches!(it, Err(SortError::Trouble(Some(_)))));
    let (said, ended) = (said.count(), report.results().count());
    let troubles = report.results().filter(|it| matches!(it, Err(SortError::Trouble(_))));
    let deaths = report.processes.iter().filter(|it| matches!(it.ending, Ending::Crashed)).count();
    let stuck = report.processes.iter().any(|it| matches!(it.ending, Ending::Stuck(_)));
    // The rank that was to speak may have died after the verdict.
    let right = said <= 1 && troubles.count() == ended && !stuck;
    let right = right && deaths > 1 && (said == 1 || deaths > 2);
    if right { Ok(deaths as u64) } else { Err(format!("{said} of {ended} spoke: {case:?}")) }
}

#[test]
fn without_deaths_simulated_ranks_have_the_digest_of_the_specification() {
    for (ranks, words) in [
        (1, ""),
        (2, "store=copies"),
        (3, "store=files"),
        (4, "parts=64"),
        (5, "owners=paper pivot=root split=strict"),
        (8, "local=comparison pivot=medians repeat=3"),
    ] {
        for result in run(&Case::calm(ranks, words), false).expect_orderly() {
            assert_eq!(result.expect("nobody dies").digest, DIGEST, "{ranks} {words}");
        }
    }
}

#[test]
fn seeds_of_deaths_anywhere_change_no_digest() {
    let seeds = number("FAMPI_SEEDS").unwrap_or(SEEDS);
    let mut deaths = 0;
    for seed in 0..seeds {
        let case = Case::drawn_from(seed);
        deaths += judge(&case, &run(&case, false)).unwrap_or_else(|wrong| {
            panic!("{wrong}\n{case:?}\n{}", reproduce("hyperquicksort", seed))
        });
    }
    println!("{deaths} deaths in {seeds} runs");
    assert!(deaths >= seeds / 2, "{deaths}");
}

/// All that live have the same digest, events and group ([`agreed`]).
#[test]
fn seeds_of_slow_ranks_and_of_deaths_leave_one_group_and_the_digest() {
    let seeds = number("FAMPI_SEEDS").unwrap_or(SEEDS / 3);
    let (mut benched, mut back, mut deaths, mut turns) = (0, 0, 0, 0);
    for seed in 0..seeds {
        let case = Case::tested(seed);
        let report = run(&case, false);
        deaths += judge(&case, &report).unwrap_or_else(|wrong| {
            panic!("{wrong}\n{case:?}\n{}", reproduce("hyperquicksort", seed))
        });
        let events = report.results().find_map(|it| it.as_ref().ok()?.events);
        let group = report.results().find_map(|it| it.as_ref().ok()?.group.as_ref());
        turns += group.map_or(0, |group| u64::from(group.nodes().epoch()));
        benched += events.map_or(0, |events| events.benched);
        back += events.map_or(0, |events| events.back);
    }
    println!(
        "{benched} benched, {back} back and {deaths} deaths in {seeds} runs, {turns} of nodes"
    );
    assert!(turns >= seeds / 2, "nodes were benched or came back {turns} times");
    assert!(benched >= seeds / 2 && back >= seeds / 10 && deaths >= seeds / 2, "{benched} {back}");
}

#[test]
fn the_copies_of_the_only_rank_that_works_are_with_one_that_is_benched() {
    let crashes = vec![Crash::before_effect(1, 16)];
    let words = "store=copies split=strict membership=tests";
    let case = Case { seed: 397, crashes, ..Case::calm(2, words) };
    assert_eq!(judge(&case, &run(&case, false)), Ok(1));
}

#[test]
fn a_replacement_works_at_once_or_when_it_has_passed_its_tests() {
    // All pass all tests.
    let fails = |seed, process| found_slow(seed, process, Duration::from_millis(50)).opinion.fails;
    let seed = (0..1000).find(|seed| (0..5).all(|process| fails(*seed, process) == 0));
    let seed = seed.expect("a third of the processes are slow");
    for (probation, counted) in [("on", (1, 1)), ("off", (0, 0))] {
        for store in STORES {
            let kill = "recovery=rebuild repeat=30 kill=1@merge:2";
            let words = format!("{kill} store={store} membership=tests probation={probation}");
            let case = Case { seed, spares: 1, ..Case::calm(4, &words) };
            let report = run(&case, false);
            assert_eq!(judge(&case, &report), Ok(1), "{case:?}");
            for result in report.results() {
                let events = result.as_ref().ok().and_then(|seen| seen.events).expect("events");
                assert_eq!((events.benched, events.back), counted, "{case:?}");
            }
        }
    }
}

fampi_planted::bugs! {
    /// The other half of a list is looked for at the member next to its part, who may not own it.
    AskTheNearest,
    /// A list that is made again lacks the keys that equal its upper bound.
    ForgetTheUpperCopies,
    /// A list that is made again has the keys that equal a bound twice.
    TakeTheBounds,
}

#[test]
fn planted_bugs_are_found_by_few_seeds() {
    for (bug, name) in Bug::ALL {
        let is_wrong = |seed: &u64| {
            let case = Case { bug: Some(*bug), ..Case::drawn_from(*seed) };
            judge(&case, &run(&case, false)).is_err()
        };
        let found = (0..SEEDS).find(is_wrong);
        println!("{name}: {found:?}");
        assert!(found.is_some(), "{name} was not found by {SEEDS} seeds");
    }
}

#[test]
fn one_seed() {
    let Some(seed) = number("FAMPI_SEED") else { return };
    for case in [Case::drawn_from(seed), Case::tested(seed)] {
        let report = run(&case, true);
        println!("{case:#?}\n{report}");
        if let Err(violation) = judge(&case, &report) {
            panic!("{violation}\n{}", reproduce("hyperquicksort", seed));
        }
    }
}

#[test]
fn all_but_one_may_die_at_once_or_one_after_the_other() {
    for store in ["lineage", "files"] {
        for survivor in 0..8 {
            let others = (0..8).filter(|rank| *rank != survivor);
            for at_once in [true, false] {
                let kill = |(at, rank): (u32, u32)| {
                    let round = if at_once { 2 } else { 1 + at % 3 };
                    format!("kill={rank}@exchange:{round} ")
                };
                let kills: String = (0..).zip(others.clone()).map(kill).collect();
                let case = Case::calm(8, &format!("store={store} {kills}"));
                let results = run(&case, false).expect_orderly();
                assert_eq!(results.len(), 1);
                let seen = results[0].as_ref().expect("it is left");
                assert_eq!(seen.digest, DIGEST, "{case:?}");
                assert_eq!(seen.events.map(|events| events.lost), Some(7));
            }
        }
    }
}

#[test]
fn a_death_at_any_point_costs_what_it_should() {
    for (store, phase, redone, rebuilt) in [
        ("lineage", "local", 1, false),
        ("lineage", "pivot", 1, true),
        ("lineage", "exchange", 1, true),
        ("lineage", "merge", 1, true),
        ("lineage", "store", 1, true),
        ("lineage", "finish", 1, true),
        ("copies", "exchange", 1, false),
        ("files", "exchange", 1, false),
    ] {
        let round = if phase == "local" { 1 } else { 2 };
        let case = Case::calm(4, &format!("store={store} kill=2@{phase}:{round}"));
        for result in run(&case, false).expect_orderly() {
            let Seen { digest, events, .. } = result.expect("others are left");
            let Some(events) = events else { panic!("there are events") };
            assert_eq!(digest, DIGEST);
            assert_eq!((events.lost, events.epoch, events.redone), (1, 2, redone), "{case:?}");
            assert_eq!(events.rebuilt > 0, rebuilt, "{case:?}");
        }
    }
}

/// Rank 2 stops before it stores the lists of two rounds, and dies before one of its effects, or at
/// some moment, also while it is stopped.
#[test]
fn a_rank_may_die_while_it_is_slow_whatever_it_has_stored() {
    for store in STORES {
        let words = format!("store={store} membership=tests slow=2@round:1:2:2");
        let effects = (LAUNCH_EFFECTS..LAUNCH_EFFECTS + calm_effects(4, store))
            .map(|effect| Crash::before_effect(2, effect));
        let moments = (1..24).map(|step| Crash::at_time(2, Duration::from_micros(250 * step)));
        let mut died = 0;
        for crash in effects.chain(moments) {
            let case = Case { crashes: vec![crash], ..Case::calm(4, &words) };
            let report = run(&case, false);
            died += judge(&case, &report).unwrap_or_else(|wrong| panic!("{wrong}\n{case:?}"));
        }
        assert!(died > 20, "{store}: {died}");
    }
}

#[test]
fn replacements_take_the_places_of_the_dead() {
    for (spares, kills) in [
        (0, "kill=1@merge:2"),
        (1, "kill=1@merge:2 kill=2@pivot:3"),
        (2, "kill=0@exchange:1 kill=3@exchange:1 kill=2@recovery:1"),
        (1, "kill=5@update:1 kill=5@join:1"),
    ] {
        for store in STORES {
            let words = format!("recovery=rebuild store={store} repeat=2 {kills}");
            let case = Case { spares, ..Case::calm(8, &words) };
            let results = run(&case, false).expect_orderly();
            assert!(results.len() >= 8, "{case:?}");
            for result in results {
                assert_eq!(result.expect("there are replacements").digest, DIGEST, "{case:?}");
            }
        }
    }
}

#[test]
fn a_list_that_is_lost_with_its_copy_ends_the_run_with_one_sentence() {
    // The list of rank 2 is kept at rank 3.
    let case = Case::calm(4, "store=copies kill=2@exchange:2 kill=3@exchange:2");
    let results = run(&case, false).expect_orderly();
    let said: Vec<_> = results.iter().map(|it| it.clone().unwrap_err().to_string()).collect();
    assert_eq!(said.len(), 2);
    assert!(said[0].ends_with("those of parts 2, 3"), "{said:?}");
    assert_eq!(said[1], "another rank cannot go on");
}

/// Rank 3 dies while it tells the others its vote, and only rank 0 has heard of it: that one knew
/// that a round was committed, removed its files of the round before, and died; or it knew that
/// the sort was over, and removed all files.
#[test]
fn a_rank_that_decides_first_and_dies_leaves_the_files_that_the_others_go_back_to() {
    for (third, first) in (25..50).flat_map(|third| (0..5).map(move |more| (third, third + more))) {
        let crashes = vec![Crash::before_effect(3, third), Crash::before_effect(0, first)];
        let case = Case { seed: 146, crashes, ..Case::calm(4, "store=files pivot=root") };
        judge(&case, &run(&case, false)).unwrap_or_else(|wrong| panic!("{wrong}\n{case:?}"));
    }
}

#[test]
fn equal_seeds_tell_equal_stories() {
    for seed in 0..4 {
        let [one, other] = [0; 2].map(|_| run(&Case::drawn_from(seed), false).fingerprint);
        assert_eq!(one, other, "{}", reproduce("hyperquicksort", seed));
    }
}
