//! A repair: a program that owns its MPI has spawned a replacement for the dead rank, and linked it
//! to the survivors, after a block that has named the dead.
//!
//! The replacement comes to the call when it likes. The root agrees to begin when it has come, and
//! declines when it, or the link, is no more. The call has one result for all: success when
//! all in the link have entered it; failure when one of them is dead, or when the link was cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fampi::protocol::{
    commit::Commit,
    handshake::{Goal, Handshake, Order},
};

use super::{Process, State, Turn, Universe, play::Play};

/// The universe of a replacement that is in none so far.
const NOWHERE: usize = usize::MAX;
/// The universe that the call makes.
const REPAIRED: usize = 1;

/// Survivors and replacement.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Link {
    /// The processes by the rank that they get; nothing in all but repairs.
    members: Vec<usize>,
    /// Who has entered the call.
    entered: BTreeSet<usize>,
    /// Nothing comes of the call.
    cut: bool,
    /// How the call went for whoever came back first, and so for all.
    result: Option<bool>,
}

/// Brings the replacement into being, linked to all but the dead rank, the last one.
pub(super) fn begin(state: &mut State, dead: usize) {
    state.link.members = (0..dead).chain([state.processes.len()]).collect();
    let process = Process::clone(&state.processes[0]);
    let (handshake, memberships) = (Handshake::enter(), BTreeMap::new());
    let replacement = Process { handshake, memberships, universe: NOWHERE, ..process };
    state.processes.push(Arc::new(replacement));
    state.alive.push(true);
}

/// What a process can do that is in the call of a repair, or has to come to it.
pub(super) fn turns(state: &State, process: &Process) -> Option<Vec<Turn>> {
    let Link { members, entered, cut, result } = &state.link;
    if process.calls.is_none() || members.is_empty() {
        let is_to_come = process.universe == NOWHERE && process.outcome.is_none();
        return (is_to_come && process.calls.is_none()).then(|| vec![Turn::Come]);
    }
    if let Some(result) = result {
        return Some(vec![Turn::Return(*result)]);
    }
    let complete = members.iter().all(|member| entered.contains(member));
    let broken = *cut || members.iter().any(|member| !state.alive[*member]);
    let results = complete.then_some(true).into_iter().chain(broken.then_some(false));
    Some(results.map(Turn::Return).collect())
}

/// The survivor that hears of the replacement.
const ROOT: usize = 0;

/// True when the root can say whether the repair is to begin.
pub(super) fn can_hear(state: &State, process: &Process) -> bool {
    let Link { members, entered, cut, .. } = &state.link;
    let replacement = members.last().expect("in a repair there is one");
    process.listens && (*cut || entered.contains(replacement) || !state.alive[*replacement])
}

impl Play<'_> {
    /// The root has heard of the replacement.
    pub(super) fn hear(&mut self) {
        let Link { members, cut, .. } = &self.state.link;
        let lives = members.last().is_some_and(|replacement| self.state.alive[*replacement]);
        let begins = lives && !*cut;
        self.process.listens = false;
        self.answer(|out| {
            if begins { Handshake::start(Goal::Repair, 1, out) } else { Handshake::decline(out) }
        });
    }

    fn answer(&mut self, begin: impl FnOnce(&mut Vec<Order>) -> Handshake) {
        let mut orders = Vec::new();
        self.process.handshake = begin(&mut orders);
        self.obey(&orders);
    }

    /// The replacement comes.
    pub(super) fn come(&mut self) {
        let mut orders = Vec::new();
        self.process.handshake.handle_verdict(true, 0, &mut orders);
        self.obey(&orders);
    }

    /// True after the block that names the dead rank.
    pub(super) fn begins_repair(&self, universe: usize) -> bool {
        let is_first = || self.process.memberships[&universe].next_block == 1;
        self.setup.goal == Goal::Repair && universe == 0 && is_first()
    }

    /// Takes the orders with which the repair began, or refuses it: the root without waiting.
    pub(super) fn begin_repair(&mut self) {
        let refuses = self.setup.refuser == Some(self.me);
        if refuses && self.me == ROOT {
            let mut orders = Vec::new();
            Handshake::refuse(&mut orders);
            self.obey(&orders);
            self.state.link.cut = true;
        } else if refuses {
            self.state.link.cut = true;
            self.answer(Handshake::decline);
        } else if self.me == ROOT {
            self.process.listens = true;
        } else {
            self.answer(|out| Handshake::start(Goal::Repair, 1, out));
        }
    }

    pub(super) fn enter_link(&mut self) {
        self.process.calls = Some((0, true));
        self.state.link.entered.insert(self.me);
    }

    /// The universe that the call has made: the replacement has the rank of the dead.
    pub(super) fn repaired(&mut self) -> usize {
        if self.state.universes.len() == REPAIRED {
            let (members, roster) = (self.state.link.members.clone(), self.process.roster.clone());
            self.state.universes.push(Arc::new(Universe { members, roster }));
        }
        REPAIRED
    }

    /// The call of a repair has one result.
    pub(super) fn settle_link(&mut self, worked: bool) {
        if self.setup.goal == Goal::Repair {
            self.state.link.result = Some(worked);
        }
    }

    /// Whoever is in the call is told, and what it has made is given up.
    pub(super) fn cut_link(&mut self) {
        self.state.link.cut = true;
        self.process.next = None;
        self.drive(REPAIRED, Commit::retire);
    }
}
