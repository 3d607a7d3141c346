//! What a process of the model does in a turn.

use std::{collections::BTreeMap, sync::Arc};

use fampi::{
    fault::{Fault, FaultCode},
    ids::{BlockId, CommId},
    protocol::{
        Effect, Event,
        agreement::Vote,
        commit::Commit,
        exchange::Shape,
        handshake::{Goal, Handshake, Order},
        message::Message,
        roster::Placement,
    },
    rank::Rank,
};

use super::{LIMIT, Membership, Outcome, Process, Recovery, State, Turn, Universe};

/// One turn under way.
pub(super) struct Play<'a> {
    pub(super) setup: &'a Recovery,
    pub(super) state: &'a mut State,
    pub(super) me: usize,
    pub(super) process: Process,
}

/// Lets a process do something in a state.
pub(super) fn play(
    setup: &Recovery,
    state: &mut State,
    me: usize,
    turn: impl FnOnce(&mut Play<'_>),
) {
    let process = Process::clone(&state.processes[me]);
    let mut play = Play { setup, state, me, process };
    turn(&mut play);
    let process = play.process;
    state.processes[me] = Arc::new(process);
}

impl Play<'_> {
    pub(super) fn take(&mut self, turn: Turn) {
        match turn {
            Turn::Take(from) => self.receive(from),
            Turn::Notice(dead) => {
                self.state.links.remove(&(dead, self.me));
                for universe in self.process.memberships.keys().copied().collect::<Vec<_>>() {
                    let members = &self.state.universes[universe].members;
                    if let Some(place) = members.iter().position(|member| *member == dead) {
                        self.drive(universe, |it, out| it.handle_failure(place.into(), out));
                    }
                }
            }
            Turn::Return(worked) => self.come_back(worked),
            Turn::Come => self.come(),
            Turn::Hear => self.hear(),
            Turn::Die => {}
        }
    }

    fn receive(&mut self, from: usize) {
        let link = self.state.links.get_mut(&(from, self.me)).expect("something is on it");
        let (universe, message) = link.remove(0);
        if link.is_empty() {
            self.state.links.remove(&(from, self.me));
        }
        let place = self.place(universe, from);
        if let Message::Interrupt(_) = &*message {
            if universe == self.process.universe && self.process.outcome.is_none() {
                self.process.outcome = Some(Outcome::Gone);
            }
            return;
        }
        let message = Arc::unwrap_or_clone(message);
        self.drive(universe, |it, out| it.handle_message(place, message, out));
    }

    fn place(&self, universe: usize, process: usize) -> Rank {
        let members = &self.state.universes[universe].members;
        members.iter().position(|member| *member == process).expect("a member").into()
    }

    /// A turn of the commit of a universe, with all that follows.
    pub(super) fn drive(
        &mut self,
        universe: usize,
        turn: impl FnOnce(&mut Commit, &mut Vec<Effect>),
    ) {
        let Some(membership) = self.process.memberships.get_mut(&universe) else { return };
        let mut out = Vec::new();
        turn(&mut membership.commit, &mut out);
        let mut verdict = None;
        for effect in out {
            match effect {
                Effect::Send(to, message) => self.send(universe, to, message),
                Effect::Emit(Event::Decided(block)) => {
                    let it = self.process.memberships.get_mut(&universe).expect("as before");
                    let decision = it.commit.decision(block).expect("just decided");
                    it.context = it.context.max(decision.next_context);
                    let newest = universe == self.process.universe;
                    if newest && block.0 + 1 == it.next_block && self.process.outcome.is_none() {
                        verdict = Some(decision.committed);
                    }
                }
                Effect::Emit(_) => {}
            }
        }
        let Some(committed) = verdict else { return };
        if self.begins_repair(universe) {
            return self.begin_repair();
        }
        let dead = self.process.memberships[&universe].commit.agreed_dead();
        let members = &self.process.roster.members;
        let orphaned =
            !self.process.handshake.is_welcome() && self.process.roster.is_orphaned(dead);
        let nobody = members.iter().all(|it| dead.contains(*it));
        if self.setup.goal == Goal::Rebuild && (nobody || orphaned) {
            self.process.outcome = Some(Outcome::Gone);
            return;
        }
        let mut orders = Vec::new();
        let communicators = u32::from(self.setup.goal == Goal::Rebuild);
        self.process.handshake.handle_verdict(committed, communicators, &mut orders);
        self.obey(&orders);
    }

    fn send(&mut self, universe: usize, to: Rank, message: Message) {
        let to = self.state.universes[universe].members[to.index()];
        if self.state.alive[to] {
            let link = self.state.links.entry((self.me, to)).or_default();
            link.push((universe, Arc::new(message)));
        }
    }

    pub(super) fn obey(&mut self, orders: &[Order]) {
        for order in orders {
            match order {
                Order::Vote(yes) => self.vote(*yes),
                Order::Call if self.setup.goal == Goal::Repair => self.enter_link(),
                Order::Call | Order::CallFor(_) => {
                    let universe = self.process.universe;
                    let place = self.place(universe, self.me);
                    let number = self.process.memberships[&universe].next_block;
                    let universal = self.setup.goal == Goal::Rebuild && *order == Order::Call;
                    self.process.calls = Some((number, universal));
                    let call = self.state.calls.entry((universe, number)).or_default();
                    call.0.insert(place);
                }
                Order::Adopt => {
                    let next = self.process.next.take().expect("the call worked");
                    let old = std::mem::replace(&mut self.process.universe, next);
                    self.process.roster = self.state.universes[next].roster.clone();
                    if self.setup.goal == Goal::Rebuild {
                        self.drive(old, Commit::retire);
                    }
                }
                Order::Discard if self.setup.goal == Goal::Repair => self.cut_link(),
                Order::Discard => {
                    let Some(next) = self.process.next.take() else { continue };
                    self.process.memberships.remove(&next);
                    for to in 0..self.state.universes[next].members.len() {
                        if self.state.universes[next].members[to] != self.me {
                            self.send(next, to.into(), Message::Interrupt(BlockId(0)));
                        }
                    }
                }
                Order::Complete => self.process.outcome = Some(Outcome::Complete),
                Order::Fail => self.process.outcome = Some(Outcome::Failed),
            }
        }
    }

    pub(super) fn enter(&mut self, universe: usize) {
        let size = self.state.universes[universe].members.len() as u32;
        // The recovery asks for verdicts; the way to them is searched elsewhere.
        let commit = Commit::new(CommId(universe as u64), self.place(universe, self.me), size)
            .with_shape(Shape::DOUBLING);
        let membership = Membership { commit, next_block: 0, context: 0 };
        self.process.memberships.insert(universe, membership);
    }

    pub(super) fn vote(&mut self, yes: bool) {
        let universe = self.process.universe;
        let rank = self.place(universe, self.me);
        let it = self.process.memberships.get_mut(&universe).expect("its newest");
        let mut vote = Vote::yes(it.context);
        if !yes {
            let (comm, code) = (CommId(universe as u64), FaultCode::Interrupted);
            vote.faults.push(Fault { comm, rank, code });
        }
        let block = BlockId(it.next_block);
        it.next_block += 1;
        self.drive(universe, |it, out| it.handle_vote(block, vote, out));
    }

    /// A call returns.
    fn come_back(&mut self, worked: bool) {
        let (number, universal) = self.process.calls.take().expect("it is in a call");
        if worked && universal {
            let next = match self.setup.goal {
                Goal::Repair => self.repaired(),
                _ => self.made((self.process.universe, number)),
            };
            self.process.next = Some(next);
            self.enter(next);
        }
        self.settle_link(worked);
        let mut orders = Vec::new();
        self.process.handshake.handle_return(worked, &mut orders);
        self.obey(&orders);
    }

    /// The universe that a call makes; its new processes are born with it.
    fn made(&mut self, key: (usize, u64)) -> usize {
        if let Some(made) = self.state.calls[&key].1 {
            return made;
        }
        let old = &self.state.universes[key.0];
        let dead = self.process.memberships[&key.0].commit.agreed_dead();
        let size = old.members.len() as u32;
        let attempt = self.process.handshake.attempts();
        let (roster, spawn) =
            self.process.roster.rebuilt(size, dead, Placement::SameRanks, attempt);
        let mut members: Vec<usize> =
            Recovery::expected(self.state, &self.process).map(|(_, member)| member).collect();
        let made = self.state.universes.len();
        let newborn = self.state.processes.len();
        members.extend(newborn..newborn + spawn as usize);
        self.state.universes.push(Arc::new(Universe { members, roster: roster.clone() }));
        self.state.calls.get_mut(&key).expect("it was entered").1 = Some(made);
        let mut orders = Vec::new();
        let handshake = Handshake::join(roster.attempts, LIMIT, &mut orders);
        for _ in 0..spawn {
            self.state.processes.push(Arc::new(Process {
                handshake: handshake.clone(),
                memberships: BTreeMap::new(),
                universe: made,
                roster: roster.clone(),
                calls: None,
                next: None,
                outcome: None,
                listens: false,
            }));
            self.state.alive.push(true);
        }
        for me in newborn..newborn + spawn as usize {
            play(self.setup, self.state, me, |it| {
                it.enter(made);
                it.obey(&orders);
            });
        }
        made
    }
}
