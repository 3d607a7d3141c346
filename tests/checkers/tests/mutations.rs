//! Who checks the checkers: bugs planted on purpose, each of which one of them must catch.
//!
//! The table of the ignored test says for each bug how many seeds the swarm of machines needed, how
//! many jobs that of whole programs, and which property failed in which exhaustive search, after
//! how many states. Below are what failed in them, and in cases that are written out and in jobs
//! that once found the bug.

use std::{
    collections::BTreeSet,
    fs,
    hash::Hash,
    panic::{RefUnwindSafe, catch_unwind},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use fampi::protocol::{
    exchange::Shape,
    handshake::Goal,
    membership::{Terms, removal::Rule},
};
use fampi_checkers::{
    bugs::{Bug, plant},
    cases,
    machines::swarm::Swarm,
    model::{benched::Bench, commit::Setup, inside::Inside, on_nodes::OnNodes, recovery::Recovery},
    search::failures,
    simulation::{found, guests::Guests, job::Job, program::Program},
};
use fampi_kit::hushed::{first_wrong, hush, hushed};
use stateright::Model;

/// Seeds given to the swarm of machines for each bug that a search has caught, and for the others.
const SEEDS: [u64; 2] = [2_000, 5_000];

/// How many jobs of whole programs each bug is tried on, and how many a bug is tried on that no
/// checker has caught by then.
const JOBS: [u64; 2] = [300, 50_000];
/// Programs that own their MPI given to each bug, unless a job has caught it.
const GUESTS: u64 = 1_000;

/// Bugs that are not in the machines, or that take more than the models and the swarm of machines
/// have: communicators of communicators, windows, several blocks with requests, new universes.
const IN_THE_ENGINE: [Bug; 27] = [
    Bug::NameNoCause,
    Bug::ShareTheTags,
    Bug::ForgetTheAsker,
    Bug::DrainTheGivenUp,
    Bug::ForgetTheOvertaken,
    Bug::CommitInTheTainted,
    Bug::StartInTheTainted,
    Bug::NameNoBlock,
    Bug::GiveUpTheRest,
    Bug::LoseEarlyMessages,
    Bug::WrapTheTags,
    Bug::DropEarlyDeaths,
    Bug::BelieveTheClass,
    Bug::KeepAbortedCopies,
    Bug::LeaveOutAPage,
    Bug::ChangeThePending,
    Bug::CountTheOlder,
    Bug::AskThePresentKeepers,
    Bug::KeepAbortedPuts,
    Bug::LeaveTheOldWorld,
    Bug::LeaveBeforeTheOthersKnow,
    Bug::ForgetTheFreed,
    Bug::SpawnWhereNoneMay,
    Bug::LeaveTheSparesOut,
    Bug::CallAtOnce,
    Bug::TestTooLong,
    Bug::SleepOnAVote,
];

/// Bugs in the group of recommended processes, which the commits and the engine do not know.
const IN_THE_GROUP: [Bug; 11] = [
    Bug::HearTheBenched,
    Bug::AccuseAsTheyCome,
    Bug::AskNobodyElse,
    Bug::CountOldPasses,
    Bug::AccuseAgain,
    Bug::LeaveNobody,
    Bug::CountTwo,
    Bug::LeaveTheRanksIn,
    Bug::HearTheIdle,
    Bug::TakeItsWord,
    Bug::TellNoNewcomer,
];

/// States given to each exhaustive search, each as often as it is reached; a bug can make the
/// ranks talk for ever.
const STATES: usize = 300_000;
/// States given to a large search, made for bugs that no other one has caught.
const MANY_STATES: usize = 5_000_000;

/// Searches that end in a second when there is no bug.
fn setups() -> [Setup; 22] {
    [
        Setup { crashes: 1, cuts: true, ..Setup::ranks(2) },
        Setup { crashes: 2, cuts: true, ..Setup::ranks(3) },
        Setup { crashes: 2, naysayer: Some(1), ..Setup::ranks(3) },
        Setup { leaver: Some(2), ..Setup::ranks(3) },
        Setup { farewells: 0b010, ..Setup::ranks(3) },
        Setup { farewells: 0b101, crashes: 1, ..Setup::ranks(3) },
        Setup { crashes: 2, blocks: 2, in_sequence: true, ..Setup::ranks(3) },
        Setup { crashes: 1, blocks: 2, ..Setup::ranks(3) },
        Setup { crashes: 1, blocks: 2, in_sequence: true, step: Some(0), ..Setup::ranks(3) },
        Setup { crashes: 1, agreement: Some((0, 0b101)), ..Setup::ranks(3) },
        Setup { crashes: 1, blocks: 2, agreement: Some((1, 0b111)), ..Setup::ranks(2) },
        Setup { crashes: 2, ..Setup::ranks(4) },
        Setup { crashes: 1, blocks: 2, in_sequence: true, ..Setup::ranks(4) },
        Setup { crashes: 1, fused: true, ..Setup::ranks(3) },
        Setup { crashes: 1, fused: true, ..Setup::ranks(4) },
        Setup { crashes: 1, fused: true, ..Setup::ranks(5) },
        Setup { fused: true, misfit: Some(1), ..Setup::ranks(3) },
        Setup { fused: true, shape: Shape::WIDE, ..Setup::ranks(4) },
        Setup { fused: true, shape: Shape::new(4, 2), ..Setup::ranks(5) },
        Setup { crashes: 1, causes: true, ..Setup::ranks(3) },
        Setup { crashes: 1, nodes: &[0, 0, 1], ..Setup::ranks(3) },
        Setup { fused: true, nodes: &[0, 1, 0, 1], ..Setup::ranks(4) },
    ]
}

/// How many seeds run until one catches the bug, and what it says.
fn seeds_catch(
    bug: Option<Bug>,
    seeds: u64,
    run: impl Fn(u64) -> Result<(), String> + RefUnwindSafe,
) -> Option<(u64, String)> {
    plant(bug);
    let caught = first_wrong(seeds, run);
    plant(None);
    caught
}

/// The first seed of the swarm of machines that catches a bug.
fn swarm_catches(bug: Option<Bug>, seeds: u64) -> Option<(u64, String)> {
    seeds_catch(bug, seeds, |seed| Swarm::new(seed, false).run().map(|_| ()))
}

/// The first seed of whole programs that catches a bug.
fn programs_catch<P: Program>(bug: Option<Bug>, seeds: u64) -> Option<(u64, String)> {
    seeds_catch(bug, seeds, |seed| P::drawn_from(seed).run(false).map(|_| ()))
}

/// What the cases that are written out say of the bug, and the jobs that once found it.
fn written_catches(bug: Option<Bug>) -> Option<String> {
    let is_for = |other: &Bug| bug.is_none_or(|bug| bug == *other);
    plant(bug);
    let mut cases = cases::CASES.iter().filter(|(bug, _)| is_for(bug));
    let wrong = |run: thread::Result<Result<(), String>>| {
        run.unwrap_or_else(|_| Err("a rank panicked".into())).err()
    };
    let caught = cases.find_map(|(_, case)| wrong(catch_unwind(case)));
    let mut jobs = found::jobs().filter(|(bug, _)| is_for(bug));
    let caught = caught.or_else(|| jobs.find_map(|(_, job)| job.violation()));
    plant(None);
    caught
}

/// The recovery of so many ranks, one of which may die.
fn rebuild(bug: Option<Bug>, ranks: u32) -> Recovery {
    Recovery { crashes: 1, bug, ..Recovery::rebuild(ranks) }
}

/// How many states the searches see until one catches the bug, and the properties that failed.
fn search_catches(bug: Option<Bug>) -> Option<(usize, String)> {
    let mut states = 0;
    let rebuild = |ranks| rebuild(bug, ranks);
    let spare = Recovery { crashes: 2, spares: 1, ..rebuild(2) };
    let shrink = Recovery { goal: Goal::Shrink, ..rebuild(3) };
    let repair = Recovery { crashes: 1, bug, ..Recovery::repair(3) };
    let small = [rebuild(2), spare, shrink, repair, rebuild(3)];
    let ring = Inside { ring: true, bug, ..Inside::ranks(3) };
    let inner = Inside { inner: 2, naysayer: Some(0), bug, ..Inside::ranks(3) };
    let again = Inside { again: true, bug, ..Inside::ranks(2) };
    let again_inside = Inside { inner: 2, leaver: Some(0), ..again };
    let again = Inside { ring: true, leaver: Some(1), ..again };
    let ring = [Inside { crashes: 1, ..ring }, Inside { leaver: Some(1), ..ring }];
    let mut inside = ring.into_iter().chain([inner, again, again_inside]);
    let mut small = small.into_iter();
    let mut commits = setups().into_iter().map(|it| Setup { bug, ..it });
    let caught = small.find_map(|it| search("recovery", it, (STATES, &mut states)));
    let caught =
        caught.or_else(|| inside.find_map(|it| search("inside", it, (STATES, &mut states))));
    caught.or_else(|| commits.find_map(|it| search("commit", it, (STATES, &mut states))))
}

/// How many states the searches of groups see until one catches the bug.
fn group_search_catches(bug: Option<Bug>) -> Option<(usize, String)> {
    let mut states = 0;
    let of = |rule, zeta| Bench { terms: Terms { rule, zeta }, bug, ..Bench::ranks(3) };
    let setups = [
        Bench { fails: 2, passes: 3, ..of(Rule::Any, 2) },
        Bench { fails: 3, passes: 2, ..of(Rule::Fewest, 1) },
        Bench { fails: 1, deaths: 1, bug, ..Bench::ranks(2) },
    ];
    let on =
        |places, rule| OnNodes { terms: Terms { rule, zeta: 1 }, bug, ..OnNodes::places(places) };
    let on_nodes = [
        OnNodes { fails: 2, passes: 1, own: 1, ..on(&[0, 0, 1, 2], Rule::Any) },
        OnNodes { fails: 1, deaths: 1, replacements: 1, ..on(&[0, 0, 1], Rule::Fewest) },
    ];
    let ranks = setups.into_iter();
    let caught = ranks.clone().find_map(|it| search("benched", it, (STATES, &mut states)));
    let mut of_nodes = on_nodes.into_iter();
    caught.or_else(|| of_nodes.find_map(|it| search("nodes", it, (STATES, &mut states))))
}

/// Whether the large search catches a bug.
fn large_search_catches(bug: Option<Bug>) -> Option<(usize, String)> {
    let twice = Recovery { crashes: 2, ..rebuild(bug, 3) };
    search("recovery", twice, (MANY_STATES, &mut 0))
}

/// The properties that failed in a search, if any did, and how many states all searches saw.
fn search<M>(model: &str, setup: M, (limit, states): (usize, &mut usize)) -> Option<(usize, String)>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Hash + PartialEq + Send + Sync,
    M::Action: Clone + PartialEq + Send + Sync,
{
    let failed = failures(setup, limit, states)?;
    Some((*states, format!("{model}: {failed}")))
}

/// What the checkers say of a bug, or of none.
struct Findings {
    swarm: Option<(u64, String)>,
    search: Option<(usize, String)>,
    jobs: Option<(u64, String)>,
    written: Option<String>,
}

impl Findings {
    fn of(bug: Option<Bug>) -> Self {
        hushed(move || {
            if bug.is_some_and(|bug| IN_THE_GROUP.contains(&bug)) {
                let search = group_search_catches(bug);
                return Self { search, swarm: None, jobs: None, written: None };
            }
            // The models and the swarm of machines have no engine.
            let machines = bug.is_none_or(|bug| !IN_THE_ENGINE.contains(&bug));
            let search = machines.then(|| search_catches(bug)).flatten();
            let group = || group_search_catches(None);
            let search = search.or_else(|| bug.is_none().then(group).flatten());
            let seeds = SEEDS[usize::from(search.is_none())];
            let swarm = machines.then(|| swarm_catches(bug, seeds)).flatten();
            let jobs = programs_catch::<Job>(bug, JOBS[0]);
            let jobs = jobs.or_else(|| programs_catch::<Guests>(bug, GUESTS));
            let written = written_catches(bug);
            let missed = [search.is_none(), swarm.is_none(), jobs.is_none(), written.is_none()];
            let missed = bug.is_some() && missed.iter().all(|it| *it);
            let large = machines && missed;
            let search = search.or_else(|| large.then(|| large_search_catches(bug)).flatten());
            let missed = missed && search.is_none();
            let jobs =
                jobs.or_else(|| missed.then(|| programs_catch::<Job>(bug, JOBS[1])).flatten());
            Self { swarm, search, jobs, written }
        })
    }
}

/// Whether any of the checkers catches a bug; those that are soon done come first.
fn is_caught(bug: Bug) -> bool {
    hushed(move || {
        let planted = Some(bug);
        if IN_THE_GROUP.contains(&bug) {
            return group_search_catches(planted).is_some();
        }
        // The models and the swarm of machines have no engine.
        let machines = !IN_THE_ENGINE.contains(&bug);
        written_catches(planted).is_some()
            || machines && swarm_catches(planted, SEEDS[0]).is_some()
            || programs_catch::<Job>(planted, JOBS[0]).is_some()
            || programs_catch::<Guests>(planted, GUESTS).is_some()
            || machines && search_catches(planted).is_some()
            || machines && swarm_catches(planted, SEEDS[1]).is_some()
            || machines && large_search_catches(planted).is_some()
            || programs_catch::<Job>(planted, JOBS[1]).is_some()
    })
}

/// Asks this of no bug, and of each bug in this order, by two threads; first what takes longest.
fn of_none_and_each<T: Send>(ask: impl Fn(Option<Bug>) -> T + Sync) -> (T, Vec<(Bug, T)>) {
    hush();
    let next = AtomicUsize::new(0);
    let number_of_bugs = Bug::ALL.len();
    let asked = || -> Vec<(usize, T)> {
        let turns = std::iter::repeat_with(|| next.fetch_add(1, Relaxed));
        let mine = turns.take_while(|turn| *turn <= number_of_bugs);
        // Number 0 is none, then come the last bug and those before it.
        let numbers = mine.map(|turn| if turn == 0 { 0 } else { number_of_bugs + 1 - turn });
        let of = |number: usize| ask(number.checked_sub(1).map(|at| Bug::ALL[at].0));
        numbers.map(|number| (number, of(number))).collect()
    };
    let mut all = thread::scope(|scope| {
        let other = scope.spawn(asked);
        let mut all = asked();
        all.extend(other.join().expect("the checkers survive what they find"));
        all
    });
    all.sort_unstable_by_key(|(number, _)| *number);
    let mut all = all.into_iter();
    let (_, none) = all.next().expect("none is the first");
    (none, all.map(|(number, answer)| (Bug::ALL[number - 1].0, answer)).collect())
}

#[test]
fn every_planted_bug_is_caught_and_none_is_seen_where_none_is() {
    let ask = |bug: Option<Bug>| match bug {
        Some(bug) => (is_caught(bug), None),
        None => (false, Some(Findings::of(None))),
    };
    let ((_, none), bugs) = of_none_and_each(ask);
    let none = none.expect("asked of none");
    assert_eq!(none.swarm, None, "the swarm sees a bug that is not there");
    assert_eq!(none.search, None, "the searches see a bug that is not there");
    assert_eq!(none.jobs, None, "the jobs see a bug that is not there");
    assert_eq!(none.written, None, "what is written out sees a bug that is not there");
    let missed: Vec<Bug> =
        bugs.into_iter().filter(|(_, (is_caught, _))| !is_caught).map(|(bug, _)| bug).collect();
    assert!(missed.is_empty(), "nobody caught {missed:?}");
}

#[test]
#[ignore = "a table of what each checker finds, which takes a minute more"]
fn what_each_checker_finds_of_each_bug() {
    let (_, findings) = of_none_and_each(Findings::of);
    let mut missed = Vec::new();
    println!("{:>20} {:>8} {:>8} {:>8}", "bug", "machines", "jobs", "states");
    for ((bug, found), (_, name)) in findings.into_iter().zip(Bug::ALL) {
        let count = |seeds: &Option<(u64, String)>| {
            seeds.as_ref().map_or("-".into(), |(seeds, _)| seeds.to_string())
        };
        let states = found.search.as_ref().map_or("-".into(), |(states, _)| states.to_string());
        let property = found.search.as_ref().map_or("", |(_, properties)| properties);
        let (machines, jobs) = (count(&found.swarm), count(&found.jobs));
        println!("{name:>20} {machines:>8} {jobs:>8} {states:>8} {property}");
        let wrongs = found.swarm.iter().chain(&found.jobs).map(|(_, wrong)| wrong);
        for wrong in wrongs.chain(&found.written) {
            println!("{:>22}{}", "", wrong.chars().take(100).collect::<String>());
        }
        let seen = found.swarm.is_some() || found.search.is_some();
        if !seen && found.jobs.is_none() && found.written.is_none() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "nobody caught {missed:?}");
}

/// The names of the bugs that the sources below a folder ask for.
fn asked_for(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            asked_for(&path, names);
        } else {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let names_in = text.split("planted!(").skip(1).filter_map(|it| it.split(')').next());
            names.extend(names_in.map(str::to_owned));
        }
    }
}

#[test]
fn every_bug_that_the_sources_ask_for_has_a_name_here_and_the_other_way_round() {
    let mut asked = BTreeSet::new();
    asked_for(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src"), &mut asked);
    let known: BTreeSet<String> = Bug::ALL.iter().map(|(_, name)| (*name).to_owned()).collect();
    assert_eq!(asked, known);
}
