//! Exhaustive searches of models: every order of every event.

use std::{fmt::Debug, hash::Hash};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Searches all states of a setup, of which there are so many.
pub fn check<M>(setup: M, states: usize)
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let (mut properties, setup_in_words) = (setup.properties(), format!("{setup:?}"));
    let checker = setup.checker().finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    // A search that found a failure has not gone on to what comes true later.
    properties.sort_by_key(|property| matches!(property.expectation, Expectation::Sometimes));
    for property in properties {
        let path = checker.discovery(property.name);
        if matches!(property.expectation, Expectation::Sometimes) {
            assert!(path.is_some(), "{} never comes true for {setup_in_words}", property.name);
            continue;
        }
        let Some(path) = path else { continue };
        let state = path.last_state().clone();
        let actions = path.into_actions();
        panic!("{} fails for {setup_in_words}\nafter {actions:#?}\nin {state:#?}", property.name);
    }
    assert_eq!(checker.unique_state_count(), states, "states of {setup_in_words}");
}

/// The properties that failed in a search up to a number of states, if any did. Adds how many
/// different states it saw.
pub fn failures<M>(setup: M, limit: usize, states: &mut usize) -> Option<String>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Hash + PartialEq + Send + Sync,
    M::Action: Clone + PartialEq + Send + Sync,
{
    let properties = setup.properties();
    let always = properties.iter().filter(|it| matches!(it.expectation, Expectation::Always));
    let always: Vec<&str> = always.map(|property| property.name).collect();
    let checker = setup.checker().finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.target_state_count(limit).spawn_bfs().join();
    *states += checker.unique_state_count();
    let mut failed: Vec<_> = checker.discoveries().into_keys().collect();
    failed.retain(|name| always.contains(name));
    (!failed.is_empty()).then(|| failed.join(", "))
}
