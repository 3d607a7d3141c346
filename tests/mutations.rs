//! Who checks the checkers: bugs planted in the commit, each of which they must catch.
//!
//! The table that a run prints says for each bug how many seeds the swarm needed, and which
//! property failed in the exhaustive search after how many states.

#[path = "machines/plan.rs"]
mod plan;
#[path = "model/properties/mod.rs"]
mod properties;
#[path = "machines/random.rs"]
mod random;
#[path = "model/record.rs"]
mod record;
#[path = "machines/swarm.rs"]
mod swarm;
#[path = "model/world.rs"]
mod world;

use std::{
    panic::{self, catch_unwind},
    thread,
};

use fampi::protocol::planted::{self, Bug};
use stateright::{Checker, HasDiscoveries, Model};
use swarm::Swarm;
use world::Setup;

/// Seeds given to the swarm for each bug.
const SEEDS: u64 = 20_000;

/// States given to each exhaustive search; a bug can make the ranks talk for ever.
const STATES: usize = 300_000;

/// Searches that end in a second when there is no bug.
fn setups() -> [Setup; 8] {
    [
        Setup { crashes: 1, cuts: true, ..Setup::ranks(2) },
        Setup { crashes: 2, cuts: true, ..Setup::ranks(3) },
        Setup { crashes: 2, naysayer: Some(1), ..Setup::ranks(3) },
        Setup { leaver: Some(2), ..Setup::ranks(3) },
        Setup { crashes: 2, blocks: 2, in_sequence: true, ..Setup::ranks(3) },
        Setup { crashes: 1, blocks: 2, ..Setup::ranks(3) },
        Setup { crashes: 2, ..Setup::ranks(4) },
        Setup { crashes: 1, blocks: 2, in_sequence: true, ..Setup::ranks(4) },
    ]
}

/// How many seeds the swarm runs until it catches the bug, and what it says.
fn swarm_catches(bug: Option<Bug>) -> Option<(u64, String)> {
    planted::plant(bug);
    let caught = (0..SEEDS).find_map(|seed| {
        let run = catch_unwind(|| Swarm::new(seed, false).run());
        let wrong = run.unwrap_or_else(|_| Err("a machine panicked".into())).err()?;
        Some((seed + 1, wrong))
    });
    planted::plant(None);
    caught
}

/// How many states the searches see until one catches the bug, and the properties that failed.
fn search_catches(bug: Option<Bug>) -> Option<(usize, String)> {
    let mut states = 0;
    for setup in setups() {
        let checker = Setup { bug, ..setup }.checker();
        let checker = checker.finish_when(HasDiscoveries::AnyFailures).target_state_count(STATES);
        let checker = checker.spawn_bfs().join();
        states += checker.unique_state_count();
        let failed: Vec<_> = checker.discoveries().into_keys().collect();
        if !failed.is_empty() {
            return Some((states, failed.join(", ")));
        }
    }
    None
}

/// Keeps the panics that bugs provoke in the machines off the screen. They happen in the threads
/// of the checker and in those that this test calls `hushed`.
fn hush() {
    let shout = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let thread = thread::current();
        let name = thread.name().unwrap_or_default();
        if !name.starts_with("checker-") && name != "hushed" {
            shout(panic);
        }
    }));
}

/// What a checker says of each bug, and without one.
fn hushed<T: Send + 'static>(check: fn(Option<Bug>) -> Option<T>) -> (Vec<Option<T>>, Option<T>) {
    let all = move || (Bug::ALL.iter().map(|bug| check(Some(*bug))).collect(), check(None));
    let thread = thread::Builder::new().name("hushed".into()).spawn(all).expect("a thread");
    thread.join().expect("a checker survives what it finds")
}

#[test]
fn every_planted_bug_is_caught_and_none_is_seen_where_none_is() {
    hush();
    let (swarmed, unplanted) = hushed(swarm_catches);
    assert_eq!(unplanted, None, "the swarm sees a bug that is not there");
    let (searched, unplanted) = hushed(search_catches);
    assert_eq!(unplanted, None, "the searches see a bug that is not there");

    let mut missed = Vec::new();
    for (bug, (swarm, search)) in Bug::ALL.iter().zip(swarmed.iter().zip(&searched)) {
        let name = format!("{bug:?}");
        let seeds = swarm.as_ref().map_or("-".into(), |(seeds, _)| seeds.to_string());
        let states = search.as_ref().map_or("-".into(), |(states, _)| states.to_string());
        let properties = search.as_ref().map_or("", |(_, properties)| properties);
        println!("{name:>18}: {seeds:>6} seeds {states:>8} states  {properties}");
        if let Some((_, wrong)) = swarm {
            println!("{:>20}{}", "", wrong.chars().take(100).collect::<String>());
        }
        if swarm.is_none() && search.is_none() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "nobody caught {missed:?}");
}
