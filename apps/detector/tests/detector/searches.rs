//! Exhaustive checks of the observers: every order of every event, with the properties of the model
//! asked in every state.
//!
//! Each search pins the number of different states. It changes with the protocol; a change that
//! was not meant is worth a look.

use stateright::{Checker as _, Expectation, HasDiscoveries, Model as _};

use crate::model::Detector;

/// Searches all states of a setup, of which there are so many.
fn check(setup: Detector, states: usize) {
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

#[test]
fn observers_learn_of_every_death_whatever_is_lost_on_the_way() {
    check(Detector { crashes: 1, exits: 2, losses: 2, ..Detector::nodes(2) }, 897);
    check(Detector { exits: 2, losses: 2, ..Detector::nodes(3) }, 5197);
    check(Detector { crashes: 2, losses: 1, ..Detector::nodes(3) }, 238);
    check(Detector { crashes: 2, exits: 1, losses: 1, ..Detector::nodes(3) }, 7513);
    check(Detector { crashes: 3, ..Detector::nodes(4) }, 17_067);
}

#[test]
fn observers_learn_of_every_new_life_and_take_nothing_from_the_old() {
    check(Detector { crashes: 2, exits: 1, joins: 1, ..Detector::nodes(3) }, 13_016);
    check(Detector { crashes: 2, returns: 1, ..Detector::nodes(2) }, 83);
    check(Detector { crashes: 2, returns: 1, ..Detector::nodes(3) }, 11_833);
}

#[test]
fn an_observer_that_is_declared_dead_and_lives_is_fenced() {
    check(Detector { mistakes: 1, losses: 1, ..Detector::nodes(2) }, 134);
    check(Detector { mistakes: 1, losses: 1, ..Detector::nodes(3) }, 5341);
    check(Detector { mistakes: 1, crashes: 1, ..Detector::nodes(3) }, 35_668);
    check(Detector { mistakes: 1, exits: 1, ..Detector::nodes(3) }, 257_080);
    check(Detector { mistakes: 2, ..Detector::nodes(2) }, 136);
    check(Detector { mistakes: 2, ..Detector::nodes(3) }, 243_950);
}
