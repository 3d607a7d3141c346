//! Who checks the checkers: bugs planted on purpose, each of which one of them must catch.
//!
//! The table that a run prints says for each bug how many storms were needed, and which property
//! failed in the exhaustive searches, after how many states.

use fampi_kit::hushed::{first_wrong, hush, hushed};
use stateright::{Checker as _, Expectation, HasDiscoveries, Model as _};

use crate::{
    bugs::{Bug, plant},
    model::Detector,
    stories,
    storm::Storm,
};

/// Storms given to each bug.
const STORMS: u64 = 300;

/// States given to each exhaustive search, each as often as it is reached; a bug can make the
/// observers talk for ever.
const STATES: usize = 300_000;

/// How many storms run until one catches the bug, and what it says.
fn storms_catch(bug: Option<Bug>) -> Option<(u64, String)> {
    plant(bug);
    let caught = first_wrong(STORMS, |seed| Storm::new(seed).run().map(|_| ()));
    plant(None);
    caught
}

/// How many states the searches see until one catches the bug, and the properties that failed.
fn searches_catch(bug: Option<Bug>) -> Option<(usize, String)> {
    let mut states = 0;
    let of = |nodes| Detector { bug, ..Detector::nodes(nodes) };
    let setups = [
        Detector { crashes: 1, exits: 1, ..of(3) },
        Detector { exits: 1, losses: 1, ..of(2) },
        Detector { exits: 1, joins: 1, ..of(3) },
        Detector { crashes: 1, returns: 1, ..of(3) },
        Detector { mistakes: 1, losses: 1, ..of(3) },
        Detector { mistakes: 2, ..of(2) },
        Detector { mistakes: 1, exits: 1, ..of(3) },
        Detector { crashes: 2, returns: 1, ..of(3) },
    ];
    setups.into_iter().find_map(|setup| search(setup, &mut states))
}

/// How many stories of tests are told until one catches the bug, and what it says.
fn stories_catch(bug: Option<Bug>) -> Option<(usize, String)> {
    plant(bug);
    let caught = stories::all().err();
    plant(None);
    caught
}

/// The properties that failed in a search, if any did, and how many states all of them saw.
fn search(setup: Detector, states: &mut usize) -> Option<(usize, String)> {
    let properties = setup.properties();
    let always = properties.iter().filter(|it| matches!(it.expectation, Expectation::Always));
    let always: Vec<&str> = always.map(|property| property.name).collect();
    let checker = setup.checker().finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.target_state_count(STATES).spawn_bfs().join();
    *states += checker.unique_state_count();
    let mut failed: Vec<_> = checker.discoveries().into_keys().collect();
    failed.retain(|name| always.contains(name));
    (!failed.is_empty()).then(|| (*states, failed.join(", ")))
}

#[test]
fn every_planted_bug_is_caught_and_none_is_seen_where_none_is() {
    hush();
    let none = hushed(|| (storms_catch(None), searches_catch(None), stories_catch(None)));
    assert_eq!(none, (None, None, None), "a checker sees a bug that is not there");
    println!("{:>20} {:>6} {:>8}", "bug", "storms", "states");
    let mut missed = Vec::new();
    for (bug, name) in Bug::ALL {
        let stories = hushed(|| stories_catch(Some(*bug)));
        if let Some((stories, wrong)) = stories {
            let wrong: String = wrong.chars().take(100).collect();
            println!("{name:>20} {stories:>6} stories: {wrong}");
            continue;
        }
        let (storms, search) = hushed(|| (storms_catch(Some(*bug)), searches_catch(Some(*bug))));
        let seeds = storms.as_ref().map_or("-".into(), |(seeds, _)| seeds.to_string());
        let states = search.as_ref().map_or("-".into(), |(states, _)| states.to_string());
        let property = search.as_ref().map_or("", |(_, properties)| properties);
        println!("{name:>20} {seeds:>6} {states:>8} {property}");
        if let Some((_, wrong)) = &storms {
            println!("{:>22}{}", "", wrong.chars().take(100).collect::<String>());
        }
        if storms.is_none() && search.is_none() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "nobody caught {missed:?}");
}
